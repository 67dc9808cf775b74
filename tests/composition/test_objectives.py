"""Each analysis finds the head of what it measures: of the task by default, else of the pieces.

The planted model has one head for its class and another one for its pieces, so an analysis that
measured the other objective would find the wrong head.
"""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import workbench as wb
from tests.composition import two_heads
from tests.composition.two_heads import FORMS, OF_CLASS, OF_PIECES
from tests.night import mostly
from workbench.analyses.pruning import curves

EXPECTED = {"": (OF_CLASS, "class", "parity"), "language-model": (OF_PIECES, "masked", "masked")}


@pytest.fixture(scope="module", params=mostly(FORMS, "standard"))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return two_heads.saved(request.param, tmp_path_factory.mktemp("model") / request.param)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "TIMES", 1)  # measurements of time, which nothing here looks at
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))


def run(experiment: str, folder: str, objective: str, **settings: Any) -> wb.Run:
    """A run on the model as an object, which names the objective that it measured."""
    model = wb.load(folder, device="cpu")
    found = wb.run(
        experiment, model=model, corpus=two_heads.texts(), objective=objective, **settings
    )
    _, kind, name = EXPECTED[objective]
    row = found.tables["objective"].iloc[0]
    assert row["objective"] == kind and row["name"].startswith(name)
    assert any(name in finding.claim for finding in found.findings)
    return found


def head_of(row: Any) -> tuple[int, int]:
    return int(row["layer"]), int(row["head"])


LEAK = 0.2  # of a gradient: a gate that closes a little also scales the norm after the head


def only(table: pd.DataFrame, column: str, expected: tuple[int, int], share: float = 1e-3) -> None:
    """The expected head has the largest value, and every other at most a share of it."""
    values = {head_of(row): abs(row[column]) for _, row in table.iterrows()}
    assert max(values, key=values.__getitem__) == expected
    assert all(v < share * values[expected] for head, v in values.items() if head != expected)


@pytest.mark.parametrize("objective", mostly(EXPECTED, ""))
def test_importance_and_ablation_find_the_head(folder: str, objective: str) -> None:
    expected = EXPECTED[objective][0]
    found = run("head-ablation", folder, objective)
    only(found.tables["importance"], "importance", expected, LEAK)
    loss = found.tables["ablation"].query("metric == 'loss'")
    only(loss, "delta", expected)
    found = run("head-importance", folder, objective)
    only(found.tables["importance"], "importance", expected, LEAK)


@pytest.mark.parametrize("objective", ["", pytest.param("language-model", marks=pytest.mark.slow)])
def test_gates_and_pruning_keep_the_head(folder: str, objective: str) -> None:
    expected = EXPECTED[objective][0]
    gates = run("head-gates", folder, objective, budgets=(0.125,), lambdas=(), steps=15)
    kept = gates.tables["gates"].query("kept")
    assert [head_of(row) for _, row in kept.iterrows()] == [expected]
    pruned = run(
        "head-pruning", folder, objective, methods=("ablation",), steps=2, prune_fraction=0.875,
        recovery_steps=0,
    )  # fmt: skip
    order = pruned.tables["order"].query("rescored")
    assert head_of(order.loc[order["place"].idxmax()]) == expected
    kept = pruned.tables["heads"].query("kept")
    assert [head_of(row) for _, row in kept.iterrows()] == [expected]
    assert pruned.model is not None
    smaller = wb.load(str(pruned.model), device="cpu")
    assert smaller.n_removed_heads == 7
    kind = EXPECTED[objective][1]
    assert smaller.predicts is not None and smaller.predicts.kind == kind


@pytest.mark.parametrize("objective", EXPECTED)
def test_patching_finds_the_head(folder: str, objective: str) -> None:
    expected = EXPECTED[objective][0]
    model = wb.load(folder, device="cpu", objective=objective)
    clean, corrupt = two_heads.pair()
    if objective:
        clean, corrupt = (f"{text} [MASK]" for text in (clean, corrupt))
    found = wb.patch(model, clean, corrupt, what="heads", by="all")
    only(found.table, "effect", expected)


@pytest.mark.parametrize("objective", mostly(EXPECTED, ""))
def test_attribution_and_contributions_find_the_head(folder: str, objective: str) -> None:
    expected = EXPECTED[objective][0]
    model = wb.load(folder, device="cpu", objective=objective)
    text = two_heads.pair()[0] + (" [MASK]" if objective else "")
    found = wb.attribute(model, text, method="head-conductance", max_steps=16)
    by_head = found.by_layer  # [layers, heads, units]
    assert by_head is not None
    sums = {
        (layer, head): float(abs(by_head[layer, head]).sum())
        for layer in range(by_head.shape[0])
        for head in range(by_head.shape[1])
    }
    assert max(sums, key=sums.__getitem__) == expected
    parts = wb.contributions(model, text).table.query("part == 'head'")
    only(parts, "contribution", expected)


@pytest.mark.parametrize("objective", mostly(EXPECTED, ""))
def test_the_lens_reads_the_objective(folder: str, objective: str) -> None:
    """Both heads are in the first block: the embeddings predict nothing, every later layer all."""
    found = run("lens", folder, objective, random_models=0, sublayers=False)
    rows = found.tables["layers"].query("measure == 'agreement' and weights == 'model'")
    agreement = rows.set_index("layer")["value"]
    assert agreement[1] == agreement[2] == 1 and agreement[0] < 0.9
