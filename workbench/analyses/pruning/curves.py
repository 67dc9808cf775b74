"""Pruning curves: scores, time and size of a model as its heads are removed step by step.

Each step removes the heads (`workbench.models.head_removal`) instead of closing gates, so time and
size are those of the smaller model. Costs: a forward pass over the texts for each step and method,
and the ordering of the heads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import torch

from workbench.analyses.pruning.ablation import ablated
from workbench.analyses.pruning.evaluation import Evaluation, TextScores, score_texts, with_heads
from workbench.analyses.pruning.experiments import ONCE, By
from workbench.analyses.pruning.head_masks import Head, heads_of, named
from workbench.analyses.pruning.importance import gate_gradients
from workbench.core.arrays import Floats
from workbench.core.groups import grouped
from workbench.core.machine import MEBI, Stretch, stretch
from workbench.core.stats import (
    SIGNIFICANT,
    holm,
    prediction_p_value,
    ratio_intervals,
    sign_flip_p_values,
)
from workbench.engine.batch import Pieces
from workbench.experiment.definition import HEAD
from workbench.models.head_removal import Unit, magnitudes, units, without
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load
from workbench.models.scoring.eval_tasks import Learnt

# --- order of removal: by importance, exact ablation, magnitude, or random ------------------------
#
# A `Unit` is a group of heads that can only be removed together. Units are scored once, or again
# after every step without the heads already removed: if two heads do the same, one of them can be
# removed, and only then does the other one matter. Costs: one scoring, or one for each step.


@dataclass(frozen=True)
class Method:
    """How heads are ordered."""

    by: By
    rescored: bool
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.by}, rescored" if self.rescored else self.by


def methods(by: Sequence[By], seeds: int) -> list[Method]:
    """Each order, scored once and, if that differs, scored again after every step."""
    orders = []
    for each in by:
        if each == "random":
            orders += [Method(each, False, seed) for seed in range(seeds)]
        else:
            orders.append(Method(each, False))
            orders += [Method(each, True)] if each not in ONCE else []
    return orders


def order_of(
    evaluation: Evaluation,
    all_: Sequence[Unit],
    method: Method,
    steps: Sequence[int],
    normalised: bool,
    on_progress: Callable[[str], object] = lambda text: None,
) -> list[int]:
    """Units in the order of removal; `steps` are the numbers of units removed after each step."""
    left = list(range(len(all_)))
    if not method.rescored:
        scores = _scores(evaluation, all_, left, [], method, normalised)
        return [left[index] for index in np.argsort(scores, kind="stable").tolist()]
    removed: list[int] = []
    for step, n_removed in enumerate(steps):
        if n_removed <= len(removed):
            continue
        on_progress(f"measuring curves: {method.name}, step {step} of {len(steps) - 1}")
        heads = [head for unit in removed for head in all_[unit].heads]
        scores = _scores(evaluation, all_, left, heads, method, normalised)
        lowest = np.argsort(scores, kind="stable")[: n_removed - len(removed)].tolist()
        chosen = [left[index] for index in lowest]
        removed += chosen
        left = [unit for unit in left if unit not in chosen]
    return removed


def _scores(
    evaluation: Evaluation,
    all_: Sequence[Unit],
    left: Sequence[int],
    removed: Sequence[Head],
    method: Method,
    normalised: bool,
) -> Floats:
    """The score of each unit that is left; units with the lowest score are removed first."""
    sets = [all_[unit].heads for unit in left]
    if method.by == "random":
        return np.random.default_rng([method.seed, 11]).permutation(len(left)).astype(np.float64)
    if method.by == "magnitude":
        sizes = magnitudes(evaluation.model)
        return np.array([np.sqrt(sum(sizes[head] ** 2 for head in heads)) for heads in sets])
    if method.by == "ablation":
        result = ablated(
            evaluation.model, evaluation.aim, evaluation.questions, sets, removed=removed
        )
        return result.values("loss")
    gradients = gate_gradients(
        evaluation.model, evaluation.aim, evaluation.questions, removed=removed
    )
    scores = gradients.together(sets)
    return _by_layer(scores, [heads[0][0] for heads in sets]) if normalised else scores


def _by_layer(scores: Floats, sites: Sequence[int]) -> Floats:
    """Scores divided by the L2 norm over their layer, as Michel et al. (2019) do for BERT."""
    of = np.array(sites)
    length = np.array([np.sqrt(np.square(scores[of == site]).sum()) for site in of])
    return np.where(length > 0, scores / np.maximum(length, 1e-30), 0.0)


# --- pruning curves -------------------------------------------------------------------------------

DROPS = (0.01, 0.05)  # shares of the score


@dataclass(frozen=True)
class Step:
    """Scores, time and size of the model without some heads."""

    removed: list[Head]
    texts: TextScores
    parameters: int
    seconds: float
    memory: float  # MiB


@dataclass(frozen=True)
class Curve:
    """The steps of one method, from the whole model to no heads."""

    method: Method
    order: list[int]  # units, in order of removal
    steps: list[Step]


def removal_steps(steps: int, n_units: int) -> list[int]:
    """Number of units removed after each step, from 0 to all."""
    return sorted({round(step * n_units / steps) for step in range(steps + 1)})


@dataclass(eq=False)
class Ruler:
    """Measures smaller models, each set of removed heads once."""

    evaluation: Evaluation
    cache: dict[frozenset[Head], Step] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Warm up: the first pass is slower than all others, and is not measured."""
        first = self.evaluation.questions[:1]
        score_texts(self.evaluation.model, self.evaluation.aim, first)

    def measured(self, removed: list[Head]) -> Step:
        """Scores, time and size of the model without these heads."""
        key = frozenset(removed)
        if key not in self.cache:
            self.cache[key] = measured(self.evaluation, removed)
        return self.cache[key]


def curve(
    selection: Evaluation,
    ruler: Ruler,
    method: Method,
    steps: Sequence[int],
    normalised: bool,
    on_progress: Callable[[str], object],
) -> Curve:
    """The curve of one method: heads are ordered on one set of texts, and scored on another."""
    all_ = units(selection.model)
    order = order_of(selection, all_, method, steps, normalised, on_progress)
    measured_steps = []
    for n_removed in steps:
        on_progress(f"measuring curves: {method.name}, {n_removed} of {len(all_)} removed")
        removed = [head for unit in order[:n_removed] for head in all_[unit].heads]
        measured_steps.append(ruler.measured(removed))
    return Curve(method, order, measured_steps)


def measured(evaluation: Evaluation, removed: list[Head]) -> Step:
    """Scores, time and size of the model without these heads, over all texts."""
    model = without(evaluation.model, removed) if removed else evaluation.model
    with stretch(model.device) as took:
        texts = evaluation.scored(model)
    return Step(removed, texts, model.parameters, took.seconds, memory(model, took))


def memory(model: HuggingFace, took: Stretch) -> float:
    """Memory in MiB: the peak on a GPU, the size of the weights elsewhere."""
    return took.memory if model.device.type == "cuda" else weights(model)


def weights(model: HuggingFace) -> float:
    """Size of the weights in MiB."""
    size: int = sum(w.numel() * w.element_size() for w in model.net.parameters())
    return size / MEBI


# --- tables ---------------------------------------------------------------------------------------


def rows(curves: Sequence[Curve], seed: int) -> pd.DataFrame:
    """One row per method, step and metric."""
    table = []
    for each in curves:
        for step in each.steps:
            for metric in step.texts.metrics:
                part, number = step.texts.part(metric), step.texts.number
                lower, upper = ratio_intervals(part[:, None], number, seed)
                table.append(
                    {
                        **_of(each.method),
                        "heads_removed": len(step.removed),
                        "fraction": len(step.removed) / max(1, len(each.steps[-1].removed)),
                        "metric": metric,
                        "value": step.texts.value(metric),
                        "lower": lower[0],
                        "upper": upper[0],
                        "parameters": step.parameters,
                        "seconds": step.seconds,
                        "memory": step.memory,
                    }
                )
    return pd.DataFrame(table)


def summary(curves: Sequence[Curve], is_better: Mapping[str, bool]) -> pd.DataFrame:
    """Area, falls and comparison with random orders of each curve.

    `is_better`: whether the whole model is better than its trivial baseline, by metric.
    """
    rows = []
    for each in curves:
        total = max(1, len(each.steps[-1].removed))
        removed = np.array([len(step.removed) / total for step in each.steps])
        for metric in each.steps[0].texts.metrics:
            values = np.array([step.texts.value(metric) for step in each.steps])
            lost = _lost(values, metric)
            rows.append(
                {
                    **_of(each.method),
                    "metric": metric,
                    "area": float(np.trapezoid(values, removed)),
                    **{f"falls_{drop:.0%}": crossing(removed, lost, drop) for drop in DROPS},
                }
            )
    table = pd.DataFrame(rows).rename(columns=lambda name: name.replace("%", ""))
    return pd.concat(
        [_test_areas(part, is_better[str(metric)]) for metric, part in table.groupby("metric")]
    ).sort_index()


def _test_areas(table: pd.DataFrame, is_better: bool) -> pd.DataFrame:
    """The rows of one metric with p_value and better: tests against random orders."""
    sign = 1 if (table["metric"] == "loss").all() else -1
    tested = (table["method"] != "random").to_numpy()
    area = sign * table["area"].to_numpy(float)  # lower is better
    p = np.ones(len(table))
    p[tested] = holm([prediction_p_value(value, area[~tested]) for value in area[tested]])
    return table.assign(p_value=p, better=is_better & (p < SIGNIFICANT))


def _lost(values: Floats, metric: str) -> Floats:
    """The share of its first value that a score has lost; for a loss, that it has risen by."""
    first = values[0] or 1.0
    change: Floats = (values - values[0]) / abs(first)
    return change if metric == "loss" else -change


def crossing(removed: Floats, lost: Floats, drop: float) -> float:
    """The share of heads at which `drop` is first lost, by linear interpolation; 1 if never."""
    beyond = np.flatnonzero(lost > drop)
    if not len(beyond):
        return 1.0
    last = int(beyond[0])
    if last == 0:
        return 0.0
    before, after = lost[last - 1], lost[last]
    share = (drop - before) / (after - before)
    return float(removed[last - 1] + share * (removed[last] - removed[last - 1]))


def orders(curves: Sequence[Curve], model: HuggingFace) -> pd.DataFrame:
    """One row per method and head: when it is removed."""
    all_ = units(model)
    sites = {site.index: site for site in model.sites}
    rows = [
        {**_of(each.method), **named(sites[site], head), "place": index}
        for each in curves
        for index, unit in enumerate(each.order)
        for site, head in all_[unit].heads
    ]
    return pd.DataFrame(rows, columns=["method", "rescored", "seed", *HEAD, "place"])


def _of(method: Method) -> dict[str, object]:
    return {"method": method.by, "rescored": method.rescored, "seed": method.seed}


def alone(ruler: Ruler, all_: Sequence[Unit], scores: Sequence[float]) -> pd.DataFrame:
    """One row per layer and metric: the score with only the best head of the layer."""
    sites = {site.index: site for site in ruler.evaluation.model.sites}
    base = ruler.measured([]).texts
    rows = []
    for members in by_layer(all_):
        best = max(members, key=lambda unit: scores[unit])
        removed = [head for unit in members if unit != best for head in all_[unit].heads]
        step = ruler.measured(removed)
        site, head = all_[best].heads[0]
        for metric in base.metrics:
            value = step.texts.value(metric)
            rows.append(
                {
                    **named(sites[site], head),
                    "metric": metric,
                    "base": base.value(metric),
                    "value": value,
                    "delta": value - base.value(metric),
                    "heads_removed": len(removed),
                }
            )
    return pd.DataFrame(rows)


def by_layer(all_: Sequence[Unit]) -> list[list[int]]:
    """Indices of the units of each layer, grouped by their first site."""
    by_site = grouped((unit.heads[0][0], index) for index, unit in enumerate(all_))
    return list(by_site.values())


# --- speed and size of the smaller model ----------------------------------------------------------
#
# The pruned model: fine-tuned, saved, and timed next to the whole model.
#
# Costs: the ordering, the fine-tuning, and some forward passes of three batches.

SIZES = (1, 16, 64)  # texts in a batch
TIMES = 5  # measurements of each batch, of which the median is taken


@dataclass(frozen=True)
class Stage:
    """A model between pruning and fine-tuning, and its scores."""

    name: str
    heads: int
    parameters: int
    weights: float  # MiB
    texts: TextScores
    against: str = ""  # the stage it is compared with
    learnt: Learnt | None = None  # None: not fine-tuned
    disk: float = 0.0  # MiB of the files of its weights, if it was saved


def stage(
    name: str,
    model: HuggingFace,
    texts: TextScores,
    against: str = "",
    learnt: Learnt | None = None,
    disk: float = 0.0,
) -> Stage:
    """A stage with the size of its model."""
    heads = sum(site.heads for site in model.sites)
    return Stage(name, heads, model.parameters, weights(model), texts, against, learnt, disk)


def saved(model: HuggingFace, keep: Path) -> tuple[HuggingFace, float]:
    """Save the model in a folder; returns it as it is opened from there, and MiB on disk."""
    model.save(keep)
    opened = load(keep, str(model.device), model.precision)
    opened.name = model.name
    disk = sum(file.stat().st_size for file in keep.rglob("*.safetensors")) / MEBI
    return with_heads(opened), disk


def kept(stages: Sequence[Stage], seed: int) -> pd.DataFrame:
    """One row per stage and metric; each stage is compared with another on the same texts."""
    texts = {each.name: each.texts for each in stages}
    rows = []
    for metric in stages[0].texts.metrics:
        differences = np.stack(
            [s.texts.part(metric) - texts[s.against or s.name].part(metric) for s in stages], 1
        )  # [texts, stages]
        number = stages[0].texts.number
        lower, upper = ratio_intervals(differences, number, seed)
        p_values = sign_flip_p_values(differences, seed)
        for index, each in enumerate(stages):
            value = each.texts.value(metric)
            rows.append(
                {
                    "stage": each.name,
                    "metric": metric,
                    "value": value,
                    "against": each.against,
                    "delta": value - texts[each.against or each.name].value(metric),
                    "lower": lower[index],
                    "upper": upper[index],
                    "p_value": p_values[index],
                    "steps": len(each.learnt.losses) if each.learnt else 0,
                    "best_step": each.learnt.best if each.learnt else 0,
                    "converged": each.learnt.converged if each.learnt else True,
                    "heads": each.heads,
                    "parameters": each.parameters,
                    "size": each.weights,
                    "disk": each.disk,
                }
            )
    return pd.DataFrame(rows)


def heads(whole: HuggingFace, removed: Sequence[Head]) -> pd.DataFrame:
    """One row per head of the whole model, and whether it was kept."""
    sites = {site.index: site for site in whole.sites}
    rows = [
        {**named(sites[site], head), "kept": (site, head) not in set(removed)}
        for site, head in heads_of(whole)
    ]
    return pd.DataFrame(rows)


def speed(evaluation: Evaluation, whole: HuggingFace, smaller: HuggingFace) -> pd.DataFrame:
    """Time and memory of both models on the longest texts, in turn."""
    batch = evaluation.batch
    longest = sorted(range(len(batch)), key=lambda document: -len(batch.text_of(document)))
    rows = []
    for size in SIZES:
        documents = [longest[index % len(longest)] for index in range(size)]
        text = whole.encode(batch, documents).to(whole.device)
        turns = [(_passed(whole, text), _passed(smaller, text)) for _ in range(TIMES + 1)][1:]
        before, after = (median(turn[n][0] for turn in turns) for n in (0, 1))
        ratios = [one[0] / max(other[0], 1e-12) for one, other in turns]
        rows.append(
            {
                "texts": size,
                "pieces": int(text.mask.sum()),
                "whole": before,
                "smaller": after,
                "speedup": before / max(after, 1e-12),
                "lowest": min(ratios),
                "highest": max(ratios),
                "whole_memory": turns[-1][0][1],
                "smaller_memory": turns[-1][1][1],
            }
        )
    return pd.DataFrame(rows)


def _passed(model: HuggingFace, text: Pieces) -> tuple[float, float]:
    """Seconds and memory of one forward pass."""
    with torch.no_grad(), stretch(model.device) as took:
        model.forward(text, hidden=False)
    return took.seconds, memory(model, took)
