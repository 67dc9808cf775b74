"""Figures: pure functions of the tables that a run left."""

SHARED = ("dom", "words", "colour")  # scripts in `js/` of the attention browser and of token views
