"""Scores of a corpus or a text: losses, likelihoods, right predictions, written texts."""
