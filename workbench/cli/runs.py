"""`workbench runs`: list, show, compare, note, verify, cancel, resume and remove runs.

Costs: a small file per run.
"""

from typing import Annotated

import typer

from workbench.cli.options import (
    Detach,
    Json,
    RunName,
    RunNames,
    Scheduler,
    Share,
    SomeRuns,
    has_command,
)
from workbench.core.errors import WorkbenchError

app = typer.Typer(
    help="List, show, compare, note, verify, cancel, resume and remove runs.",
    invoke_without_command=True,
)
LISTED = 20  # runs in a list without --all
All = Annotated[
    bool,
    typer.Option(
        "--all",
        help=f"List all runs, and below each those that it started (default: the newest {LISTED}).",
    ),
]


SavedName = Annotated[
    str, typer.Option("--saved", help="List the runs of a selection that was saved in the app.")
]


@app.callback()
def runs(context: typer.Context, json: Json = False, saved: SavedName = "") -> None:
    """List the newest runs."""
    if not has_command(context, json):
        _list(all_=bool(saved), json=json, saved=saved)


@app.command(name="list")
def list_runs(all_: All = False, json: Json = False, saved: SavedName = "") -> None:
    """List runs, the newest first."""
    _list(all_ or bool(saved), json, saved)


def _list(all_: bool, json: bool, saved: str) -> None:
    from workbench.cli import output
    from workbench.runs import notes
    from workbench.runs import saved as selections
    from workbench.runs.builtin import builtin_runs
    from workbench.runs.run import all_runs

    with output.progress("reading runs"):
        statuses = all_runs()
        shipped = [(run, run.status) for run in builtin_runs()]
    if saved:
        wanted = selections.named(saved)
        statuses, shipped = (
            [(run, now) for run, now in each if wanted.has(run.name, now, notes.read(run.path))]
            for each in (statuses, shipped)
        )
    output.run_list(statuses, shipped, None if all_ else LISTED, json)


@app.command()
def show(run: RunName, json: Json = False) -> None:
    """Show the request, status and tables of a run, and the last lines of its log."""
    from workbench.cli import output
    from workbench.runs.run import open_run

    output.run(open_run(run), json)


@app.command()
def compare(runs: RunNames, json: Json = False) -> None:
    """Compare the tables of two or more runs side by side, with signed differences."""
    from workbench.cli import output
    from workbench.runs.run import open_run

    output.comparison([open_run(name) for name in runs], json)


@app.command()
def note(
    runs: RunNames,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", "-t", help="Tag to add; several are allowed.")
    ] = None,
    untag: Annotated[list[str] | None, typer.Option("--untag", help="Tag to remove.")] = None,
    text: Annotated[
        str | None, typer.Option("--text", help="Note, in place of the one that is there.")
    ] = None,
) -> None:
    """Give runs tags and a note, or show them; the list of runs can be searched for both."""
    from workbench.runs import notes
    from workbench.runs.run import open_run

    opened = [open_run(name) for name in runs]
    for run in opened:
        found = notes.read(run.path)
        if tag or untag or text is not None:
            tags = {*found.tags, *(tag or ())} - {*(untag or ())}
            found = notes.write(run, tags, found.text if text is None else text)
        print(f"{run.name}: {', '.join(found.tags) or 'no tags'}")
        for line in found.text.splitlines():
            print(f"    {line}")


@app.command()
def verify(runs: SomeRuns = None, json: Json = False) -> None:
    """Check the files of finished runs against the hashes stored when they ended."""
    from workbench.cli import output
    from workbench.runs.run import all_runs, damage, open_run

    opened = [open_run(name) for name in runs] if runs else [run for run, _ in all_runs()]
    problems = {}
    for run in opened:
        if run.status.state == "done":
            with output.progress(f"checking {run.name}"):
                problems[run.name] = damage(run.path)
        elif runs:
            raise WorkbenchError(
                f"the run is {run.status.state} and has no results to check.",
                code="run-not-finished",
                where=run.name,
                remedy="Name finished runs. Without a name, all finished runs are checked.",
            )
    output.verified(problems, json)


@app.command()
def cancel(runs: RunNames) -> None:
    """Cancel runs that are queued or running, and free their devices."""
    from workbench.cli import output
    from workbench.runs.launch import cancel as end
    from workbench.runs.run import open_run, require_own

    opened = [open_run(name) for name in runs]
    for run in opened:
        require_own(run, "cancelled")
    for run in opened:
        with output.progress(f"cancelling {run.name}"):
            state = end(run).state
        print(f"{run.name}: {state}")


@app.command()
def resume(
    runs: RunNames,
    scheduler: Scheduler = "",
    share: Share = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Continue runs that failed, died or were cancelled, from their last checkpoint."""
    from workbench.cli import output
    from workbench.runs.launch import start
    from workbench.runs.processes import starter
    from workbench.runs.run import open_run, require_own
    from workbench.runs.spec import cannot_reopen

    opened = [open_run(name) for name in runs]
    for run in opened:
        require_own(run, "resumed")
    if json and len(opened) > 1:
        raise WorkbenchError(
            "--json prints one run.", code="option-conflict", remedy="Resume them one by one."
        )
    for run in opened:
        for item in run.spec.objects():
            raise cannot_reopen(item)
        if not scheduler and run.status.state != "done":
            starter.begin()
            starter.await_ready()
        begun = start(run.spec, share=share, scheduler=scheduler)
        if detach:
            output.started(begun, json)
        else:
            output.follow(begun)
            output.result(begun, json)


@app.command()
def rm(
    runs: RunNames,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove runs, with all their results."""
    import sys

    from workbench.runs.launch import remove
    from workbench.runs.run import open_run, require_own

    opened = [open_run(name) for name in runs]
    for run in opened:
        require_own(run, "removed")
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise WorkbenchError(
            "removing runs needs a confirmation, and standard input is not a terminal.",
            code="confirmation-needed",
            remedy="Add --yes to remove them.",
        )
    if not yes:
        typer.confirm(f"Remove {', '.join(run.name for run in opened)}?", abort=True)
    for run in opened:
        remove(run)
        print(f"{run.name}: removed")
