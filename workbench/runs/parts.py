"""The runs that a run is made of: begun as there is room, waited for, and ended with it.

A sweep's combinations and the questions a run asks on its way. Costs a look at each run under way
every fifth of a second.
"""

import time
from collections.abc import Callable, Sequence

from workbench.runs.journal import Journal
from workbench.runs.launch import end, looked
from workbench.runs.run import Run
from workbench.runs.spec import Spec
from workbench.runs.status import Status

EVERY = 0.2  # seconds between looks at the runs under way


def ended_with_others(now: Status, whole: str) -> bool:
    """Whether a part was cancelled with somebody else who had begun it, not with its whole."""
    return now.state == "cancelled" and now.part_of != whole


def all_ended(
    parts: Sequence[Spec],
    told: Journal,
    most: int,
    begin: Callable[[Spec], Run],
    ended: Callable[[Run, Status], object],
    done: Callable[[int], object],
) -> list[Run]:
    """Every part's run, when all have ended; `most` are under way at a time.

    `ended` hears of each, and may raise; `done` how many have. Those begun here end with an error.
    """
    whole = told.folder.name
    waiting, runs = list(enumerate(parts)), dict[int, Run]()
    active: dict[int, Run] = {}
    try:
        while waiting or active:
            while waiting and len(active) < most:
                place, part = waiting.pop(0)
                active[place] = runs[place] = begin(part)
            for place, run in list(active.items()):
                now = looked(run)
                if now.under_way:
                    continue
                del active[place]
                if ended_with_others(now, whole):
                    waiting.append((place, parts[place]))
                else:
                    ended(run, now)
            done(len(parts) - len(active) - len(waiting))
            told.check()
            if active:
                time.sleep(EVERY)
    except BaseException:
        end([run for run in active.values() if run.status.part_of == whole])
        raise
    return [runs[place] for place in sorted(runs)]
