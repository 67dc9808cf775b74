"""Figures of heads: the grid by role or score, and those of the experiment."""
