"""Compare two runs of edge probing: the best layer of each, on the same sentences.

The bootstrap resamples the same sentences for both runs, so the test is paired. If the runs have
different numbers of seeds, the seeds that both have are compared. The best layer of each run is
chosen on the sentences that it is scored on, so both scores are biased upwards. Costs: a second for
ten tasks of 1,000 sentences.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analyses.probes.representations import MODEL
from workbench.core.errors import WorkbenchError
from workbench.core.stats import difference, f1, resampled

GROUP = ["task", "probe", "mode", "metric"]
COLUMNS = (
    "task probe mode metric first second difference lower upper p_value first_layer second_layer"
).split()
_SEED = 0  # of the bootstrap


class _Best(NamedTuple):
    layer: int
    targets: int
    by_seed: dict[int, NDArray[np.generic]]  # seed -> [sentences, 3]


def between(
    first_scores: pd.DataFrame,
    first_counts: NDArray[np.generic],
    first_sentences: NDArray[np.generic],
    second_scores: pd.DataFrame,
    second_counts: NDArray[np.generic],
    second_sentences: NDArray[np.generic],
) -> pd.DataFrame:
    """Best score of the second run minus that of the first, for each common task, probe and mode.

    `scores` are the tables of the runs; `counts` [rows of scores, sentences, 3] and `sentences`
    [sentences] are their arrays. Interval and p-value are empty if the targets differ.
    """
    rows, others = _same(first_sentences, second_sentences)
    first = _best(first_scores, first_counts[:, rows])
    second = _best(second_scores, second_counts[:, others])
    data = [(*key, *_compared(first[key], second[key])) for key in first if key in second]
    if not data:
        raise WorkbenchError(
            "the two runs have no task, probe and mode in common.",
            code="no-common-task",
            remedy="Run both with the same tasks, probes and modes.",
        )
    return pd.DataFrame(data, columns=COLUMNS)


def _same(
    first: NDArray[np.generic], second: NDArray[np.generic]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the same sentences in both runs, in the same order."""
    if np.array_equal(first, second):
        indices = np.arange(len(first))
        return indices, indices
    orders = np.argsort(first, kind="stable"), np.argsort(second, kind="stable")
    if np.array_equal(first[orders[0]], second[orders[1]]):
        return orders
    n_common = len(np.intersect1d(first, second))
    raise WorkbenchError(
        f"the two runs did not score the same sentences: {len(first):,} and {len(second):,}, of "
        f"which {n_common:,} are in both.",
        code="different-sentences",
        remedy="Run both on the same corpus and split, with the same max_sentences and seed.",
    )


def _best(scores: pd.DataFrame, counts: NDArray[np.generic]) -> dict[tuple[object, ...], _Best]:
    """The best layer of the model, for each task, probe and mode."""
    table = scores.reset_index(drop=True)
    if len(table) != len(counts):
        raise WorkbenchError(
            f"the table of scores has {len(table):,} rows, but its counts have {len(counts):,}.",
            code="run-damaged",
            remedy="Start the same run again.",
        )
    true = table[
        (table["encoder"] == MODEL) & ~table["control"] & (table["share"] == table["share"].max())
    ]
    best_layers = {}
    for key, rows in true.groupby(GROUP, sort=False):
        means = rows.groupby(["stack", "layer"], sort=False)["value"].mean()
        stack, layer = means.idxmax()
        best = rows[(rows["stack"] == stack) & (rows["layer"] == layer)]
        by_seed = {int(row.seed): counts[row.Index] for row in best.itertuples()}
        best_layers[key] = _Best(int(layer), int(best["n"].iloc[0]), by_seed)
    return best_layers


def _compared(first: _Best, second: _Best) -> tuple[float | int, ...]:
    """Both scores, their difference with interval and p-value, and both layers."""
    seeds = sorted(first.by_seed.keys() & second.by_seed.keys())
    pairs = [(seed, seed) for seed in seeds] or list(
        zip(sorted(first.by_seed), sorted(second.by_seed), strict=False)
    )
    counts = np.stack(
        [
            np.stack([best.by_seed[pair[side]] for pair in pairs])
            for side, best in enumerate((first, second))
        ]
    )  # [2, seeds, sentences, 3]
    values = f1(counts.sum(axis=2).astype(np.float64)).mean(axis=1)  # [2]
    lower = upper = p = float("nan")
    if first.targets == second.targets and np.array_equal(counts[0, ..., 2], counts[1, ..., 2]):
        draws = resampled(counts, f1, _SEED)
        lower, upper, p = difference(*draws)
    first_value, second_value = float(values[0]), float(values[1])
    return (
        first_value,
        second_value,
        second_value - first_value,
        lower,
        upper,
        p,
        first.layer,
        second.layer,
    )
