"""Runs: an experiment as a job with a folder on disk, so that nothing asked is ever lost."""
