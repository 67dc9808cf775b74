"""What a smaller model has lost: groups of items whose scores fell further than the others'.

Items of one group and one text (or one exchange of words) are a unit; groups are permuted over
units. The statistic is studentised, so that a group that varies more than the others is not found
for that alone. Costs: a product of permutations by units by groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.core.arrays import Floats
from workbench.core.stats import holm

PERMUTATIONS = 1999
AT_ONCE = 100  # permutations in memory
FEWEST = 8  # units of a group, and of all others together


@dataclass(frozen=True)
class Items:
    """The scores of a model on items of one kind; more is better."""

    kind: str
    groups: NDArray[np.object_]  # [items], names
    units: NDArray[np.object_]  # [items], items of a unit are not independent
    scores: Floats  # [items]


def lost(original: Sequence[Items], smaller: Sequence[Items], seed: int) -> list[dict[str, Any]]:
    """One row per group of every kind that both models were scored on; p corrected over all."""
    rows: list[dict[str, Any]] = []
    before = {each.kind: each for each in original}
    for each in smaller:
        whole = before[each.kind]
        falls = whole.scores - each.scores
        pairs = np.array([f"{g}\0{u}" for g, u in zip(each.groups, each.units, strict=True)])
        distinct, first, unit = np.unique(pairs, return_index=True, return_inverse=True)
        means = np.bincount(unit, falls) / np.bincount(unit)  # [units]
        names, of = np.unique(each.groups[first].astype(str), return_inverse=True)
        member = of[:, None] == np.arange(len(names))  # [units, groups]
        counts = member.sum(0)
        tested = (counts >= FEWEST) & (len(distinct) - counts >= FEWEST)
        if not tested.any():
            continue
        difference, error = _against_rest(means[None], member)
        p = _p_values(means, member, difference, error, seed)
        for group in np.flatnonzero(tested):
            inside = member[:, group]
            gap, half = float(difference[0, group]), 1.96 * float(error[0, group])
            rows.append(
                {
                    "kind": each.kind, "group": str(names[group]), "n": int(counts[group]),
                    "fall": float(means[inside].mean()), "rest": float(means[~inside].mean()),
                    "difference": gap, "lower": gap - half, "upper": gap + half,
                    "p": float(p[group]),
                }
            )  # fmt: skip
    for row, p_value in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p"] = float(p_value)
    return rows


def _against_rest(values: Floats, member: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Mean of each group minus that of the rest, and its standard error (Welch).

    # [draws, units], [units, groups] -> [draws, groups] twice
    """
    inside = member.astype(np.float64)
    n = inside.sum(0)
    rest = len(member) - n
    sums, squares = values @ inside, np.square(values) @ inside
    all_sums, all_squares = values.sum(1)[:, None], np.square(values).sum(1)[:, None]
    n, rest = np.maximum(n, 1), np.maximum(rest, 1)
    mean, other = sums / n, (all_sums - sums) / rest
    spread = np.maximum(squares / n - mean**2, 0) / np.maximum(n - 1, 1)
    spread += np.maximum((all_squares - squares) / rest - other**2, 0) / np.maximum(rest - 1, 1)
    return mean - other, np.sqrt(spread)


def _p_values(
    means: Floats, member: NDArray[np.bool_], difference: Floats, error: Floats, seed: int
) -> Floats:
    """One-sided p-values: that a group fell further than the rest.  # [groups]"""
    scale = max(float(np.abs(means).max()), 1e-12)

    def studentised(difference: Floats, error: Floats) -> Floats:
        return difference / np.maximum(error, 1e-9 * scale)

    observed = studentised(difference, error)[0] * (1 - 1e-9)
    random = np.random.default_rng([seed, *member.shape])
    as_far = np.zeros(member.shape[1])
    for begin in range(0, PERMUTATIONS, AT_ONCE):
        size = min(AT_ONCE, PERMUTATIONS - begin)
        shuffled = random.permuted(np.tile(means, (size, 1)), axis=1)
        as_far += (studentised(*_against_rest(shuffled, member)) >= observed).sum(0)
    return (as_far + 1) / (PERMUTATIONS + 1)
