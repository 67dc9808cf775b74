"""What does one head, one layer or one word do, and what does the model do without it?

The pages of a head and of a layer: what they do in a text and over a corpus, what they write, and a
switch that makes an edit of the model, with the predictions before and after. And that of a word.
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
        "workbench.analyses.words",
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
    pages=(
        Page(
            "layer",
            "One layer",
            "Understand",
            "layers",
            "views.layer:page",
            3,
            selection=("text", "at", "mark", "layer"),
        ),
        Page(
            "word",
            "One word",
            "Understand",
            "abc",
            "views.word:page",
            4,
            selection=("text", "at"),
        ),
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
