"""Two runs beside each other: signs, pairs, and what cannot be compared."""

import numpy as np
import pandas as pd
import pytest

from workbench import WorkbenchError
from workbench.analyses.probes.compare_runs import COLUMNS, between

SENTENCES = np.arange(200, dtype=np.int64)


def scored(
    rates: dict[int, float], seeds: tuple[int, ...] = (0,), task: str = "pos", draw: int = 0
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A run whose layers get so much right, five targets a sentence."""
    random = np.random.default_rng(draw)
    hard = random.random((200, 5))  # a target is right where the rate is above
    rows, counts = [], []
    for layer, rate in rates.items():
        for seed in seeds:
            right = (hard < rate).sum(1)
            counts.append(np.stack([right, np.full(200, 5), np.full(200, 5)], axis=1))
            value = right.sum() / 1000
            rows.append((task, "edge", "model", "layer", "encoder", layer, 1.0, False, seed,
                         "test", "micro_f1", value, 1000))  # fmt: skip
    names = "task probe encoder mode stack layer share control seed split metric value n".split()
    return pd.DataFrame(rows, columns=names), np.stack(counts), SENTENCES


def test_a_run_does_not_differ_from_itself() -> None:
    run = scored({0: 0.5, 1: 0.8, 2: 0.7}, seeds=(0, 1))
    table = between(*run, *run)
    assert list(table.columns) == COLUMNS
    (row,) = table.itertuples()
    assert row.difference == row.lower == row.upper == 0 and row.p_value == 1
    assert (row.first_layer, row.second_layer) == (1, 1)


def test_a_difference_is_the_second_less_the_first_and_its_interval_holds_it() -> None:
    (row,) = between(*scored({0: 0.5}), *scored({0: 0.6})).itertuples()
    assert row.difference == pytest.approx(row.second - row.first) and row.difference > 0
    assert row.lower < row.difference < row.upper
    assert row.p_value < 0.01
    (back,) = between(*scored({0: 0.6}), *scored({0: 0.5})).itertuples()
    assert back.difference == -row.difference


def test_pairs_see_what_separate_intervals_do_not() -> None:
    """Two points are significant in the paired test although each interval is wide."""
    (paired,) = between(*scored({0: 0.50}), *scored({0: 0.52})).itertuples()
    (apart,) = between(*scored({0: 0.50}), *scored({0: 0.52}, draw=1)).itertuples()
    assert paired.p_value < 0.01
    assert paired.upper - paired.lower < (apart.upper - apart.lower) / 2


def test_the_order_of_sentences_does_not_matter() -> None:
    first, (scores, counts, sentences) = scored({0: 0.5}), scored({0: 0.6})
    order = np.random.default_rng(3).permutation(len(sentences))
    shuffled = between(*first, scores, counts[:, order], sentences[order])
    pd.testing.assert_frame_equal(shuffled, between(*first, scores, counts, sentences))


def test_of_other_numbers_of_seeds_those_of_both_are_compared() -> None:
    (row,) = between(*scored({0: 0.5}, seeds=(0, 1, 2)), *scored({0: 0.6}, seeds=(1,))).itertuples()
    assert row.first == pytest.approx(0.5, abs=0.05) and row.p_value < 0.01


def test_other_sentences_are_refused_with_how_many_are_shared() -> None:
    scores, counts, sentences = scored({0: 0.5})
    with pytest.raises(WorkbenchError, match="different-sentences"):
        between(scores, counts, sentences, scores, counts, sentences + 150)


def test_runs_without_a_task_in_common_are_refused() -> None:
    with pytest.raises(WorkbenchError, match="no-common-task"):
        between(*scored({0: 0.5}), *scored({0: 0.5}, task="entities"))


def test_where_targets_differ_there_is_a_difference_and_no_p_value() -> None:
    scores, counts, sentences = scored({0: 0.6})
    fewer = counts.copy()
    fewer[:, 0, 2] -= 1
    (row,) = between(*scored({0: 0.5}), scores, fewer, sentences).itertuples()
    assert row.difference > 0 and np.isnan(row.p_value) and np.isnan(row.lower)
