"""The time left is what an earlier run took for what is still to do, at the speed of this one."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.runs.conftest import Asking, done_here, wait_until
from workbench.runs import launch, similar, status, subruns, time_left
from workbench.runs.interactive import progress
from workbench.runs.launch import start
from workbench.runs.similar import Earlier
from workbench.runs.status import Journal, Status

STAGES = {("reading", 0): (0.0, 10.0), ("training", 0): (10.0, 40.0), ("writing", 0): (40.0, 50.0)}
EARLIER = Earlier(50.0, STAGES)


class Clock:
    """A clock that stands still until it is moved; also for the times of events."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        patch.setattr(time, "monotonic", lambda: self.now)
        patch.setattr(time, "time", lambda: self.now)
        patch.setattr(status, "utc_now", self._text)

    def _text(self) -> str:
        return datetime.fromtimestamp(self.now, UTC).isoformat(timespec="milliseconds")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def events(folder: Path) -> list[Any]:
    return [dict(e) for e in status.read_events(folder)[0] if e["kind"] == "progress"]


@pytest.mark.parametrize(
    ("elapsed", "stage", "in_stage", "share", "own", "left"),
    [
        (0.0, ("reading", 0), 0.0, 0.0, None, 50.0),
        (10.0, ("training", 0), 0.0, 0.0, None, 40.0),  # as fast as the earlier run
        (25.0, ("training", 0), 15.0, 0.5, 15.0, 25.0),
        (50.0, ("training", 0), 30.0, 0.5, 30.0, 50.0),  # half as fast: so are the later stages
        (25.0, ("training", 0), 15.0, None, None, 25.0),  # it does not count
        (45.0, ("writing", 0), 5.0, None, None, 5.0),
        (70.0, ("writing", 0), 30.0, None, None, None),  # longer than before: nothing is claimed
        (20.0, ("another stage", 0), 5.0, 0.1, 45.0, 30.0),  # not in the earlier run
    ],
)
def test_what_is_left_of_a_run(
    elapsed: float,
    stage: tuple[str, int],
    in_stage: float,
    share: float | None,
    own: float | None,
    left: float | None,
) -> None:
    found = EARLIER.left(elapsed, stage, in_stage, share, own)
    assert found == (None if left is None else pytest.approx(left, abs=0.05))


def test_a_run_is_not_taken_to_be_a_hundred_times_as_slow() -> None:
    left = EARLIER.left(1000.0, ("training", 0), 990.0, 0.0, None)
    assert left == pytest.approx(similar.FACTOR * 40)


def test_stages_are_read_from_the_events_of_a_run(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "checkpoint").mkdir()
    journal = Journal(tmp_path)
    journal(0, None, "starting")
    clock.now += 100  # queued
    journal.becomes("running")
    for doing in ("reading", "training: a", "training: b, loss 0.1", "reading", "writing"):
        journal(0, None, doing)
        clock.now += 10
    journal.becomes("done")
    stages = time_left.stages(status.read_events(tmp_path)[0])
    assert stages == {
        ("reading", 0): (0.0, 10.0),
        ("training", 0): (10.0, 30.0),
        ("reading", 1): (30.0, 40.0),
        ("writing", 0): (40.0, 50.0),
    }


def test_a_stage_whose_details_change_has_a_rate(tmp_path: Path, clock: Clock) -> None:
    journal = Journal(tmp_path)
    journal.becomes("running")
    for step in range(11):
        journal(step, 100, f"training: loss {1 / (step + 1):.2f}")
        clock.now += 1
    last = events(tmp_path)[-1]
    assert last["left"] == pytest.approx(90.0) and last["left_of_run"] is None
    journal(0, 100, "training: again")  # the counter begins again: so does the rate
    clock.now += 1
    journal(1, 100, "training: again")
    assert events(tmp_path)[-1]["left"] == pytest.approx(99.0)


def test_the_time_left_is_there_from_the_first_event_on(tmp_path: Path, clock: Clock) -> None:
    status.write(tmp_path, Status("queued", expected=50.0))
    journal = Journal(tmp_path)
    journal.earlier = EARLIER
    journal(0, None, "starting")
    journal.becomes("running")
    clock.now += 10
    journal(0, 30, "training")
    clock.now += 15
    journal(15, 30, "training")
    assert [event["left_of_run"] for event in events(tmp_path)] == [50.0, 40.0, 25.0]
    assert time_left.left_of(tmp_path) == 25.0
    clock.now += 5
    assert time_left.left_of(tmp_path) == 20.0, "it goes on between events"
    line = time_left.progress_line(events(tmp_path)[-1], 5.0)
    assert line == "training: 15 of 30, about 20 s left"


def made(asking: Asking, seconds: float, seed: int, **settings: Any) -> None:
    """A finished run that took this long, as far as its status says."""
    run = done_here(asking(seed, **settings))
    path = run.path / status.FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": seconds}))


def test_the_estimate_is_the_median_of_the_most_similar_runs(asking: Asking, place: Path) -> None:
    asked = asking(9, steps=3)
    new = place / asked.name
    like = Status("queued", "steps", device="cpu")
    assert time_left.earlier(new, like, asked) is None, "nothing is claimed without an earlier run"
    made(asking, 100.0, 0, steps=4)
    found = time_left.earlier(new, like, asked)
    assert found and found.seconds is None, "a run of other settings has only its stages"
    assert found.left(10.0, ("training", 0), 0.0) is None
    for seed, seconds in enumerate((7.0, 5.0, 60.0)):
        made(asking, seconds, seed, steps=3)
    found = time_left.earlier(new, like, asked)
    assert found and found.seconds == 7.0, "those of the same settings"
    on_gpu = Status("queued", "steps", device="cuda")
    assert time_left.earlier(new, on_gpu, asked) is None, "another kind of device"
    run = launch.start(asked, compute=lambda journal: journal.becomes("failed"))
    assert run.status.expected == 7.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.3, "about 1 s"),
        (4.4, "about 5 s"),
        (37, "about 40 s"),
        (54, "about 50 s"),
        (76, "about 1 min"),
        (150, "about 2 min"),
        (1000, "about 15 min"),
        (3500, "about 1 h"),
        (5500, "about 1 h 30 min"),
    ],
)
def test_an_estimate_has_no_false_precision(seconds: float, text: str) -> None:
    assert time_left.in_words(seconds) == text


def test_a_queued_job_names_what_it_starts_after(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = ["heads", "edge-probing", "lens", "profile", "train"]
    for number, kind in enumerate(kinds):
        (tmp_path / kind).mkdir()
        expected = 0.0 if number == 2 else 40.0 * (number + 1)
        models, corpora = ("mini:bert",) if kind != "train" else (), ("primer",)
        status.write(tmp_path / kind, Status("queued", kind, models, corpora, expected=expected))
    status.write(tmp_path / "heads", Status("running", "heads", ("model",), (), expected=40.0))
    status.add_event(tmp_path / "heads", "state", state="running")
    running, *queued = [str(tmp_path / kind) for kind in kinds]
    waits = time_left.starts_after
    assert waits((), ()) == "starts next"
    assert waits((running,), ()) == "starts after heads of model (about 40 s)"
    clock.now += 100
    assert waits((running,), ()) == "starts after heads of model", "longer than before"
    clock.now -= 100
    assert waits((running,), queued[:1]) == (
        "starts after heads of model (about 40 s) and edge-probing of mini:bert on primer "
        "(about 1 min)"
    )
    assert waits((running,), queued).endswith(", lens of mini:bert on primer and 2 more")
    assert waits((), queued[3:]) == "starts after train on primer (about 3 min)"
    assert waits(("",), ()) == "starts after another job"


def test_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """One for each stage and tenth; the details of a stage are no new stage, a place in line is."""

    def step(done: int, doing: str, **left: float | None) -> dict[str, Any]:
        counted = None if doing.startswith(("starting", "queued")) else 100
        return {"kind": "progress", "done": done, "total": counted, "doing": doing, **left}

    progress._lines(
        [
            {"kind": "state", "state": "queued", "left_of_run": 41.0},
            step(0, "starting"),
            step(0, "queued: starts after a and b"),
            step(0, "queued: starts after a", left_of_run=62.0),
            {"kind": "state", "state": "running"},
            step(0, "training: loss 2"),
            step(1, "training: loss 1", left=7.0),
            step(20, "training: loss 0.5", left=7.0),
            step(30, "training: loss 0.4", left=7.0, left_of_run=12.0),
            {"kind": "warning", "text": "odd"},
        ]
    )
    assert capsys.readouterr().err.splitlines() == [
        "queued, about 40 s left",
        "starting",
        "Starts after a and b",
        "Starts after a; done in about 1 min",
        "running",
        "training: loss 2, 0 of 100",
        "training: loss 0.5, 20 of 100, about 5 s left in this stage",
        "training: loss 0.4, 30 of 100, about 10 s left",
        "warning: odd",
    ]


def written(folder: Path, name: str, clock: Clock, passed: float, left: float | None) -> Path:
    """A run that has been running for some seconds, and says how many it has left."""
    (folder / name / "checkpoint").mkdir(parents=True)
    started = datetime.fromtimestamp(clock.now - passed, UTC).isoformat(timespec="milliseconds")
    status.write(folder / name, Status("running", started=started))
    status.add_event(folder / name, "state", state="running")
    facts = {"done": 1, "total": 2, "doing": "training", "left": None}
    status.add_event(folder / name, "progress", **facts, left_of_run=left)
    return folder / name


def test_the_time_left_of_parts_is_that_of_the_whole(tmp_path: Path, clock: Clock) -> None:
    says = written(tmp_path, "says", clock, passed=20.0, left=40.0)  # 60 s in all
    silent = written(tmp_path, "silent", clock, passed=10.0, left=None)
    left = time_left.left_of_parts
    assert left([], [silent], 3, 2) is None, "nothing is known of any"
    assert left([], [says], 0, 1) == pytest.approx(40.0), "the last one"
    assert left([], [says], 3, 1) == pytest.approx(40.0 + 3 * 60.0), "one after another"
    assert left([], [says, silent], 2, 2) == pytest.approx((40.0 + 50.0 + 2 * 60.0) / 2)
    assert left([30.0, 30.0], [says], 1, 4) == pytest.approx(40.0), "not less than the longest"
    assert left([100.0], [], 5, 1) == pytest.approx(500.0)


def test_a_run_that_waits_for_its_parts_reports_their_time_left(
    tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "checkpoint").mkdir()
    journal = Journal(tmp_path)
    journal.becomes("running")
    journal.left_of_parts = 90.0
    journal(0, 4, "adapting models")
    line = "adapting models: 0 of 4, about 2 min left"
    assert time_left.progress_line(events(tmp_path)[-1]) == line, "of the whole, not of the stage"
    journal.left_of_parts = None
    clock.now += 1
    journal(1, 4, "adapting models")
    assert time_left.progress_line(events(tmp_path)[-1]).endswith("left in this stage")


def test_a_stage_of_runs_that_others_follow_reports_its_own_time_left(
    tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "checkpoint").mkdir()
    journal = Journal(tmp_path)
    journal.becomes("running")
    subruns._estimate(journal, [30.0], [], 3, 1, later=None)
    journal(1, 4, "pretraining models")
    line = "pretraining models: 1 of 4, about 2 min left in this stage"
    assert time_left.progress_line(events(tmp_path)[-1]) == line


def test_the_bar_of_a_cell_is_gone_when_its_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets", reason="pip install ipywidgets")
    notebook = pytest.importorskip("tqdm.notebook")
    bars = []

    def opened(**look: Any) -> Any:
        bars.append(notebook.tqdm(**look, display=False))
        return bars[-1]

    monkeypatch.setattr("tqdm.auto.tqdm", opened)
    progress._cell([{"kind": "progress", "doing": "texts", "done": 1, "total": 9, "left": None}])
    assert bars[0].container.layout.visibility == "hidden"


def test_a_queued_run_says_what_it_waits_for(asking: Asking) -> None:
    first = start(asking(mood="numb"))
    wait_until(lambda: first.status.state == "running")
    second = start(asking(1))
    wait_until(lambda: [e for e in events(second.path) if "queued" in e["doing"]])
    third = start(asking(2))
    wait_until(lambda: [e for e in events(third.path) if "queued" in e["doing"]])
    told = events(third.path)[-1]["doing"]
    own = [status.title(run.path, run.status) for run in (first, second)]
    assert told == f"queued: starts after {own[0]} and {own[1]}"
    assert any(told.partition(": ")[2] in line for line in status.log_lines(third.path))
    for run in (third, second, first):
        launch.cancel(run)
