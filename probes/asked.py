"""The settings of edge probing. Costs nothing."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field, field_validator

from probes.examples import LossName
from probes.kinds import KindName
from probes.plan import Mode
from probes.seeds import Seeds
from workbench.splits import SplitSettings

FARTHEST = 10  # words to either side of a convolution
PresetName = Literal["quick", "standard", "full"]


@dataclass(frozen=True)
class Effort:
    """How much is trained."""

    targets: int | None  # of a task, to train on at most; None for all
    seeds: tuple[int, ...]
    epochs: int  # maximum
    patience: int  # epochs without gain before a probe stops
    steps: int  # an epoch, about, where targets are few


PRESETS: dict[PresetName, Effort] = {
    "quick": Effort(targets=300, seeds=(0,), epochs=15, patience=3, steps=32),
    "standard": Effort(targets=1500, seeds=(0,), epochs=60, patience=4, steps=32),
    "full": Effort(targets=None, seeds=(0, 1, 2), epochs=200, patience=8, steps=48),
}


class EdgeProbing(SplitSettings):
    """Which probes are trained, on what, and for how long."""

    preset: PresetName = Field(
        "standard",
        description="Targets, seeds, epochs and patience together. quick: 300 targets, one seed, "
        "15 epochs, marked as rough; standard: 1,500 targets, one seed, 60 epochs, so intervals "
        "are over sentences; full: every target, three seeds, 200 epochs. The run logs its "
        "estimated time before it trains.",
    )
    tasks: tuple[str, ...] = Field(
        (), description="Tasks, by name or by the corpus' layer (default: all the corpus has)."
    )
    probes: tuple[KindName, ...] = Field(
        ("edge",), min_length=1, description="Kinds of probe: edge (Tenney's), linear, mlp."
    )
    modes: tuple[Mode, ...] = Field(
        ("lexical", "top", "layer", "mix", "cumulative"),
        min_length=1,
        description="What a probe reads: layer 0, the last layer, each layer, a mix of all, mixes "
        "up to each layer.",
    )
    loss: LossName = Field(
        "auto",
        description="softmax: cross-entropy, the likeliest label is predicted; sigmoid: the "
        "paper's own, every label with a logit of at least 0; auto: softmax where each target has "
        "one label.",
    )
    seeds: Seeds = Field(
        (), description="Seeds; each trains every probe again (default: the preset's)."
    )
    controls: bool = Field(
        True, description="Also probe each layer for labels drawn by word type (selectivity)."
    )
    targets: int | None = Field(
        None,
        ge=1,
        description="Maximum number of targets of a task to train on (default: the preset's).",
    )
    halves: bool = Field(
        True,
        description="Also train each layer on half of its targets: whether more data would change "
        "the curve.",
    )
    shares: tuple[float, ...] = Field(
        (1.0,), min_length=1, description="Shares of the targets, for learning curves."
    )
    hidden: int = Field(256, ge=1, le=8192, description="Width of the edge probe and of the MLP.")
    rate: float = Field(
        4e-3,
        gt=0,
        le=1,
        description="Learning rate, halved when half of the patience has brought no gain.",
    )
    batch: int = Field(
        512,
        ge=1,
        le=65_536,
        description="Maximum number of targets in a step; fewer where there are few.",
    )
    epochs: int | None = Field(
        None, ge=1, le=1000, description="Maximum number of epochs (default: the preset's)."
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="Epochs without gain before a probe stops (default: the preset's).",
    )
    random: bool = Field(True, description="Also probe the model with random weights.")
    vectors: str = Field(
        "", description="File of static vectors for a baseline (default: counted from train)."
    )
    windows: tuple[int, ...] = Field(
        (), description="Also a convolution over layer 0, this many words to either side."
    )
    preview: bool = Field(
        False, description="Closed-form ridge probes of each layer instead: seconds, and rougher."
    )
    predictions: bool = Field(False, description="Keep every answer of every layer, in a table.")

    @property
    def effort(self) -> Effort:
        """The preset, with what is set apart from it."""
        preset = PRESETS[self.preset]
        return Effort(
            preset.targets if self.targets is None else self.targets,
            self.seeds or preset.seeds,
            preset.epochs if self.epochs is None else self.epochs,
            preset.patience if self.patience is None else self.patience,
            preset.steps,
        )

    @field_validator("shares")
    @classmethod
    def _shares(cls, shares: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < share <= 1 for share in shares):
            raise ValueError("shares are above 0, and 1 at most")
        return tuple(sorted(set(shares)))

    @field_validator("windows")
    @classmethod
    def _windows(cls, windows: tuple[int, ...]) -> tuple[int, ...]:
        if not all(1 <= words <= FARTHEST for words in windows):
            raise ValueError(f"windows are of 1 to {FARTHEST} words to either side")
        return tuple(sorted(set(windows)))
