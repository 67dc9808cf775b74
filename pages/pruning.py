"""Pruning: which heads matter, which can go, and what is left; asked, watched, and looked at.

What is looked at is in the address: the question, the run, the view. Costs what asking costs;
looking reads a run's tables, and the slider opens the model.
"""

from workbench.app.pruning import PRUNING

PRUNING.page()
