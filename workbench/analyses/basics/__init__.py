"""What does a corpus hold, and how well does a model predict it?

Counts of a corpus, the profile of a model, minimal pairs, and a trigram model beside it.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    experiments={
        "describe": "experiments:DESCRIBE",
        "profile": "experiments:PROFILE",
        "minimal-pairs": "experiments:MINIMAL_PAIRS",
        "trigram": "experiments:TRIGRAM",
    },
)
