"""Whether an attribution map is faithful: what happens to the prediction without its top units.

Comprehensiveness is the probability that the prediction loses when its top units are replaced by
the baseline; sufficiency is what it loses when only they are kept (DeYoung et al. 2020). Both are
means over the top 10, 20, 30 and 50 % of the units, and both are compared with random orders of the
units. Their difference is the `gain` of an order: the larger, the better. The weight-randomisation
check (Adebayo et al. 2018) repeats the method on the same architecture with random weights: a map
that stays the same does not show what the model has learnt. Costs: a forward pass over all distinct
sets of replaced units, some hundred short texts; the check attributes again for each seed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from workbench.analyses.attribution.methods import Attribution, attribute_prediction
from workbench.analyses.attribution.removal import Absence, free_units, values_without
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Target, Unit
from workbench.core.arrays import Floats, Ints
from workbench.core.errors import WorkbenchError
from workbench.core.stats import SIGNIFICANT, rank_correlation
from workbench.engine.model import Model

SHARES = (0.1, 0.2, 0.3, 0.5)  # of the units that are replaced, or kept
FEWEST = 3  # units; fewer cannot be ordered in a way that says anything
RANDOM_ORDERS = 99  # of the null; the smallest p-value is 1 / 100
SMALLEST = 0.01  # gain in probability; below it, a map explains next to nothing
KEPT = 0.5  # rank correlation from which a map counts as kept with random weights
CHANCE_DRAWS = 1000  # random maps, to see which correlation is chance
CONTROL = "random"  # the method without information: its orders are the null of all others
ATTENTION = "attention"  # the method that all others should beat
# errors of a method that does not fit a model
UNFIT = ("model-unsupported", "no-attention")

Verdict = Literal["yes", "no", "undecided"]
Check = Literal["destroyed", "partly kept", "kept", "undecided"]


@dataclass(frozen=True, eq=False)
class Erasure:
    """How well some orders of the units explain a prediction; every field is [orders]."""

    comprehensiveness: Floats  # probability lost without the top units: high is good
    sufficiency: Floats  # probability lost with only the top units: low is good

    @property
    def gain(self) -> Floats:
        """Comprehensiveness minus sufficiency."""
        return self.comprehensiveness - self.sufficiency

    def take(self, rows: "slice | Ints") -> "Erasure":
        """Some of the orders."""
        return Erasure(self.comprehensiveness[rows], self.sufficiency[rows])


@dataclass(frozen=True)
class Randomised:
    """Rank correlation of a map with the maps of the same method on random weights."""

    correlation: float  # of absolute scores, mean over seeds
    chance: float  # 95 % of random maps of as many units correlate less, as a mean over seeds
    seeds: int

    @property
    def check(self) -> Check:
        """Whether random weights destroy the map."""
        return verdict_of_correlation(self.correlation, self.chance)


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """The faithfulness of one map, next to random orders and an attention baseline.

    Without enough units, all numbers are NaN and `reason` says so.
    """

    method: str
    n_units: int  # that can be replaced
    comprehensiveness: float
    sufficiency: float
    random: Erasure = field(repr=False)  # of random orders
    p: float  # share of random orders with at least this gain
    verdict: Verdict  # whether the map is faithful beyond random orders
    reason: str = ""  # why the verdict is `undecided`
    # of one order; None: no attention, or it is what is checked
    attention: Erasure | None = field(default=None, repr=False)
    randomised: Randomised | None = None  # None: not checked

    @property
    def gain(self) -> float:
        """Comprehensiveness minus sufficiency."""
        return self.comprehensiveness - self.sufficiency

    @property
    def random_interval(self) -> tuple[float, float]:
        """The middle 95 % of the gains of random orders."""
        low, high = np.quantile(self.random.gain, [0.025, 0.975])
        return float(low), float(high)


def faithfulness(
    prediction: Prediction,
    target: Target,
    attribution: Attribution,
    *,
    absence: Absence | None = None,
    orders: int = RANDOM_ORDERS,
    twins: Sequence[Model] = (),
    seed: int = 0,
    **options: Any,
) -> Faithfulness:
    """The faithfulness of a map, against random orders and attention.

    Args:
        prediction: What the map explains.
        target: The number that it explains.
        attribution: The map.
        absence: What stands for an absent unit: a baseline, or `removed` (default: the map's own).
        orders: Number of random orders.
        twins: Models with random weights for the weight-randomisation check, such as
            `model.reinitialised(0)` (default: no check).
        seed: Seed of the random orders.
        **options: How the map was made (`by`, `segments`, `max_steps`), to repeat it.
    """
    (found,) = faithfulness_of_each(
        prediction, target, [attribution], absence=absence, orders=orders, seed=seed, **options
    )
    if found.n_units < FEWEST:
        return found
    return replace(found, randomised=randomisation(attribution, twins, **options))


def faithfulness_of_each(
    prediction: Prediction,
    target: Target,
    maps: Sequence[Attribution],
    *,
    absence: Absence | None = None,
    orders: int = RANDOM_ORDERS,
    seed: int = 0,
    **options: Any,
) -> tuple[Faithfulness, ...]:
    """The faithfulness of several maps of one prediction, against the same random orders."""
    units, free = maps[0].units, free_units(maps[0].units)
    if len(free) < FEWEST:
        return tuple(_too_few(each, len(free), options.get("by", "word")) for each in maps)
    random = random_orders(len(free), orders, seed)
    rows = [order_of(each.scores[free]) for each in maps]
    attended = attention_scores(maps[0], **options)
    if attended is not None:
        rows.append(order_of(attended[free]))
    erased = erasure(
        prediction, target, units, np.concatenate([np.stack(rows), random]),
        absence or maps[0].absence,
    )  # fmt: skip
    null = erased.take(slice(len(rows), None))
    change = float(np.abs([erased.comprehensiveness, erased.sufficiency]).max())
    found = []
    for row, each in enumerate(maps):
        own = erased.take(slice(row, row + 1))
        is_attention = each.method == ATTENTION
        attention = None
        if attended is not None and not is_attention:
            attention = erased.take(slice(len(maps), len(maps) + 1))
        p = float((1 + (null.gain >= own.gain - 1e-12).sum()) / (1 + orders))
        better = float((1 + (null.gain > own.gain + 1e-12).sum()) / (1 + orders))
        verdict, reason = _verdict(p, better, float(own.gain[0]), change, len(free), orders)
        found.append(
            Faithfulness(
                each.method,
                len(free),
                float(own.comprehensiveness[0]),
                float(own.sufficiency[0]),
                null,
                p,
                verdict,
                reason,
                attention,
            )
        )
    return tuple(found)


def _too_few(attribution: Attribution, n_units: int, by: str) -> Faithfulness:
    nothing = Erasure(np.full(0, np.nan), np.full(0, np.nan))
    reason = (
        f"The prediction reads {n_units} {by}{'' if n_units == 1 else 's'} that can be replaced. "
        f"Fewer than {FEWEST} cannot be checked."
    )
    return Faithfulness(
        attribution.method, n_units, math.nan, math.nan, nothing, math.nan, "undecided", reason
    )


def _verdict(
    p: float, better: float, gain: float, change: float, n_units: int, orders: int
) -> tuple[Verdict, str]:
    """`better` is the share of random orders with a higher gain, `p` also counts equal ones.

    `change` is the largest change of the prediction without, or with only, the top units of an
    order.
    """
    smallest = max(1 / (orders + 1), 1 / distinct_orders(n_units))
    if smallest >= SIGNIFICANT:
        return "undecided", (
            f"With {n_units} units and {orders} random orders, no map can be better than 95 % of "
            "them."
        )
    if change < SMALLEST and better < SIGNIFICANT:
        return "no", (
            "The prediction hardly depends on the units (words, pieces or segments): no set of "
            f"them changes the explained value by {SMALLEST} or more."
        )
    if gain < SMALLEST and p < SIGNIFICANT:
        return "no", (
            "The map is better than random orders, but by next to nothing: what is lost without "
            "its top units is lost with only them, too."
        )
    if p >= SIGNIFICANT > better:
        return "undecided", (
            f"No random order is better, but {100 * p:.0f} % are as good: the prediction depends "
            "on very few units, or on all of them alike."
        )
    if p >= SIGNIFICANT:
        return "no", ""
    return "yes", ""


def distinct_orders(n_units: int) -> int:
    """Number of orders of the units that differ in which units are the top ones."""
    number, before = 1, 0
    for size in sorted(set(top_sizes(n_units))):
        number *= math.comb(n_units - before, size - before)
        before = size
    return number


# --- erasure --------------------------------------------------------------------------------------


def top_sizes(n_units: int) -> list[int]:
    """Number of top units for each share; at least one."""
    return [max(1, math.ceil(share * n_units - 1e-9)) for share in SHARES]


def order_of(scores: Floats) -> Ints:
    """Units by score, the highest first; ties in a random order.  # [units] -> [units]"""
    ties = np.random.default_rng(len(scores)).permutation(len(scores))
    return np.lexsort((ties, -scores))


def random_orders(n_units: int, number: int, seed: int) -> Ints:
    """Random orders of the units.  # -> [number, units]"""
    return np.random.default_rng([seed, n_units]).random((number, n_units)).argsort(1)


def erasure(
    prediction: Prediction,
    target: Target,
    units: Sequence[Unit],
    orders: Ints,
    absence: Absence | None = None,
) -> Erasure:
    """Comprehensiveness and sufficiency of orders of the units that can be replaced.

    Each set of units is computed once.  # orders: [orders, free units]
    """
    n_orders, n_units = orders.shape
    sizes = top_sizes(n_units)
    rank = orders.argsort(1)  # [orders, units], the rank of each unit
    is_top = rank[:, None, :] < np.array(sizes)[:, None]  # [orders, shares, units]
    kept = np.concatenate([np.ones((1, n_units), bool), *~is_top, *is_top])
    distinct, index = np.unique(kept, axis=0, return_inverse=True)  # [sets, units]
    values = values_without(
        prediction, units, distinct, lambda logits: confidence(prediction, target, logits), absence
    )[index.reshape(-1)]
    lost = values[0] - values[1:].reshape(2, n_orders, len(sizes))
    without, only = lost.mean(2)
    return Erasure(without, only)


def confidence(prediction: Prediction, target: Target, logits: Tensor) -> Tensor:
    """The probability of the choice; of two choices, if it is explained against another one.

    A score of a regression has no probability: it is the score.  # [batch, choices] -> [batch]
    """
    if prediction.kind == "score":
        return logits[:, target.choice]
    if target.against is not None:
        return (logits[:, target.choice] - logits[:, target.against]).sigmoid()
    return logits.softmax(-1)[:, target.choice]


# --- other maps of the same prediction ------------------------------------------------------------


def attention_scores(attribution: Attribution, **options: Any) -> Floats | None:
    """The mean attention of the last layer to each unit; None without attention.  # [units]"""
    prediction = attribution.prediction
    if not prediction.model.sites:
        return None
    try:
        return attribute_again(attribution, prediction, method=ATTENTION, **options).scores
    except WorkbenchError as error:
        if error.code not in UNFIT:
            raise
        return None


def attribute_again(
    attribution: Attribution, prediction: Prediction, method: str = "", **options: Any
) -> Attribution:
    """The map of a prediction, made as another map was: the same target, units and baseline."""
    again = attribute_prediction(
        prediction,
        attribution.target,
        method or attribution.method,  # type: ignore[arg-type]
        **{"baseline": attribution.baseline, **options},
    )
    if [unit.pieces for unit in again.units] != [unit.pieces for unit in attribution.units]:
        raise WorkbenchError(
            "the map has other units than the map to compare it with.",
            code="setting-invalid",
            where="faithfulness",
            remedy="Pass `by` and `segments` as they were given to attribute_prediction.",
        )
    return again


def randomisation(
    attribution: Attribution, twins: Sequence[Model], **options: Any
) -> Randomised | None:
    """The weight-randomisation check of a map; None without models of random weights."""
    if not twins or attribution.method == CONTROL:
        return None
    found = [
        attribute_again(attribution, replace(attribution.prediction, model=twin), **options).scores
        for twin in twins
    ]
    free = free_units(attribution.units)
    correlation = np.mean(
        [
            rank_correlation(np.abs(attribution.scores[free]), np.abs(scores[free]))
            for scores in found
        ]
    )
    return Randomised(float(correlation), chance_correlation(len(free), len(twins)), len(twins))


def chance_correlation(n_units: int | Sequence[int], seeds: int) -> float:
    """The 95 % quantile of the mean rank correlation of maps with random maps.

    The mean is over seeds, and over texts with these numbers of units.
    """
    numbers = [n_units] if isinstance(n_units, int) else list(n_units)
    means = np.zeros(CHANCE_DRAWS)
    for index, number in enumerate(numbers):
        random = np.random.default_rng([number, seeds, index])
        ranks = random.random((CHANCE_DRAWS, seeds, number)).argsort(2)
        fixed = np.arange(number) - (number - 1) / 2
        means += ((ranks @ fixed) / (fixed @ fixed)).mean(1)
    return float(np.quantile(means / len(numbers), 0.95))


def verdict_of_correlation(correlation: float, chance: float) -> Check:
    """`destroyed` if a correlation with random weights is chance, `kept` from 0.5.

    It is `undecided` with so few units that chance alone reaches 0.5.
    """
    if correlation <= chance:
        return "destroyed" if chance < KEPT else "undecided"
    return "kept" if correlation >= KEPT else "partly kept"
