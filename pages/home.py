"""The first page: what a model does with a sentence, three ways on, and the latest runs.

Costs: a forward pass for the heads and one for the predictions.
"""

from workbench.app.frame import home

home.draw()
