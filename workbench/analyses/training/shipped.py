"""The models that are shipped, in sets: settings and time of each, and the text that they learn.

All models of a set read the same text. Most read one sentence per sequence in small steps, because
small models learn far sooner that way. Costs: nothing; `workbench train SET` trains them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.models.references import MINI_CORPUS

Settings = Mapping[str, Mapping[str, Any]]  # of `train`, by family


@dataclass(frozen=True)
class ModelSet:
    """Models that one command trains on one text; the time is that of the longest lane."""

    about: str
    budget: float  # seconds
    lanes: tuple[tuple[str, ...], ...]  # each is trained in order, on a core of its own
    shares: Mapping[str, float]  # of the time of a lane
    settings: Settings
    corpus: str = ""  # empty: the one that the command names


_ALL: Mapping[str, Any] = {"size": "mini", "sequence_length": 64, "rows": "sentences"}
_QUICK = {**_ALL, "learning_rate": 1.5e-3}
_SMALL = {**_QUICK, "width": 96}  # two thirds of the weights of the quartet
_NOVELS: Mapping[str, Any] = {
    "n_layers": 4,
    "width": 192,
    "n_heads": 6,
    "vocabulary_size": 8000,
    "batch_size": 16,
    "learning_rate": 1.5e-3,
}

SETS: Mapping[str, ModelSet] = {
    "mini": ModelSet(
        "four small models: BERT, GPT, ELMo and T5",
        300.0,
        (("bert", "gpt", "elmo"), ("t5",)),  # T5 learns much more slowly than the others
        {"bert": 0.55, "gpt": 0.225, "elmo": 0.225, "t5": 1.0},
        {
            "bert": {**_QUICK, "objective": "masked", "mask_rate": 0.3},
            "gpt": _QUICK,
            "elmo": {**_ALL, "batch_size": 4, "learning_rate": 2e-3},
            "t5": {**_QUICK, "objective": "denoisers"},
        },
        MINI_CORPUS,
    ),
    "mini-more": ModelSet(
        "four more of their size: XLNet, UniLM, ModernBERT and Llama",
        300.0,
        (("xlnet", "llama"), ("unilm", "modernbert")),
        {"xlnet": 0.6, "llama": 0.4, "unilm": 0.55, "modernbert": 0.45},
        {
            "xlnet": _SMALL,
            "llama": _SMALL,
            "unilm": _SMALL,
            "modernbert": {**_SMALL, "mask_rate": 0.3},
        },
        MINI_CORPUS,
    ),
    "novels": ModelSet(
        "BERT and GPT on a text of your own, such as novels",
        3300.0,
        (("bert",), ("gpt",)),
        {"bert": 1.0, "gpt": 1.0},
        {
            "bert": {
                **_NOVELS,
                "objective": "masked",
                "mask_rate": 0.3,
                "rows": "sentences",  # packed, it stays at the frequencies of pieces for long
                "sequence_length": 64,
            },
            "gpt": {**_NOVELS, "sequence_length": 128},
        },
    ),
}
