"""The mini quartet: four small models of the same text, size and budget, to look into at once.

All read sentences one by one, for small models learn far sooner so, in small steps, and have about
a million parameters. T5 learns the same much more slowly than the others, and has a core for
itself. Costs nothing; `workbench train mini` trains them.
"""

from collections.abc import Mapping
from typing import Any

CORPUS = "primer:size=80000"
BUDGET = 300.0  # seconds
LANES = (("bert", "gpt", "elmo"), ("t5",))  # trained one after the other, on a core each
SHARES: Mapping[str, float] = {"bert": 0.55, "gpt": 0.225, "elmo": 0.225, "t5": 1.0}  # of a lane
_ALL: Mapping[str, Any] = {"size": "mini", "length": 64, "rows": "sentences"}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "bert": {**_ALL, "objective": "masked", "hidden": 0.3, "rate": 1.5e-3},
    "gpt": {**_ALL, "rate": 1.5e-3},
    "elmo": {**_ALL, "batch": 4, "rate": 2e-3},
    "t5": {**_ALL, "objective": "denoisers", "rate": 1.5e-3},
}
