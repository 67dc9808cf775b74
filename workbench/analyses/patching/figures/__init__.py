"""Figures of patching: those of the experiment, and those of one text."""
