"""Watching a run: a bar with the time left on a terminal, plain lines in a pipe, on standard error.

In a pipe there is a line for each step and each tenth of the way. Costs a look at the run's events
ten times a second.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from workbench.runs.launch import follow
from workbench.runs.run import Run

Events = Iterable[Mapping[str, Any]]


def can_show() -> bool:
    """Whether somebody watches: a terminal, or a notebook."""
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def watched(run: Run) -> None:
    """Show a run's events until it has ended."""
    console = Console(highlight=False, soft_wrap=True, stderr=True)
    if console.is_terminal:
        _bar(follow(run), console)
    else:
        _lines(follow(run))


def _bar(events: Events, console: Console) -> None:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("queued", total=None, left="")
        for event in events:
            if event["kind"] == "progress":
                bar.update(
                    task,
                    description=event["doing"],
                    completed=event["done"],
                    total=event["total"],
                    left=_left(event["left"]),
                )
            elif event["kind"] == "state":
                bar.update(task, description=event["state"])
            else:
                console.print(_said(event), markup=False)


def _lines(events: Events) -> None:
    told = ("", -1)
    for event in events:
        if event["kind"] == "progress":
            tenth = 10 * event["done"] // event["total"] if event["total"] else 0
            if (event["doing"], tenth) != told:
                told = (event["doing"], tenth)
                of = f" of {event['total']:,}" if event["total"] else ""
                left = _left(event["left"])
                line = f"{event['doing']}: {event['done']:,}{of}"
                print(f"{line}, {left}" if left else line, file=sys.stderr, flush=True)
        elif event["kind"] == "state":
            print(event["state"], file=sys.stderr, flush=True)
        else:
            print(_said(event), file=sys.stderr, flush=True)


def _said(event: Mapping[str, Any]) -> str:
    return f"warning: {event['text']}" if event["kind"] == "warning" else str(event["text"])


def _left(seconds: float | None) -> str:
    if not seconds:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min left"
    return f"{minutes} min {rest} s left" if minutes else f"{rest} s left"
