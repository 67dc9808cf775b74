"""Which of several models does what best? One text, one table.

Likelihood, grammar, roles of heads, probes, tasks and speed of any models, side by side.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.basics", "workbench.analyses.heads", "workbench.analyses.transfer",
           "probes"),
    experiments={"family": "experiments:FAMILY"},
)  # fmt: skip
