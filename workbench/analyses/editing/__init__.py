"""What does one head, one layer or one word do, and what does the model do without it?

The pages of a head and of a layer: what they do in a text and over a corpus, what they write, and a
switch that makes an edit of the model, with the predictions before and after. And that of a word.
"""

from workbench.core.analysis import Analysis, Page

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
    page=Page("head", "One head", "Understand", "toggle_off", "views.head:page", order=3),
    pages=(
        Page("layer", "One layer", "Understand", "layers", "views.layer:page", order=3),
        Page("word", "One word", "Understand", "abc", "views.word:page", order=4),
    ),
)
