"""Exponents, equal operations and findings of `scaling` on losses that follow a known law."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.findings import findings_of
from workbench.analyses.architectures.experiments import SCALING
from workbench.analyses.architectures.scaling import budgets, exponents

SIZES, PIECES = (1e4, 2e4, 4e4), (1e5, 2e5, 4e5, 8e5)


def cells(of_size: float, of_data: float, seeds: int = 3, noise: float = 0.0) -> pd.DataFrame:
    """Trainings whose bits per character are a product of two powers."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {
                "width": int(size), "steps": int(pieces), "seed": seed,
                "parameters": int(size), "pieces": int(pieces), "operations": 6 * size * pieces,
                "loss": 1.0,
                "bits_per_character": 9 * size**-of_size * pieces**-of_data
                * np.exp(noise * rng.normal()),
            }
            for size in SIZES for pieces in PIECES for seed in range(seeds)
        ]
    )  # fmt: skip


def tables(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    keys = ["width", "parameters", "steps", "pieces", "operations"]
    table = found.groupby(keys, as_index=False)["bits_per_character"].mean()
    table = table.assign(
        lower=table["bits_per_character"], upper=table["bits_per_character"], unigram=9.0
    )
    made = {"table": table, "cells": found, "exponents": pd.DataFrame([*exponents(found)])}
    at = pd.DataFrame([*budgets(found)])
    return made | ({"budgets": at} if len(at) else {})


def test_exponents_of_a_power_law_are_found() -> None:
    size, data = exponents(cells(0.08, 0.1))
    assert size["exponent"] == pytest.approx(0.08) and data["exponent"] == pytest.approx(0.1)
    assert size["largest_miss"] == pytest.approx(0, abs=1e-9)
    noisy = [*exponents(cells(0.08, 0.1, seeds=8, noise=0.02))]
    for row, true in zip(noisy, (0.08, 0.1), strict=True):
        assert row["lower"] < true < row["upper"] and row["lower"] > 0


def test_without_an_effect_no_exponent_is_supported() -> None:
    found = findings_of("scaling", tables(cells(0.0, 0.0, seeds=4, noise=0.02)))
    assert found["exponent of size"].verdict != "supported"
    assert found["exponent of data"].verdict != "supported"
    lawful = findings_of("scaling", tables(cells(0.08, 0.1, seeds=4, noise=0.001)))
    assert lawful["exponent of size"].verdict == "supported"
    assert "is 0.07" in lawful["exponent of size"].claim


def test_the_best_size_at_equal_operations_is_that_of_the_law() -> None:
    """With the larger exponent of size the largest wins, with that of data the smallest."""
    for of_size, of_data, best in ((0.2, 0.01, max), (0.01, 0.2, min)):
        rows = pd.DataFrame([*budgets(cells(of_size, of_data))])
        assert len(rows)
        for _, own in rows.groupby("operations"):
            assert set(own[own["best"]]["parameters"]) == {best(own["parameters"])}
        one = rows[rows["operations"] == rows["operations"].min()]
        for row in one.to_dict("records"):
            pieces = row["operations"] / 6 / row["parameters"]
            true = 9 * row["parameters"] ** -of_size * pieces**-of_data
            assert row["bits_per_character"] == pytest.approx(true, rel=0.01)


def test_a_best_size_at_the_end_of_those_tried_decides_nothing() -> None:
    law = findings_of("scaling", tables(cells(0.01, 0.2)))
    best = law["best number of weights for the largest budget"]
    assert best.verdict == "undecided" and "smallest of them" in best.claim
    found = tables(cells(0.08, 0.1))
    sizes, rows = (1e4, 2e4, 4e4, 8e4), []
    for operations, least in ((1e10, 2e4), (1e11, 4e4)):
        for size in sizes:
            bits = 2 + abs(np.log(size / least))
            row = {"operations": operations, "parameters": int(size), "best": size == least}
            rows.append({**row, "bits_per_character": bits})
    inside = findings_of("scaling", {**found, "budgets": pd.DataFrame(rows)})
    best = inside["best number of weights for the largest budget"]
    assert best.verdict == "supported" and "the best size grows: 20,000" in best.claim


def test_two_sizes_draw_no_line() -> None:
    few = cells(0.1, 0.1)
    few = few[few["parameters"] < max(SIZES)]
    assert [row["of"] for row in exponents(few)] == ["data"]
    assert not [*budgets(few)]


@pytest.mark.parametrize("bad", [{"widths": (64, 32)}, {"widths": (48,)}])
def test_amounts_rise_and_widths_have_whole_heads(bad: dict[str, Any]) -> None:
    with pytest.raises(wb.WorkbenchError, match=next(iter(bad))):
        SCALING.settings(**bad)


@pytest.mark.slow
def test_more_text_and_weights_lower_the_loss_of_primer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    run = wb.run(
        "scaling", corpus="primer:size=2000", widths=(16, 32, 64), data=(10, 40, 160), seeds=(0, 1)
    )
    table = run.tables["table"]
    assert (
        len(table) == 9 and (table["operations"] == 6 * table["parameters"] * table["pieces"]).all()
    )
    by_data = run.tables["exponents"].set_index("of").loc["data"]
    assert by_data["exponent"] > 0.05
    assert set(run.figures) >= {"size", "data"}
