"""Figures of corpora, and of models as a whole."""
