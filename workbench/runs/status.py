"""The status of a run: `status.json`, always complete, because it is written atomically.

A run that is under way by its status while no process holds its lock has died; `settled` detects
this and stores it, with the last lines of the log. Costs: one small file, and for a run under way
a check of its lock.
"""

import errno
import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from workbench.core import names
from workbench.core.errors import WorkbenchError
from workbench.core.files import (
    open_for_append,
    open_regular,
    parse_json,
    read_json,
    reason_of,
    unwritable,
    write_atomically,
)
from workbench.core.findings import listing
from workbench.runs import spec
from workbench.runs.processes import locks
from workbench.runs.similar import Earlier
from workbench.runs.spec import unlinked

State = Literal["queued", "running", "done", "failed", "cancelled"]
UNDER_WAY = ("queued", "running")
FILE, LOCK, LOG = "status.json", "lock", "log.txt"
SCRATCH = "checkpoint"  # the folder of the checkpoints of a run
CANCEL = "cancel"  # a file of this name tells the run to end
LINES = 40  # lines of the log that are stored with a failure
CODES = {"done": 0, "failed": 1, "cancelled": 130}  # exit codes, except for bad input


@dataclass(frozen=True)
class Failure:
    """Why a run failed; `kind` is "input" for a user error, else "bug" or "died"."""

    what: str
    where: str = ""
    remedy: str = "Run it again; the log has the details."
    kind: Literal["input", "bug", "died"] = "bug"
    lines: tuple[str, ...] = ()
    code: str = "run-failed"

    @classmethod
    def of(cls, error: WorkbenchError, lines: tuple[str, ...] = ()) -> "Failure":
        """Return the failure of a run with a user error."""
        return cls(error.what, error.where, error.remedy, "input", lines, error.code)

    def error(self) -> WorkbenchError:
        """Return the failure as an error that can be raised."""
        return WorkbenchError(self.what, code=self.code, where=self.where, remedy=self.remedy)


@dataclass(frozen=True)
class Status:
    """The state of a run, and what a list of runs shows."""

    state: State
    experiment: str = ""
    models: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ()
    created: str = ""
    started: str = ""
    ended: str = ""
    seconds: float = 0.0  # of the last attempt, by a monotonic clock
    expected: float = 0.0  # seconds, by an earlier run of the same experiment; 0: not known
    attempt: int = 0
    pid: int = 0
    host: str = ""
    device: str = ""
    scheduler: str = ""  # address of the cluster that computes it
    parts_on: str = ""  # address of the cluster that computes the parts of a sweep
    part_of: str = ""  # the sweep that started it
    guest: bool = False  # runs inside another process, such as a notebook
    failure: Failure | None = None

    @property
    def under_way(self) -> bool:
        return self.state in UNDER_WAY

    @property
    def here(self) -> bool:
        """Return whether its process is on this machine."""
        return self.host == socket.gethostname()


def read(folder: Path) -> Status | None:
    """Read the status as written; None if it is missing or cannot be read."""
    try:
        return _status(read_json(unlinked(folder / FILE)))
    except (WorkbenchError, OSError, ValueError, TypeError, LookupError, ArithmeticError):
        return None


def write(folder: Path, status: Status) -> None:
    """Replace the status."""
    write_atomically(unlinked(folder / FILE), json.dumps(asdict(status), indent=1))


def settled(folder: Path) -> Status:
    """Return the current status; a run whose process has died becomes "failed" on disk too.

    The process of a run on a cluster cannot be checked here: another machine may continue it.
    """
    stored = read(folder)
    if stored is not None and (stored.scheduler or not stored.under_way):
        return stored
    return ended(folder)


def ended(folder: Path, why: Failure | None = None) -> Status:
    """Return the current status; a run under way without a process is ended first."""
    with locks.unheld(folder / LOCK) as is_free:
        stored = read(folder)
        if not is_free:
            return stored or Status("running")
        if stored is not None and not stored.under_way:
            return stored
        now = replace(stored or Status("failed"), ended=utc_now())
        if (folder / CANCEL).exists():
            now = replace(now, state="cancelled")
        else:
            now = replace(now, state="failed", failure=why or _death(folder, stored))
        if os.path.lexists(folder / FILE):
            with suppress(
                OSError, WorkbenchError
            ):  # in a read-only folder this is repeated each time
                write(folder, now)
                text = now.failure.what if now.failure else ""
                add_event(folder, "state", state=now.state, text=text)
        return now


def _death(folder: Path, stored: Status | None) -> Failure:
    where, code = "", "process-died"
    if stored is not None:
        what = f"the process of the run ended without an error message while it was {stored.state}"
    elif os.path.lexists(folder / FILE):
        what, where = f"the status cannot be read: {_unread(folder)}", str(folder / FILE)
        code = "run-damaged"
    else:
        what, code = "the run was never started", "run-not-started"
    remedy = (
        "Run it again: training continues from its last checkpoint, a sweep with the runs "
        "that are not done, others from their beginning."
    )
    with suppress(OSError):
        disk = os.statvfs(folder)
        if disk.f_blocks and not disk.f_bavail:  # then the run could not write its status
            full = unwritable(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), remedy)
            return replace(Failure.of(full, log_lines(folder)), kind="died")
    return Failure(f"{what}.", where, remedy, "died", log_lines(folder), code)


def _unread(folder: Path) -> str:
    """Return why a status cannot be read."""
    try:
        _status(read_json(unlinked(folder / FILE)))
    except WorkbenchError as error:
        return error.what.rstrip(".")
    except (LookupError, TypeError):
        return "Workbench did not write it"
    except (OSError, ValueError, ArithmeticError) as error:
        return reason_of(error)
    return "it was being written"


def log_lines(folder: Path, maximum: int = LINES) -> tuple[str, ...]:
    """Return the last lines of a run, of its log and of its standard output."""
    logged = [str(e["text"]) for e in last(folder) if e["kind"] in ("log", "warning")]
    try:
        with open_regular(folder / LOG) as file:
            file.seek(max(0, (folder / LOG).stat().st_size - TAIL))
            printed = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        printed = []
    lines = [line for line in [*logged[-maximum:], *printed[-maximum:]] if line.strip()]
    return tuple(line[:LONGEST] for line in lines[-maximum:])


def log_line(event: Mapping[str, Any]) -> str:
    """Return the line of an event of a log, which says whether it is a warning."""
    return f"warning: {event['text']}" if event["kind"] == "warning" else str(event["text"])


def _status(data: Any) -> Status:
    facts = _facts(data, Status)
    if facts["state"] not in get_args(State):
        raise ValueError(facts["state"])
    if facts.get("failure"):
        facts["failure"] = Failure(**_facts(facts["failure"], Failure))
    return Status(**facts)


def _facts(data: Any, kind: type) -> dict[str, Any]:
    """Return the known fields of the data, each converted to its type."""
    return {name: read(data[name]) for name, read in _readers(kind) if name in data}


@cache
def _readers(kind: type) -> list[tuple[str, Callable[[Any], Any]]]:
    return [(item.name, _reader(item)) for item in fields(kind)]


def _reader(item: Field[Any]) -> Callable[[Any], Any]:
    if isinstance(item.default, tuple):
        return lambda value: tuple(map(str, value))
    if isinstance(item.default, int | float):
        return type(item.default)
    return str if item.name != "failure" else lambda value: value


# --- the names of runs, and those that a run has started ------------------------------------------

NamedStatus = tuple[str, Status]  # the name of a run and its status


def whole_of(name: str, known: Mapping[str, Status]) -> str:
    """Return the run that started a run, or the one that started that one, as far as known."""
    at, passed = name, {name}
    while (above := known[at].part_of) in known:
        if above in passed:  # somebody has edited the files: each is a whole of its own
            return name
        passed.add(at := above)
    return at


def inputs_of(folder: Path, now: Status) -> tuple[Sequence[str], Sequence[str]]:
    """Return the models and corpora of a run by the names that they have now."""
    if names.are_given():
        with suppress(WorkbenchError):
            return spec.names_in([spec.with_given_names(spec.read(folder))])
    return now.models, now.corpora


def title(folder: Path, now: Status) -> str:
    """Return a run in words: `heads of mini:bert on primer`."""
    models, corpora = map(listing, inputs_of(folder, now))
    of, on = f" of {models}" if models else "", f" on {corpora}" if corpora else ""
    return f"{now.experiment or folder.name}{of}{on}"


def families(
    runs: Iterable[NamedStatus], matches: Iterable[NamedStatus] | None = None
) -> list[tuple[NamedStatus, list[NamedStatus]]]:
    """Return the runs that match, or started one that does, each with the runs that it started.

    Of a run that does not match itself, only those that do. All match by default.
    """
    known = dict(runs)
    wanted = {*known} if matches is None else {name for name, _ in matches}
    found: dict[str, list[NamedStatus]] = {
        name: [] for name in known if whole_of(name, known) == name
    }
    for name, now in known.items():
        if (root := whole_of(name, known)) != name and wanted & {name, root}:
            found[root].append((name, now))
    return [
        ((name, known[name]), parts) for name, parts in found.items() if parts or name in wanted
    ]


# --- events ---------------------------------------------------------------------------------------
#
# The events of a run under way: `events.jsonl`, a file to which lines are only appended.
#
# Each line is one write to a file opened for appending, so lines of several processes never mix. A
# line that a crash has truncated is skipped. A line that cannot be written is dropped: events must
# not stop a run. Readers continue where they stopped. Costs: a system call per event; progress is
# written at most twice a second.

EVENTS = "events.jsonl"
LONGEST = 4_000  # maximum number of characters of a log line
TAIL = 64 * 1024  # bytes at the end of a file in which the last lines are searched
_FACTS = {
    "progress": {"done", "total", "doing", "left"},
    "log": {"text"},
    "warning": {"text"},
    "state": {"state"},
}


def utc_now() -> str:
    """Return the time in UTC; for reading only, durations use a monotonic clock."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def add_event(folder: Path, kind: str, **facts: Any) -> None:
    """Append one event."""
    if "text" in facts:
        facts["text"] = str(facts["text"])[:LONGEST]
    line = json.dumps({"time": utc_now(), "kind": kind, **facts}, ensure_ascii=True) + "\n"
    with suppress(OSError):
        handle = open_for_append(folder / EVENTS)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def read_events(folder: Path, start: int = 0) -> tuple[list[Mapping[str, Any]], int]:
    """Return the events from a byte offset on, and the offset to continue from."""
    try:
        with open_regular(folder / EVENTS) as file:
            file.seek(start)
            content = file.read()
    except OSError:
        return [], start
    whole = content.rfind(b"\n") + 1
    return list(_parsed(content[:whole])), start + whole


def last(folder: Path) -> list[Mapping[str, Any]]:
    """Return the last events, in order."""
    try:
        size = (folder / EVENTS).stat().st_size
    except OSError:
        return []
    return read_events(folder, max(0, size - TAIL))[0]


def last_start(folder: Path) -> int:
    """Return the byte offset at which the current attempt begins."""
    start = offset = 0
    with suppress(OSError), open_regular(folder / EVENTS) as file:
        for line in file:
            if b'"state": "queued"' in line:  # quotes in texts are escaped
                start = offset
            offset += len(line)
    return start


def _parsed(content: bytes) -> Iterator[Mapping[str, Any]]:
    for line in content.split(b"\n"):
        try:
            event = parse_json(line)
        except ValueError:
            continue  # truncated
        if isinstance(event, dict) and _FACTS.get(str(event.get("kind")), {""}) <= event.keys():
            yield event


# --- the journal ----------------------------------------------------------------------------------
#
# How a run reports its state, its progress with the time left, and log lines, and is cancelled.
#
# An experiment may report as often as it likes; at most two lines a second are written. What it is
# doing is the name of a stage, followed by a colon and details if there are any; only a new name
# begins a new stage. The time left is computed with a monotonic clock: that of the stage from its
# own rate, that of the run from an earlier one (`time_left`). A file `cancel` in the folder of the
# run, or SIGTERM, ends the run at its next step.

EVERY = 0.5  # minimum number of seconds between two lines of progress


class Cancelled(BaseException):
    """The run was cancelled; not an error, and not to be caught by an experiment."""


class Journal:
    """The `Progress` of a run with a folder; only the process that holds its lock has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        stored = read(folder) or Status("queued")
        self.status = replace(stored, pid=os.getpid(), host=socket.gethostname())
        write(folder, self.status)
        self.above: Journal | None = None  # of the run that waits for this one alone
        self.earlier: Earlier | None = None  # what the time left is estimated by
        self.left_of_parts: float | None = None  # seconds, of all runs that it waits for
        self.left_of_stage: float | None = None  # the same, where others follow that are not known
        self._doing, self._reported = "", 0.0
        self._began: float | None = None  # when it was running
        self._stage, self._stages = ("", 0), Counter[str]()
        self._since = self._loop = time.monotonic()  # the stage began, and its loop
        self._base = self._done = 0  # items at the beginning of the loop, and now
        self._loops = 1  # of the stage: its counter began again

    def becomes(self, state: State, **facts: Any) -> None:
        """Set and write a new state of the run."""
        now = replace(self.status, state=state, **facts)
        text = now.failure.what if now.failure else ""
        # first: who follows a run reads its events for the last time once it has ended
        add_event(self.folder, "state", state=state, text=text)
        write(self.folder, now)
        self.status = now
        if state == "running":
            self._began = time.monotonic()
            self._stage, self._stages = ("", 0), Counter()

    def __call__(
        self,
        done: int,
        total: int | None = None,
        doing: str = "",
        *,
        left_of_run: float | None = None,
    ) -> None:
        now = time.monotonic()
        doing = str(doing or self._doing)
        if (name := doing.partition(": ")[0]) != self._stage[0]:
            self._stage = name, self._stages[name]
            self._stages[name] += 1
            self._since = self._loop = now
            self._base, self._loops, self._reported = done, 1, 0.0
        elif done < self._done:
            self._loop, self._base = now, done
            self._loops += 1
        self._doing, self._done = doing, done
        if now - self._reported < EVERY and done != total:
            return
        self.check()
        self._reported = now
        left = None
        if total and done > self._base:
            left = round(float((now - self._loop) * (total - done) / (done - self._base)), 1)
        if self.left_of_stage is not None:
            left = round(self.left_of_stage, 1)
        total = None if total is None else int(total)
        if left_of_run is None:
            left_of_run = self._left_of_run(now, done / total if total else None, left)
        facts = {"done": int(done), "total": total, "doing": doing, "left": left}
        add_event(self.folder, "progress", **facts, left_of_run=left_of_run)
        if self.above is not None:
            stage = self.above._doing.partition(": ")[0]
            self.above(done, total, ": ".join(filter(None, (stage, doing))))

    def _left_of_run(self, now: float, share: float | None, left: float | None) -> float | None:
        """Return the seconds that the whole run has left, by its parts or by an earlier run."""
        if self.left_of_parts is not None:
            return round(self.left_of_parts, 1)
        if self._began is None or self.earlier is None:
            return (self.status.expected or None) if self._began is None else None
        if self._loops > 1:  # what is done of this loop says little of the stage
            share = left = None
        in_stage = now - self._since
        return self.earlier.left(now - self._began, self._stage, in_stage, share, left)

    def log(self, text: str) -> None:
        add_event(self.folder, "log", text=text)

    def warn(self, text: str) -> None:
        add_event(self.folder, "warning", text=text)

    def check(self) -> None:
        """Raise `Cancelled` if the run was cancelled."""
        if (self.folder / CANCEL).exists():
            raise Cancelled
