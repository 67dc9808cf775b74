"""What can be set of edge probing. Costs nothing."""

from pydantic import Field, field_validator

from probes.kinds import KindName
from probes.plan import Mode
from probes.seeds import Seeds
from workbench.splits import SplitSettings

FARTHEST = 10  # words to either side of a convolution


class EdgeProbing(SplitSettings):
    """What is asked of the layers, and how."""

    tasks: tuple[str, ...] = Field(
        (), description="Tasks, by name or by the corpus' layer; all it has where none is named."
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
    seeds: Seeds = Field((0, 1), min_length=1, description="Each trains every probe anew.")
    controls: bool = Field(
        True, description="Also probe each layer for labels drawn by word type (selectivity)."
    )
    targets: int = Field(
        1500, ge=1, description="Targets of a task to learn from at most, drawn by the seed."
    )
    shares: tuple[float, ...] = Field(
        (1.0,), min_length=1, description="Shares of them to learn from, for learning curves."
    )
    hidden: int = Field(256, ge=1, le=8192, description="Width of the edge probe and of the MLP.")
    rate: float = Field(3e-3, gt=0, le=1, description="Learning rate, halved without gain.")
    batch: int = Field(512, ge=1, le=65_536, description="Targets a step.")
    epochs: int = Field(20, ge=1, le=1000, description="Epochs at most.")
    patience: int = Field(3, ge=1, description="Epochs without gain before a probe stops.")
    random: bool = Field(True, description="Set the model with random weights beside.")
    vectors: str = Field(
        "", description="A file of static vectors to set beside; counted from train where none."
    )
    windows: tuple[int, ...] = Field(
        (), description="Also a convolution over layer 0, so many words to either side."
    )
    preview: bool = Field(
        False, description="Closed-form ridge probes of each layer instead: seconds, and rougher."
    )
    predictions: bool = Field(False, description="Keep every answer of every layer, in a table.")

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
