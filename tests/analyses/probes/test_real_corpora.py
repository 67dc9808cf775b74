"""Public corpora from end to end: they load, are probed with a small model, and reported."""

import os
from pathlib import Path
from typing import Any

import pytest

import workbench as wb

pytestmark = [pytest.mark.data, pytest.mark.usefixtures("warm_workers")]
CASES = {
    "ewt": ("ewt", ("pos", "dependencies"), 0.2),
    "gum": ("gum", ("entities", "coreference"), 0.05),
    "constituents": ("edges/constituents-gum", ("constituents",), 0.3),
    "roles": ("edges/srl-ewt", ("roles",), 0.2),
    "proto-roles": ("edges/spr-ewt", ("proto-roles",), 0.5),
}


@pytest.fixture(scope="module")
def data() -> Path:
    if not (named := os.environ.get("WORKBENCH_DATA")):
        pytest.skip("needs public corpora: set WORKBENCH_DATA")
    return Path(named)


CHEAP = ("proto-roles",)  # the others are as cheap to read elsewhere, and take longer to probe


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [case if case in CHEAP else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
)
def test_it_loads_is_probed_and_reported(
    case: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    where, tasks, least = CASES[case]
    settings: dict[str, Any] = {
        "tasks": tasks,
        "max_sentences": 300,
        "max_targets": 1500,
        "seeds": (0,),
    }
    settings |= {"modes": ("layer",), "control_tasks": False, "max_epochs": 8}
    run = wb.run("edge-probing", model="mini:bert", corpus=str(data / where), **settings)
    summary = run.tables["summary"].set_index("task")
    assert list(summary.index) == list(tasks)
    assert (summary["best_score"] > least).all(), summary["best_score"]
    assert (summary["best_score"] >= summary["baseline_lexical"]).all()
    assert set(run.tables["scores"]["encoder"]) >= {"model", "random", "static", "majority"}
    report = Path(wb.report([run], tmp_path / "report.html")).read_text(encoding="utf-8")
    assert tasks[0] in report and "expected_layer" in report
