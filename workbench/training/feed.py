"""Micro-batches in the order of steps, on the device when they are needed.

On a GPU a step's micro-batches are drawn and copied while the step before is computed; on a CPU,
whose cores are all at work, just before. Costs one step's token ids in memory.
"""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from workbench.training.distributed import Place
from workbench.training.task import Micro


def seed_of(*numbers: int) -> int:
    """A seed that numbers decide, such as the run's, the step's and the micro-batch's."""
    text = " ".join(map(str, numbers)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def feed(
    draw: Callable[[int, int], Micro], first: int, per_step: int, place: Place
) -> Iterator[list[Micro]]:
    """This process' share of each step from `first` on, without end."""

    def drawn(step: int) -> list[Micro]:
        return [draw(step, number) for number in range(place.rank, per_step, place.world)]

    if place.device.type == "cpu":
        for step in count(first):
            yield drawn(step)
        return
    with ThreadPoolExecutor(max_workers=1) as worker:
        waiting = worker.submit(drawn, first)
        for step in count(first + 1):
            now = [micro.to(place.device) for micro in waiting.result()]
            waiting = worker.submit(drawn, step)
            yield now
