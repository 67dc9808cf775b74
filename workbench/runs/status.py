"""How a run stands: `status.json`, always whole, for it is moved into place.

A run that says it is under way while nobody holds its lock has died; `settled` finds that out and
writes it down, with the last lines of its log. Costs one small file, and for a run under way a look
at its lock.
"""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from workbench.errors import WorkbenchError
from workbench.files import written_whole
from workbench.runs import events, locks

State = Literal["queued", "running", "done", "failed", "cancelled"]
UNDER_WAY = ("queued", "running")
FILE, LOCK, LOG = "status.json", "lock", "log.txt"
LINES = 20  # of the log, with a failure
CODES = {"done": 0, "failed": 1, "cancelled": 130}  # exit codes, where bad input is not the reason


@dataclass(frozen=True)
class Failure:
    """Why a run failed; `kind` is input where the user can mend it, else bug, or died."""

    what: str
    where: str = ""
    remedy: str = ""
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
        handle = os.open(folder / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return _status(json.loads(file.read()))
    except (OSError, ValueError, TypeError):
        return None


def write(folder: Path, status: Status) -> None:
    """Put a status in the place of the old one."""
    with written_whole(folder / FILE) as draft:
        draft.write_text(json.dumps(asdict(status), indent=1))


def settled(folder: Path) -> Status:
    """How a run stands in truth: one whose process has died is failed, and is written down so."""
    found = read(folder)
    if found is not None and not found.under_way:
        return found
    if locks.is_held(folder / LOCK):
        return found or Status("running")
    if found is not None and found.scheduler and found.state == "queued":
        return found  # waits on a cluster, which holds no lock
    found = read(folder)  # it may have ended meanwhile
    if found is not None and not found.under_way:
        return found
    return _died(folder, found)


def _died(folder: Path, found: Status | None) -> Status:
    if found is None:
        what = "its status cannot be read" if (folder / FILE).exists() else "it was never started"
    else:
        what = f"its process ended without a word while the run was {found.state}"
    failure = Failure(
        f"{what}.",
        remedy="Run it again: what it had saved is used.",
        kind="died",
        lines=log_lines(folder),
    )
    dead = replace(found or Status("failed"), state="failed", ended=events.now(), failure=failure)
    with suppress(OSError, WorkbenchError):  # a folder one may only read is told the same each time
        handle = locks.take(folder / LOCK)
        if handle is not None:
            try:
                if read(folder) == found:
                    write(folder, dead)
                    events.add(folder, "state", state="failed", text=what)
            finally:
                os.close(handle)
    return dead


def log_lines(folder: Path, most: int = LINES) -> tuple[str, ...]:
    """The last lines a run has said, in its log or on its own output."""
    said = [str(e["text"]) for e in events.last(folder) if e["kind"] in ("log", "warning")]
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(0, (folder / LOG).stat().st_size - events.TAIL))
            printed = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        printed = []
    return tuple(line for line in [*said[-most:], *printed[-most:]] if line.strip())[-most:]


def _status(data: Mapping[str, Any]) -> Status:
    known = {item.name for item in fields(Status)}
    facts = {key: value for key, value in data.items() if key in known}
    if facts["state"] not in get_args(State):
        raise ValueError(facts["state"])
    for name in ("models", "corpora"):
        facts[name] = tuple(map(str, facts.get(name, ())))
    if facts.get("failure"):
        own = {item.name for item in fields(Failure)}
        given = {key: value for key, value in facts["failure"].items() if key in own}
        facts["failure"] = Failure(**given | {"lines": tuple(given.get("lines", ()))})
    return Status(**facts)
