"""What do the states of words have in common, and how do tokenizers split them?

Neighbours and senses of words in their contexts, the geometry of states, and tokenizers side by
side.
"""

from workbench.core.analysis import Analysis, Page

ANALYSIS = Analysis(
    __name__,
    experiments={
        "geometry": "experiments:GEOMETRY",
        "neighbours": "experiments:NEIGHBOURS",
        "tokenization": "experiments:TOKENIZATION",
    },
    functions={
        "neighbours": "neighbours",
        "senses": "senses",
        "occurrences": "occurrences",
        "tokenizations": "tokenizations",
    },
    commands={"tokenize": "commands:tokenize", "neighbours": "commands:neighbours"},
    page=Page("words", "Words", "Understand", "text_fields", "views.page:page", order=4),
    modules=("workbench.analyses.words.neighbours",),
)
