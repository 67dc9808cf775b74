"""A setting is accepted under its first name, and runs stored under first names are read alike."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import workbench as wb
from tests.runs.conftest import done_here, finished
from workbench import WorkbenchError
from workbench.cli import output
from workbench.experiment.definition import EXPERIMENTS, Settings, Table, built_in_experiments
from workbench.report.content import command, facts
from workbench.runs import run as results
from workbench.runs import spec
from workbench.runs.api import start_sweep
from workbench.runs.launch import start
from workbench.runs.request import make_request
from workbench.runs.run import PROVENANCE, Run
from workbench.runs.spec import Spec
from workbench.runs.subruns import make_sweep


def steps(**settings: Any) -> Spec:
    return make_request("steps", settings=settings).spec


def test_the_fingerprint_is_equal_under_either_name() -> None:
    assert steps(limit=5).model_dump() == steps(max_sentences=5).model_dump()
    assert steps(limit=5).settings["max_sentences"] == 5
    assert steps(limit=5).name != steps().name
    stored = steps(max_sentences=5)
    before = {"limit" if k == "max_sentences" else k: v for k, v in stored.settings.items()}
    old = stored.model_copy(update={"settings": before, "former_names": {}, "format": 1})
    assert old.name == stored.name
    assert spec.current_settings(old) == stored.settings


def test_python_accepts_either_name() -> None:
    old = wb.run("describe", corpus="primer:size=30", limit=5)
    assert old.settings["max_sentences"] == 5
    assert wb.run("describe", corpus="primer:size=30", max_sentences=5) == old


def test_a_sweep_accepts_either_name() -> None:
    old, _ = make_sweep("steps", [], [], {}, {"limit": ["1", "2"]})
    new, _ = make_sweep("steps", [], [], {}, {"max_sentences": ["1", "2"]})
    assert old == new and old.sweep == {"max_sentences": [1, 2]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: steps(limit=5, max_sentences=5),
        lambda: make_sweep("steps", [], [], {}, {"limit": ["1"], "max_sentences": ["2"]}),
        lambda: Settings.model_validate({"limit": 5, "max_sentences": 5}),
    ],
    ids=["request", "sweep", "class"],
)
def test_both_names_at_once_are_an_error(make: Any) -> None:
    with pytest.raises(WorkbenchError) as raised:
        make()
    assert raised.value.code == "setting-repeated"


@pytest.mark.parametrize("name", built_in_experiments())
def test_no_setting_has_a_name_that_was_the_first_name_of_another(name: str) -> None:
    kind = EXPERIMENTS[name].settings
    former = kind.renamed()
    assert len(set(former.values())) == len(former), "two settings have the same first name"
    assert not set(former.values()) & set(kind.model_fields)
    for parent in kind.__mro__:
        if issubclass(parent, Settings):
            declared = vars(parent).get("former_names", {})
            assert set(declared) <= set(parent.model_fields), "a former name of no setting"


# --- a sweep that an older version stored ---------------------------------------------------------


@pytest.fixture
def old_sweep() -> Run:
    """A sweep over `limit`, as the version left it that knew no other name for it."""
    run = finished(swept())
    assert run.status.state == "done", run.status.failure
    data = json.loads((run.path / spec.FILE).read_text())
    for each in (data, *data["parts"]):
        each["format"] = 1
        del each["former_names"]
        each["settings"]["limit"] = each["settings"].pop("max_sentences")
    data["sweep"] = {"limit": data["sweep"]["max_sentences"], "seed": data["sweep"]["seed"]}
    (run.path / spec.FILE).write_text(json.dumps(data))
    for name in list(run.tables):
        table = run.tables[name].rename(columns={"max_sentences": "limit"})
        about = Table(table.attrs["about"], ("limit", *table.attrs["keys"][1:]))
        results.write_table(run.path, name, table, about)
    provenance = json.loads((run.path / PROVENANCE).read_text())
    provenance["files"] = results.recorded(run.path)
    (run.path / PROVENANCE).write_text(json.dumps(provenance))
    return Run(run.path)


def swept(**settings: Any) -> Run:
    options = {"max_sentences": ["1", "2"], "seed": ["0", "1"]}
    return start_sweep("steps", [], [], {"rows": 2, **settings}, options, share=True)


def test_an_old_sweep_is_the_same_run(old_sweep: Run) -> None:
    assert old_sweep.spec.sweep == {"limit": [1, 2], "seed": [0, 1]}
    assert old_sweep.sweep == {"max_sentences": [1, 2], "seed": [0, 1]}
    assert old_sweep.spec.name == old_sweep.name
    before = old_sweep.status
    assert swept() == old_sweep and old_sweep.status == before, "computed again"


def test_an_old_sweep_is_shown_and_reported_under_current_names(
    old_sweep: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    output.run(old_sweep, json=False)
    shown = capsys.readouterr().out
    assert "max_sentences=[1, 2]" in shown and "limit" not in shown
    words = command(old_sweep.spec)
    assert "--sweep=max_sentences=1,2" in words and "--sweep=seed=0,1" in words
    assert "--set=max_sentences" not in words and "limit" not in words
    rows = [row for group in facts(old_sweep).values() for row in group]
    assert [value for name, value in rows if name.startswith("max_sentences")] == ["1, 2"]
    assert not [name for name, _ in rows if "limit" in name]


def test_an_old_sweep_is_compared_with_a_new_one(
    old_sweep: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    new = finished(swept(most=2.0))
    table = wb.compare(old_sweep, new)["sums"]
    assert list(table.columns[:3]) == ["max_sentences", "seed", "step"]
    assert table["B − A value"].tolist() == [0.0] * len(table) and len(table) == 20
    assert old_sweep.tables["sums"].columns[0] == "limit", "the stored table is as it was"
    output.comparison([old_sweep, new], json=True)
    (row, *_) = json.loads(capsys.readouterr().out)["tables"]["sums"]
    assert row["max_sentences"] == 1 and "limit" not in row


def test_an_old_sweep_that_lost_a_table_is_computed_again(old_sweep: Run) -> None:
    (old_sweep.path / "tables" / "sums.parquet").unlink()
    run = finished(start(old_sweep.spec, share=True))
    assert run.path == old_sweep.path and run.status.state == "done", run.status.failure
    assert list(Run(run.path).tables["sums"].columns[:2]) == ["max_sentences", "seed"]


def test_an_old_run_is_computed_again_from_its_spec(place: Path) -> None:
    run = done_here(steps(limit=5, steps=2))
    data = json.loads((run.path / spec.FILE).read_text())
    del data["former_names"]
    data["settings"]["limit"] = data["settings"].pop("max_sentences")
    (run.path / spec.FILE).write_text(json.dumps(data))
    old, values = Run(run.path), run.tables["values"]
    (run.path / "tables" / "values.parquet").unlink()
    again = finished(start(old.spec))
    assert again.path == run.path and again.status.state == "done", again.status.failure
    pd.testing.assert_frame_equal(Run(run.path).tables["values"], values)
