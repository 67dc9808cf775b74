"""What goes wrong around a run: the disk, the status, the experiment, others who ask the same."""

import errno
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from safetensors import SafetensorError

from tests.night import mostly
from tests.runs.conftest import (
    Asking,
    await_free,
    contents,
    done,
    done_here,
    finished,
    process_of,
)
from workbench import WorkbenchError
from workbench.runs import api, execute, launch, model_card, spec, status
from workbench.runs.exported_model import export_model
from workbench.runs.launch import start
from workbench.runs.processes import locks
from workbench.runs.request import make_request
from workbench.runs.run import PROVENANCE, Run, all_runs
from workbench.runs.spec import Spec
from workbench.runs.subruns import SUBRUNS, in_process

HERE = in_process(lambda asked, told: ((), ()))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def mount(*arguments: str) -> None:
    found = subprocess.run(["mount", *arguments], capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"mounting is not allowed here: {found.stderr.decode().strip()}")


# --- the disk -------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """Runs on a disk of half a megabyte."""
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place))
    yield place
    for run, _ in all_runs():
        await_free(run)
    subprocess.run(["umount", "-l", str(place)], check=True)


@needs_root
@pytest.mark.parametrize("rows", [4_000, 12_000], ids=["when tables are written", "at a step"])
def test_a_full_disk_is_a_failure_with_the_free_space(
    rows: int, asking: Asking, small_disk: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = asking(rows=rows)
    run = finished(start(asked))
    failure = run.status.failure
    assert run.status.state == "failed" and failure
    assert "No space left" in f"{failure.what} {failure.lines}"
    assert f"The disk at {small_disk} has" in failure.what and "524.3 kB" in failure.what
    assert f"Free space on {small_disk}" in failure.remedy
    assert not contents(run), "nothing half-made is left"
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "larger"))
    assert done_here(asked).tables["values"].shape == (5 * rows, 3)


@needs_root
def test_a_disk_with_no_room_at_all_is_said_before_anything_starts(
    asking: Asking, small_disk: Path
) -> None:
    with (small_disk / "filler").open("wb", 0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"0" * 4096)
    with pytest.raises(WorkbenchError, match="No space left"):
        start(asking())
    (small_disk / "filler").unlink()
    done_here(asking())


@needs_root
def test_a_disk_with_room_for_a_question_alone_is_named(asking: Asking, small_disk: Path) -> None:
    """The run's process can write neither a log nor why it ended."""
    with (small_disk / "filler").open("wb", 0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"0" * 4096)
    os.truncate(small_disk / "filler", (small_disk / "filler").stat().st_size - 12_288)
    run = finished(start(asking(rows=4_000)))
    failure = run.status.failure
    assert run.status.state == "failed" and failure
    assert f"The disk at {small_disk} has" in failure.what


def test_a_file_that_cannot_grow_is_a_failure_that_says_so(asking: Asking) -> None:
    """The same without a disk of one's own: no file may pass 40 kB."""
    asked = asking(rows=4_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    try:
        run = start(asked, compute=HERE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    failure = run.status.failure
    assert failure and "File too large" in failure.what and failure.kind == "input"
    assert not contents(run)
    assert done_here(asked).status.attempt == 2


def test_a_disk_that_fills_when_the_end_is_written_down(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even "failed" can be written: whoever looks finds that out, and it can be run again."""
    whole = status.write

    def full(folder: Path, now: status.Status) -> None:
        if now.state in ("done", "failed"):
            raise WorkbenchError("cannot be written: No space left.", remedy="Make room.")
        whole(folder, now)

    with monkeypatch.context() as filling:
        filling.setattr(status, "write", full)
        with pytest.raises(WorkbenchError, match="No space left"):
            start(asking(), compute=HERE)
        (run,) = [run for run, _ in all_runs()]
        now = run.status
        assert now.state == "failed" and now.failure and now.failure.kind == "died"
        with pytest.raises(WorkbenchError, match="has no results"):
            _ = run.tables
    done_here(asking())


def test_a_full_disk_is_no_bug_where_a_library_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left (os error 28)")

    with pytest.raises(SafetensorError) as caught:
        full()
    assert execute._crash(tmp_path, caught.value, ()).code == "disk-full"
    folder = tmp_path / "run"
    folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(execute, "_attempt", full)
        assert execute.execute(status.Journal(folder), SUBRUNS) != 0
    stored = status.read(folder)
    assert stored and stored.failure and stored.failure.code == "disk-full"
    assert "File" not in str(stored.failure.lines), "a traceback is for bugs"
    shutil.rmtree(folder)
    monkeypatch.setattr(model_card, "write", full)
    with pytest.raises(WorkbenchError, match="The disk at"):
        export_model("mini:bert", tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


def test_events_that_cannot_be_written_do_not_end_a_run(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(status.os, "write", full)
    assert status.read_events(done_here(asking()).path)[0] == []


@needs_root
def test_runs_on_a_disk_one_may_only_read(asking: Asking, place: Path) -> None:
    """What is done is answered; what is not is said; what died is told, though not written down."""
    run, dead = done_here(asking()), launch.start(asking(1, mood="numb"))
    before = contents(run)
    os.kill(process_of(dead), 9)
    await_free(dead)
    mount("--bind", "-o", "ro", str(place), str(place))
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
        assert start(asking()).status.state == "done" and contents(run) == before
        assert dict(api.open_run(run.name).tables)
        assert dead.status.failure.kind == "died"  # type: ignore[union-attr]
        assert len(all_runs()) == 2
        for refused in (
            lambda: start(asking(2)),
            lambda: start(asking(1, mood="numb")),
            lambda: launch.remove(run),
        ):
            with pytest.raises(WorkbenchError, match="cannot be written: Read-only file system"):
                refused()  # type: ignore[no-untyped-call]
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("named", ["/proc/runs", "/dev/null/runs", "file"])
def test_a_folder_of_runs_that_cannot_be(
    named: str, asking: Asking, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    asked = asking()
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / named))
    with pytest.raises(WorkbenchError, match=r"cannot be written(.|\n)*WORKBENCH_RUNS"):
        start(asked)
    assert all_runs() == []


# --- the status -----------------------------------------------------------------------------------

CORRUPT: dict[str, bytes] = {
    "empty": b"",
    "cut short": b'{"state": "do',
    "no text": b"\xff\xfe\x00\x01",
    "a list": b'["done"]',
    "a number": b"7",
    "no state": b'{"experiment": "steps"}',
    "another state": b'{"state": "asleep"}',
    "a state that is a list": b'{"state": ["done"]}',
    "a failure that is text": b'{"state": "failed", "failure": "bad"}',
    "a failure without words": b'{"state": "failed", "failure": {"where": "x"}}',
    "a number without end": b'{"state": "running", "pid": Infinity}',
    "a pid that is text": b'{"state": "running", "pid": "many"}',
    "models that are no list": b'{"state": "done", "models": 5}',
    "very deep": b"[" * 100_000,
}


def test_a_corrupt_status_is_a_failed_run_that_can_be_run_again(asking: Asking) -> None:
    run = done_here(asking())
    before = contents(run)
    for name, content in CORRUPT.items():
        (run.path / status.FILE).write_bytes(content)
        (found,) = all_runs()
        assert found[1].state == "failed" and found[1].failure, name
        assert "cannot be read" in found[1].failure.what
        with pytest.raises(WorkbenchError, match="has no results"):
            _ = Run(run.path).tables
        if name in ("no text", "no state", "very deep"):
            assert contents(done_here(asking())) == before


@pytest.mark.parametrize(
    "content",
    [
        {"state": "done", "created": 5, "seconds": "3", "later": {"made": "up"}},
        {"state": "failed", "failure": {"what": 5, "kind": 7, "lines": "abc", "more": 1}},
    ],
)
def test_a_status_of_another_format_is_read_as_far_as_it_goes(
    content: dict[str, Any], place: Path
) -> None:
    folder = place / "steps-0"
    folder.mkdir(parents=True)
    (folder / status.FILE).write_text(json.dumps(content))
    ((_, now),) = all_runs()
    assert now.state == content["state"] and isinstance(now.created, str)
    assert now.failure is None or str(now.failure.error())


@pytest.mark.parametrize("how", ["a folder", "a pipe", "a link"])
def test_a_status_that_is_no_file_is_said(how: str, asking: Asking, place: Path) -> None:
    path = done_here(asking()).path / status.FILE
    path.unlink()
    {
        "a folder": path.mkdir,
        "a pipe": lambda: os.mkfifo(path),
        "a link": lambda: path.symlink_to(place / "elsewhere"),
    }[how]()
    assert all_runs()[0][1].state == "failed"
    with pytest.raises(WorkbenchError):
        start(asking())
    assert not (place / "elsewhere").exists()


def test_the_spec_of_another_request_is_not_run_under_this_name(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = launch.spec.write
    monkeypatch.setattr(launch.spec, "write", lambda folder, _: write(folder, asking(7)))
    failure = finished(start(asking())).status.failure
    assert failure and failure.code == "run-outdated"
    monkeypatch.undo()


def test_a_damaged_spec_is_an_error_and_its_tables_can_be_read(asking: Asking) -> None:
    run = done_here(asking())
    for content in (b"", b"{}", b'{"experiment": 5}', b"\xff", b"[" * 50_000):
        (run.path / "spec.json").write_bytes(content)
        with pytest.raises(WorkbenchError, match="run-damaged"):
            _ = api.open_run(run.name).spec
        assert dict(api.open_run(run.name).tables)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tables", {"values": "many"}),
        ("figures", [{}]),
        ("caveats", [{"text": "x", "beside": 1}]),
        ("files", {"tables/values.parquet": {"bytes": "few", "sha256": ""}}),
    ],
)
def test_a_damaged_provenance_is_said(name: str, value: object, asking: Asking) -> None:
    run = done_here(asking())
    path = run.path / PROVENANCE
    path.write_text(json.dumps({**json.loads(path.read_bytes()), name: value}))
    for look in (lambda run: run.caveats, lambda run: list(run.figures), Run.as_data):
        with pytest.raises(WorkbenchError, match=name):
            look(Run(run.path))


def test_a_run_of_another_format_is_left_alone(asking: Asking) -> None:
    run = done_here(asking())
    path = run.path / "spec.json"
    later = {**json.loads(path.read_bytes()), "format": spec.FORMAT + 1, "mood": "calm"}
    path.write_text(json.dumps(later))
    before = contents(run), path.read_bytes(), (run.path / PROVENANCE).read_bytes()
    for refused in (lambda: start(asking()), lambda: Run(run.path).spec):
        with pytest.raises(WorkbenchError, match="run-format"):
            refused()
    assert before == (contents(run), path.read_bytes(), (run.path / PROVENANCE).read_bytes())
    assert [now.state for _, now in all_runs()] == ["done"]


def test_many_processes_read_the_same_status_of_a_run_that_died(asking: Asking) -> None:
    run = start(asking(mood="leaves"))
    await_free(run)
    found: list[status.Status] = []
    lookers = [threading.Thread(target=lambda: found.append(run.status)) for _ in range(16)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    told = {(now.state, now.failure) for now in [*found, run.status]}
    assert len(told) == 1 and found[0].failure


# --- several at once, clocks, many ----------------------------------------------------------------


def _asks(asked: Spec, ready: Any, answers: Any) -> None:
    ready.wait()
    run = finished(start(asked))
    answers.put((run.status.state, str(run.path)))


@pytest.mark.parametrize("before", mostly(["nothing", "a failure"], "a failure"))
def test_of_six_that_ask_at_once_one_computes(before: str, asking: Asking) -> None:
    asked = asking(pause=0.02)
    if before == "a failure":
        os.kill(start_and_begin(asked), 9)
    processes = multiprocessing.get_context("fork")
    ready, answers = processes.Barrier(6), processes.Queue()
    arguments = asked, ready, answers
    askers = [processes.Process(target=_asks, args=arguments) for _ in range(6)]
    for asker in askers:
        asker.start()
    found = {answers.get(timeout=30) for _ in askers}
    for asker in askers:
        asker.join()
    ((state, path),) = found
    assert state == "done"
    told = status.read_events(Path(path))[0]
    began = [e for e in told if e["kind"] == "state" and e["state"] == "running"]
    assert len(began) == 1 + (before == "a failure")


def start_and_begin(asked: Spec) -> int:
    run = start(asked)
    while not any(e["kind"] == "log" for e in status.read_events(run.path)[0]):
        time.sleep(0.005)
    return process_of(run)


def test_looking_at_a_lock_never_keeps_a_taker_out(tmp_path: Path) -> None:
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            locks.is_held(tmp_path / "lock")

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    for _ in range(100):
        handle = locks.take(tmp_path / "lock")
        assert handle is not None and locks.take(tmp_path / "lock") is None
        os.close(handle)
    stop.set()
    for looker in lookers:
        looker.join()


def test_a_clock_that_jumps_back(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    years = iter(range(9_999, 0, -1))
    monkeypatch.setattr(status, "utc_now", lambda: f"{next(years):04}-01-01T00:00:00")
    monkeypatch.setattr(time, "time", lambda: float(next(years)))
    run = start(asking(pause=0.01), compute=HERE)
    now = run.status
    assert now.state == "done" and 0.05 <= now.seconds < 5 and now.ended < now.started
    lefts = [e["left"] for e in status.read_events(run.path)[0] if e["kind"] == "progress"]
    assert all(left is None or left >= 0 for left in lefts)
    assert len(all_runs()) == 1 and [e["kind"] for e in launch.follow(run)][-1] == "state"


@pytest.mark.parametrize("number", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_runs_are_listed_in_little_more_than_it_takes_to_read_them(
    number: int, place: Path
) -> None:
    text = json.dumps(status.asdict(status.Status("done", "steps", created="2026-01-01")))
    for year in range(number):
        folder = place / f"steps-{year:016}"
        folder.mkdir(parents=True)
        (folder / status.FILE).write_text(text.replace("2026", f"{year:05}"))
    listed, read = [], []
    for _ in range(5):
        clock = time.process_time()
        found = all_runs()
        listed.append(time.process_time() - clock)
        clock = time.process_time()
        plain = [
            json.loads((folder / status.FILE).read_text()) for folder in sorted(place.iterdir())
        ]
        read.append(time.process_time() - clock)
    assert len(found) == len(plain) == number and found[0][0].name.endswith(f"{number - 1}")
    assert median(own / other for own, other in zip(listed, read, strict=True)) < 2


# --- the experiment -------------------------------------------------------------------------------

ENDS = {
    "raises": ("bug", "LookupError: the third drawer is empty", "about to go wrong"),
    "segfaults": ("died", "ended without an error message", "Segmentation fault"),
    "leaves": ("died", "ended without an error message", "gone"),
    "exits": ("bug", "SystemExit: no more", "sys.exit"),
    "no memory": ("input", "out of memory", ""),
}


@pytest.mark.parametrize("mood", ENDS)
def test_an_experiment_that_goes_wrong(
    mood: str, asking: Asking, request: pytest.FixtureRequest
) -> None:
    if mood == "segfaults":
        request.getfixturevalue("fresh_workers")  # it logs every frame and module there is
    kind, what, line = ENDS[mood]
    dies = kind == "died"
    run = finished(start(asking(mood=mood), share=True, compute=None if dies else HERE))
    failure = run.status.failure
    assert run.status.state == "failed" and failure
    assert failure.kind == kind and what in failure.what
    assert line in "\n".join(status.log_lines(run.path))
    with pytest.raises(WorkbenchError, match="has no results"):
        _ = run.tables
    with pytest.raises(WorkbenchError) as raised:
        api.require_finished(run)
    assert what in str(raised.value) and failure.remedy in str(raised.value)


def test_an_experiment_that_prints_much_does_not_stop(asking: Asking) -> None:
    run = done(asking(mood="prints"))
    assert status.log_lines(run.path)[-1].endswith("of very many")


def test_warnings_are_written_down_once(asking: Asking) -> None:
    run = done(asking(mood="warns"))
    assert run.warnings == ["this is odd"]


def test_lines_of_events_that_were_torn_are_passed_over(asking: Asking) -> None:
    run = done_here(asking())
    whole = len(status.read_events(run.path)[0])
    with (run.path / status.EVENTS).open("ab") as file:
        file.write(
            b'{"time": "x", "kind": "log", "te\n{"kind": "log"}\n[1]\n\xff\n{}\n{"kind": "pro'
        )
    status.add_event(run.path, "log", text="glued to what was torn")
    status.add_event(run.path, "log", text="after")
    found = status.read_events(run.path)[0]
    assert len(found) == whole + 1 and found[-1]["text"] == "after"
    assert list(launch.follow(run))[-1]["text"] == "after" and status.log_lines(run.path)


def test_a_worker_imports_nothing_heavy_for_an_experiment_that_needs_nothing(
    asking: Asking, package: Path
) -> None:
    run = done_here(asking())
    look = (
        "import sys; from pathlib import Path; from workbench.runs.execute import execute;"
        "from workbench.runs.status import Journal; from workbench.runs.subruns import SUBRUNS;"
        f"assert execute(Journal(Path({str(run.path)!r})), SUBRUNS) == 0;"
        "print({'torch', 'spacy', 'transformers', 'plotly', 'distributed'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"


@pytest.mark.usefixtures("fresh_workers")
@pytest.mark.parametrize(
    "where", mostly(["gone", "with a module of that name"], "with a module of that name")
)
def test_the_folder_that_one_works_in_is_nothing_to_a_worker(
    where: str, asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asking()
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    if where == "gone":
        here.rmdir()
    else:
        (here / "json.py").write_text("raise SystemExit('not the right json')")
    done(asked)


def test_a_folder_of_runs_whose_name_is_not_utf8(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", os.fsdecode(bytes(tmp_path) + b"/\xff"))
    run = done(asking())
    assert json.dumps(run.as_data()) and len(all_runs()) == 1


def test_a_corpus_whose_name_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt"))
    path.write_text("One line.")
    with pytest.raises(WorkbenchError, match="not UTF-8"):
        make_request("describe", [], [path])
