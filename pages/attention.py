"""Attention of every head of a model on one text.

Costs: loading a model (cached), one forward pass per text, and one pass over the attention maps
for each change of the display options.
"""

from workbench.analyses.attention.views.page import page

page()
