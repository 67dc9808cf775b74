"""Does a model write the right text, or find the right answer, and better than copying would?

Prefix tasks, summaries, TL;DR and questions, scored as published, next to nulls.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.attribution",),
    experiments={"text-to-text": "experiments:TEXT_TO_TEXT"},
)
