"""Estimates how long a run takes, and has left, from an earlier run of the same experiment.

The events of a finished run say when each of its stages began and ended. A run under way is
compared with them: its own speed counts for what it has done, the earlier run for the stages that
follow. Of the earlier runs, the most similar one counts (`similar`). Without an earlier run of the
same settings and corpus nothing is claimed of the whole run. Costs: reading the status and the
request of at most 30 runs, once a run, and the events of one.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from workbench.core.files import read_json
from workbench.core.findings import capital, listing
from workbench.runs import spec, status
from workbench.runs.similar import Candidate, Earlier, most_similar
from workbench.runs.status import Status

NEWEST = 30  # earlier runs that are looked at
QUEUED = "queued"  # the stage of a run that waits for its turn
STEPS = (1, 2, 3, 5, 10, 15, 20, 30, 40, 50)  # seconds that an estimate is rounded to


def earlier(folder: Path, now: Status, request: spec.Spec) -> Earlier | None:
    """Return the earlier run that a run of this request is best compared with, if there is one."""
    own = _request(request.model_dump(mode="json"))
    found: list[Candidate[tuple[float | None, Path]]] = []
    for path in _newest(folder.parent, folder.name):
        other = status.read(path)
        if other is None or not _is_comparable(other, now):
            continue
        with suppress(OSError, ValueError, LookupError, TypeError):
            theirs = _request(read_json(path / spec.FILE))
            if theirs["parts"] == own["parts"]:
                same = [own[what] == theirs[what] for what in ("models", "corpora", "settings")]
                tells = other.seconds if all(same[1:]) else None
                found.append(Candidate((tells, path), other.seconds, *same))
    best = most_similar(found)
    if best is None:
        return None
    seconds, path = best
    return Earlier(seconds, stages(status.read_events(path, status.last_start(path))[0]))


def _is_comparable(other: Status, now: Status) -> bool:
    return (
        other.state == "done"
        and other.attempt <= 1  # else its duration is that of the last attempt
        and other.seconds > 0
        and other.experiment == now.experiment
        and other.device.startswith("cuda") == now.device.startswith("cuda")
        and bool(other.scheduler) == bool(now.scheduler)
    )


def _request(data: Any) -> dict[str, Any]:
    """Return what of a request decides how long its run takes."""
    return {
        "parts": len(data.get("parts", ())),
        "models": [model["hash"] for model in data["models"]],
        "corpora": [corpus["hash"] for corpus in data["corpora"]],
        "settings": json.dumps([data["settings"], data["split"]], sort_keys=True),
    }


def _newest(runs: Path, name: str) -> Iterator[Path]:
    """Yield the folders of other runs of the same experiment, the newest first."""
    prefix, changed = f"{name.rpartition('-')[0]}-", []
    with suppress(OSError), os.scandir(runs) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name != name:
                with suppress(OSError):
                    changed.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
    yield from (Path(path) for _, path in sorted(changed, reverse=True)[:NEWEST])


def stages(
    events: Sequence[Mapping[str, Any]],
) -> dict[tuple[str, int], tuple[float, float]]:
    """Return begin and end of each stage of a finished run, in seconds since it was running."""
    started, begun = None, list[tuple[tuple[str, int], float]]()
    seen: Counter[str] = Counter()
    at = 0.0
    for event in events:
        if event.get("state") == "running":
            started, begun, seen = _seconds(event), [], Counter()
        if started is None:
            continue
        at = max(at, _seconds(event) - started)
        if event["kind"] == "progress":
            name = stage_of(str(event["doing"]))
            if not begun or begun[-1][0][0] != name:
                begun.append(((name, seen[name]), at))
                seen[name] += 1
    ends = [begin for _, begin in begun[1:]] + [at]
    return {stage: (begin, end) for (stage, begin), end in zip(begun, ends, strict=True)}


def _seconds(event: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(event["time"])).timestamp()
    except (LookupError, ValueError, OverflowError):
        return 0.0


def stage_of(doing: str) -> str:
    """Return the name of a stage: what comes before a colon; after it are details that change."""
    return doing.partition(": ")[0]


def left_of(folder: Path) -> float | None:
    """Return about how many seconds a run under way has left; None if that is not known."""
    now = status.read(folder)
    if now is None or not now.under_way:
        return None
    if now.state == "queued":
        return now.expected or None
    events = status.last(folder)
    for event in reversed(events):
        if event.get("state") == "running":
            left = now.expected - (time.time() - _seconds(event))
            return left if left > 0 else None
        if event["kind"] == "progress":
            if not (left := event.get("left_of_run")):
                return None
            left -= max(0.0, time.time() - _seconds(event))
            return left if left > 0 else None
    return None


def left_of_parts(
    lengths: Sequence[float], under_way: Sequence[Path], n_waiting: int, n_parallel: int
) -> float | None:
    """Return about how many seconds all parts of a run have left; None if nothing tells.

    `lengths` are the seconds that ended parts have taken. Parts under way say it themselves; those
    that do not, and those that wait, take as long as the mean of the known ones.
    """
    passed = [_passed(folder) for folder in under_way]
    left = [left_of(folder) or _left_of_stage(folder) for folder in under_way]
    whole = [done + rest for done, rest in zip(passed, left, strict=True) if rest is not None]
    known = [*lengths, *whole]
    if not known:
        return None
    typical = sum(known) / len(known)
    rests = [
        max(0.0, typical - done) if rest is None else rest
        for done, rest in zip(passed, left, strict=True)
    ]
    work = sum(rests) + n_waiting * typical
    n_at_once = max(1, min(n_parallel, len(rests) + n_waiting))
    return max(work / n_at_once, *rests, 0.0)


def _passed(folder: Path) -> float:
    """Return how many seconds a run has been running."""
    now = status.read(folder)
    started = 0.0 if now is None else _seconds({"time": now.started})
    return max(0.0, time.time() - started) if started else 0.0


def _left_of_stage(folder: Path) -> float | None:
    """Return about how many seconds the stage of a run has left, where no more is known."""
    for event in reversed(status.last(folder)):
        if event["kind"] == "progress":
            left = event.get("left")
            return max(0.0, left - age_of(event)) if left else None
    return None


def progress_line(event: Mapping[str, Any], age: float = 0.0) -> str:
    """Return a progress event as a line: `sentences: 30 of 100, about 5 s left`, or `starting`.

    `age` is how many seconds ago it was written.
    """
    doing = str(event["doing"] or "running")
    count, left = count_in_words(event), left_in_words(event, age)
    if stage_of(doing) == QUEUED:
        doing = capital(doing.partition(": ")[2])
        return f"{doing}; done in {left.removesuffix(' left')}" if left else doing
    if count:
        doing += f"{', ' if ': ' in doing else ': '}{count}"
    return f"{doing}, {left}" if left else doing


def count_in_words(event: Mapping[str, Any]) -> str:
    """Return how many items of a progress event are done; empty if it does not count."""
    if event["total"]:
        return f"{event['done']:,} of {event['total']:,}"
    return f"{event['done']:,}" if event["done"] else ""


def left_in_words(event: Mapping[str, Any], age: float = 0.0) -> str:
    """Return the time left of the run, or of its stage if that is all that is known."""
    of_run, of_stage = event.get("left_of_run"), event.get("left")
    if of_run:
        return f"{in_words(of_run - age)} left" if of_run > age else ""
    return f"{in_words(of_stage - age)} left in this stage" if of_stage and of_stage > age else ""


def age_of(event: Mapping[str, Any]) -> float:
    """Return how many seconds ago an event was written."""
    return max(0.0, time.time() - _seconds(event))


def in_words(seconds: float) -> str:
    """Return an estimate without false precision: `about 40 s`, `about 3 min`."""
    if seconds < STEPS[-1] + 5:
        return f"about {min(STEPS, key=lambda step: abs(step - seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 10:
        return f"about {max(minutes, 1)} min"
    minutes = 5 * round(minutes / 5)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"about {minutes} min"
    return f"about {hours} h" + (f" {15 * (minutes // 15)} min" if minutes >= 15 else "")


def starts_after(running: Sequence[str], queued: Sequence[str]) -> str:
    """Return what a job in a queue waits for: `starts after heads of mini:bert (about 3 min)`.

    The jobs in front of it are folders of runs; that of a job that is not a run is "".
    """
    ahead = [_job(path) for path in (*running, *queued)]
    return f"starts after {listing(ahead)}" if ahead else "starts next"


def _job(path: str) -> str:
    now, left = (status.read(Path(path)), left_of(Path(path))) if path else (None, None)
    name = status.title(Path(path), now) if now else "another job"
    return name if left is None else f"{name} ({in_words(left)})"
