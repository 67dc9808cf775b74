"""The page of each experiment: that of its analysis, or a plain one for those without a page.

Costs: importing the module of the page.
"""

from importlib import import_module

from workbench.app.analysis import GENERIC, Analysis

PAGES = {  # the page, and where its analysis is declared, by experiment
    **dict.fromkeys(["heads"], ("heads", "heads:HEADS")),
    **dict.fromkeys(["edge-probing"], ("probing", "probing:PROBING")),
    **dict.fromkeys(
        ["head-importance", "head-ablation", "head-pruning", "head-gates"],
        ("pruning", "pruning:PRUNING"),
    ),
    **dict.fromkeys(
        ["frozen-vs-finetuned", "finetune", "drift", "similarity", "pretraining"],
        ("transfer", "transfer:TRANSFER"),
    ),
}
ANY = "experiments"  # the page of the others


def page_of(experiment: str) -> str:
    """The name of the page that shows results of an experiment."""
    return PAGES[experiment][0] if experiment in PAGES else ANY


def analysis_of(experiment: str) -> Analysis:
    """How results of an experiment are shown."""
    if experiment not in PAGES:
        return GENERIC
    module, _, name = PAGES[experiment][1].partition(":")
    analysis: Analysis = getattr(import_module(f"workbench.app.{module}"), name)
    return analysis
