"""How a run stands: `status.json`, always whole, for it is moved into place.

A run that says it is under way while nobody holds its lock has died; `settled` finds that out and
writes it down, with the last lines of its log. Costs one small file, and for a run under way a look
at its lock.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, asdict, dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from workbench.core.errors import WorkbenchError
from workbench.core.files import (
    open_regular,
    open_to_add,
    parsed_json,
    read_regular,
    reason_of,
    unwritable,
    written_whole,
)
from workbench.runs import locks
from workbench.runs.spec import unlinked

State = Literal["queued", "running", "done", "failed", "cancelled"]
UNDER_WAY = ("queued", "running")
FILE, LOCK, LOG = "status.json", "lock", "log.txt"
SCRATCH = "checkpoint"  # the folder of what a run goes on from
CANCEL = "cancel"  # a file of this name asks the run to end
LINES = 20  # of the log, with a failure
CODES = {"done": 0, "failed": 1, "cancelled": 130}  # exit codes, where bad input is not the reason


@dataclass(frozen=True)
class Failure:
    """Why a run failed; `kind` is input where the user can mend it, else bug, or died."""

    what: str
    where: str = ""
    remedy: str = "Run it again; its log has the details."
    kind: Literal["input", "bug", "died"] = "bug"
    lines: tuple[str, ...] = ()

    def error(self) -> WorkbenchError:
        """The same to be raised."""
        return WorkbenchError(self.what, where=self.where, remedy=self.remedy)


@dataclass(frozen=True)
class Status:
    """Where a run stands, and what a list of runs shows of it."""

    state: State
    experiment: str = ""
    models: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ()
    created: str = ""
    started: str = ""
    ended: str = ""
    seconds: float = 0.0  # of the last attempt, by a clock that never jumps
    attempt: int = 0
    pid: int = 0
    host: str = ""
    device: str = ""
    scheduler: str = ""  # of the cluster it was given to
    parts_on: str = ""  # of the cluster that a sweep's parts are given to
    part_of: str = ""  # the sweep that started it
    guest: bool = False  # runs inside a process that is not its own, such as a notebook
    failure: Failure | None = None

    @property
    def under_way(self) -> bool:
        return self.state in UNDER_WAY

    @property
    def here(self) -> bool:
        """Whether its process is on this machine."""
        return self.host == socket.gethostname()


def read(folder: Path) -> Status | None:
    """The status as written; None where there is none, or none that can be understood."""
    try:
        return _status(parsed_json(read_regular(unlinked(folder / FILE))))
    except (WorkbenchError, OSError, ValueError, TypeError, LookupError, ArithmeticError):
        return None


def write(folder: Path, status: Status) -> None:
    """Put a status in the place of the old one."""
    with written_whole(unlinked(folder / FILE)) as draft:
        draft.write_text(json.dumps(asdict(status), indent=1))


def settled(folder: Path) -> Status:
    """How a run stands in truth: one whose process has died is failed, and is written down so.

    Of a run on a cluster nobody here can tell: where one machine dies, another goes on.
    """
    found = read(folder)
    if found is not None and (found.scheduler or not found.under_way):
        return found
    return ended(folder)


def ended(folder: Path, why: Failure | None = None) -> Status:
    """How a run stands; if it says it is under way and nobody does it, it is ended here."""
    with locks.unheld(folder / LOCK) as nobody:
        found = read(folder)
        if not nobody:
            return found or Status("running")
        if found is not None and not found.under_way:
            return found
        now = replace(found or Status("failed"), ended=utc_now())
        if (folder / CANCEL).exists():
            now = replace(now, state="cancelled")
        else:
            now = replace(now, state="failed", failure=why or _death(folder, found))
        if os.path.lexists(folder / FILE):
            with suppress(OSError, WorkbenchError):  # where one may only read, it is told each time
                write(folder, now)
                text = now.failure.what if now.failure else ""
                add_event(folder, "state", state=now.state, text=text)
        return now


def _death(folder: Path, found: Status | None) -> Failure:
    where = ""
    if found is not None:
        what = f"its process ended without a word while the run was {found.state}"
    elif os.path.lexists(folder / FILE):
        what, where = f"its status cannot be read: {_unread(folder)}", str(folder / FILE)
    else:
        what = "it was never started"
    remedy = "Run it again: what it had saved is used."
    with suppress(OSError):
        disk = os.statvfs(folder)
        if disk.f_blocks and not disk.f_bavail:  # then it could say nothing, nor save
            full = unwritable(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), remedy)
            return Failure(full.what, full.where, full.remedy, "died", log_lines(folder))
    return Failure(f"{what}.", where, remedy=remedy, kind="died", lines=log_lines(folder))


def _unread(folder: Path) -> str:
    """Why a status cannot be read."""
    try:
        _status(parsed_json(read_regular(unlinked(folder / FILE))))
    except WorkbenchError as error:
        return error.what.rstrip(".")
    except (LookupError, TypeError):
        return "it is none that Workbench wrote"
    except (OSError, ValueError, ArithmeticError) as error:
        return reason_of(error)
    return "it was being written"


def log_lines(folder: Path, most: int = LINES) -> tuple[str, ...]:
    """The last lines a run has said, in its log or on its own output."""
    said = [str(e["text"]) for e in last(folder) if e["kind"] in ("log", "warning")]
    try:
        with open_regular(folder / LOG) as file:
            file.seek(max(0, (folder / LOG).stat().st_size - TAIL))
            printed = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        printed = []
    lines = [line for line in [*said[-most:], *printed[-most:]] if line.strip()]
    return tuple(line[:LONGEST] for line in lines[-most:])


def _status(data: Any) -> Status:
    facts = _facts(data, Status)
    if facts["state"] not in get_args(State):
        raise ValueError(facts["state"])
    if facts.get("failure"):
        facts["failure"] = Failure(**_facts(facts["failure"], Failure))
    return Status(**facts)


def _facts(data: Any, kind: type) -> dict[str, Any]:
    """What is known of it, each of its own type."""
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


# --- events ---------------------------------------------------------------------------------------
#
# What a run tells while it goes on: `events.jsonl`, to which lines are only ever added.
#
# A line is one write to a file opened for appending, so lines of several processes never mix, and
# a line cut short by a crash is passed over. Telling is not doing: a line that cannot be written
# is let go. Readers go on where they stopped. Costs a system call an event; progress is written
# twice a second at most.

EVENTS = "events.jsonl"
LONGEST = 4_000  # characters of a log line that are kept
TAIL = 64 * 1024  # bytes from the end in which the last lines are looked for
_FACTS = {
    "progress": {"done", "total", "doing", "left"},
    "log": {"text"},
    "warning": {"text"},
    "state": {"state"},
}


def utc_now() -> str:
    """The time of day, in UTC; for people to read, never to reckon with."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def add_event(folder: Path, kind: str, **facts: Any) -> None:
    """Add one event."""
    if "text" in facts:
        facts["text"] = str(facts["text"])[:LONGEST]
    line = json.dumps({"time": utc_now(), "kind": kind, **facts}, ensure_ascii=True) + "\n"
    with suppress(OSError):
        handle = open_to_add(folder / EVENTS)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def read_events(folder: Path, start: int = 0) -> tuple[list[Mapping[str, Any]], int]:
    """The events from a place on, and the place to go on from."""
    try:
        with open_regular(folder / EVENTS) as file:
            file.seek(start)
            content = file.read()
    except OSError:
        return [], start
    whole = content.rfind(b"\n") + 1
    return list(_parsed(content[:whole])), start + whole


def last(folder: Path) -> list[Mapping[str, Any]]:
    """The events near the end, the last one last."""
    try:
        size = (folder / EVENTS).stat().st_size
    except OSError:
        return []
    return read_events(folder, max(0, size - TAIL))[0]


def last_start(folder: Path) -> int:
    """Where the present attempt begins."""
    start = place = 0
    with suppress(OSError), open_regular(folder / EVENTS) as file:
        for line in file:
            if b'"state": "queued"' in line:  # text has its quotes escaped
                start = place
            place += len(line)
    return start


def _parsed(content: bytes) -> Iterator[Mapping[str, Any]]:
    for line in content.split(b"\n"):
        try:
            event = parsed_json(line)
        except ValueError:
            continue  # cut short
        if isinstance(event, dict) and _FACTS.get(str(event.get("kind")), {""}) <= event.keys():
            yield event


# --- the journal ----------------------------------------------------------------------------------
#
# How a run tells what it does: its state, progress with the time left, log lines; it hears
# cancel.
#
# An experiment may report as often as it likes; two lines a second at most are written. The time
# left is reckoned by a clock that never jumps. A file `cancel` in the run's folder, or the
# terminating signal, ends the run at its next step.

EVERY = 0.5  # seconds between two lines of progress


class Cancelled(BaseException):
    """The run was asked to end; not an error, and not to be caught by an experiment."""


class Journal:
    """The `Progress` of a run with a folder; only the holder of its lock has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = read(folder) or Status("queued")
        self.status = replace(found, pid=os.getpid(), host=socket.gethostname())
        write(folder, self.status)
        self._doing, self._since, self._told, self._base = "", time.monotonic(), 0.0, 0

    def becomes(self, state: State, **facts: Any) -> None:
        """Write down a new state of the run."""
        now = replace(self.status, state=state, **facts)
        write(self.folder, now)
        self.status = now
        failure = self.status.failure
        add_event(self.folder, "state", state=state, text=failure.what if failure else "")

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        now = time.monotonic()
        doing = doing or self._doing
        if doing != self._doing or done < self._base:
            self._doing, self._since, self._base, self._told = doing, now, done, 0.0
        if now - self._told < EVERY and done != total:
            return
        self.check()
        self._told = now
        left = None
        if total and done > self._base:
            left = round(float((now - self._since) * (total - done) / (done - self._base)), 1)
        total = None if total is None else int(total)
        facts = {"done": int(done), "total": total, "doing": str(doing), "left": left}
        add_event(self.folder, "progress", **facts)

    def log(self, text: str) -> None:
        add_event(self.folder, "log", text=text)

    def warn(self, text: str) -> None:
        add_event(self.folder, "warning", text=text)

    def check(self) -> None:
        """End here if the run was asked to."""
        if (self.folder / CANCEL).exists():
            raise Cancelled
