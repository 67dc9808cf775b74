"""What is asked of an adaptation: the settings that all experiments of this package share.

Costs nothing.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from workbench.core.splits import SplitSettings
from workbench.engine.model import Model
from workbench.transfer.adaptation import Sizes

Ridge = Annotated[float, Field(gt=0, le=1e9)]
Rate = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
HeadKind = Literal["plain", "lstm", "text"]


class Adapting(SplitSettings):
    """How a model is adapted, and by how much text."""

    limit: int | None = Field(
        None,
        ge=1,
        description="Maximum number of texts of a split without a maximum of its own (default: "
        "all).",
    )
    max_train: int | None = Field(
        300,
        ge=2,
        le=10_000_000,
        description="Maximum number of texts to train on, a random sample (default 300).",
    )
    max_dev: int | None = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Maximum number of texts that choose the settings of a training and end it "
        "(default 200).",
    )
    max_test: int | None = Field(
        None, ge=1, description="Maximum number of texts to score (default: limit, else all)."
    )
    seeds: tuple[Seed, ...] = Field(
        (0, 1, 2), min_length=1, max_length=100, description="Seeds of the head and of the order."
    )
    rates: tuple[Rate, ...] = Field(
        (),
        max_length=20,
        description="Learning rates to choose from, by dev and the first seed (default: a grid for "
        "each method). A plain head over a frozen model has none: it is trained to its optimum.",
    )
    ridges: tuple[Ridge, ...] = Field(
        (10_000.0, 1000.0, 100.0, 10.0, 1.0),
        min_length=1,
        max_length=20,
        description="Ridge strengths to choose from, by dev, for a plain head over a frozen model "
        "(1 / C of scikit-learn).",
    )
    epochs: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Maximum number of epochs (default: 5 for fine-tuned, gradual and top; 6 for "
        "lora, adapters, prefix, prompt, bitfit and a frozen model under an LSTM).",
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


# --- names of models ------------------------------------------------------------------------------


def names_of(models: Sequence[Model]) -> list[str]:
    """A name each: where one comes again it is numbered."""
    found: list[str] = []
    for model in models:
        name, number = model.name, 1
        while name in found:
            number += 1
            name = f"{model.name} ({number})"
        found.append(name)
    return found
