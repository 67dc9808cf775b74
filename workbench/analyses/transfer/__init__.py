"""What does a model learn from a task, frozen or fine-tuned, and what does that change in it?

Fine-tuning by several methods, frozen against fine-tuned, drift, the similarity of layers, and
what pretraining gives.
"""

from workbench.core.analysis import Analysis, Card, Page, Recipe

ANALYSIS = Analysis(
    __name__,
    experiments={
        "finetune": "experiments:FINETUNE",
        "frozen-vs-finetuned": "experiments:FROZEN_VS_FINETUNED",
        "drift": "experiments:DRIFT",
        "similarity": "experiments:SIMILARITY",
        "pretraining": "experiments:PRETRAINING",
    },
    results=dict.fromkeys(
        ("frozen-vs-finetuned", "finetune", "drift", "similarity", "pretraining"),
        "views:TRANSFER",
    ),
    page=Page("transfer", "Transfer", "Measure", "compare_arrows", "views:TRANSFER", order=3),
    cards=(
        Card(
            "Compare fine-tuning",
            "What fine-tuning changes, for each task.",
            "frozen-vs-finetuned-mini-bert",
            "delta",
            order=3,
        ),
    ),
    recipes=(
        Recipe(
            "tuning",
            "Did fine-tuning help?",
            "A model with all its weights trained for a task, against the same model frozen under "
            "a small classifier: the gain with its interval, next to a stronger classifier and to "
            "the most frequent label.",
            "frozen-vs-finetuned",
            example=("mini:bert", "primer/sentiment:size=600"),
            order=5,
        ),
        Recipe(
            "change",
            "What did training change?",
            "A model before and after it was trained: which layers, weights and heads moved, and "
            "what it forgot.",
            "drift",
            models=2,
            is_trained=True,
            example=("mini:bert@random", "mini:bert", "primer"),
            order=7,
        ),
    ),
)
