"""A sweep: a run for every combination, and their tables under one another."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

import workbench as wb
from tests.runs.conftest import contents, finished, logged, wait_until
from workbench import WorkbenchError
from workbench.runs import launch, status
from workbench.runs.api import start_sweep
from workbench.runs.launch import cancel, remove
from workbench.runs.run import Run, all_runs
from workbench.runs.subruns import make_sweep, values


def swept(settings: dict[str, Any] | None = None, **options: Any) -> Run:
    return start_sweep("steps", [], [], settings or {}, options, share=True)


def here() -> Any:
    """The experiment, of no package: it is run in this process."""
    return replace(wb.experiments()["steps"], name="steps-here")


def test_two_dimensions_are_gathered_with_their_values_in_front() -> None:
    asked: dict[str, Any] = {"rows": 3, "steps": [1, 2]}
    run = wb.sweep(here(), **asked, seed=[0])
    # asked again it is answered from disk; a larger one computes only what is new
    assert wb.sweep(here(), **asked, seed=[0]).status == run.status
    before = {run.name: now.ended for run, now in all_runs()}
    run = wb.sweep(here(), **asked, seed=[0, 1])
    assert len(run.tables["sums"]) == 6
    after = {run.name: now.ended for run, now in all_runs()}
    assert before.items() <= after.items() and len(after) == len(before) + 3
    table = run.tables["values"]
    assert list(table.columns) == ["seed", "steps", "step", "n", "value"]
    assert table.attrs["keys"] == ["seed", "steps", "step", "n"]
    assert table[["seed", "steps"]].drop_duplicates().to_numpy().tolist() == [
        [0, 1], [0, 2], [1, 1], [1, 2]
    ]  # fmt: skip
    alone = wb.run(here(), rows=3, steps=2, seed=1).tables["values"]
    part = table[(table["steps"] == 2) & (table["seed"] == 1)].reset_index(drop=True)
    assert part[list(alone.columns)].equals(alone)
    assert run.caveats == Run(run.path.parent / run.spec.parts[0].name).caveats
    # and the gathered tables are the same when gathered again
    first = contents(run)
    remove(run)
    assert contents(wb.sweep(here(), **asked, seed=[0, 1])) == first


def test_it_has_the_numbers_of_its_runs_by_group_and_a_figure() -> None:
    corpora = ["one", "two"]
    texts = [
        wb.Corpus(name, {"test": wb.read([f"{name.title()} barks.", "It runs."]).docs})
        for name in corpora
    ]
    run = wb.sweep("describe", corpus=texts, seed=range(2))
    numbers, parts = run.tables["numbers_of_runs"], run.provenance["runs"]
    assert list(dict.fromkeys(numbers["group"])) == corpora
    by_group = numbers.groupby("group", sort=False)["run"].unique()
    assert [list(each) for each in by_group] == [parts[:2], parts[2:]]
    stored = [each.value for part in parts for each in Run(run.path.parent / part).findings]
    assert numbers["value"].tolist() == [each for each in stored if each is not None]
    figure = run.figures["numbers"]
    assert {*figure.data[0].y} == {*corpora}
    assert [*figure.data[0].customdata][:4] == parts
    assert all(each in run.findings[0].claim and each in repr(run) for each in corpora)


def test_a_caveat_of_some_parts_says_of_which() -> None:
    run = wb.sweep(here(), steps=1, loud=[True, False])
    texts = [caveat.text for caveat in run.caveats]
    assert texts == ["Numbers are drawn.", "loud True: Numbers are loud."]


def test_a_part_that_fails_is_named_and_the_others_are_kept() -> None:
    with pytest.raises(WorkbenchError, match="1 of 2 runs"):
        wb.sweep(here(), mood=["well", "raises"])
    (run,) = (run for run, _ in all_runs() if run.spec.sweep)
    failure = run.status.failure
    assert run.status.state == "failed" and failure
    well, raises = (Run(run.path.parent / part.name) for part in run.spec.parts)
    assert raises.name in failure.where and well.name not in failure.where
    assert "1 of 2 runs" in failure.what and "third drawer is empty" in failure.what
    assert well.status.state == "done"


def test_cancelling_a_sweep_ends_its_parts_and_no_other_run() -> None:
    (part,) = make_sweep("steps", [], [], {"mood": "numb"}, {"seed": ["0"]})[0].parts
    own = launch.start(part, share=True)  # asked for by itself, before the sweep
    run = swept({"mood": "numb"}, seed=["0", "1"])
    parts = [Run(run.path.parent / part.name) for part in run.spec.parts]
    wait_until(lambda: all("asleep" in logged(part) for part in parts))
    pids = {run.status.pid, parts[1].status.pid}
    assert cancel(run).state == "cancelled"
    assert [part.status.state for part in parts] == ["running", "cancelled"]
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), seconds=10)  # nor are they defunct
    cancel(own)


@pytest.mark.slow
def test_a_sweep_that_is_killed_still_ends_its_parts_when_cancelled() -> None:
    run = swept({"mood": "deaf"}, seed=["0", "1"])
    parts = [Run(run.path.parent / part.name) for part in run.spec.parts]
    wait_until(lambda: all("asleep" in status.log_lines(part.path) for part in parts))
    cancel(run, grace=0.3)  # its own ending of parts takes longer than that
    assert {part.status.state for part in parts} == {"cancelled"} == {run.status.state}


def test_a_sweep_that_died_continues_when_started_again() -> None:
    asked = {"steps": 6, "pause": 0.02}
    run = swept(asked, seed=["0", "1"])
    parts = [Run(run.path.parent / part.name) for part in run.spec.parts]
    wait_until(lambda: any(part.status.state == "running" for part in parts if part.path.exists()))
    os.kill(run.status.pid, signal.SIGKILL)
    wait_until(lambda: run.status.state == "failed")
    assert finished(swept(asked, seed=["0", "1"])).status.state == "done"
    for part in parts:
        steps = [e for e in status.read_events(part.path)[0] if "computed" in str(e.get("text"))]
        assert len(steps) == 6


@pytest.mark.slow
def test_a_part_shared_with_a_sweep_that_is_cancelled_is_begun_again() -> None:
    """The other sweep is not robbed of its answer."""
    one = swept({"steps": 60, "pause": 0.03}, seed=["0"])
    part = Run(one.path.parent / one.spec.parts[0].name)
    wait_until(lambda: part.path.exists() and part.status.state == "running")
    other = swept({"steps": 60, "pause": 0.03}, rows=["50"])  # the same part
    wait_until(lambda: other.status.state == "running")
    cancel(one)
    assert finished(other).status.state == "done", other.status.failure
    assert part.status.part_of == other.name and part.status.attempt == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b", ["a", "b"]),
        ("0..3", ["0", "1", "2", "3"]),
        ("2..0", ["2", "1", "0"]),
        ("-1..1", ["-1", "0", "1"]),
        ("elmo:a,b,c", ["elmo:a,b", "c"]),
        ("a,,b,", ["a", "b"]),
        ("0.5,1e3", ["0.5", "1e3"]),
    ],
)
def test_values_as_typed(text: str, found: list[str]) -> None:
    assert values(text) == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"step": ["1"]}, "Did you mean 'steps'"),
        ({"steps": []}, "no value is given for steps"),
        ({"steps": ["1", "1"]}, "a value of steps is repeated"),
        ({"most": ["1", "1.0"]}, "a value of most is repeated"),
        ({"seed": ["0", "00"]}, "a value of seed is repeated"),
        ({"seed": ["x"]}, "a seed is 'x'"),
        ({"steps": ["1", "none"]}, "steps is 'none'"),
        ({"steps": list(map(str, range(1, 102))), "seed": list(map(str, range(100)))}, "10,100"),
    ],
)
def test_an_invalid_sweep_is_an_error_before_anything_runs(
    options: dict[str, list[str]], said: str, place: Path
) -> None:
    with pytest.raises(WorkbenchError, match=said):
        swept(**options)
    assert not place.exists()


def test_swept_values_are_shown_as_parsed() -> None:
    def shown(name: str, *options: str) -> list[Any]:
        return make_sweep("steps", [], [], {}, {name: options})[0].sweep[name]

    assert shown("steps", "1", "2") == [1, 2]
    assert shown("most", "1", "2.5") == [1.0, 2.5]
    assert shown("loud", "yes", "no") == [True, False]
    assert shown("pattern", "1e3", "x") == ["1e3", "x"]
    assert shown("depth", "3", "all") == ["3", "all"]
    assert shown("max_sentences", "none", "5") == ["none", "5"]
    assert shown("layers", "1,2", "3") == ["1,2", "3"]


def test_each_corpus_is_read_once_for_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    import workbench.corpora.content_hash as identity

    hashed: list[str] = []
    whole = identity.content_hash
    monkeypatch.setattr(identity, "content_hash", lambda c: hashed.append(c.name) or whole(c))
    options = {"seed": [str(seed) for seed in range(50)], "corpus": ["primer", "primer:size=50"]}
    _, questions = make_sweep("describe", [], [], {}, options)
    assert len(questions) == 100 and len(hashed) == 2


def test_a_swept_setting_with_the_name_of_a_column_is_prefixed() -> None:
    run = wb.sweep(here(), kind=["all", "listed"], steps=[2])
    sums = run.tables["sums"]
    assert list(sums.columns) == ["swept_kind", "steps", "step", "value", "kind"]
    assert list(sums["swept_kind"]) == ["all", "all", "listed", "listed"] == list(sums["kind"])
    assert list(run.tables["values"].columns[:2]) == ["kind", "steps"]
