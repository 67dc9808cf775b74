"""A run in the background of a Python session: its progress, its end and its result.

    pending = wb.run("heads", model=net, corpus="primer", wait=False)
    pending.progress, pending.cancel(), pending.result()

A run of references has its own process. One of objects, or of an experiment in a cell, is computed
in a thread of this process; it sets the seeds of the random generators that the process has. Costs:
a process, or a thread.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.runs import status
from workbench.runs.launch import EVERY, cancel
from workbench.runs.run import Run, require_finished
from workbench.runs.time_left import progress_line


class PendingRun:
    """A run that was started without waiting for it.

    Example:
        >>> pending = wb.run("describe", corpus="primer:size=40", wait=False)
        >>> pending.result().status.state
        'done'
        >>> pending
        <PendingRun describe-...: done>
    """

    def __init__(
        self, run: Run, compute: Callable[[], object] | None = None, kept: object = None
    ) -> None:
        """`compute` computes the run in a thread; without it, its process is under way.

        `kept` are objects that the run finds by their hash, so they must live as long.
        """
        self.run, self.kept = run, kept
        self._failed: list[BaseException] = []
        self._thread: threading.Thread | None = None
        if compute is not None:
            context = copy_context()

            def computed() -> None:
                try:
                    context.run(compute)
                except BaseException as error:
                    self._failed.append(error)

            self._thread = threading.Thread(target=computed, name=run.name, daemon=True)
            self._thread.start()
            while self._thread.is_alive() and status.read(run.path) is None:
                time.sleep(EVERY / 10)  # until it is a run on disk

    @property
    def done(self) -> bool:
        """Whether it has ended: done, failed or cancelled."""
        alive = self._thread is not None and self._thread.is_alive()
        return not alive and not self.run.status.under_way

    @property
    def progress(self) -> Mapping[str, Any]:
        """Its `state`, and what it does: `doing`, `done` of `total`, and seconds `left`."""
        events = [each for each in status.last(self.run.path) if each["kind"] == "progress"]
        return {**(events[-1] if events else {}), "state": self.run.status.state}

    def cancel(self) -> None:
        """End it; one in this process ends at its next step."""
        if not self.done:
            cancel(self.run)

    def result(self, timeout: float | None = None) -> Run:
        """Wait until it has ended, and return it.

        Args:
            timeout: Maximum number of seconds to wait (default: no maximum).

        Returns:
            The finished `Run`.

        Raises:
            WorkbenchError: It failed or was cancelled, or is still under way after `timeout`.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self.done:
            if until is not None and time.monotonic() > until:
                raise WorkbenchError(
                    f"the run is {self.run.status.state} after {timeout:g} seconds.",
                    code="run-under-way",
                    where=self.run.name,
                    remedy="Wait longer, or end it with cancel().",
                )
            time.sleep(EVERY)
        if self._failed and not (self.run.path / status.FILE).exists():
            raise self._failed[0]  # before it was a run
        return require_finished(self.run)

    def __repr__(self) -> str:
        """Its name, its state, and what it does."""
        now = self.progress
        doing = f", {progress_line(now)}" if "doing" in now and not self.done else ""
        return f"<PendingRun {self.run.name}: {now['state']}{doing}>"
