"""What another state at one place of a pass does to a prediction: many states, as rows of a batch.

    moving = Moving.of(points, prediction)
    moving.states                              # [layers, width], where the prediction is made
    moving.numbers(2, new, value)              # of a pass for each of the new states of layer 2

The place is the one that predicts: the hidden piece, the last piece that is read, or what a decoder
writes last. ELMo predicts a hidden word from both sides: its state here is the forward half of the
word before and the backward half of the word after. Layers below are not computed again. Random
directions and subspaces are the null of all that is moved here. Costs: a pass for each text, and a
row of the layers above for each new state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workbench.analyses.predictions.prediction import Prediction
from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.stats import SIGNIFICANT, permutation_p_values_of_means
from workbench.engine.model import Model, refusal
from workbench.models.interventions.patching import (
    Activations,
    Base,
    Patch,
    PatchPoints,
    Point,
    activations,
    patch_points,
    patched,
    recorded_base,
)

Value = Callable[[Tensor], Tensor]  # logits -> numbers; # [rows, choices] -> [rows]
HIGH = 95  # percentile of random directions that is shown


def open_states(model: Model, prediction: Prediction) -> PatchPoints:
    """Where the states of a model are replaced, for predictions like this one."""
    points = patch_points(model, "states", prediction.text.unseen is not None)
    if points.is_recurrent and prediction.kind != "hidden":
        raise refusal(
            model,
            "predicts the word after a text with one of its two directions only",
            "Hide a word in each text: 'The girls [MASK] here.'",
        )
    return points


def layers_of(points: PatchPoints) -> list[Point]:
    """The states of the stack that predicts, embeddings first."""
    stack = points.model.stacks[-1].name
    return [point for point in points.points if point.stack == stack]


def require_layer(layer: int, n_layers: int, model: Model) -> None:
    """Raise an error for a layer that a stack does not have; 0 are the embeddings."""
    if not 0 <= layer <= n_layers:
        raise WorkbenchError(
            f"{model.name} has no layer {layer}.",
            code="layer-missing",
            remedy=f"Choose from 0 (the embeddings) to {n_layers}.",
        )


@dataclass(frozen=True, eq=False)
class Moving:
    """A prediction, its recorded pass, and the states of the pass."""

    points: PatchPoints
    prediction: Prediction
    base: Base
    own: Activations

    @classmethod
    def of(cls, points: PatchPoints, prediction: Prediction) -> "Moving":
        """Record the pass of a prediction."""

        @cache  # of ELMo, one pass shows both
        def layers() -> object:
            with torch.no_grad():
                return points.model.states_with_ends(prediction.text)

        read: Callable[[], object] = layers if points.is_recurrent else prediction.logits
        return cls(points, prediction, recorded_base(points, read), activations(points, read))

    @property
    def places(self) -> tuple[tuple[int, slice], ...]:
        """Positions, and which numbers of their states predict."""
        at, width = self.prediction.position, self.points.model.width
        if self.points.is_recurrent:
            return (at - 1, slice(width // 2)), (at + 1, slice(width // 2, width))
        return ((at, slice(width)),)

    def _state(self, point: Point, at: int) -> Tensor:
        """The recorded state at a position; ELMo's begin with the text's start.  # [width]"""
        own = self.own[point, self.points.streams - 1]
        return own[0, at + int(self.points.is_recurrent)]

    @cached_property
    def states(self) -> Tensor:
        """The state of each layer where the prediction is made.  # [layers, width], float32"""
        layers = [
            torch.cat([self._state(point, at)[part] for at, part in self.places])
            for point in layers_of(self.points)
        ]
        return torch.stack([each.to(self.prediction.model.device) for each in layers]).float()

    def numbers(self, layer: int, new: Tensor, value: Value) -> Floats:
        """The number of a pass with each of the new states of a layer.

        # [rows, width] -> [rows]
        """
        point, n_rows = layers_of(self.points)[layer], len(new)
        own: list[Tensor] = []  # the states of each place, [rows, width]
        for at, part in self.places:
            states = self._state(point, at).repeat(n_rows, 1)
            states[:, part] = new[:, part].to(states)
            own.append(states)
        last = self.points.streams - 1  # of XLNet's two streams, the one that predicts
        source = {
            (point, stream): self.own[point, stream][:, self.prediction.position].expand(n_rows, -1)
            for stream in range(last)
        } | {(point, last): torch.cat(own)}
        if self.points.is_recurrent:  # sources count from the first word, behind the text's start
            source = {key: nn.functional.pad(each, (0, 0, 1, 0)) for key, each in source.items()}
        positions = tuple(at for at, _ in self.places)
        patches = [
            Patch(point, positions, tuple(range(row, n_rows * len(own), n_rows)))
            for row in range(n_rows)
        ]
        text, target = self.prediction.text, self.prediction.target

        def run(n_rows: int, _: object) -> Tensor:
            copies = [0] * n_rows
            read = None if target is None else target.take(copies)
            return value(self.prediction.logits(text.take(copies), read))

        longest = max(text.ids.shape[1], 0 if target is None else target.ids.shape[1])
        given = {key: each[None] for key, each in source.items()}
        return patched(self.points, self.base, given, patches, run, longest).numpy()

    def number(self, value: Value) -> float:
        """The number of the pass as it is."""
        with torch.no_grad():
            return float(value(self.prediction.logits())[0])


def random_directions(number: int, width: int, seed: int) -> Tensor:
    """Directions of length 1, drawn evenly.  # [number, width]"""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(number, width, generator=generator, dtype=torch.float64)
    return nn.functional.normalize(drawn).float()


@dataclass(frozen=True, eq=False)
class Against:
    """Effects of a change and of random ones on the same texts, and what can be said of them."""

    effects: Floats  # [texts, tried]
    random: Floats  # [texts, directions, tried]
    sample: ClusterSample

    def rows(self) -> list[dict[str, float | bool]]:
        """For each that was tried: its mean effect, that of random ones, and the test."""
        means, null = self.effects.mean(0), self.random.mean(0)
        p_values = permutation_p_values_of_means(means, null)
        excess = self.effects - self.random.mean(1)
        lower, upper = self.sample.mean_interval(excess)
        high = np.percentile(null, HIGH, axis=0)
        return [
            {
                "effect": means[n],
                "random": null[:, n].mean(),
                "random_high": high[n],
                "excess": excess[:, n].mean(),
                "lower": lower[n],
                "upper": upper[n],
                "p": p_values[n],
                "significant": bool(p_values[n] < SIGNIFICANT and lower[n] > 0),
            }
            for n in range(len(means))
        ]


def clusters_in_half(names: Sequence[str], seed: int) -> NDArray[np.bool_]:
    """Which units are in the half that is fitted; whole clusters, drawn at random.  # [units]"""
    distinct = sorted(set(names))
    order = np.random.default_rng([seed, len(distinct)]).permutation(len(distinct))
    first = {distinct[n] for n in order[: len(distinct) // 2]}
    return np.array([name in first for name in names], dtype=np.bool_)
