"""How a run stands: `status.json`, always whole, for it is moved into place.

A run that says it is under way while nobody holds its lock has died; `settled` finds that out and
writes it down, with the last lines of its log. Costs one small file, and for a run under way a look
at its lock.
"""

import errno
import json
import os
import socket
from contextlib import suppress
from dataclasses import Field, asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from workbench.core.errors import WorkbenchError
from workbench.core.files import (
    open_regular,
    parsed_json,
    read_regular,
    reason_of,
    unwritable,
    written_whole,
)
from workbench.runs import events, locks
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
        now = replace(found or Status("failed"), ended=events.now())
        if (folder / CANCEL).exists():
            now = replace(now, state="cancelled")
        else:
            now = replace(now, state="failed", failure=why or _death(folder, found))
        if os.path.lexists(folder / FILE):
            with suppress(OSError, WorkbenchError):  # where one may only read, it is told each time
                write(folder, now)
                text = now.failure.what if now.failure else ""
                events.add(folder, "state", state=now.state, text=text)
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
    said = [str(e["text"]) for e in events.last(folder) if e["kind"] in ("log", "warning")]
    try:
        with open_regular(folder / LOG) as file:
            file.seek(max(0, (folder / LOG).stat().st_size - events.TAIL))
            printed = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        printed = []
    lines = [line for line in [*said[-most:], *printed[-most:]] if line.strip()]
    return tuple(line[: events.LONGEST] for line in lines[-most:])


def _status(data: Any) -> Status:
    facts = _facts(data, Status)
    if facts["state"] not in get_args(State):
        raise ValueError(facts["state"])
    if facts.get("failure"):
        facts["failure"] = Failure(**_facts(facts["failure"], Failure))
    return Status(**facts)


@cache
def _fields(kind: type) -> tuple[Field[Any], ...]:
    return fields(kind)


def _facts(data: Any, kind: type) -> dict[str, Any]:
    """What is known of it, each of its own type."""
    found = {}
    for item in _fields(kind):
        if item.name not in data:
            continue
        value = data[item.name]
        if isinstance(item.default, tuple):
            value = tuple(map(str, value))
        elif isinstance(item.default, int | float):
            value = type(item.default)(value)
        elif item.name != "failure":
            value = str(value)
        found[item.name] = value
    return found
