"""Which texts does a model get wrong, and what do they have in common?

Each text with its label, prediction and loss, and slices of texts on which the model is worse.
"""

from workbench.core.analysis import Analysis, Recipe

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.compression", "workbench.analyses.pruning"),
    experiments={"errors": "experiments:ERRORS"},
    recipes=(
        Recipe(
            "better",
            "Which model is better, and at what?",
            "Two models on the same texts, paired: which one predicts them better, on which groups "
            "of texts (length, depth, class), and where that is undecided.",
            "errors",
            models=2,
            is_apart=True,
            example=("mini:bert", "mini:modernbert", "primer"),
            asks="views:require_same_pieces",
            answer="views:answer",
            figure="views:figure",
            order=6,
        ),
    ),
)
