"""While one waits: runs are counted once, and what is waited for or refused is said."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.pages import home, opened, said  # noqa: F401
from tests.report.making import made
from workbench import Run
from workbench.app import cache
from workbench.app.frame import jobs
from workbench.app.runs import run_list
from workbench.core import names
from workbench.runs import status
from workbench.runs.status import Status

pytestmark = pytest.mark.usefixtures("home")


def part(folder: Path, seed: int, whole: Run | None, state: status.State = "done") -> Run:
    run = made(folder / "runs", seed=seed, state=state)
    above = "" if whole is None else whole.name
    status.write(run.path, replace(run.status, part_of=above))
    return run


def statuses(parents: Mapping[str, str], state: status.State = "done") -> dict[str, Status]:
    return {name: Status(state, part_of=above) for name, above in parents.items()}


# --- runs that a run has started ------------------------------------------------------------------


def test_runs_that_a_run_started_are_below_it_and_are_not_counted(tmp_path: Path) -> None:
    whole = part(tmp_path, 0, None)
    parts = [part(tmp_path, seed, whole) for seed in (1, 2, 3)]
    part(tmp_path, 4, None)
    app = opened("runs")
    assert "2 runs. Click one" in said(app)
    (folded,) = [each for each in app.expander if each.label == "3 runs started by it"]
    boxes = {box.label for box in folded.checkbox}
    assert boxes == {f"Compare {each.name}" for each in parts}
    assert len([box for box in app.checkbox if box.label.startswith("Compare counts-")]) == 5


def test_a_search_finds_a_part_below_its_whole() -> None:
    runs = list(statuses({"w": "", "a": "w", "b": "a", "alone": ""}).items())
    names = [
        [(whole, [name for name, _ in parts]) for (whole, _), parts in status.families(runs, some)]
        for some in (runs, [runs[2]], [runs[0]], [runs[3]])
    ]
    assert names == [
        [("w", ["a", "b"]), ("alone", [])],  # also what a part has started
        [("w", ["b"])],
        [("w", ["a", "b"])],
        [("alone", [])],
    ]
    orphans = list(statuses({"a": "removed", "x": "y", "y": "x"}).items())
    assert status.families(orphans, orphans) == [(each, []) for each in orphans]


def test_jobs_are_whole_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {
        **statuses({"sweep": "", "part": "sweep", "cell": "part", "alone": ""}, "running"),
        **statuses({"later": "ended"}, "queued"),
        **statuses({"ended": ""}),
    }
    monkeypatch.setattr(run_list, "all_statuses", lambda: list(runs.items()))
    assert [name for name, _ in jobs._under_way()] == ["sweep", "alone", "later"]
    assert [name for name, _ in run_list.whole_runs()] == ["sweep", "alone", "ended"]


def test_jobs_have_the_names_that_their_inputs_have_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = part(tmp_path, 0, None)
    corpus = run.spec.corpora[0]
    names.give("corpora", corpus.ref or "", "my treebank")
    assert "my treebank" in status.title(run.path, run.status)
    monkeypatch.setattr(jobs, "_under_way", lambda: [(run.name, run.status)])
    links: list[str] = []
    monkeypatch.setattr(jobs.st, "page_link", lambda page, label, **more: links.append(label))
    jobs._watch()
    assert "my treebank" in links[0] and corpus.name not in links[0]


# --- texts that are too long ----------------------------------------------------------------------


@pytest.mark.parametrize("page", ["home", "predict", "words", "attention"])
def test_a_text_over_the_limit_is_answered_with_the_limit(page: str) -> None:
    app = opened(page, text="girls walk " * 2_000)
    answer = said(app)
    assert "22,000 characters" not in answer, "spaces at the end do not count"
    assert "21,999 characters; the maximum is 20,000" in answer
    assert "add it as a corpus" in answer
    boxes = [box for box in app.text_input if str(box.value).startswith("girls")]
    assert boxes and not any(box.proto.max_chars for box in boxes), "else a browser drops the text"
    assert cache.LONGEST == 20_000
