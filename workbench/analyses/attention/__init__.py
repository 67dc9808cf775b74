"""What does a model attend to in a text, and over a corpus?

The maps of all heads of one text, in a browser of their own, and mean attention by offset and part
of speech.
"""

from workbench.core.analysis import Analysis, Card, Page

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.predictions", "workbench.analyses.training"),
    experiments={"attention-averages": "experiments:EXPERIMENT"},
    functions={"attention": "capture"},
    page=Page(
        "attention",
        "Attention",
        "Understand",
        "visibility",
        "views.page:page",
        1,
        True,
        True,
        ("text", "at", "mark", "head"),
    ),
    first_look="views.home:LOOK",
    cards=(
        Card(
            "Browse attention",
            "Which token each head looks at.",
            "heads-mini-bert",
            "roles",
            order=1,
        ),
    ),
)
