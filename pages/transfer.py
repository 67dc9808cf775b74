"""Transfer: what fine-tuning gains over a frozen model, and what it changes.

The address holds the analysis, the run and the view. Costs: checking the request; a view reads the
tables of a run, and trying a text loads two models.
"""

from workbench.analyses.transfer.views import TRANSFER

TRANSFER.page()
