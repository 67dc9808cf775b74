"""What does a model predict for a text, and what changes when the text does?

Hidden words, the next piece, labels and written texts, and edits of the text. Analyses that explain
a prediction stand on it and add their tabs to its page.
"""

from workbench.core.analysis import Analysis, Page, Tab

ANALYSIS = Analysis(
    __name__,
    functions={
        "predict": "predict",
        "fill": "predict",
        "generate": "generate",
        "summarise": "generate",
        "answer": "generate",
    },
    commands={"predict": "commands:predict"},
    page=Page(
        "predict",
        "Predict & explain",
        "Understand",
        "psychology",
        "views.page:page",
        3,
        True,
        True,
        ("text", "at", "mark", "layer", "head"),
        has_tabs=True,
    ),
    first_look="views.page:LOOK",
    ahead=("views.page:show_ahead",),
    tabs=(Tab("predict", "What if?", "views.edits:what_if", order=2),),
)
