"""Tokens, predictions and grids that one can click: data, JavaScript, and a stand-alone page."""
