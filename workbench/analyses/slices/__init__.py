"""Which texts does a model get wrong, and what do they have in common?

Each text with its label, prediction and loss, and slices of texts on which the model is worse.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.compression", "workbench.analyses.pruning"),
    experiments={"errors": "experiments:ERRORS"},
)
