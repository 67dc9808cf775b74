"""The mini quartet: settings of four small models with the same text, size and time budget.

Each has about a million parameters and reads one sentence per sequence in small steps, because
small models learn far sooner that way. T5 learns much more slowly than the others and gets a core
for itself. Costs: nothing; `workbench train mini` trains them.
"""

from collections.abc import Mapping
from typing import Any

BUDGET = 300.0  # seconds
LANES = (("bert", "gpt", "elmo"), ("t5",))  # each lane is trained in order, on a core of its own
SHARES: Mapping[str, float] = {
    "bert": 0.55,
    "gpt": 0.225,
    "elmo": 0.225,
    "t5": 1.0,
}  # of the time of a lane
_ALL: Mapping[str, Any] = {"size": "mini", "sequence_length": 64, "rows": "sentences"}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "bert": {**_ALL, "objective": "masked", "mask_rate": 0.3, "learning_rate": 1.5e-3},
    "gpt": {**_ALL, "learning_rate": 1.5e-3},
    "elmo": {**_ALL, "batch_size": 4, "learning_rate": 2e-3},
    "t5": {**_ALL, "objective": "denoisers", "learning_rate": 1.5e-3},
}
