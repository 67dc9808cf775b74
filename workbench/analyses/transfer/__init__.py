"""What does a model learn from a task, frozen or fine-tuned, and what does that change in it?

Fine-tuning by several methods, frozen against fine-tuned, drift, the similarity of layers, and
what pretraining gives.
"""

from workbench.core.analysis import Analysis, Card, Page

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
)
