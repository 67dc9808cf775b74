"""Which directions in the states of a layer does a model use?

Steering adds the difference between two sets of texts; erasure removes what a linear probe finds.
Both are compared with random directions.
"""

from workbench.core.analysis import Analysis, Tab

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.predictions", "workbench.analyses.patching"),
    experiments={"steering": "experiments:STEERING", "erasure": "experiments:ERASURE"},
    functions={"steer": "steer", "erase": "erase"},
    tabs=(
        Tab(
            "predict",
            "Which direction?",
            "views:which_direction",
            order=6,
            experiments={
                "steering": "Steering over pairs of a corpus",
                "erasure": "Erase a label over a corpus",
            },
        ),
    ),
)
