"""The mini quartet: four small models of the same text, budget and size, to look into at once.

All read sentences one by one (small models learn far sooner so), have about a million parameters,
and a share of the budget: models of pieces that are hidden learn from a seventh of them a step, and
need more. Costs nothing; `workbench train mini` trains them.
"""

from collections.abc import Mapping
from typing import Any

CORPUS = "primer:size=40000"
BUDGET = 300.0  # seconds of all four together
SHARES: Mapping[str, float] = {"bert": 0.4, "gpt": 0.15, "elmo": 0.2, "t5": 0.25}  # of the budget
_ALL: Mapping[str, Any] = {"size": "mini", "length": 64, "rows": "sentences", "batch": 64}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "bert": {**_ALL, "objective": "masked"},
    "gpt": _ALL,
    "elmo": _ALL,
    "t5": _ALL,
}
