"""Training curves: rows of step, tokens, seconds, loss, learning rate and speed, saved as CSV.

Model FLOP utilisation is the arithmetic of the model over the peak of the GPU:

    MFU = tokens per second * (6 N + 12 layers * width * length) / dense bf16 peak of the GPU

N is the number of matrix weights that a token passes. Embeddings do not count, and the output map
counts for the fraction of tokens with logits. MFU is None if the peak is unknown, as on a CPU.
Costs: nothing.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from workbench.core.errors import WorkbenchError
from workbench.core.files import read_regular, reason_of, write_atomically

MOMENTUM = 0.9  # of the running mean, per step
PATIENCE = 20  # steps before a loss can count as diverged

# Dense bf16 FLOP per second by a part of the GPU's name, longer names first.
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
    """The arithmetic per token; see the formula of this module."""

    matrices: int  # matrix weights a token passes, without the output map
    output_map: int  # weights of the output map
    layers: int
    width: int

    def flops(self, length: int, with_logits: float) -> float:
        """FLOP per token, forward and backward; `with_logits` is the fraction with logits."""
        passed = self.matrices + with_logits * self.output_map
        return 6 * passed + 12 * self.layers * self.width * length


@dataclass(frozen=True)
class Row:
    """One point of the curves; `loss` is the mean in nats since the previous row."""

    step: int
    tokens: int
    seconds: float
    loss: float
    rate: float
    tokens_per_second: float
    mfu: float | None = None
    held_out: float | None = None


@dataclass(frozen=True)
class LossHistory:
    """Summary of the losses so far: the first, a running mean, and the sum since the last row."""

    first: float | None = None
    mean: float = 0.0
    seen: int = 0  # steps so far
    summed: float = 0.0
    steps: int = 0  # since the last row

    def after(self, loss: float) -> "LossHistory":
        """The history with the loss of one more step."""
        first = loss if self.first is None else self.first
        mean = loss if self.first is None else MOMENTUM * self.mean + (1 - MOMENTUM) * loss
        return LossHistory(first, mean, self.seen + 1, self.summed + loss, self.steps + 1)

    @property
    def diverged(self) -> bool:
        """Whether the mean loss is not finite, or stays far above the first loss."""
        if self.first is None or not math.isfinite(self.mean):
            return self.first is not None
        return self.seen >= PATIENCE and self.mean > self.first + max(1.0, 0.2 * abs(self.first))


def peak(device: torch.device) -> float | None:
    """The dense bf16 FLOP per second of a GPU; None if unknown."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((flops for part, flops in PEAKS if part in name), None)


def utilisation(tokens_per_second: float, flops: float, peak_flops: float | None) -> float | None:
    """Model FLOP utilisation, the fraction of the GPU's peak."""
    return None if peak_flops is None else tokens_per_second * flops / peak_flops


def write_curves(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as CSV; unknown values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_atomically(path, text.getvalue())


def read_curves(path: Path) -> list[Row]:
    """Read the rows that `write_curves` wrote."""
    try:
        table = csv.DictReader(io.StringIO(read_regular(path).decode(), newline=""))
        missing = {"step", "tokens", "mfu", "held_out", *_FLOATS} - set(table.fieldnames or ())
        if missing:
            raise ValueError(f"the file has no column {', '.join(sorted(missing))}")
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
            f"cannot be read as training curves: {reason_of(error)}.",
            code="file-unreadable",
            where=str(path),
            remedy="Copy the trained folder again, or train into a new folder.",
        ) from None


_FLOATS = ("seconds", "loss", "rate", "tokens_per_second")
