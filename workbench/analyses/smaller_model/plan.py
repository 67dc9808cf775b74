"""What the recipe does, stage by stage, what is trained in each, and about how long it takes.

The time is that of the multiplications of a transformer of this size on texts of this length, at
the speed at which this processor multiplies matrices; it tells minutes from hours, and a GPU needs
less. Costs: some hundredths of a second, and no torch.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.analyses.compression.experiments import BIT_METHODS, METHODS
from workbench.analyses.smaller_model.experiments import SmallerModel
from workbench.core.findings import percent, plural
from workbench.runs.time_left import in_words

if TYPE_CHECKING:
    from workbench.corpora.browse import Size

PIECES = 1.4  # per word
SPECIAL = 2  # pieces of each text
FINE_TUNING = 5 * 2  # epochs, and learning rates that are tried
BATCH = 16
SLOWER = 3.0  # times the time of the multiplications alone
PER_TEXT = 1e-3  # seconds to split a text and to start its kernels
PER_WEIGHT = 4e-9  # seconds of an optimiser's step
STARTED = 10.0  # seconds of a new process, and of opening models
SMALLER = 0.7  # of the time of the original, for models that were cut
PART = 0.1  # of a corpus without splits, for test, and then of what remains, for dev
PROJECTED = "opt"  # the family whose config has a place for embeddings of a lower rank
MATRIX, TIMES = 512, 8


@dataclass(frozen=True)
class Stage:
    """What is done, what is trained, and about how many seconds it takes."""

    name: str
    trained: str
    seconds: float

    def __str__(self) -> str:
        """In a line."""
        time = "seconds" if self.seconds < 5 else in_words(self.seconds)
        return f"{self.name}: {self.trained}; {time}."


def stages(
    settings: SmallerModel, facts: Mapping[str, Any], sizes: "Sequence[Size]"
) -> list[Stage]:
    """The stages of a request, by the facts of its model and the sizes of its corpus."""
    return list(_stages(settings, facts, *_counted(settings, sizes)))


def left_out(settings: SmallerModel, facts: Mapping[str, Any]) -> dict[str, str]:
    """The methods that have no stage, with the reason and what would give them one."""
    without: dict[str, str] = {}
    if settings.plain and "embeddings" in settings.used and facts["family"] != PROJECTED:
        without["embeddings"] = (
            "plain transformers would not open such a model; plain=false allows it"
        )
    if "bits" in settings.used and find_spec("torchao") is None:
        without["bits"] = 'torchao is not installed; pip install "lm-workbench[quant]"'
    return without


def total(of: Sequence[Stage]) -> str:
    """About how long all stages take."""
    return in_words(sum(stage.seconds for stage in of))


def _counted(settings: SmallerModel, sizes: "Sequence[Size]") -> tuple[int, int, float]:
    """The number of texts of train and of dev, and the pieces of a text."""
    by_name = {size.split: size.docs for size in sizes}
    docs, words = (sum(getattr(size, name) for size in sizes) for name in ("docs", "words"))
    remaining = docs - round(docs * PART)
    held = round(remaining * PART)
    train, dev = by_name.get("train", remaining - held), by_name.get("dev", held)
    most = settings.max_sentences or max(train, dev)
    return min(train, most), min(dev, most), PIECES * words / max(docs, 1) + SPECIAL


def _stages(
    settings: SmallerModel, facts: Mapping[str, Any], train: int, dev: int, pieces: float
) -> Iterator[Stage]:
    layers = sum(stack["layers"] for stack in facts["stacks"])
    weights = 12 * layers * facts["width"] ** 2  # of the layers
    forward = SLOWER * 2 * weights * pieces / speed() + PER_TEXT  # seconds per text
    update = PER_WEIGHT * facts["parameters"] / BATCH
    epoch = train * (3 * forward + update)
    task = facts["predicts"]
    if task is None or not task["label"]:
        yield Stage(
            "Fine-tune",
            f"all weights and a head for the task, at two learning rates, on {train:,} texts",
            FINE_TUNING * epoch + STARTED,
        )
    else:
        yield Stage("Open the model", "nothing is trained if its head is for this task", 0.0)
    without = left_out(settings, facts)
    for method in settings.used:
        if method in without:
            continue
        is_bits = method in BIT_METHODS
        tried = len(settings.bits) if is_bits else len(settings.amounts)
        again = 0 if is_bits else settings.recovery_epochs
        trained = (
            f"those cut too far, for {plural(again, 'epoch')} each"
            if again
            else "nothing is trained"
        )
        shares = "" if is_bits else f" ({', '.join(map(percent, settings.amounts))})"
        yield Stage(
            f"Cut {METHODS[method].partition(',')[0]}{shares}",
            f"{plural(tried, 'model')} tried on {dev:,} dev texts, {trained}",
            SMALLER * tried * (dev * forward + again * epoch) + min(train, 1000) * forward,
        )
    yield Stage(
        "Measure",
        "size, speed, score and losses on test texts, and opening in a new process; nothing is "
        "trained",
        2 * dev * forward + settings.rounds * 33 * 2 * forward + 3 * STARTED,
    )


def speed() -> float:
    """Multiplications and additions per second of this processor, by a product of matrices."""
    matrix = np.ones((MATRIX, MATRIX), dtype=np.float32)
    best = math.inf
    for _ in range(TIMES):
        began = perf_counter()
        matrix @ matrix
        best = min(best, perf_counter() - began)
    return float(2 * MATRIX**3 / best)
