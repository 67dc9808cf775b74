"""What is left of a model as its heads go: each step a smaller model, measured.

A step is not gated but cut (`workbench.models.head_removal`), so its time and size are those of the
model that would be kept. Costs a forward pass over the texts a step and method, and what ordering
costs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import torch

from workbench.core.experiment import HEAD
from workbench.core.machine import MEBI, Stretch, stretch
from workbench.core.stats import (
    SIGNIFICANT,
    holm,
    prediction_p_value,
    ratio_intervals,
    sign_flip_p_values,
)
from workbench.engine.batch import Pieces
from workbench.models import pruned_checkpoint
from workbench.models.eval_tasks import Learnt
from workbench.models.head_removal import Unit, magnitudes, units, without
from workbench.models.huggingface import HuggingFace
from workbench.pruning.ablation import ablated
from workbench.pruning.evaluation import (
    METRICS,
    Asking,
    Floats,
    Texts,
    asked,
)
from workbench.pruning.experiments import ONCE, By
from workbench.pruning.head_masks import Head, heads_of, named
from workbench.pruning.importance import gate_gradients

# --- in which order heads go: by importance, by exact ablation, by magnitude, at random -----------
#
# What is scored is a `Unit`, heads that can only go together. An order is found once, or after
# every step anew with what is gone already left out: of two heads that do the same, either can
# go, and only then is it seen that the other cannot. Costs a scoring, or one a step.


@dataclass(frozen=True)
class Method:
    """How heads are chosen."""

    by: By
    rescored: bool
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.by}, rescored" if self.rescored else self.by


def methods(by: Sequence[By], seeds: int) -> list[Method]:
    """Each of these, scored once, and again after every step where that makes a difference."""
    found = []
    for each in by:
        if each == "random":
            found += [Method(each, False, seed) for seed in range(seeds)]
        else:
            found.append(Method(each, False))
            found += [Method(each, True)] if each not in ONCE else []
    return found


def order_of(
    asked: Asking,
    all_: Sequence[Unit],
    method: Method,
    steps: Sequence[int],
    normalised: bool,
    told: Callable[[str], object] = lambda text: None,
) -> list[int]:
    """Units in the order in which they go; `steps` are how many are gone after each."""
    left = list(range(len(all_)))
    if not method.rescored:
        scores = _scores(asked, all_, left, [], method, normalised)
        return [left[place] for place in np.argsort(scores, kind="stable").tolist()]
    gone: list[int] = []
    for step, wanted in enumerate(steps):
        if wanted <= len(gone):
            continue
        told(f"{method.name}: step {step} of {len(steps) - 1}")
        heads = [head for unit in gone for head in all_[unit].heads]
        scores = _scores(asked, all_, left, heads, method, normalised)
        chosen = np.argsort(scores, kind="stable")[: wanted - len(gone)].tolist()
        going = [left[place] for place in chosen]
        gone += going
        left = [unit for unit in left if unit not in going]
    return gone


def _scores(
    asked: Asking,
    all_: Sequence[Unit],
    left: Sequence[int],
    gone: Sequence[Head],
    method: Method,
    normalised: bool,
) -> Floats:
    """What is lost with each of the units that are left; the lowest go first."""
    sets = [all_[unit].heads for unit in left]
    if method.by == "random":
        return np.random.default_rng([method.seed, 11]).permutation(len(left)).astype(np.float64)
    if method.by == "magnitude":
        sizes = magnitudes(asked.model)
        return np.array([np.sqrt(sum(sizes[head] ** 2 for head in heads)) for heads in sets])
    if method.by == "ablation":
        found = ablated(asked.model, asked.aim, asked.questions, sets, gone=gone)
        exact: Floats = found.values("loss")
        return exact
    gradients = gate_gradients(asked.model, asked.aim, asked.questions, gone=gone)
    scores = gradients.together(sets)
    return _by_layer(scores, [heads[0][0] for heads in sets]) if normalised else scores


def _by_layer(scores: Floats, sites: Sequence[int]) -> Floats:
    """Divided by the L2 norm of each layer's, as the paper has it for BERT."""
    of = np.array(sites)
    length = np.array([np.sqrt(np.square(scores[of == site]).sum()) for site in of])
    return np.where(length > 0, scores / np.maximum(length, 1e-30), 0.0)


# --- pruning curves -------------------------------------------------------------------------------

DROPS = (0.01, 0.05)  # of the score


@dataclass(frozen=True)
class Step:
    """A model without some heads."""

    gone: list[Head]
    texts: Texts
    parameters: int
    seconds: float
    memory: float  # MiB


@dataclass(frozen=True)
class Curve:
    """Steps of one way to choose, from the whole model on."""

    method: Method
    order: list[int]  # units, the first to go first
    steps: list[Step]


def fractions(steps: int, number: int) -> list[int]:
    """How many units are gone after each of so many steps, none at first and all at last."""
    return sorted({round(step * number / steps) for step in range(steps + 1)})


@dataclass(eq=False)
class Ruler:
    """Measures smaller models, each once."""

    asking: Asking
    known: dict[frozenset[Head], Step] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The first pass of all is slower than any after it, and is not measured."""
        asked(self.asking.model, self.asking.aim, self.asking.questions[:1])

    def measured(self, gone: list[Head]) -> Step:
        """The model without these heads."""
        key = frozenset(gone)
        if key not in self.known:
            self.known[key] = measured(self.asking, gone)
        return self.known[key]


def curve(
    choosing: Asking,
    ruler: Ruler,
    method: Method,
    steps: Sequence[int],
    normalised: bool,
    told: Callable[[str], object],
) -> Curve:
    """Order the heads by one set of texts, and measure what is left on another."""
    all_ = units(choosing.model)
    order = order_of(choosing, all_, method, steps, normalised, told)
    found = []
    for wanted in steps:
        told(f"{method.name}: {wanted} of {len(all_)} gone")
        gone = [head for unit in order[:wanted] for head in all_[unit].heads]
        found.append(ruler.measured(gone))
    return Curve(method, order, found)


def measured(asking: Asking, gone: list[Head]) -> Step:
    """A smaller model over all texts."""
    model = without(asking.model, gone) if gone else asking.model
    with stretch(model.device) as took:
        texts = asking.scored(model)
    return Step(gone, texts, model.parameters, took.seconds, memory(model, took))


def memory(model: HuggingFace, took: Stretch) -> float:
    """MiB: on a GPU the most that was taken, elsewhere what the weights take."""
    return took.memory if model.device.type == "cuda" else weights(model)


def weights(model: HuggingFace) -> float:
    """What the weights take, in MiB."""
    return sum(w.numel() * w.element_size() for w in model.net.parameters()) / MEBI


# --- tables ---------------------------------------------------------------------------------------


def rows(curves: Sequence[Curve], seed: int) -> pd.DataFrame:
    """A row a step, method and metric."""
    found = []
    for each in curves:
        for step in each.steps:
            for metric in METRICS:
                part, number = step.texts.part(metric), step.texts.number
                lower, upper = ratio_intervals(part[:, None], number, seed)
                found.append(
                    {
                        **_of(each.method),
                        "heads_removed": len(step.gone),
                        "fraction": len(step.gone) / max(1, len(each.steps[-1].gone)),
                        "metric": metric,
                        "value": step.texts.value(metric),
                        "lower": lower[0],
                        "upper": upper[0],
                        "parameters": step.parameters,
                        "seconds": step.seconds,
                        "memory": step.memory,
                    }
                )
    return pd.DataFrame(found)


def summary(curves: Sequence[Curve], known: Mapping[str, bool]) -> pd.DataFrame:
    """Of each curve its area, where its score has fallen, and whether it beats random orders.

    `known`: whether the whole model is better than its trivial baseline, by metric.
    """
    found = []
    for each in curves:
        whole = max(1, len(each.steps[-1].gone))
        at = np.array([len(step.gone) / whole for step in each.steps])
        for metric in METRICS:
            values = np.array([step.texts.value(metric) for step in each.steps])
            lost = _lost(values, metric)
            found.append(
                {
                    **_of(each.method),
                    "metric": metric,
                    "area": float(np.trapezoid(values, at)),
                    **{f"falls_{drop:.0%}": crossing(at, lost, drop) for drop in DROPS},
                }
            )
    table = pd.DataFrame(found).rename(columns=lambda name: name.replace("%", ""))
    return pd.concat(
        [_beside_random(own, known[str(metric)]) for metric, own in table.groupby("metric")]
    ).sort_index()


def _beside_random(table: pd.DataFrame, known: bool) -> pd.DataFrame:
    """p_value and better, of the rows of one metric."""
    sign = 1 if (table["metric"] == "loss").all() else -1
    chosen = (table["method"] != "random").to_numpy()
    area = sign * table["area"].to_numpy(float)  # the lower, the better
    p = np.ones(len(table))
    p[chosen] = holm([prediction_p_value(value, area[~chosen]) for value in area[chosen]])
    return table.assign(p_value=p, better=known & (p < SIGNIFICANT))


def _lost(values: Floats, metric: str) -> Floats:
    """What share of its first value a score has lost; of a loss, what it has gained."""
    first = values[0] if values[0] else 1.0
    change: Floats = (values - values[0]) / abs(first)
    return change if metric == "loss" else -change


def crossing(at: Floats, lost: Floats, drop: float) -> float:
    """The share of heads at which so much is lost first, in a straight line between steps; or 1."""
    beyond = np.flatnonzero(lost > drop)
    if not len(beyond):
        return 1.0
    last = int(beyond[0])
    if last == 0:
        return 0.0
    before, after = lost[last - 1], lost[last]
    share = (drop - before) / (after - before)
    return float(at[last - 1] + share * (at[last] - at[last - 1]))


def orders(curves: Sequence[Curve], model: HuggingFace) -> pd.DataFrame:
    """Which head goes when."""
    all_ = units(model)
    sites = {site.index: site for site in model.sites}
    found = [
        {**_of(each.method), **named(sites[site], head), "place": place}
        for each in curves
        for place, unit in enumerate(each.order)
        for site, head in all_[unit].heads
    ]
    return pd.DataFrame(found, columns=["method", "rescored", "seed", *HEAD, "place"])


def _of(method: Method) -> dict[str, object]:
    return {"method": method.by, "rescored": method.rescored, "seed": method.seed}


def alone(ruler: Ruler, all_: Sequence[Unit], scores: Sequence[float]) -> pd.DataFrame:
    """Each layer with its best head alone: "all but one"."""
    sites = {site.index: site for site in ruler.asking.model.sites}
    base = ruler.measured([]).texts
    found = []
    for members in by_layer(all_):
        best = max(members, key=lambda unit: scores[unit])
        gone = [head for unit in members if unit != best for head in all_[unit].heads]
        step = ruler.measured(gone)
        site, head = all_[best].heads[0]
        for metric in METRICS:
            value = step.texts.value(metric)
            found.append(
                {
                    **named(sites[site], head),
                    "metric": metric,
                    "base": base.value(metric),
                    "value": value,
                    "delta": value - base.value(metric),
                    "heads_removed": len(gone),
                }
            )
    return pd.DataFrame(found)


def by_layer(all_: Sequence[Unit]) -> list[list[int]]:
    """Units that are of the same attention, by its first site."""
    found: dict[int, list[int]] = {}
    for number, unit in enumerate(all_):
        found.setdefault(unit.heads[0][0], []).append(number)
    return list(found.values())


# --- speed and size of the smaller model ----------------------------------------------------------
#
# The model that is kept: without its least heads, fine-tuned, saved, and timed next to the whole.
#
# Costs the ordering, the fine-tuning, and three forward passes of some batches.

SIZES = (1, 16, 64)  # texts at a time
TIMES = 5


@dataclass(frozen=True)
class Stage:
    """A model on its way, and how it did then."""

    name: str
    heads: int
    parameters: int
    weights: float  # MiB
    texts: Texts
    against: str = ""  # the stage that it is compared with
    learnt: Learnt | None = None  # None: nothing was fine-tuned


def stage(
    name: str, model: HuggingFace, texts: Texts, against: str = "", learnt: Learnt | None = None
) -> Stage:
    heads = sum(site.heads for site in model.sites)
    return Stage(name, heads, model.parameters, weights(model), texts, against, learnt)


def saved(model: HuggingFace, keep: Path | None) -> float:
    """Write the model down, if there is a place for it; MiB of its weights on disk."""
    if keep is None:
        return 0.0
    pruned_checkpoint.save(model, keep)
    return sum(file.stat().st_size for file in keep.glob("*.safetensors")) / MEBI


def kept(stages: Sequence[Stage], seed: int) -> pd.DataFrame:
    """A row a stage and metric; each stage is compared with another on the same texts."""
    texts = {each.name: each.texts for each in stages}
    rows = []
    for metric in METRICS:
        apart = np.stack(
            [s.texts.part(metric) - texts[s.against or s.name].part(metric) for s in stages], 1
        )  # [texts, stages]
        number = stages[0].texts.number
        lower, upper = ratio_intervals(apart, number, seed)
        chance = sign_flip_p_values(apart, seed)
        for place, each in enumerate(stages):
            value = each.texts.value(metric)
            rows.append(
                {
                    "stage": each.name,
                    "metric": metric,
                    "value": value,
                    "against": each.against,
                    "delta": value - texts[each.against or each.name].value(metric),
                    "lower": lower[place],
                    "upper": upper[place],
                    "p_value": chance[place],
                    "steps": len(each.learnt.losses) if each.learnt else 0,
                    "best_step": each.learnt.best if each.learnt else 0,
                    "converged": each.learnt.converged if each.learnt else True,
                    "heads": each.heads,
                    "parameters": each.parameters,
                    "size": each.weights,
                }
            )
    return pd.DataFrame(rows)


def heads(whole: HuggingFace, gone: Sequence[Head]) -> pd.DataFrame:
    """Every head of the whole model, and whether it stayed."""
    sites = {site.index: site for site in whole.sites}
    rows = [
        {**named(sites[site], head), "kept": (site, head) not in set(gone)}
        for site, head in heads_of(whole)
    ]
    return pd.DataFrame(rows)


def speed(measuring: Asking, whole: HuggingFace, smaller: HuggingFace) -> pd.DataFrame:
    """Both models on the same texts, in turn; the longest there are."""
    batch = measuring.batch
    longest = sorted(range(len(batch)), key=lambda document: -len(batch.text_of(document)))
    rows = []
    for number in SIZES:
        some = [longest[place % len(longest)] for place in range(number)]
        text = whole.encode(batch, some).to(whole.device)
        turns = [(_passed(whole, text), _passed(smaller, text)) for _ in range(TIMES + 1)][1:]
        before, after = (median(turn[n][0] for turn in turns) for n in (0, 1))
        rows.append(
            {
                "texts": number,
                "pieces": int(text.mask.sum()),
                "whole": before,
                "smaller": after,
                "speedup": before / max(after, 1e-12),
                "whole_memory": turns[-1][0][1],
                "smaller_memory": turns[-1][1][1],
            }
        )
    return pd.DataFrame(rows)


def _passed(model: HuggingFace, text: Pieces) -> tuple[float, float]:
    """Seconds of one forward pass, and the memory it took."""
    with torch.no_grad(), stretch(model.device) as took:
        model.forward(text, hidden=False)
    return took.seconds, memory(model, took)
