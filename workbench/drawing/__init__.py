"""Figures: pure functions of the tables that a run left."""
