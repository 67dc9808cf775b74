"""What does a model gain when it is trained on the text of its domain, and what does it forget?

A model as it is, trained further on general text or on the domain's, and trained from scratch on
the domain with the general or its own vocabulary, at equal budget.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.training", "workbench.analyses.transfer"),
    experiments={"domain": "experiments:DOMAIN"},
)
