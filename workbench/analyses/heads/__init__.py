"""What does each attention head do?

Roles with baselines, nulls and intervals, from one pass over a corpus: positional, syntactic,
coreferent, rare-token, induction, and where attention rests.
"""

from workbench.core.analysis import Analysis, Page

ANALYSIS = Analysis(
    __name__,
    experiments={"heads": "experiments:EXPERIMENT"},
    results={"heads": "views.page:HEADS"},
    page=Page(
        "heads", "Heads", "Understand", "grid_view", "views.page:HEADS", 2, selection=("head",)
    ),
)
