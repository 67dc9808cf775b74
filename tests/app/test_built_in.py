"""Built-in results on the pages: shown where the user has no run, and marked as what they are."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.pages import home, opened, said, titles  # noqa: F401
from tests.report.making import corpus, made, model
from workbench import experiments
from workbench.app import choice
from workbench.app.runs import context
from workbench.report.content import command
from workbench.runs import status
from workbench.runs.builtin import builtin_run, builtin_runs

pytestmark = pytest.mark.usefixtures("home")


def own_run(folder: Path, name: str = "mini:bert") -> None:
    """A run of the user's own of `head-importance`."""
    kind, shipped = experiments()["head-importance"], builtin_run("head-importance-mini-bert")
    run = made(
        folder / "runs",
        experiment="head-importance",
        tables={key: (shipped.tables[key], kind.tables[key]) for key in shipped.tables},
        models=(model(name, ref=name),),
        corpora=(corpus(),),
        settings=kind.settings().model_dump(mode="json"),
    )
    now = replace(run.status, experiment=kind.name, models=(name,), corpora=("primer",))
    status.write(run.path, now)


def test_a_page_shows_the_built_in_result_with_its_command(home: Path) -> None:  # noqa: F811
    app = opened("pruning")
    assert "workbench run head-importance --model mini:bert --corpus primer" in said(app)
    run = builtin_run("head-importance-mini-bert")
    assert command(run.spec) in said(app)  # the same as in reports: tests/report/test_reproduce.py
    assert run.findings[0].claim in said(app)
    assert "is not a run of yours" in said(app)
    assert not any(button.label == "Remove" for button in app.button)
    assert not (home / "runs").exists()


def test_a_run_of_the_user_takes_its_place(
    home: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = experiments()["head-importance"]
    monkeypatch.setattr(choice, "model", lambda: "mini:bert")
    monkeypatch.setattr(choice, "corpus", lambda: "primer")
    assert context.result_of(kind) == builtin_run("head-importance-mini-bert")
    own_run(home, "mini:gpt")  # of another model
    assert context.result_of(kind) == builtin_run("head-importance-mini-bert")
    own_run(home)
    own = context.result_of(kind)
    assert own is not None and not own.is_builtin


def test_another_model_or_corpus_has_none(
    home: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = experiments()["head-importance"]
    monkeypatch.setattr(choice, "model", lambda: "mini:t5")
    assert context.result_of(kind) is None
    monkeypatch.setattr(choice, "model", lambda: "mini:bert")
    monkeypatch.setattr(choice, "corpus", lambda: "mine.txt")
    assert context.result_of(kind) is None


def test_the_page_of_runs_lists_them_apart() -> None:
    app = opened("runs")
    assert "There are no runs yet" in said(app)
    (built_in,) = [each for each in app.expander if each.label.startswith("Built-in results")]
    assert built_in.label == f"Built-in results ({len(builtin_runs())})" and built_in.proto.expanded
    boxes = [box for box in app.checkbox if str(box.key).startswith("tick built-in/")]
    assert len(boxes) == len(builtin_runs())
    assert builtin_run("heads-mini-bert").findings[0].claim in said(app), "in full"


def test_one_is_opened_by_its_address() -> None:
    app = opened("runs", run="built-in/describe-primer")
    assert titles(app) == ["Statistics of primer"]
    assert "workbench run describe --corpus primer" in said(app)
    assert not any(button.label == "Remove" for button in app.button)
