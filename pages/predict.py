"""What a model predicts for a text, and why.

Costs: loading a model (cached), a forward pass for a prediction, and an explanation for the open
tab.
"""

from workbench.analyses.predictions.views.page import page

page()
