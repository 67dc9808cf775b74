"""Figures of words: geometry, neighbours, senses and pieces."""
