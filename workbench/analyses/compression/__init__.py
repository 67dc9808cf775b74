"""What can be cut from a model, how much smaller and faster does it get, and what does it lose?

Weights, neurons, layers, pieces and bits, one after another and combined, measured on saved models.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=(
        "workbench.analyses.pruning",
        "workbench.analyses.basics",
        "workbench.analyses.probes",
    ),
    experiments={"compress": "experiments:COMPRESS"},
)
