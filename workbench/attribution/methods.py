"""Attribution of one prediction to the units of what the model reads, through captum.

`attribute_prediction` gives a score to every unit (a piece, a word or a segment) by one of the
methods. Captum computes them; the function that it differentiates or ablates is
`Prediction.logits_from`, over the input vectors of all stacks. Costs: a forward and a backward pass
for gradient x input; one of both for each step of integrated gradients, whose number doubles until
the scores sum to the change of the output; a forward pass for each unit that occlusion removes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.attribution.prediction import Prediction
from workbench.attribution.target import (
    Baseline,
    By,
    Segments,
    Target,
    Unit,
    baseline_vectors,
    default_baseline,
    units_of,
)
from workbench.core.errors import WorkbenchError
from workbench.engine.taps import StackName

Method = Literal[
    "integrated-gradients",
    "gradient-x-input",
    "occlusion",
]
METHODS: tuple[Method, ...] = get_args(Method)
Floats = NDArray[np.float64]

FIRST_STEPS, MAX_STEPS = 16, 512
TOLERANCE = 1e-3  # of the change of the output from the baseline to the text
SMALLEST = 1e-4  # a smaller error is not reported, however small the change is
PIECES_AT_ONCE = 4_096  # pieces in one pass of a batch of variants


@dataclass(frozen=True, eq=False)
class Attribution:
    """The score of every unit of one prediction.

    For a complete method, the scores sum to `value - baseline_value - delta`.
    """

    prediction: Prediction
    target: Target
    method: Method
    units: tuple[Unit, ...]
    scores: Floats  # [units], 0 for fixed units
    value: float  # of the target
    baseline: Baseline | None = None  # None: the method has none
    baseline_value: float | None = None  # the target's value without any unit
    delta: float | None = None  # value - baseline_value - sum of scores; None: not complete
    steps: int | None = None  # of integrated gradients
    notes: tuple[str, ...] = ()


def attribute_prediction(
    prediction: Prediction,
    target: Target,
    method: Method = "integrated-gradients",
    *,
    by: By = "word",
    segments: Segments | None = None,
    baseline: Baseline | None = None,
    max_steps: int = MAX_STEPS,
) -> Attribution:
    """The score of every unit by a method (default: integrated gradients).

    Args:
        prediction: What is explained.
        target: The number that is explained.
        method: One of `METHODS`.
        by: `piece`, `word` or `segment`.
        segments: The segments (default: the two texts of a pair, sentences, or paragraphs).
        baseline: What stands for an absent unit (default: the mask piece, else the mean vector).
        max_steps: The maximum number of steps of integrated gradients.

    Raises:
        WorkbenchError: The text has no unit, or the method does not fit the model.
    """
    if method not in METHODS:
        raise WorkbenchError(
            f"there is no attribution method {method!r}.",
            code="setting-invalid",
            remedy=f"Choose one of {', '.join(METHODS)}.",
        )
    units = tuple(units_of(prediction, by, segments))
    if all(unit.fixed for unit in units):
        raise WorkbenchError(
            "the prediction reads no word: all its pieces are special, or hide what is predicted.",
            code="text-empty",
            where=prediction.model.name,
            remedy="Use a longer text.",
        )
    task = _Task(prediction, target, units, baseline or default_baseline(prediction), max_steps)
    return _METHODS[method](task, method)


# --- what captum works on -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Task:
    """One attribution: a function of the input vectors of the stacks that have units to score."""

    prediction: Prediction
    target: Target
    units: tuple[Unit, ...]
    baseline: Baseline
    max_steps: int

    @cached_property
    def vectors(self) -> dict[StackName, Tensor]:
        """Of all stacks.  # [1, pieces, width] per stack"""
        return {name: x.detach() for name, x in self.prediction.input_vectors().items()}

    @cached_property
    def stacks(self) -> tuple[StackName, ...]:
        """The stacks that have a unit to score."""
        free = {unit.stack for unit in self.units if not unit.fixed}
        return tuple(stack for stack in self.vectors if stack in free)

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(self.vectors[stack] for stack in self.stacks)

    @cached_property
    def baselines(self) -> tuple[Tensor, ...]:
        absent = baseline_vectors(self.prediction, self.baseline)
        return tuple(absent[stack] for stack in self.stacks)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The target's value for variants.  # [batch, pieces, width] per stack -> [batch]"""
        n_rows = len(inputs[0])
        given = dict(zip(self.stacks, inputs, strict=True))
        rest = {
            stack: x.expand(n_rows, -1, -1)
            for stack, x in self.vectors.items()
            if stack not in given
        }
        return self.target.value(self.prediction.logits_from({**given, **rest}))

    def value_of(self, inputs: tuple[Tensor, ...]) -> float:
        with torch.no_grad():
            return float(self.forward(*inputs)[0])

    @cached_property
    def value(self) -> float:
        return self.value_of(self.inputs)

    @cached_property
    def baseline_value(self) -> float:
        return self.value_of(self.baselines)

    @property
    def rows_at_once(self) -> int:
        """Number of variants in one pass, so that memory does not grow with their number."""
        return max(1, PIECES_AT_ONCE // sum(x.shape[1] for x in self.vectors.values()))

    @cached_property
    def feature_masks(self) -> tuple[Tensor, ...]:
        """The index of each piece's unit, among those that are scored.  # [1, pieces, 1] per stack

        Fixed pieces belong to the first unit of their stack, because their baseline is their input.
        """
        free = [unit for unit in self.units if not unit.fixed]
        masks = []
        for stack, x in zip(self.stacks, self.inputs, strict=True):
            first = next(i for i, unit in enumerate(free) if unit.stack == stack)
            mask = torch.full((1, x.shape[1], 1), first, device=x.device)
            for index, unit in enumerate(free):
                if unit.stack == stack:
                    mask[0, list(unit.pieces)] = index
            masks.append(mask)
        return tuple(masks)

    def of_pieces(self, scores: Mapping[StackName, Tensor]) -> Floats:
        """Scores of units from scores of pieces.  # [1, pieces] per stack -> [units]"""
        return np.array(
            [
                0.0
                if unit.fixed
                else float(scores[unit.stack].detach()[0, list(unit.pieces)].sum())
                for unit in self.units
            ]
        )

    def of_vectors(self, attributions: Sequence[Tensor]) -> Floats:
        """Scores of units from scores of numbers.  # [1, pieces, width] per stack -> [units]"""
        pairs = zip(self.stacks, attributions, strict=True)
        return self.of_pieces({stack: scores.double().sum(-1) for stack, scores in pairs})

    def of_features(self, attributions: Sequence[Tensor]) -> Floats:
        """Scores of units, where captum gives every number of a unit the unit's score."""
        values = dict(zip(self.stacks, attributions, strict=True))
        return np.array(
            [
                0.0 if unit.fixed else float(values[unit.stack][0, unit.pieces[0], 0])
                for unit in self.units
            ]
        )

    def result(self, method: Method, scores: Floats, complete: bool, **more: Any) -> Attribution:
        delta = self.value - self.baseline_value - float(scores.sum()) if complete else None
        return Attribution(
            self.prediction,
            self.target,
            method,
            self.units,
            scores,
            self.value,
            baseline=self.baseline,
            baseline_value=self.baseline_value,
            delta=delta,
            **more,
        )


# --- methods --------------------------------------------------------------------------------------


def _integrated_gradients(task: _Task, method: Method) -> Attribution:
    """Captum's integrated gradients; the steps double until the scores are complete."""
    from captum.attr import IntegratedGradients

    tolerance = max(TOLERANCE * abs(task.value - task.baseline_value), SMALLEST)
    steps = min(FIRST_STEPS, task.max_steps)
    while True:
        parts = IntegratedGradients(task.forward).attribute(
            task.inputs, task.baselines, n_steps=steps, internal_batch_size=task.rows_at_once
        )
        result = task.result(method, task.of_vectors(parts), complete=True, steps=steps)
        assert result.delta is not None
        if abs(result.delta) <= tolerance or 2 * steps > task.max_steps:
            return result
        steps *= 2


def _gradient_x_input(task: _Task, method: Method) -> Attribution:
    from captum.attr import InputXGradient

    parts = InputXGradient(task.forward).attribute(_differentiable(task.inputs))
    return Attribution(
        task.prediction, task.target, method, task.units, task.of_vectors(parts), task.value
    )


def _occlusion(task: _Task, method: Method) -> Attribution:
    from captum.attr import FeatureAblation

    with torch.no_grad():
        parts = FeatureAblation(task.forward).attribute(
            task.inputs,
            task.baselines,
            feature_mask=task.feature_masks,
            perturbations_per_eval=task.rows_at_once,
        )
    return task.result(method, task.of_features(parts), complete=False)


def _differentiable(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.detach().clone().requires_grad_() for x in inputs)


_METHODS: dict[Method, Callable[[_Task, Method], Attribution]] = {
    "integrated-gradients": _integrated_gradients,
    "gradient-x-input": _gradient_x_input,
    "occlusion": _occlusion,
}
