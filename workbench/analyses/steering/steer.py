"""Steer a model by the difference of two sets of texts: `wb.steer`.

    found = wb.steer(model, ["The girls", "The dogs"], ["The girl", "The dog"], layer=2)
    found.table                                   # effect by strength, random directions beside it
    wb.generate(found.into(model, 2.0), "The cat")

Costs: a pass for each text; the table a row for each text, strength and random direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.predictions.explained import choice_of, prediction_of
from workbench.analyses.predictions.target import Target
from workbench.analyses.steering.moved import (
    Moving,
    layers_of,
    open_states,
    random_directions,
    require_layer,
)
from workbench.core.arrays import Floats
from workbench.core.display import Displayed, figure_by
from workbench.core.errors import WorkbenchError
from workbench.core.findings import decimal, signed
from workbench.core.head_names import at_state
from workbench.core.public import public
from workbench.engine.model import Model
from workbench.models.interventions.states import Positions, Write

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure
    from spacy.tokens import Doc

STRENGTHS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, eq=False, repr=False)
class Steered(Displayed):
    """The difference of two sets of texts at one layer, and what adding it does.

    Example:
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> found = wb.steer(model, ["The girls", "The dogs"], ["The girl", "The dog"], layer=2)
        >>> found.vector.shape
        torch.Size([128])
    """

    model: Model
    stack: str
    layer: int  # 0: the embeddings
    vector: Tensor  # [width]
    moving: tuple[Moving, ...]  # of the negative texts
    target: int
    against: int
    n_random: int
    seed: int

    @property
    def names(self) -> tuple[str, str]:
        """The two choices whose difference is measured, as they are shown."""
        one, other = self.moving[0].prediction.names([self.target, self.against])
        return one.strip(), other.strip()

    def write(self, strength: float = 1.0, *, positions: Positions = None) -> Write:
        """A `wb.Write` that adds the difference so many times.

        Args:
            strength: How many times it is added.
            positions: The pieces, as for `wb.Write` (default: all pieces).

        Returns:
            A tap; its `into` and `on` steer a model.
        """
        name = f"block {self.layer}" if self.layer else "embeddings"
        return Write(f"{self.stack} {name}", plus=strength * self.vector, positions=positions)

    def into(self, model: Model, strength: float = 1.0) -> Model:
        """A model to which the difference is added in every pass."""
        return self.write(strength).into(model)

    @cached_property
    def table(self) -> "pd.DataFrame":
        """By strength: the effect on the texts of the second set, and that of random directions.

        The difference is added where the prediction is made. effect: change of the difference of
        the two logits, mean over texts. random, random_low, random_high: mean, 5th and 95th
        percentile of random directions of the same length. p: of an effect at least as large in
        the direction of the strength, so that a negative strength should lower the difference.
        """
        import pandas as pd

        found = np.stack([self._effects(each) for each in self.moving]).mean(0)
        rows = []
        for strength, numbers in zip(STRENGTHS, found, strict=True):
            low, high = np.percentile(numbers[1:], [5, 95])
            along = np.sign(strength) * numbers
            rows.append(
                {
                    "strength": strength, "effect": numbers[0], "random": numbers[1:].mean(),
                    "random_low": low, "random_high": high,
                    "p": (1 + (along[1:] >= along[0]).sum()) / len(numbers),
                }
            )  # fmt: skip
        return pd.DataFrame(rows)

    def _effects(self, own: Moving) -> Floats:
        """Effects on one text.  # [strengths, 1 + random directions]"""
        value = Target(self.target, self.against).value
        random = random_directions(self.n_random, len(self.vector), self.seed).to(self.vector)
        moves = torch.cat([self.vector[None], random * self.vector.norm()])
        strengths = torch.tensor(STRENGTHS, device=moves.device)
        new = own.states[self.layer] + (strengths[:, None, None] * moves).flatten(0, 1)
        numbers = own.numbers(self.layer, new, value) - own.number(value)
        return numbers.reshape(len(STRENGTHS), -1)

    def figure(self) -> "Figure":
        """Draw the effect by strength, with random directions beside it."""
        return figure_by(
            "workbench.analyses.steering.figures:strength_curve", self.table, self.names
        )

    def __repr__(self) -> str:
        """The effect by strength."""
        one, other = self.names
        lines = [
            f"{self.model.name}: the difference, added to {at_state(self.layer)}",
            f"  strength  {one!r} rather than {other!r}, in logits (random, 5 to 95 %)",
        ]
        for row in self.table.itertuples():
            effect = signed(decimal(row.effect, 2))
            beside = f"{decimal(row.random_low, 2)} to {decimal(row.random_high, 2)}"
            lines.append(f"  {signed(decimal(row.strength, 1)):>8}  {effect:>8}  ({beside})")
        return "\n".join(lines)


@public
def steer(
    model: Model,
    positive: "Sequence[str | Doc]",
    negative: "Sequence[str | Doc]",
    *,
    layer: int,
    target: str | int | None = None,
    against: str | int | None = None,
    n_random: int = 99,
    seed: int = 0,
) -> Steered:
    """The difference of mean states between two sets of texts, and what adding it does.

    States are read where each text's prediction is made: at the hidden word, the last piece that is
    read, or the last that a decoder has. Effects are measured on the texts from which the
    difference was computed; the experiment `steering` measures them on others.

    Args:
        model: A transformers model with a language-model head, or an ELMo with its softmax.
        positive: Texts of the first set; `[MASK]` or `___` hides a word, as for `wb.predict`.
        negative: Texts of the second set.
        layer: Index of the layer whose states are used: 0 for the embeddings, 2 for block 2.
        target: The choice that should become more probable (default: the one whose logit differs
            most between the sets).
        against: The choice that should become less probable (default: likewise).
        n_random: Random directions of the same length (default 99).
        seed: Seed of the random directions.

    Returns:
        A `Steered`: its `vector`; `write(strength)` and `into(model, strength)` to use it; `table`
        and `figure()` of its effect by strength, computed when first read.

    Raises:
        WorkbenchError: A set is empty, there is no such layer, or the model predicts no words.

    Example:
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> found = wb.steer(model, ["The girls", "The dogs"], ["The girl", "The dog"], layer=2)
        >>> found.table.query("strength == 1")["effect"].item() > 0
        True
    """
    texts = {"positive": list(positive), "negative": list(negative)}
    for name, own in texts.items():
        if not own:
            raise WorkbenchError(f"there are no {name} texts.", code="text-empty", remedy=_TEXTS)
    made = {name: [prediction_of(model, text)[0] for text in own] for name, own in texts.items()}
    points = open_states(model, made["negative"][0])
    layers = layers_of(points)
    require_layer(layer, len(layers) - 1, model)
    moving = {name: [Moving.of(points, each) for each in own] for name, own in made.items()}
    one, other = (
        torch.stack([each.states[layer] for each in moving[name]]).mean(0)
        for name in ("positive", "negative")
    )
    with torch.no_grad():
        means = [
            torch.stack([each.logits()[0] for each in made[name]]).mean(0)
            for name in ("positive", "negative")
        ]
    changes = means[0] - means[1]  # [choices]
    first = made["negative"][0]
    chosen = int(changes.argmax()) if target is None else choice_of(first, target)
    less = int(changes.argmin()) if against is None else choice_of(first, against)
    return Steered(
        model, layers[layer].stack, layer, one - other, tuple(moving["negative"]), chosen, less,
        n_random, seed,
    )  # fmt: skip


_TEXTS = "Pass at least one text of each set."
