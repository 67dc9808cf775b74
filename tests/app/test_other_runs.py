"""The page of a question shows its most thorough run, names it, and links to the others."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.pages import home, opened, said  # noqa: F401
from tests.report.making import corpus, made, model
from workbench import Run, experiments
from workbench.app import choice
from workbench.app.runs import context
from workbench.core.findings import Finding
from workbench.runs import status
from workbench.runs.builtin import builtin_run

pytestmark = pytest.mark.usefixtures("home")
SHIPPED = "edge-probing-mini-bert"


def own_run(folder: Path, effort: str, shift: float = 0.0, created: str = "2099-01-01") -> Run:
    """A run of the user's own of edge probing, with the tables of the built-in result."""
    kind, shipped = experiments()["edge-probing"], builtin_run(SHIPPED)

    def moved(each: Finding) -> Finding:
        low, high = each.interval or (None, None)
        interval = None if low is None or high is None else (low + shift, high + shift)
        value = None if each.value is None else each.value + shift
        return replace(each, value=value, interval=interval)

    run = made(
        folder / "runs",
        experiment=kind.name,
        version=kind.version,
        tables={key: (shipped.tables[key], kind.tables[key]) for key in shipped.tables},
        models=(model("mini:bert", ref="mini:bert"),),
        corpora=(corpus(),),
        settings=kind.settings(effort=effort).model_dump(mode="json"),
        findings=[moved(each) for each in shipped.findings],
    )
    now = replace(run.status, models=("mini:bert",), corpora=("primer",), created=created)
    status.write(run.path, now)
    return run


def test_a_later_quick_run_does_not_take_the_place_of_a_fuller_one(
    home: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "model", lambda: "mini:bert")
    monkeypatch.setattr(choice, "corpus", lambda: "primer")
    kind, shipped = experiments()["edge-probing"], builtin_run(SHIPPED)
    quick = own_run(home, "quick")
    assert context.result_of(kind) == shipped
    full = own_run(home, "full")
    assert context.result_of(kind) == full
    assert context.others_of(full) == [shipped, quick]
    assert context.others_of(quick) == [full, shipped]


def test_the_page_names_the_run_and_says_where_another_one_disagrees(
    home: Path,  # noqa: F811
) -> None:
    own_run(home, "quick", shift=-0.3)
    app = opened("probing")
    assert "standard, 1 seed" in said(app), "how thorough the shown run is"
    assert "Another run (quick" in said(app) and "disagrees on" in said(app)
