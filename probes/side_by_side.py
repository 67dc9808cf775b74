"""Jobs on several threads of a CPU, one thread each; anywhere else one after another.

The steps of a probe are short: threads that share each of them wait for one another more than they
work. Costs nothing of its own.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import torch

T = TypeVar("T")


class SideBySide:
    """Collects jobs, and begins all of them when the first result is asked for.

    Where several run at once, torch has one thread for each of them until this is left. When it is
    left by an error, no further job is begun, and `check` ends those that run.
    """

    def __init__(self, device: torch.device) -> None:
        self._before = torch.get_num_threads()
        self._most = self._before if device.type == "cpu" else 1
        self._jobs: list[Callable[[], Any]] = []
        self._begun: list[Future[Any] | None] = []
        self._pool: ThreadPoolExecutor | None = None
        self._ended = Event()

    def __enter__(self) -> Self:
        return self

    def add(self, job: Callable[[], T]) -> Callable[[], T]:
        """Plan a job; what is returned gives its result, once, and nothing keeps it here."""
        place = len(self._jobs)
        self._jobs.append(job)
        return lambda: cast(T, self._result(place))

    def check(self) -> None:
        """Raise where this was left by an error; to be called by a job now and then."""
        if self._ended.is_set():
            raise InterruptedError("the run was ended")

    def _result(self, place: int) -> Any:
        threads = min(self._most, len(self._jobs))
        if threads < 2:
            return self._jobs[place]()
        if self._pool is None:
            torch.set_num_threads(1)
            self._pool = ThreadPoolExecutor(threads)
        self._begun += [self._pool.submit(job) for job in self._jobs[len(self._begun) :]]
        begun, self._begun[place] = self._begun[place], None
        assert begun is not None, "a result is asked for once"
        return begun.result()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._ended.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=error is not None)
            torch.set_num_threads(self._before)
