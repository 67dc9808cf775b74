"""Two models on the same texts: a planted advantage is found where it is, and nowhere else."""

import numpy as np
import pandas as pd
import pytest

from tests.findings import OBJECTIVE, Tables
from workbench.analyses.slices import figures, which
from workbench.core.findings import Finding

N = 120
NAMES = ("one", "two")
CLASSES = pd.DataFrame({"objective": ["class"], "name": ["sentiment"]})
CAUSAL = pd.DataFrame({"objective": ["causal"], "name": ["next pieces"]})


def texts(loss: object, n: object = 10) -> pd.DataFrame:
    """Texts of 3 to 14 words, without trees."""
    words = 3 + np.arange(N) % 12
    return pd.DataFrame(
        {"index": range(N), "words": words, "depth": np.nan, "right": 0.0, "loss": loss, "n": n}
    )


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(2.0, 0.3, N)


def tables(frame: pd.DataFrame, objective: pd.DataFrame = OBJECTIVE) -> Tables:
    return {"texts": frame, "objective": objective}


def found(first: Tables, second: Tables) -> list[Finding]:
    return list(which.findings(which.paired(first, second), NAMES))


def test_an_advantage_on_long_texts_is_found_there_and_only_there() -> None:
    first = texts(noise(0))
    gain = np.where(first["words"] > 10, 0.8, 0.0)
    second = texts(noise(0) - gain + np.random.default_rng(2).normal(0, 0.05, N))
    whole, groups = found(tables(first), tables(second))
    assert whole.verdict == "supported" and "two is better on 120 texts" in whole.claim
    assert whole.value == pytest.approx(gain.mean(), abs=0.02)
    assert "two is better on long texts" in groups.claim
    assert "short texts and medium-length texts are undecided" in groups.claim
    turned = found(tables(second), tables(first))[0]
    assert "one is better" in turned.claim and "better by +" in turned.claim
    assert turned.value == pytest.approx(whole.value) and "one is better than two" in turned.measure


def test_equal_models_are_undecided() -> None:
    whole, groups = found(tables(texts(noise(0))), tables(texts(noise(1))))
    assert whole.verdict == groups.verdict == "undecided" and "undecided" in whole.claim
    assert whole.interval is not None and whole.interval[0] < 0 < whole.interval[1]


def test_classifiers_are_compared_by_the_texts_that_only_one_has_right() -> None:
    right = np.arange(N) % 2 == 0
    first = texts(1.0).assign(right=right.astype(float), label=np.where(right, "yes", "no"))
    second = first.assign(right=1.0)
    whole, groups, both = found(tables(first, CLASSES), tables(second, CLASSES))
    assert whole.value == 0.5 and whole.unit == "points"
    assert "texts of class no" in groups.claim.partition("undecided")[0]
    assert "Both are right on 50 %" in both.claim and "only two on 50 %" in both.claim


def test_losses_of_other_pieces_are_compared_only_from_left_to_right() -> None:
    """Twice the pieces at half the loss each are as many nats: undecided, by word."""
    first, second = texts(noise(0)), texts(noise(0) / 2, 20)
    assert "cannot be compared" in found(tables(first), tables(second))[0].claim
    by_word = which.paired(tables(first, CAUSAL), tables(second, CAUSAL))
    assert by_word.measure == "loss per word" and np.allclose(by_word.groups["gain"], 0)
    assert found(tables(first), tables(first, CAUSAL))[0].verdict == "undecided"


def test_the_figure_has_a_mark_for_each_group() -> None:
    pair = which.paired(tables(texts(noise(0))), tables(texts(noise(1))))
    drawn = figures.better(pair.groups, NAMES[0], NAMES[1], pair.measure)
    assert list(drawn.data[0].y) == list(pair.groups["group"])
    assert drawn.layout.xaxis.rangemode == "tozero", "its sides are named from zero"


def test_a_few_texts_decide_nothing() -> None:
    few = texts(noise(0)).head(which.FEWEST - 1)
    (whole,) = found(tables(few), tables(few))
    assert whole.verdict == "undecided" and whole.decided_by == "more texts"


def test_a_score_is_that_of_errors_where_long_texts_count_more() -> None:
    n = 1 + np.arange(N) % 30
    first, second = texts(noise(0), n), texts(noise(1), n)
    row = which.paired(tables(first), tables(second)).groups.iloc[0]
    assert row["first"] == pytest.approx((first["loss"] * n).sum() / n.sum())
    assert row["gain"] == pytest.approx(row["first"] - row["second"])
    assert row["lower"] < row["gain"] < row["upper"]
