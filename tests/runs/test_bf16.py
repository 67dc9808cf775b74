"""Every experiment with a model in bf16, as by default on a GPU: close to float32, and finite."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.engine.test_waits import CORPORA, EXPERIMENTS, LISTED

# the numbers that an experiment is asked for, and how far bf16 may be off on average
ANSWERS: dict[str, tuple[str, str, float]] = {
    "attention-averages": ("heads", "words", 2e-3),
    "attention-probe": ("means", "value", 0.05),
    "description-length": ("summary", "compression", 0.03),
    "edge-probing": ("means", "mean", 0.05),
    "finetune": ("scores", "value", 0.05),
    "head-ablation": ("ablation", "delta", 4e-3),
    "head-importance": ("importance", "importance", 2e-3),
    "head-pruning": ("curve", "value", 0.02),
    "heads": ("heads", "confidence", 2e-3),
    "minimal-pairs": ("pairs", "gap", 0.1),
    "profile": ("losses", "value", 0.01),
    "similarity": ("similarity", "cka", 2e-3),
    "structural-probe": ("means", "value", 0.05),
}
CHANCE = {"p_value", "control_p"}  # of so few sentences hardly the same twice


@pytest.mark.parametrize("name", LISTED)
def test_an_experiment_in_bf16_says_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    corpus: Any = wb.read(CORPORA.get(name, "primer:size=40"))
    exact, half = (
        wb.run(name, model=wb.load("mini:bert", "cpu", precision), corpus=corpus,
               **EXPERIMENTS[name]).tables
        for precision in ("fp32", "bf16")
    )  # fmt: skip
    table, column, bound = ANSWERS[name]
    assert np.abs(exact[table][column] - half[table][column]).mean() <= bound
    assert set(exact) == set(half)
    for each in exact:
        one, other = exact[each], half[each]
        assert list(one.columns) == list(other.columns), each
        for number in one.columns.difference([*CHANCE]) if len(one) == len(other) else ():
            if one[number].dtype.kind == "f":
                missing = one[number].isna().to_numpy(), other[number].isna().to_numpy()
                assert (missing[0] == missing[1]).all(), f"{each}.{number}"
