"""How a run tells what it does: its state, progress with the time left, log lines; it hears cancel.

An experiment may report as often as it likes; two lines a second at most are written. The time left
is reckoned by a clock that never jumps. A file `cancel` in the run's folder, or the terminating
signal, ends the run at its next step.
"""

import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.runs import events, status

EVERY = 0.5  # seconds between two lines of progress


class Cancelled(BaseException):
    """The run was asked to end; not an error, and not to be caught by an experiment."""


class Journal:
    """The `Progress` of a run with a folder; only the holder of its lock has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = status.read(folder) or status.Status("queued")
        self.status = replace(found, pid=os.getpid(), host=socket.gethostname())
        status.write(folder, self.status)
        self._doing, self._since, self._told, self._base = "", time.monotonic(), 0.0, 0

    def becomes(self, state: status.State, **facts: Any) -> None:
        """Write down a new state of the run."""
        now = replace(self.status, state=state, **facts)
        status.write(self.folder, now)
        self.status = now
        failure = self.status.failure
        events.add(self.folder, "state", state=state, text=failure.what if failure else "")

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
        events.add(self.folder, "progress", **facts)

    def log(self, text: str) -> None:
        events.add(self.folder, "log", text=text)

    def warn(self, text: str) -> None:
        events.add(self.folder, "warning", text=text)

    def check(self) -> None:
        """End here if the run was asked to."""
        if (self.folder / status.CANCEL).exists():
            raise Cancelled
