"""What do demonstrations in the prompt teach a model that is not trained for the task?"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    experiments={"few-shot": "experiments:FEW_SHOT"},
    needs=(
        "workbench.analyses.attribution",
        "workbench.analyses.heads",
        "workbench.analyses.lenses",
    ),
)
