"""Tokens, predictions and grids that one can click: their data, JavaScript, and stand-alone page."""
