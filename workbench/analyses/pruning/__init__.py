"""Which heads does a model need, and what is lost without the others?

Importance from gradients, exact ablation, trained gates, and removal one after another against
random orders.
"""

from workbench.core.analysis import Analysis, GoesOn, Page

ANALYSIS = Analysis(
    __name__,
    experiments={
        "head-importance": "experiments:HEAD_IMPORTANCE",
        "head-ablation": "experiments:HEAD_ABLATION",
        "head-gates": "experiments:HEAD_GATES",
        "head-pruning": "experiments:HEAD_PRUNING",
    },
    results=dict.fromkeys(
        ("head-importance", "head-ablation", "head-pruning", "head-gates"), "views:PRUNING"
    ),
    page=Page("pruning", "Pruning", "Measure", "content_cut", "views:PRUNING", order=2),
    goes_on=(
        GoesOn("finetune", "head-importance", "Which heads does it need?", ":material/grid_view:"),
        GoesOn("finetune", "head-pruning", "Prune its heads", ":material/content_cut:"),
    ),
)
