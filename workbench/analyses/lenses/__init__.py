"""What does each layer predict, and what does each head and MLP add to it?

The logit lens, the tuned lens, and direct contributions to a logit, of one text and over a corpus.
"""

from workbench.core.analysis import Analysis, Tab

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.predictions",),
    experiments={
        "lens": "experiments:LENS",
        "tuned-lens": "experiments:TUNED_LENS",
        "contributions": "experiments:CONTRIBUTIONS",
    },
    functions={"lens": "lens", "contributions": "contributions"},
    tabs=(
        Tab(
            "predict",
            "When?",
            "views.layers:when",
            order=3,
            experiments={
                "lens": "The lens over the whole corpus",
                "tuned-lens": "Train a tuned lens",
            },
        ),
        Tab(
            "predict",
            "Who?",
            "views.parts:who",
            order=4,
            experiments={"contributions": "Contributions over the whole corpus"},
        ),
    ),
)
