"""Runs of a Python session: their progress, beside the session or in its background."""
