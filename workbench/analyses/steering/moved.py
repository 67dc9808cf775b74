"""What another state at one place of a pass does to a prediction: many states, as rows of a batch.

    moving = Moving.of(points, prediction)
    moving.states                              # [layers, width], where the prediction is made
    moving.numbers(2, new, value)              # of a pass for each of the new states of layer 2

The place is the one that predicts: the hidden piece, the last piece that is read, or what a decoder
writes last. Blocks below a layer are not computed again. Random directions and subspaces are the
null of all that is moved here. Costs: a pass for each text, and a row of the layers above for each
new state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from workbench.analyses.predictions.prediction import Prediction
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.stats import SIGNIFICANT, permutation_p_values_of_means
from workbench.engine.model import Model
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

Floats = NDArray[np.float64]
Value = Callable[[Tensor], Tensor]  # logits -> numbers; # [rows, choices] -> [rows]
HIGH = 95  # percentile of random directions that is shown


def open_states(model: Model, prediction: Prediction) -> PatchPoints:
    """Where the states of a model are replaced, for predictions like this one."""
    return patch_points(model, "states", prediction.text.unseen is not None)


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

        def read() -> Tensor:
            return prediction.logits()

        return cls(points, prediction, recorded_base(points, read), activations(points, read))

    @cached_property
    def states(self) -> Tensor:
        """The state of each layer where the prediction is made.  # [layers, width], float32"""
        stream, at = self.points.streams - 1, self.prediction.position
        layers = [self.own[point, stream][0, at] for point in layers_of(self.points)]
        return torch.stack([each.to(self.prediction.model.device) for each in layers]).float()

    def numbers(self, layer: int, new: Tensor, value: Value) -> Floats:
        """The number of a pass with each of the new states of a layer.

        # [rows, width] -> [rows]
        """
        point, at = layers_of(self.points)[layer], self.prediction.position
        source = {
            (point, stream): self.own[point, stream][:, at].expand(len(new), -1)[None]
            for stream in range(self.points.streams)
        }
        last = self.points.streams - 1  # of XLNet's two streams, the one that predicts
        source[point, last] = new.to(source[point, last])[None]
        patches = [Patch(point, (at,), (row,)) for row in range(len(new))]
        text, target = self.prediction.text, self.prediction.target

        def run(n_rows: int, _: object) -> Tensor:
            copies = [0] * n_rows
            read = None if target is None else target.take(copies)
            return value(self.prediction.logits(text.take(copies), read))

        longest = max(text.ids.shape[1], 0 if target is None else target.ids.shape[1])
        found: Floats = patched(self.points, self.base, source, patches, run, longest).numpy()
        return found

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
