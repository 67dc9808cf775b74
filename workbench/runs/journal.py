"""How a run tells what it does: progress with the time left, log lines, warnings; and hears cancel.

An experiment may report as often as it likes; two lines a second at most are written. The time left
is reckoned by a clock that never jumps. A file `cancel` in the run's folder, or the terminating
signal, ends the run at its next step.
"""

import time
from pathlib import Path

from workbench.runs import events

EVERY = 0.5  # seconds between two lines of progress
CANCEL = "cancel"  # a file of this name asks the run to end


class Cancelled(BaseException):
    """The run was asked to end; not an error, and not to be caught by an experiment."""


class Journal:
    """The `Progress` of a run with a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._doing, self._since, self._told, self._base = "", time.monotonic(), 0.0, 0

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
            left = round((now - self._since) * (total - done) / (done - self._base), 1)
        events.add(self.folder, "progress", done=done, total=total, doing=doing, left=left)

    def log(self, text: str) -> None:
        events.add(self.folder, "log", text=text)

    def warn(self, text: str) -> None:
        events.add(self.folder, "warning", text=text)

    def check(self) -> None:
        """End here if the run was asked to."""
        if (self.folder / CANCEL).exists():
            raise Cancelled
