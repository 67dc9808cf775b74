"""Pruning: which heads matter, and how many can be removed.

The address holds the analysis, the run and the view. Costs: checking the request; a view reads the
tables of a run, and the slider loads the model.
"""

from workbench.analyses.pruning.views import PRUNING

PRUNING.page()
