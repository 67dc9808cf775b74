"""Which states, heads and MLPs carry what decides between two texts?

Activations of a clean text are restored in a corrupt one, of one pair and over pairs of a corpus.
"""

from workbench.core.analysis import Analysis, Tab

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.predictions",),
    experiments={"patching": "experiments:PATCHING"},
    functions={"patch": "patch"},
    commands={"patch": "commands:patch"},
    tabs=(
        Tab(
            "predict",
            "Where?",
            "views:where",
            order=5,
            experiments={"patching": "Patching over pairs of a corpus"},
        ),
    ),
)
