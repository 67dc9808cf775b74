"""What is asked of an adaptation: the settings that all experiments of this package share.

Costs nothing.
"""

from typing import Annotated, Literal

from pydantic import Field

from workbench.experiment import Settings
from workbench.transfer.ways import Sizes

Rate = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
HeadKind = Literal["plain", "lstm", "text"]


class Adapting(Settings):
    """How a model is adapted, and by how much text."""

    limit: int | None = Field(
        None,
        ge=1,
        description="Texts that are scored, at most, drawn by the run's seed; all if left out.",
    )
    train: int = Field(
        300, ge=2, le=10_000_000, description="Texts that are learnt from, drawn likewise."
    )
    dev: int = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Texts that choose the rate and tell when to stop, drawn likewise.",
    )
    seeds: tuple[Seed, ...] = Field(
        (0, 1, 2), min_length=1, max_length=100, description="Seeds of the head and of the order."
    )
    rates: tuple[Rate, ...] = Field(
        (),
        max_length=20,
        description="Rates to choose from, by dev and the first seed; a grid of each method's own "
        "if left out.",
    )
    epochs: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Times through the texts, at most; if left out, 5 of what is fine-tuned, 15 of "
        "a frozen model (6 under an LSTM), 6 where few weights learn.",
    )
    texts: int = Field(16, ge=1, le=4096, description="Texts in a step.")
    patience: int = Field(3, ge=1, le=1000, description="Epochs without gain on dev, then it ends.")
    top: int = Field(1, ge=1, le=200, description="Of method top: how many layers learn.")
    rank: int = Field(8, ge=1, le=1024, description="Of LoRA.")
    adapter: int = Field(32, ge=1, le=8192, description="The width of an adapter.")
    length: int = Field(8, ge=1, le=512, description="Vectors of a prefix or a prompt.")

    @property
    def sizes(self) -> Sizes:
        """Of what is put into a model."""
        return Sizes(self.top, self.rank, self.adapter, self.length)
