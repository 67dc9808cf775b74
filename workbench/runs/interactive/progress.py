"""The progress of a run, as it is shown to who waits for it.

On standard error: in a terminal a bar with the time left, of the run where an earlier run tells how
long it takes, else of its stage; in a notebook a bar of tqdm; otherwise plain lines, one for each
stage and for each tenth of its progress. A run that this thread computes is shown by another thread
(`shown`). Costs: reading the run's events ten times a second.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import copy_context
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from workbench.runs.launch import follow
from workbench.runs.run import Run
from workbench.runs.status import Journal, log_line
from workbench.runs.time_left import count_in_words, left_in_words, progress_line, stage_of

LAST_WORDS = 5.0  # seconds to wait until the end of a run is shown

Events = Iterable[Mapping[str, Any]]


def can_show() -> bool:
    """Return whether standard error is a terminal or a notebook."""
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def watched(run: Run) -> None:
    """Show the progress of a run until it has ended."""
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    if console.is_jupyter:
        _cell(follow(run))
    elif console.is_terminal:
        _bar(follow(run), console)
    else:
        _lines(follow(run))


def shown(
    compute: Callable[[Journal], object], show: Callable[[Run], object]
) -> Callable[[Journal], object]:
    """Return the same computation, during which another thread shows its run."""

    def computed(journal: Journal) -> object:
        failed: list[BaseException] = []

        def watch() -> None:
            try:
                show(Run(journal.folder))
            except BaseException as error:
                failed.append(error)

        watcher = threading.Thread(target=copy_context().run, args=(watch,), daemon=True)
        watcher.start()
        try:
            code = compute(journal)
        finally:
            watcher.join(LAST_WORDS)
        if failed:
            raise failed[0]
        return code

    return computed


class _LeftColumn(ProgressColumn):
    """The time left, which goes on between events."""

    def render(self, task: Task) -> Text:
        event = task.fields["event"]
        return Text(left_in_words(event, time.monotonic() - task.fields["since"]))


def _bar(events: Events, console: Console) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[count]}"),
        _LeftColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        began = time.monotonic()
        task = bar.add_task("starting", total=None, count="", event={}, since=began)
        for event in events:
            now = time.monotonic()
            if event["kind"] == "progress":
                bar.update(
                    task,
                    description=event["doing"],
                    completed=event["done"],
                    total=event["total"],
                    count=count_in_words(event),
                    event=event,
                    since=now,
                )
            elif event["kind"] == "state":
                is_queued = event["state"] == "queued"  # until it says what it waits for
                bar.update(task, description="starting" if is_queued else event["state"])
                if event.get("left_of_run"):
                    bar.update(task, event=event, since=now)
            else:
                console.print(log_line(event), markup=False)


def _cell(events: Events) -> None:
    """A bar in a cell of a notebook."""
    from tqdm.auto import tqdm

    with tqdm(desc="starting", leave=False, bar_format="{bar} {desc}") as bar:
        for event in events:
            if event["kind"] == "progress":
                if event["total"] != bar.total:
                    bar.reset(event["total"])
                bar.n = event["done"]
                bar.set_description_str(progress_line(event))
            elif event["kind"] == "state":
                bar.set_description_str(event["state"])
            else:
                bar.write(log_line(event))
        bar.total = None  # a bar that is not full would stay


def _lines(events: Events) -> None:
    last = ("", -1)
    for event in events:
        if event["kind"] == "progress":
            stage = event["doing"] if _is_queued(event) else stage_of(event["doing"])
            tenth = 10 * event["done"] // event["total"] if event["total"] else 0
            if (stage, tenth) != last:
                last = (stage, tenth)
                print(progress_line(event), file=sys.stderr, flush=True)
        elif event["kind"] == "state":
            left = left_in_words(event)
            line = f"{event['state']}, {left}" if left else event["state"]
            print(line, file=sys.stderr, flush=True)
        else:
            print(log_line(event), file=sys.stderr, flush=True)


def _is_queued(event: Mapping[str, Any]) -> bool:
    return stage_of(event["doing"]) == "queued"
