"""Which directions in the states of a layer does a model use?

Steering adds the difference between two sets of texts; erasure removes what a linear probe finds.
Both are compared with random directions.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.predictions", "workbench.analyses.patching"),
    experiments={"steering": "experiments:STEERING", "erasure": "experiments:ERASURE"},
    functions={"steer": "steer", "erase": "erase"},
)
