"""`text-length`: bytes alive, powers of growth, what windows lose, and a run that goes on."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import workbench as wb
from tests.analyses.architectures.stopped import StoppedError, Stops, run_of
from workbench import experiments
from workbench.analyses.architectures.figures import TEXT_LENGTH_FIGURES
from workbench.analyses.architectures.findings import text_length
from workbench.analyses.architectures.lengths import Alive, growth

SMALL: dict[str, Any] = {
    "steps": 3, "n_layers": 1, "width": 16, "n_heads": 2, "lengths": (64, 128), "window": 4,
    "trained_lengths": (16, 32), "pieces_per_step": 64, "vocabulary_size": 300, "seeds": (0, 1),
}  # fmt: skip


def test_bytes_are_counted_while_tensors_live() -> None:
    """Against a count by hand: 4 bytes a number, views and known tensors nothing."""
    weight = torch.ones(1_000)
    alive = Alive([weight])
    with alive:
        one = weight * 2  # 4,000
        two = one.view(10, 100) + 1  # 8,000
        assert alive.bytes == 8_000
        del one
        assert alive.bytes == 4_000
        for _ in range(3):
            three = two + 1  # 8,000, while the one before still lives 12,000
        del two
    assert (alive.bytes, alive.peak) == (4_000, 12_000)
    del three
    assert alive.bytes == 0


def test_what_a_backward_pass_needs_stays_alive() -> None:
    weight = torch.ones(1_000, requires_grad=True)
    alive = Alive([weight])
    with alive:
        kept = weight.exp().exp()  # both results are needed, 8,000
        assert alive.bytes == 8_000
        kept.sum().backward()
        del kept
    assert alive.bytes == 4_000, "the gradient"


def costs(power: float, of_time: float) -> pd.DataFrame:
    rows = []
    for attention, grows in (("windows", power), ("full", 2.0), ("fused", 1.0)):
        for length in (100, 200, 800):
            memory = (length / 100) ** grows
            numbers = {"memory": memory, "seconds": length**of_time, "operations": 3.0 * length}
            rows.append({"attention": attention, "length": length, **numbers})
    return pd.DataFrame(rows)


def test_growth_is_the_power_of_the_length() -> None:
    found = growth(costs(1.0, 1.5)).set_index(["attention", "length"])
    assert found["memory"]["windows", 800] == pytest.approx(1)
    assert found["memory"]["full", 200] == pytest.approx(2)
    assert found["seconds"].tolist() == pytest.approx([1.5] * 6)
    assert found["operations"].tolist() == pytest.approx([1] * 6)


def tables(power: float, delta: float, loss: float) -> dict[str, pd.DataFrame]:
    row = {
        "length": 64, "attention": "windows", "loss": loss, "lower": loss - 0.1,
        "upper": loss + 0.1, "delta": delta, "delta_lower": delta - 0.05,
        "delta_upper": delta + 0.05, "unigram": 5.0,
    }  # fmt: skip
    measured = costs(power, 1.0)
    cells = pd.DataFrame({"seed": [0, 1, 2]})
    return {
        "costs": measured, "growth": growth(measured), "table": pd.DataFrame([row]), "cells": cells
    }  # fmt: skip


@pytest.mark.parametrize(
    ("power", "delta", "loss", "verdicts", "said"),
    [
        (1.0, 0.2, 4.0, ["supported", "not supported", "supported"], "loses 0.200"),
        (1.9, -0.2, 4.0, ["not supported", "not supported", "supported"], "gains 0.200"),
        (1.0, 0.01, 4.0, ["supported", "not supported", "not supported"], "loses 0.010"),
        (1.0, 0.2, 5.0, ["supported", "not supported", "not supported"], "than frequencies"),
    ],
)
def test_findings_say_what_holds(
    power: float, delta: float, loss: float, verdicts: list[str], said: str
) -> None:
    """Memory in proportion where its power is near 1; time equal in all kinds is no gain."""
    found = list(text_length(tables(power, delta, loss)))
    assert [each.verdict for each in found] == verdicts
    assert said in found[-1].claim
    assert ("in proportion" in found[0].claim) == (power < 1.2)


# --- the experiment -------------------------------------------------------------------------------


run = partial(run_of, "text-length", SMALL)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield run().tables


@pytest.mark.slow  # by day that of `recurrence`, which goes on by the same function
def test_a_stopped_run_goes_on_to_the_same_numbers(
    found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    with pytest.raises(StoppedError):
        run(tmp_path / "scratch", Stops())
    assert len(list((tmp_path / "scratch").glob("*-*-*.json"))) == 4
    again = run(tmp_path / "scratch").tables
    pd.testing.assert_frame_equal(again["table"], found["table"])
    same = ["attention", "length", "memory", "operations"]
    pd.testing.assert_frame_equal(again["costs"][same], found["costs"][same])


def test_tables_findings_and_figures(found: Any) -> None:
    cells = found["cells"].set_index(["length", "attention", "seed"])["loss"]
    of = found["table"].set_index(["length", "attention"])
    for length in (16, 32):
        difference = np.mean(
            [cells[length, "windows", s] - cells[length, "full", s] for s in (0, 1)]
        )
        assert of["delta"][length, "windows"] == pytest.approx(difference)
        assert np.isnan(of["delta"][length, "full"])
    assert len(list(experiments()["text-length"].findings(found))) == 4
    for draw in TEXT_LENGTH_FIGURES.values():
        assert draw(found).data


def test_memory_of_windows_is_linear_and_of_stored_maps_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The maps of full attention: heads x length x length, in two or more tensors."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    found = run(lengths=(256, 512, 1_024), steps=1, seeds=(0,), trained_lengths=(16,))
    power = found.tables["growth"].set_index(["attention", "length"])["memory"]
    assert power["windows", 1_024] == pytest.approx(1, abs=0.1)
    assert power["full", 1_024] > 1.6
    costs_ = found.tables["costs"].set_index(["attention", "length"])
    at, operations = costs_["memory"], costs_["operations"]
    assert operations["fused", 1_024] == operations["full", 1_024] > operations["windows", 1_024]
    assert at["full", 1_024] - at["fused", 1_024] > 2 * (2 * 1_024**2 * 4) / 1e6


def test_settings_that_do_not_fit_together_are_refused() -> None:
    kind = experiments()["text-length"]
    with pytest.raises(wb.WorkbenchError, match="longest trained length"):
        kind.settings(trained_lengths=(64,), pieces_per_step=32)
    with pytest.raises(wb.WorkbenchError, match="8 pieces"):
        kind.settings(lengths=(4, 64))
