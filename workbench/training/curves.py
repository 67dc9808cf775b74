"""How a training went: rows of step, tokens, seconds, loss, rate and speed, kept as one CSV file.

Model FLOP utilisation is what the arithmetic of the model needs over what the card could do:

    MFU = tokens a second * (6 N + 12 layers * width * length) / the card's dense bf16 peak

N is the number of weights in matrices that a token passes, forward and backward: embeddings do not
count, and the output map counts for the share of tokens whose logits are made. It is None where
the peak is not known, as on a CPU. Costs nothing.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from workbench.core.errors import WorkbenchError
from workbench.core.files import read_regular, reason_of, written_whole

MEMORY = 0.9  # of the running mean, a step
PATIENCE = 20  # steps before a loss can be too high

# Dense bf16 FLOP a second by a part of the card's name, the longer names first.
PEAKS = (
    ("B200", 2250e12),
    ("GH200", 989e12),
    ("H200", 989e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("L40S", 362e12),
    ("L40", 181e12),
    ("L4", 121e12),
    ("A40", 150e12),
    ("A10G", 70e12),
    ("A10", 125e12),
    ("RTX 6000 Ada", 364e12),
    ("RTX A6000", 155e12),
    ("RTX 5090", 210e12),
    ("RTX 4090", 165e12),
    ("RTX 3090", 71e12),
)


@dataclass(frozen=True)
class Work:
    """What a token costs; see the module's formula."""

    matrices: int  # weights of matrices a token passes, the output map's left out
    output_map: int  # its weights
    layers: int
    width: int

    def flops(self, length: int, share: float) -> float:
        """FLOP a token, forward and backward; `share` of the tokens get logits."""
        passed = self.matrices + share * self.output_map
        return 6 * passed + 12 * self.layers * self.width * length


@dataclass(frozen=True)
class Row:
    """One point of the curves; `loss` is the mean since the row before, in nats."""

    step: int
    tokens: int
    seconds: float
    loss: float
    rate: float
    tokens_per_second: float
    mfu: float | None = None
    held_out: float | None = None


@dataclass(frozen=True)
class Course:
    """What must be known of the losses so far: the first, a running mean, the sum since a row."""

    first: float | None = None
    mean: float = 0.0
    seen: int = 0  # steps
    summed: float = 0.0
    steps: int = 0  # since a row

    def after(self, loss: float) -> "Course":
        """With the loss of one step more."""
        first = loss if self.first is None else self.first
        mean = loss if self.first is None else MEMORY * self.mean + (1 - MEMORY) * loss
        return Course(first, mean, self.seen + 1, self.summed + loss, self.steps + 1)

    @property
    def astray(self) -> bool:
        """Whether the loss is no number, or has for long been far above where it began."""
        if self.first is None or not math.isfinite(self.mean):
            return self.first is not None
        return self.seen >= PATIENCE and self.mean > self.first + max(1.0, 0.2 * abs(self.first))


def peak(device: torch.device) -> float | None:
    """The dense bf16 FLOP a second of a card; None where it is not known."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((rate for part, rate in PEAKS if part in name), None)


def utilisation(tokens_per_second: float, flops: float, most: float | None) -> float | None:
    """The share of a card's peak that the model's own arithmetic takes."""
    return None if most is None else tokens_per_second * flops / most


def write_curves(rows: Sequence[Row], path: Path) -> None:
    """One row a line, empty where a value is not known."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    with written_whole(path) as draft:
        draft.write_text(text.getvalue(), "utf-8")


def read_curves(path: Path) -> list[Row]:
    """What `write_curves` wrote."""
    try:
        table = csv.DictReader(io.StringIO(read_regular(path).decode(), newline=""))
        lacking = {"step", "tokens", "mfu", "held_out", *_FLOATS} - set(table.fieldnames or ())
        if lacking:
            raise ValueError(f"there is no column {', '.join(sorted(lacking))}")
        return [
            Row(
                step=int(row["step"]),
                tokens=int(row["tokens"]),
                mfu=float(row["mfu"]) if row["mfu"] else None,
                held_out=float(row["held_out"]) if row["held_out"] else None,
                **{key: float(row[key]) for key in _FLOATS},
            )
            for row in table
        ]
    except (OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        raise WorkbenchError(
            f"cannot be read as a training's curves: {reason_of(error)}.",
            where=str(path),
            remedy="Copy the folder again from where it was trained, or train into a new one.",
        ) from None


_FLOATS = ("seconds", "loss", "rate", "tokens_per_second")
