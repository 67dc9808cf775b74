"""What does one head do, and what does the model do without it?

The page of a head: its role, its attention in a text, what it writes, and a switch that makes an
edit of the model, with the predictions before and after.
"""

from workbench.core.analysis import Analysis, Page, Recipe

ANALYSIS = Analysis(
    __name__,
    needs=(
        "workbench.analyses.attention",
        "workbench.analyses.heads",
        "workbench.analyses.lenses",
        "workbench.analyses.predictions",
        "workbench.analyses.pruning",
    ),
    page=Page(
        "head",
        "One head",
        "Understand",
        "toggle_off",
        "views.head:page",
        3,
        selection=("text", "at", "mark", "head"),
    ),
    recipes=(
        Recipe(
            "head",
            "What does this head do?",
            "The role of one attention head on a corpus, with its evidence; and its page, which "
            "has its attention in a text of yours and what changes without it.",
            "heads",
            asks="views.question:choose",
            answer="views.question:answer",
            figure="views.question:figure",
            page="head",
            order=1,
        ),
    ),
)
