"""Findings: a sentence without its number is refused; runs are compared measure by measure."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from workbench import Finding, WorkbenchError
from workbench.core.findings import (
    changes,
    check_findings,
    decimal,
    judged,
    listing,
    of_all,
    p_text,
    percent,
    plural,
    score,
    signed,
    span,
    summary,
    verb_of,
    whole,
)


def finding(value: float = 0.8, half: float | None = 0.05, **given: Any) -> Finding:
    interval = None if half is None else (value - half, value + half)
    options = {"measure": "accuracy", "unit": "%", "verdict": "supported", "keys": {}, **given}
    verdict, keys = options.pop("verdict"), options.pop("keys")
    claim = f"The accuracy is {percent(value)}."
    return Finding(claim, value, interval, 0.5, verdict, "scores", keys, **options)


# --- numbers in sentences -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (percent(0.814), "81 %"),
        (percent(0.0031), "0.3 %"),
        (percent(-0.5), "−50 %"),
        (score(0.9362), "93.6"),
        (decimal(1234.5), "1,234"),
        (decimal(0.012345), "0.0123"),
        (decimal(-0.0), "0"),
        (decimal(3.2e-7), "3.2e−07"),
        (whole(12345), "12,345"),
        (signed(score(0.003)), "+0.3"),
        (signed(score(-0.011)), "−1.1"),
        (signed(score(0.0)), "0.0"),
        (p_text(0.0004), "p < 0.001"),
        (p_text(0.03), "p = 0.03"),
        (p_text(0.0499), "p < 0.05"),
        (p_text(0.051), "p = 0.051"),
        (span(-0.011, 0.018, "F1"), "−1.1 to 1.8"),
        (plural(1, "head"), "1 head"),
        (plural(2, "phenomenon", "phenomena"), "2 phenomena"),
        (of_all(3, 16, "head"), "3 of 16 heads"),
        (of_all(2, 2, "task"), "both tasks"),
        (of_all(7, 7, "phenomenon", "phenomena"), "all 7 phenomena"),
        (of_all(0, 4, "head"), "none of 4 heads"),
        (of_all(0, 2, "head"), "neither of the 2 heads"),
        (of_all(1, 1, "curve"), "the only curve"),
        (of_all(0, 1, "word"), "no word"),
        (" ".join(verb_of(n, "has", "have") for n in (0, 1, 2)), "has has have"),
        (listing("abc"), "a, b and c"),
        (listing("abcde"), "a, b, c and 2 more"),
    ],
)
def test_numbers_are_written_as_in_a_paper(written: str, text: str) -> None:
    assert written == text


@pytest.mark.parametrize("write", [percent, score, decimal, whole, p_text])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, pd.NA, np.float64("nan"), ""])
def test_a_missing_number_is_an_error(write: Any, value: object) -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        write(value)


# --- one finding ----------------------------------------------------------------------------------


def test_a_finding_has_plain_numbers_that_json_can_hold() -> None:
    row = pd.DataFrame({"layer": [2], "score": [0.81], "sure": [True]}).iloc[0]
    made = finding(row["score"], keys={"layer": np.int64(2), "sure": row["sure"]})
    assert made.as_data()["keys"] == {"layer": 2, "sure": True}
    assert type(made.as_data()["keys"]["layer"]) is int and type(made.value) is float
    assert made.key_number == "81.0 % (95 % interval 76.0 to 86.0)"


@pytest.mark.parametrize(
    ("wrong", "noun"),
    [
        ({"verdict": "probably"}, "verdict"),
        ({"verdict": "undecided"}, "decide"),
        ({"measure": ""}, "measure"),
        ({"unit": "parsecs"}, "unit"),
        ({"half": -0.1}, "interval"),
    ],
)
def test_an_invalid_finding_is_an_error(wrong: dict[str, Any], noun: str) -> None:
    with pytest.raises(WorkbenchError, match=noun):
        finding(**wrong)


@pytest.mark.parametrize("claim", ["", ".", "It is nan %.", "Value is inf.", "No end"])
def test_a_claim_without_its_words_or_its_number_is_an_error(claim: str) -> None:
    with pytest.raises(WorkbenchError, match="sentence"):
        Finding(claim, None, None, None, "supported", "scores", measure="accuracy")


def test_a_fact_without_a_null_has_no_badge() -> None:
    fact = Finding(
        "2 of 3 trainings were cut off.", 2, None, None, "not supported", "scores", measure="n"
    )
    assert fact.badge == "" and finding(verdict="not supported").badge == "not supported"
    assert finding(verdict="undecided", decided_by="more seeds").badge == "undecided"


def test_only_a_supported_finding_has_a_number_apart_from_its_claim() -> None:
    """A number in large type beside "not supported" is read as the result."""
    sure = finding(n="500 pairs")
    assert (sure.number, sure.spread) == ("80.0 %", "95 % interval 75.0 to 85.0; n = 500 pairs")
    assert sure.key_number == "80.0 % (95 % interval 75.0 to 85.0; n = 500 pairs)"
    assert finding(half=None).key_number == "80.0 %"
    for unsure in ("not supported", "undecided"):
        made = finding(verdict=unsure, decided_by="more pairs", n="500 pairs")
        assert made.key_number == made.number == ""


def test_what_would_decide_is_kept_of_undecided_claims_only() -> None:
    assert judged(True, enough=False) == "undecided"
    assert finding(verdict=judged(True), decided_by="more seeds").decided_by == ""
    assert finding(verdict="undecided", decided_by="more seeds").decided_by == "more seeds"


def test_findings_that_do_not_fit_the_tables_are_an_error() -> None:
    tables = {"scores": pd.DataFrame()}
    assert len(check_findings([finding()], tables)) == 1
    with pytest.raises(WorkbenchError, match="table"):
        check_findings([finding()], {})
    with pytest.raises(WorkbenchError, match="measure"):
        check_findings([finding(), finding()], tables)


# --- several runs ---------------------------------------------------------------------------------


def test_a_difference_has_the_interval_of_two_independent_numbers() -> None:
    (change,) = changes({"A": [finding(0.8, 0.03)], "B": [finding(0.9, 0.04)]})
    assert change.value == pytest.approx(0.1)
    assert change.interval == pytest.approx((0.05, 0.15))  # half widths 0.03 and 0.04: 0.05
    assert change.verdict == "supported"
    assert "80.0 % in A, 90.0 % in B (+10.0, 95 % 5.0 to 15.0)" in change.claim
    assert change.unit == "points"  # 10 % would be read as a share of 80 %


def test_differences_within_their_intervals_are_not_supported() -> None:
    (change,) = changes({"A": [finding(0.8, 0.1)], "B": [finding(0.85, 0.1)]})
    assert change.verdict == "not supported"


@pytest.mark.parametrize("open_first", [True, False])
@pytest.mark.parametrize(("other", "verdict"), [(0.85, "undecided"), (0.5, "supported")])
def test_a_difference_is_undecided_where_too_little_data_decide_one_of_its_numbers(
    other: float, verdict: str, open_first: bool
) -> None:
    runs = [finding(0.8, 0.1, verdict="undecided", decided_by="more pairs"), finding(other, 0.1)]
    first, second = runs if open_first else runs[::-1]
    (change,) = changes({"A": [first], "B": [second]})
    assert change.verdict == verdict
    assert change.decided_by == ("more pairs" if verdict == "undecided" else "")


def test_differences_without_intervals_are_undecided_and_come_last() -> None:
    loss = {"measure": "loss", "unit": "nats", "half": None}
    first = [finding(2.0, **loss), finding(0.8, 0.01)]
    second = [finding(1.5, **loss), finding(0.9, 0.01), finding(1, measure="of B only")]
    better, other = changes({"A": first, "B": second})
    assert (better.measure, better.verdict) == ("accuracy", "supported")
    assert (other.measure, other.verdict) == ("loss", "undecided") and "seeds" in other.decided_by


def test_a_difference_of_facts_needs_no_test() -> None:
    words = [
        Finding("200 words.", n, None, None, "supported", "sizes", measure="words")
        for n in (200, 300, 300)
    ]
    more, same = (
        changes({"A": words[:1], "B": words[1:2]}),
        changes({"A": words[1:2], "B": words[2:]}),
    )
    assert more[0].verdict == "supported" and "200 in A, 300 in B (+100)" in more[0].claim
    assert same[0].verdict == "not supported" and "no difference" in same[0].claim
    assert "supported in" not in summary({"": [words[:1], words[1:2]]})[0].claim
    length = [
        Finding(f"{n} words.", n, None, None, "supported", "sizes", measure="mean length")
        for n in (8.5, 9.0)
    ]
    (longer,) = changes({"A": length[:1], "B": length[1:]})
    assert longer.verdict == "undecided" and "no intervals" in longer.decided_by


def test_the_best_rows_of_two_runs_are_named_and_not_tested_against_each_other() -> None:
    first, second = finding(keys={"layer": 2}), finding(0.5, keys={"layer": 3})
    (change,) = changes({"A": [first], "B": [second]})
    assert change.verdict == "undecided" and "B at layer 2, as in A" in change.decided_by
    assert "layer 2 in A, layer 3 in B" in change.claim
    heads = [
        finding(value, keys={"stack": stack, "kind": kind, "layer": 0, "head": 3})
        for value, stack, kind in [(0.8, "encoder", "self"), (0.5, "decoder", "cross")]
    ]
    (change,) = changes({"A": heads[:1], "B": heads[1:]})
    assert "encoder head 1.4 in A, decoder cross-attention head 1.4 in B" in change.claim


def test_a_sweep_over_seeds_says_its_mean_and_spread() -> None:
    (same,) = summary({"": [[finding(0.8)], [finding(0.9)]]})
    assert same.value == pytest.approx(0.85) and same.verdict == "supported"
    assert "85.0 % (80.0 to 90.0 in 2 runs); supported in every run." in same.claim
    (mixed,) = summary({"": [[finding(0.8)], [finding(0.5, verdict="not supported")]]})
    assert mixed.verdict == "undecided" and "differ" in mixed.decided_by
    assert "supported in 1 of 2 runs." in mixed.claim


def test_a_sweep_over_models_says_the_number_of_each() -> None:
    bert, gpt = [[finding(0.8)], [finding(0.9)]], [[finding(0.6)], [finding(0.62)]]
    (both,) = summary({"mini:bert": bert, "mini:gpt": gpt})
    numbers = "mini:bert 85.0 % (80.0 to 90.0) and mini:gpt 61.0 % (60.0 to 62.0); 2 runs each"
    assert numbers in both.claim and "supported in every run" in both.claim
    (equal,) = summary({"layer 1": bert, "layer 2": [bert[0]] * 2})
    assert "layer 1: 85.0 % (80.0 to 90.0) and layer 2: 80.0 % (the same); 2 runs" in equal.claim
    assert both.value is None, "the mean of two models is the number of none"
    (alone,) = summary({"a": [[finding(0.8, 0.1)]], "b": [[finding(0.7, 0.1)]]})
    assert "a 80.0 % (70.0 to 90.0) and b 70.0 % (60.0 to 80.0)" in alone.claim
    (some,) = summary({"a": bert, "b": [[finding(0.5, verdict="not supported")] for _ in bert]})
    assert "supported in every run of a and no run of b." in some.claim
