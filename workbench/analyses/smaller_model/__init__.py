"""What can be cut from a model for one task, and which smaller model is left?

A recipe in stages: fine-tune where needed, cut one part after another while the score is kept on
dev, train again where that helps, and measure the smaller model on test texts next to the original.
"""

from workbench.core.analysis import Analysis, GoesOn, Page, Recipe

ANALYSIS = Analysis(
    __name__,
    needs=(
        "workbench.analyses.compression",
        "workbench.analyses.pruning",
        "workbench.analyses.transfer",
    ),
    experiments={"smaller-model": "experiments:SMALLER_MODEL"},
    commands={"compress": "commands:compress"},
    results={"smaller-model": "views:SMALLER"},
    page=Page("cut", "What can I cut?", "Measure", "compress", "views:SMALLER", order=4),
    goes_on=(
     GoesOn("finetune", "smaller-model", "What can be cut?", ":material/compress:"),
    ),
    recipes=(
        Recipe(
            "cut",
            "What can I cut?",
            "The smallest model that keeps the score of your task, for plain transformers.",
            "smaller-model",
            example=("mini:bert", "primer/sentiment:size=600"),
            order=3,
        ),
    ),
)  # fmt: skip
