"""Show how far a long explanation is, to who calls it from a session. Costs: nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm

DELAY = 2.0  # seconds without a bar


@contextmanager
def counted(
    on_progress: Callable[[int], object] | None, what: str
) -> Iterator[Callable[[int], object]]:
    """The function that is called with the number that is done: the caller's, or a bar's."""
    with tqdm(
        desc=what, unit=" texts", leave=False, delay=DELAY, disable=on_progress is not None
    ) as bar:
        yield on_progress or (lambda n_done: bar.update(n_done - bar.n))
