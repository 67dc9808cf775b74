"""What does a corpus hold, and how well does a model predict it?

Counts of a corpus, the profile of a model, minimal pairs, and a trigram model beside it.
"""

from workbench.core.analysis import Analysis, Recipe

ANALYSIS = Analysis(
    __name__,
    experiments={
        "describe": "experiments:DESCRIBE",
        "profile": "experiments:PROFILE",
        "minimal-pairs": "experiments:MINIMAL_PAIRS",
        "trigram": "experiments:TRIGRAM",
    },
    recipes=(
        Recipe(
            "grammar",
            "Which model knows more grammar?",
            "Two language models, of any kind, on minimal pairs of a right and a wrong sentence: "
            "how often each finds the right one more probable, by phenomenon.",
            "minimal-pairs",
            models=2,
            is_apart=True,
            example=("mini:bert", "mini:gpt", "primer/acceptability"),
            order=8,
        ),
    ),
)
