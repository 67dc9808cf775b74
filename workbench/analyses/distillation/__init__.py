"""How much of a model does a smaller one keep that learns from it?

A student with fewer layers or a smaller width, trained on the teacher's soft targets, states and
attention maps, against the same student without a teacher.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.training", "workbench.analyses.transfer"),
    experiments={"distil": "experiments:DISTIL"},
)
