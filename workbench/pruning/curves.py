"""What is left of a model as its heads go: each step a smaller model, measured.

A step is not gated but cut (`workbench.models.removal`), so its time and size are those of the
model that would be kept. Costs a forward pass over the texts a step and method, and what ordering
costs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import pandas as pd
import torch

from workbench.models.huggingface import HuggingFace
from workbench.models.removal import Unit, units, without
from workbench.pruning.asking import Asking
from workbench.pruning.gating import HEAD, Head, named
from workbench.pruning.orders import Method, order_of
from workbench.pruning.paired import SIGNIFICANT, holm, intervals, random_p
from workbench.pruning.texts import METRICS, Floats, Texts, asked

MEBI = 2**20
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
    questions = asking.questions
    device = model.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.synchronize(device)
    started = perf_counter()
    texts = asked(model, asking.aim, questions)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return Step(gone, texts, model.parameters, perf_counter() - started, memory(model))


def memory(model: HuggingFace) -> float:
    """MiB: on a GPU the most that was taken, elsewhere what the weights take."""
    if model.device.type == "cuda":
        return torch.cuda.max_memory_allocated(model.device) / MEBI
    return weights(model)


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
                lower, upper = intervals(part[:, None], number, seed)
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
    p[chosen] = holm(np.array([random_p(value, area[~chosen]) for value in area[chosen]]))
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
