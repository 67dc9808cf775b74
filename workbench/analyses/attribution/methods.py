"""Attribution of one prediction to the units of what the model reads, through captum.

`attribute_prediction` gives a score to every unit (a piece, a word or a segment) by one of the
methods. Captum computes them; the function that it differentiates or ablates is
`Prediction.logits_from`, over the input vectors of all stacks. Attention rollout and the attention
baselines, which captum does not have, read maps of one pass. Leave-one-out removes a unit as
`token_effects` does. Costs: a forward and a backward pass
for gradient x input; one of both for each step of integrated gradients, whose number doubles until
the scores sum to the change of the output, and for each layer and step of the layer methods; a
forward pass for each unit that occlusion or leave-one-out removes, for each pair of units that
leave-two-out removes, and for each unit and sample of Shapley values.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from workbench.analyses.attribution.removal import (
    PIECES_AT_ONCE,
    Absence,
    free_units,
    values_without,
)
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import (
    Baseline,
    By,
    Segments,
    Target,
    Unit,
    baseline_vectors,
    default_baseline,
    require_measure,
    units_of,
)
from workbench.core.arrays import Bools, Floats
from workbench.core.display import Displayed, figure_by
from workbench.core.errors import WorkbenchError
from workbench.core.public import require_choice, require_seed
from workbench.engine.model import refusal
from workbench.engine.taps import Site, StackName, Tap, View
from workbench.models.interventions.layer_points import head_points, layer_points

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

Method = Literal[
    "leave-one-out",
    "leave-two-out",
    "integrated-gradients",
    "gradient-x-input",
    "layer-integrated-gradients",
    "layer-conductance",
    "head-conductance",
    "deeplift",
    "occlusion",
    "shapley",
    "attention-rollout",
    "attention-norms",
    "attention",
    "random",
]
METHODS: tuple[Method, ...] = get_args(Method)
LAYER_METHODS: tuple[Method, ...] = (
    "layer-integrated-gradients",
    "layer-conductance",
    "head-conductance",
)
LEFT_OUT: tuple[Method, ...] = ("leave-one-out", "leave-two-out")
OnProgress = Callable[[int], object]

FIRST_STEPS, MAX_STEPS = 16, 4_096
PART_STEPS = 4  # of a part of the path of integrated gradients
WORST = 0.3  # parts with this share of the largest error are halved
NARROWEST = 2**-24  # a part of the path below which fp32 cannot tell its ends apart
LOOSER = 4  # the errors of all parts of a path, without their signs, in units of the tolerance
LAYER_STEPS = 64  # of layer methods, which repeat their steps for every layer
LEAST_SHARE = 0.005  # of attention on pieces without a score; less is not reported
SHOWN = 24  # units in a printed attribution
MANY_UNITS = 12  # of more units, the number of orders is above every sensible `samples`
SAMPLES = 25  # permutations of the units for Shapley values
TOLERANCE = 1e-3  # of the change of the output from the baseline to the text
SMALLEST = 1e-4  # a smaller error is not reported, however small the change is
UNEXPLAINED = 0.01  # of the change; scores that miss more are no explanation
PAIRED = 40  # maximum number of units whose pairs are removed


@dataclass(frozen=True, eq=False, repr=False)
class Attribution(Displayed):
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
    steps: int | None = None  # of integrated gradients, and of the layer methods
    notes: tuple[str, ...] = ()
    # Of leave-two-out [units, units]: the change of the value without both units
    without_two: Floats | None = None
    layers: tuple[tuple[StackName, int], ...] = ()  # of the layer methods, counted from 1
    # [layers, units], or [layers, heads, units]; NaN for units of another stack. Fixed units have
    # scores here: within the model, special pieces carry what they have read.
    by_layer: Floats | None = None

    @property
    def label(self) -> str:
        """The choice that is explained, and the one it is explained against."""
        chosen = self.prediction.names([self.target.choice])[0]
        if self.target.against is None:
            return repr(chosen)
        return f"{chosen!r} rather than {self.prediction.names([self.target.against])[0]!r}"

    @property
    def absence(self) -> Absence | None:
        """What stands for an absent unit."""
        return "removed" if self.method in LEFT_OUT else self.baseline

    @property
    def missed(self) -> float:
        """The share of the change that the scores of a complete method miss; 0 of other methods."""
        if self.delta is None or self.baseline_value is None or abs(self.delta) <= SMALLEST:
            return 0.0
        change = abs(self.value - self.baseline_value)
        return abs(self.delta) / change if change else math.inf

    @property
    def table(self) -> "pd.DataFrame":
        """One row for each unit, in reading order.

        `stack` reads the unit; `unit` is its text; `word` is its index in the text (-1: none);
        `score` is positive if the unit speaks for the target; `fixed` units have no score.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "stack": [unit.stack for unit in self.units],
                "unit": [unit.text for unit in self.units],
                "word": [unit.word for unit in self.units],
                "score": self.scores,
                "fixed": [unit.fixed for unit in self.units],
            }
        )

    @property
    def words_with_scores(self) -> tuple[tuple[str, float], ...]:
        """The text of each unit with its score, for a text in colours; fixed units have 0."""
        return tuple(
            (unit.text, 0.0 if unit.fixed else float(score))
            for unit, score in zip(self.units, self.scores, strict=True)
        )

    def figure(self) -> "Figure":
        """Draw the score of each unit, in reading order.

        Returns:
            A Plotly figure; its title names the unit that speaks most for the target, or against.

        Example:
            >>> found = wb.attribute(wb.load("mini:bert", device="cpu"), "Ben [MASK] to the hill.")
            >>> list(found.figure().data[0].y)
            ['Ben', 'to', 'the', 'hill', '.']
        """
        return figure_by(
            "workbench.analyses.attribution.figures.one_prediction:attribution_map",
            self.table,
            self.label,
        )

    @property
    def layer_table(self) -> "pd.DataFrame":
        """Of a layer method: one row for each layer (and head) and unit of its stack.

        Fixed units have scores here: within the model, special pieces carry what they have read.
        """
        import pandas as pd

        if self.by_layer is None:
            return pd.DataFrame(columns=["stack", "layer", "unit", "score"])
        rows = []
        for (stack, layer), scores in zip(self.layers, self.by_layer, strict=True):
            for head, of_head in enumerate(scores.reshape(-1, len(self.units))):
                place = {"stack": stack, "layer": layer}
                place |= {"head": head} if scores.ndim > 1 else {}
                rows += [
                    {**place, "unit": unit.text, "word": unit.word, "score": score}
                    for unit, score in zip(self.units, of_head.tolist(), strict=True)
                    if unit.stack == stack and not np.isnan(score)
                ]
        return pd.DataFrame(rows)

    @property
    def summary(self) -> str:
        """What is explained, and how exactly the scores sum to its change."""
        measure = "score" if self.prediction.kind == "score" else self.target.measure
        kind = f"{measure} {'difference ' if self.target.against is not None else ''}"
        said = f"{kind}{_number(self.value)}"
        if self.baseline_value is not None:
            said += f", baseline ({self.baseline}) {_number(self.baseline_value)}"
        if self.delta is not None:
            said += f"; delta {self.delta:+.1e}"
        return said + (f" in {self.steps} steps" if self.steps else "")

    def __repr__(self) -> str:
        """The score of every unit as a bar, the largest ones of a long text."""
        model = self.prediction.model.name
        heading = f"{model}, {self.method}: why {self.label}? {self.summary}"
        free = [i for i, unit in enumerate(self.units) if not unit.fixed]
        shown = sorted(sorted(free, key=lambda i: -abs(self.scores[i]))[:SHOWN])
        largest = max((abs(self.scores[i]) for i in shown), default=0) or 1
        digits = max(3, 2 - math.floor(math.log10(largest)))  # three significant ones
        texts = [_short(self.units[i].text) for i in shown]
        width = max(map(len, texts), default=0)
        lines = [
            f"  {text.ljust(width)}  {self.scores[i]:+8.{digits}f}  "
            f"{('█' if self.scores[i] > 0 else '░') * round(20 * abs(self.scores[i]) / largest)}"
            for i, text in zip(shown, texts, strict=True)
        ]
        rest = len(free) - len(shown)
        lines += [f"  … and {rest} smaller ones"] if rest else []
        notes = [f"  Note: {note}" for note in self.notes]
        return "\n".join(line.rstrip() for line in [heading, *lines, *notes])


def _number(value: float) -> str:
    """A value with three decimals, or a small one with three significant digits."""
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.01 else f"{value:.3g}"


def _short(text: str, length: int = 40) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"


def attribute_prediction(
    prediction: Prediction,
    target: Target,
    method: Method = "integrated-gradients",
    *,
    by: By = "word",
    segments: Segments | None = None,
    baseline: Baseline | None = None,
    max_steps: int | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Attribution:
    """The score of every unit by a method (default: integrated gradients).

    Args:
        prediction: What is explained.
        target: The number that is explained.
        method: One of `METHODS`.
        by: `piece`, `word` or `segment`.
        segments: The segments (default: the two texts of a pair, sentences, or paragraphs).
        baseline: What stands for an absent unit (default: the mask piece, else the mean vector).
        max_steps: The maximum number of steps of integrated gradients (default 4,096; 64 for the
            layer methods).
        samples: The number of permutations for Shapley values.
        seed: Of the permutations and the random baseline.
        on_progress: Called with the number of variants of the text that are computed.

    Raises:
        WorkbenchError: The text has no unit, or the method does not fit the model.
    """
    require_choice("method", method, Method)
    if baseline is not None:
        require_choice("baseline", baseline, Baseline)
    require_measure(prediction, target.measure)
    require_seed(seed)
    units = tuple(units_of(prediction, by, segments))
    if all(unit.fixed for unit in units):
        raise WorkbenchError(
            "the prediction reads no word: all its pieces are special, or hide what is predicted.",
            code="text-empty",
            where=prediction.model.name,
            remedy="Use a longer text.",
        )
    kind = default_baseline(prediction) if baseline is None else baseline
    if max_steps is None:
        max_steps = LAYER_STEPS if method in LAYER_METHODS else MAX_STEPS
    if max_steps < 1 or samples < 1:
        raise WorkbenchError(
            "steps and samples must be at least 1.",
            code="setting-invalid",
            remedy="Leave them out for the defaults.",
        )
    task = _Task(prediction, target, units, kind, max_steps, samples, seed, on_progress)
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
    samples: int
    seed: int
    on_progress: OnProgress | None = None
    done: list[int] = field(default_factory=lambda: [0])  # variants that are computed

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
        value = self.target.value(self.prediction.logits_from({**given, **rest}))
        self.done[0] += n_rows
        if self.on_progress is not None:
            self.on_progress(self.done[0])
        return value

    def between(self, shares: Tensor) -> tuple[Tensor, ...]:
        """Inputs on the line from the baseline (0) to the text (1).

        # [n] -> [n, pieces, width] per stack
        """
        pairs = zip(self.inputs, self.baselines, strict=True)
        return tuple(torch.lerp(low, high, shares.to(high)[:, None, None]) for high, low in pairs)

    def values_of(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The target's value for any number of variants.  # [batch], float64"""
        with torch.no_grad():
            batches = zip(*(torch.split(x, self.rows_at_once) for x in inputs), strict=True)
            return torch.cat([self.forward(*batch) for batch in batches]).double().cpu()

    def value_of(self, inputs: tuple[Tensor, ...]) -> float:
        return float(self.values_of(inputs)[0])

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

    def plain(self, method: Method, scores: Floats, notes: tuple[str, ...] = ()) -> Attribution:
        """The result of a method without a baseline."""
        self._require_finite(scores)
        return Attribution(
            self.prediction, self.target, method, self.units, scores, self.value, notes=notes
        )

    def lost(self, kept: Bools) -> Floats:
        """What the value loses if only some units are kept.  # [sets, free units] -> [sets]"""
        found = values_without(self.prediction, self.units, kept, self.target.value, "removed")
        self.done[0] += len(kept)
        if self.on_progress is not None:
            self.on_progress(self.done[0])
        return self.value - found

    @property
    def tolerance(self) -> float:
        """The largest error of a complete method."""
        return max(TOLERANCE * abs(self.value - self.baseline_value), SMALLEST)

    def _require_finite(self, scores: Floats) -> None:
        """Raise if a gradient was none; outputs that are no numbers are refused by the engine."""
        if not np.isfinite(scores).all():
            raise WorkbenchError(
                "a gradient is not a finite number, for the text or on the way from the baseline "
                f"({self.baseline}) to it.",
                code="not-a-number",
                where=self.prediction.model.name,
                remedy="Choose another baseline, such as mean; if that changes nothing, open the "
                "model with --precision fp32.",
            )

    def result(self, method: Method, scores: Floats, complete: bool, **more: Any) -> Attribution:
        self._require_finite(scores)
        if complete:
            more["delta"] = self.value - self.baseline_value - float(scores.sum())
        return Attribution(
            self.prediction,
            self.target,
            method,
            self.units,
            scores,
            self.value,
            baseline=self.baseline,
            baseline_value=self.baseline_value,
            **more,
        )


# --- methods --------------------------------------------------------------------------------------


def _integrated_gradients(task: _Task, method: Method) -> Attribution:
    """Captum's integrated gradients; parts of the path are halved until the scores are complete.

    The integral over the path is the sum of those over its parts, and the scores of each part must
    sum to the change of the output over it. So more steps are taken only where they are needed.
    """
    steps = min(FIRST_STEPS, task.max_steps)
    parts = _path(task, [(0.0, 1.0)], steps)
    taken = steps
    while True:
        gaps = np.array([abs(part.delta) for part in parts])
        total = abs(sum(part.delta for part in parts))
        if total <= task.tolerance and gaps.sum() <= LOOSER * task.tolerance:
            break
        # the worst parts first; near a kink of the function only few of them are wrong
        gaps[[part.end - part.start <= NARROWEST for part in parts]] = 0
        wrong = gaps > max(task.tolerance / len(parts), gaps.max() * WORST)
        steps = min(PART_STEPS, task.max_steps)
        cost = 2 * steps * int(wrong.sum())
        if not wrong.any() or taken + cost > task.max_steps:
            break
        taken += cost
        halves = [
            half
            for part, is_wrong in zip(parts, wrong, strict=True)
            if is_wrong
            for half in _halves(part)
        ]
        kept = [part for part, is_wrong in zip(parts, wrong, strict=True) if not is_wrong]
        parts = [*kept, *_path(task, halves, steps)]
    scores = np.sum([part.scores for part in parts], 0)
    found = task.result(method, scores, complete=True, steps=taken)
    if total <= task.tolerance:
        return found
    verdict = "This map is no explanation. " if found.missed > UNEXPLAINED else ""
    remedy = "increase max_steps, or choose another baseline."
    if not wrong.any():
        remedy = "the output jumps on the way from the baseline. Choose another baseline."
    note = (
        f"{verdict}The scores miss {total:.2g} of the change of "
        f"{task.value - task.baseline_value:.3g}: {remedy}"
    )
    return replace(found, notes=(note,))


@dataclass(frozen=True, eq=False)
class _Part:
    """Integrated gradients over a part of the path from the baseline (0) to the text (1)."""

    start: float
    end: float
    scores: Floats  # [units]
    delta: float


def _halves(part: _Part) -> list[tuple[float, float]]:
    middle = (part.start + part.end) / 2
    return [(part.start, middle), (middle, part.end)]


def _path(task: _Task, ranges: Sequence[tuple[float, float]], steps: int) -> list[_Part]:
    """The parts of the path of these ranges, all in one batch."""
    from captum.attr import IntegratedGradients

    ends = [task.between(torch.tensor([each[n] for each in ranges])) for n in (0, 1)]
    found = IntegratedGradients(task.forward).attribute(
        ends[1], ends[0], n_steps=steps, internal_batch_size=max(task.rows_at_once, len(ranges))
    )
    values = task.values_of(tuple(map(torch.cat, zip(*ends, strict=True)))).view(2, -1)
    parts = []
    for row, (start, end) in enumerate(ranges):
        scores = task.of_vectors([x[row : row + 1] for x in found])
        all_scores = sum(float(x[row].double().sum()) for x in found)
        change = float(values[1][row] - values[0][row])
        parts.append(_Part(start, end, scores, change - all_scores))
    return parts


def _gradient_x_input(task: _Task, method: Method) -> Attribution:
    from captum.attr import InputXGradient

    parts = InputXGradient(task.forward).attribute(_differentiable(task.inputs))
    return task.plain(method, task.of_vectors(parts))


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


def _leave_one_out(task: _Task, method: Method) -> Attribution:
    """What the value loses without each unit: exact, and what a visitor sees who hides a word."""
    free = free_units(task.units)
    scores = np.zeros(len(task.units))
    scores[free] = task.lost(~np.eye(len(free), dtype=np.bool_))
    return task.plain(method, scores)


def _leave_two_out(task: _Task, method: Method) -> Attribution:
    """What the value loses without each unit, and half of what each pair loses beyond its units.

    So words that stand in for each other have scores, though one of them can be missed.
    """
    free = free_units(task.units)
    n_units = len(free)
    if n_units > PAIRED:
        raise WorkbenchError(
            f"the text has {n_units} units, too many to remove each pair of them (at most "
            f"{PAIRED}).",
            code="setting-invalid",
            where=task.prediction.model.name,
            remedy='Choose leave-one-out, or by="segment".',
        )
    first, second = np.triu_indices(n_units)  # each unit with itself, too
    kept = np.ones((len(first), n_units), dtype=np.bool_)
    kept[np.arange(len(first)), first] = kept[np.arange(len(first)), second] = False
    lost = np.zeros((n_units, n_units))
    lost[first, second] = lost[second, first] = task.lost(kept)
    single = lost.diagonal()
    beyond = lost - single[:, None] - single[None, :]
    np.fill_diagonal(beyond, 0.0)
    scores = np.zeros(len(task.units))
    scores[free] = single + beyond.sum(1) / 2
    without_two = np.zeros((len(task.units), len(task.units)))
    without_two[np.ix_(free, free)] = lost
    return replace(task.plain(method, scores), without_two=without_two)


def _shapley(task: _Task, method: Method) -> Attribution:
    """Captum's Shapley values: of random orders of the units, or of all if these are not more."""
    from captum.attr import ShapleyValues, ShapleyValueSampling

    n_units = sum(not unit.fixed for unit in task.units)
    n_orders = math.factorial(n_units) if n_units <= MANY_UNITS else math.inf
    is_exact = n_orders <= task.samples
    options: dict[str, Any] = {
        "feature_mask": task.feature_masks,
        "perturbations_per_eval": task.rows_at_once,
    }
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        if is_exact:
            parts = ShapleyValues(task.forward).attribute(task.inputs, task.baselines, **options)
        else:
            parts = ShapleyValueSampling(task.forward).attribute(
                task.inputs, task.baselines, n_samples=task.samples, **options
            )
    note = (
        f"The mean of all {n_orders:,} orders of the {n_units} units, so the values are exact."
        if is_exact
        else f"The mean of {task.samples} random orders of the units."
    )
    return task.result(method, task.of_features(parts), complete=True, notes=(note,))


def _deeplift(task: _Task, method: Method) -> Attribution:
    """Captum's DeepLIFT, if its scores sum to the change of the output.

    Captum replaces the gradients of non-linear modules. A softmax, norm or product that is a
    function, as in every transformer, keeps its gradient, and then the sum is wrong.
    """
    from captum.attr import DeepLift

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting forward, backward hooks")
        parts = DeepLift(_Net(task)).attribute(_differentiable(task.inputs), task.baselines)
    result = task.result(method, task.of_vectors(parts), complete=True)
    assert result.delta is not None
    if not abs(result.delta) <= task.tolerance:
        change = task.value - task.baseline_value
        raise refusal(
            task.prediction.model,
            "has non-linear functions that DeepLIFT's rules do not cover: its scores sum to "
            f"{change - result.delta:.3g}, but the output changes by {change:.3g}",
            "Choose integrated-gradients or shapley, whose scores sum to the change.",
        )
    return result


class _Net(nn.Module):
    """The function of a task as a module that has the model's modules."""

    def __init__(self, task: _Task) -> None:
        super().__init__()
        head = task.prediction.head
        self.parts = nn.ModuleList([*task.prediction.model.modules(), *([head] if head else [])])
        self.function = task.forward

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def _random(task: _Task, method: Method) -> Attribution:
    """Normal numbers: a control."""
    scores = np.random.default_rng(task.seed).standard_normal(len(task.units))
    scores[[unit.fixed for unit in task.units]] = 0
    return task.plain(method, scores)


def _differentiable(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.detach().clone().requires_grad_() for x in inputs)


# --- layers and heads -----------------------------------------------------------------------------


def _layers(task: _Task, method: Method) -> Attribution:
    """Captum's layer methods at every block, or its conductance at every head projection.

    A unit's score is its mean over the layers (and for heads the sum of a layer's heads).
    """
    model = task.prediction.model
    if task.prediction.text.unseen is not None:
        raise refusal(
            model,
            "predicts hidden pieces in a second stream next to its layers' states",
            "Choose a method without layers, such as integrated-gradients.",
        )
    if method == "head-conductance":
        with head_points(model) as sites:
            read = [site for site in sites if site.stack in task.vectors]
            scores = [_at(task, method, sites[site], site.stack, site.heads) for site in read]
            layers = tuple((site.stack, site.layer + 1) for site in read)
    else:
        with layer_points(model) as points:
            of_stack = {stack: points[stack] for stack in task.vectors}
            layers = tuple(
                (stack, n + 1) for stack, modules in of_stack.items() for n in range(len(modules))
            )
            scores = [_at(task, method, of_stack[stack][n - 1], stack) for stack, n in layers]
    n_heads = max((len(part) for part in scores), default=0)
    table = np.full((len(layers), n_heads, len(task.units)), np.nan)
    for row, part in enumerate(scores):
        table[row, : len(part)] = part
    summed = np.nansum(table, 1)  # [layers, units]
    free = np.array([not unit.fixed for unit in task.units])
    owners = np.array([unit.stack for unit in task.units])
    totals = np.zeros(len(task.units))
    for stack in task.vectors:
        rows = [row for row, (name, _) in enumerate(layers) if name == stack]
        mean = summed[rows].mean(0)
        totals[free & (owners == stack)] = mean[free & (owners == stack)]
    more: dict[str, Any] = {"layers": layers, "steps": task.max_steps}
    notes = ["Scores are means over the layers."]
    if task.prediction.mixes_layers and method != "head-conductance":
        notes.append(
            "The task head reads a mix of all layers. A layer's scores leave out what reaches the "
            "head from earlier layers, so they do not sum to the change, with any number of steps."
        )
    if method == "head-conductance":
        more["by_layer"] = table
        notes.append("What passes the heads by in the residual stream has no score here.")
    else:
        more["by_layer"] = table[:, 0]
        if len(task.vectors) == 1 and not task.prediction.mixes_layers:
            gaps = task.value - task.baseline_value - summed.sum(1)
            more["delta"] = float(gaps[np.abs(gaps).argmax()])  # of the least complete layer
        elif len(task.vectors) > 1:
            notes.append("A layer of one stack has no score for what passes through the other.")
    return task.result(method, totals, complete=False, notes=tuple(notes), **more)


def _at(task: _Task, method: Method, point: nn.Module, stack: StackName, heads: int = 1) -> Floats:
    """The scores of one layer, by head.  # [heads, units]"""
    from captum.attr import LayerConductance, LayerIntegratedGradients

    is_path = method == "layer-integrated-gradients"
    of_layer = LayerIntegratedGradients if is_path else LayerConductance
    parts = of_layer(task.forward, point).attribute(
        task.inputs, task.baselines, n_steps=task.max_steps, internal_batch_size=task.rows_at_once
    )
    tensor = parts[0] if isinstance(parts, tuple) else parts  # [1, pieces, heads x width]
    pieces = tensor[0].double().unflatten(-1, (heads, -1)).sum(-1).T  # [heads, pieces]
    scores = [
        pieces[:, list(unit.pieces)].sum(1).detach().cpu().numpy()
        if unit.stack == stack
        else np.full(heads, np.nan)
        for unit in task.units
    ]
    return np.stack(scores, 1)


# --- attention ------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Maps(Tap):
    """The mean map of each site's heads, weighted by the norms of the values if they are given."""

    weights: Mapping[Site, Tensor] | None = None  # [heads, width of a head, width] per site
    maps: dict[Site, Tensor] = field(default_factory=dict)  # [queries, keys] per site

    def see(self, view: View) -> None:
        maps = view.probabilities[0].double()  # [heads, queries, keys]
        site = view.site
        if self.weights is not None and view.value is not None and site in self.weights:
            value = view.value[0].repeat_interleave(site.heads // site.groups, 0)
            norms = (value @ self.weights[site].to(value.dtype)).norm(dim=-1)  # [heads, keys]
            maps = maps * norms.double()[:, None]
        self.maps[site] = maps.mean(0)

    def close(self, whole: bool) -> None:
        return


def _attention(task: _Task, method: Method) -> Attribution:
    """Attention weights from the pieces that the head reads to every piece."""
    prediction, model = task.prediction, task.prediction.model
    if not model.sites:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no attention. {model.without_heads}.",
            code="no-attention",
            remedy="Choose a method of its gradients, or occlusion.",
        )
    weights = model.output_weights() if method == "attention-norms" else None
    if weights is not None and len(weights) < len(model.sites):
        raise refusal(
            model,
            "does not show the values of its attention, so their norms are unknown",
            "Choose attention-rollout.",
        )
    tap = _Maps(weights)
    with torch.no_grad():
        model.forward(prediction.text, targets=prediction.target, taps=[tap], hidden=False)
    rows = _rows_read(task)
    maps = {site: x for site, x in tap.maps.items() if site.stack in task.vectors}
    lengths = {stack: x.shape[1] for stack, x in task.vectors.items()}
    if method == "attention-rollout":
        read = _rollout(maps, lengths, rows)
    else:
        read = _weights_of(maps, lengths, rows, last_only=method == "attention")
    scores = task.of_pieces(read)
    total = sum(float(x.sum()) for x in read.values())
    rest = 1 - scores.sum() / total
    note = f"{100 * rest:.0f} % of it is on pieces without a score, such as special pieces."
    return task.plain(method, scores, notes=(note,) if rest >= LEAST_SHARE else ())


def _rows_read(task: _Task) -> Tensor:
    """The pieces of the last stack whose final states the prediction reads.  # [pieces], bool"""
    prediction = task.prediction
    stack, x = list(task.vectors.items())[-1]
    if prediction.head is None:
        read = torch.zeros(x.shape[1], dtype=torch.bool, device=x.device)
        read[prediction.position] = True
        return read
    states: list[Tensor] = []
    inputs = _differentiable(task.inputs)
    with layer_points(prediction.model) as points:
        last = points[stack][-1]
        hook = last.register_forward_hook(lambda module, args, output: states.append(output))
        value = task.forward(*inputs).sum()
        hook.remove()
    (gradient,) = torch.autograd.grad(value, states[-1], allow_unused=True)
    if gradient is None or not bool(gradient.any()):  # a head that reads other layers only
        return torch.ones(x.shape[1], dtype=torch.bool, device=x.device)
    return gradient[0, : x.shape[1]].abs().sum(-1).to(x.device) > 0


def _weights_of(
    maps: Mapping[Site, Tensor], lengths: Mapping[StackName, int], rows: Tensor, last_only: bool
) -> dict[StackName, Tensor]:
    """Attention of the pieces that are read, in the last layer or the mean of all layers.

    # [1, pieces] per stack
    """
    last = list(lengths)[-1]
    read = {}
    for stack, length in lengths.items():
        sites = [
            site
            for site in maps
            if site.stack == last and ("encoder" if site.kind == "cross" else last) == stack
        ]
        sites = sites[-1:] if last_only else sites
        total = torch.zeros(1, length, dtype=torch.float64)
        for site in sites:
            total += maps[site][rows.to(maps[site].device), :length].mean(0).cpu() / len(sites)
        read[stack] = total
    return read


def _rollout(
    maps: Mapping[Site, Tensor], lengths: Mapping[StackName, int], rows: Tensor
) -> dict[StackName, Tensor]:
    """Attention rollout (Abnar and Zuidema 2020): products of maps, half of each the identity.

    A decoder's cross-attention reads what its encoder has rolled out.  # [1, pieces] per stack
    """
    n_pieces, start = sum(lengths.values()), 0
    rolled: dict[StackName, Tensor] = {}
    for stack, length in lengths.items():
        flow = torch.zeros(length, n_pieces, dtype=torch.float64)
        flow[:, start : start + length] = torch.eye(length)
        for site in sorted((s for s in maps if s.stack == stack), key=lambda s: s.index):
            source = rolled["encoder"] if site.kind == "cross" else flow
            mixed = maps[site].cpu()[:length, : len(source)] @ source
            flow = (flow + mixed) / 2
        rolled[stack], start = flow, start + length
    read = flow[rows.cpu()].mean(0, keepdim=True)  # [1, all pieces]
    return dict(zip(lengths, torch.split(read, list(lengths.values()), 1), strict=True))


_METHODS: dict[Method, Callable[[_Task, Method], Attribution]] = {
    "leave-one-out": _leave_one_out,
    "leave-two-out": _leave_two_out,
    "integrated-gradients": _integrated_gradients,
    "gradient-x-input": _gradient_x_input,
    "layer-integrated-gradients": _layers,
    "layer-conductance": _layers,
    "head-conductance": _layers,
    "deeplift": _deeplift,
    "occlusion": _occlusion,
    "shapley": _shapley,
    "attention-rollout": _attention,
    "attention-norms": _attention,
    "attention": _attention,
    "random": _random,
}
