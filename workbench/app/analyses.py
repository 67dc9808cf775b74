"""The page of each experiment: that of its analysis, or a plain one for those without a page.

Costs: importing the module of the page.
"""

from collections.abc import Mapping
from typing import Any

from workbench.core.registry import imported

ANY = "experiments"  # the page of experiments that have none of their own
PLAIN = "analysis:GENERIC"
PAGES: Mapping[str, tuple[str, str]] = {  # page, and where its analysis is declared
    "heads": ("heads", "heads:HEADS"),
    "edge-probing": ("probing", "probing:PROBING"),
    **dict.fromkeys(
        ("head-importance", "head-ablation", "head-pruning", "head-gates"),
        ("pruning", "pruning:PRUNING"),
    ),
    **dict.fromkeys(
        ("frozen-vs-finetuned", "finetune", "drift", "similarity", "pretraining"),
        ("transfer", "transfer:TRANSFER"),
    ),
}


def page_of(experiment: str) -> str:
    """The name of the page that shows results of an experiment."""
    return PAGES[experiment][0] if experiment in PAGES else ANY


def analysis_of(experiment: str) -> Any:
    """The `Analysis` that declares how results of an experiment are shown.

    It is imported by name, since analyses use the forms and lists that link to their pages.
    """
    home = PAGES[experiment][1] if experiment in PAGES else PLAIN
    return imported(f"workbench.app.{home}", f"the page of {experiment}")
