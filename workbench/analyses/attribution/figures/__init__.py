"""Figures of attributions: those of the experiment, and those of one text."""
