"""`workbench runs`: list runs, look at them, compare, verify, cancel, resume and remove them."""

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
    help="List runs, look at them, compare, verify, cancel, resume, remove.",
    invoke_without_command=True,
)
LISTED = 20  # runs, unless all are asked for
All = Annotated[bool, typer.Option("--all", help=f"All of them, not the newest {LISTED}.")]


@app.callback()
def runs(context: typer.Context, json: Json = False) -> None:
    """List the newest runs."""
    if not has_command(context, json):
        _list(every=False, json=json)


@app.command(name="list")
def list_runs(every: All = False, json: Json = False) -> None:
    """List runs, the newest first."""
    _list(every, json)


def _list(every: bool, json: bool) -> None:
    from workbench.cli import output
    from workbench.runs.run import all_runs

    with output.progress("looking"):
        found = all_runs()
    output.run_list(found, len(found) if every or json else LISTED, json)


@app.command()
def show(run: RunName, json: Json = False) -> None:
    """Tell what was asked, how it stands, its tables, and the last lines of its log."""
    from workbench.cli import output
    from workbench.runs.run import open_run

    output.run(open_run(run), json)


@app.command()
def compare(runs: RunNames, json: Json = False) -> None:
    """Lay the tables of two or more runs side by side, with signed differences."""
    from workbench.cli import output
    from workbench.runs.run import open_run

    output.comparison([open_run(name) for name in runs], json)


@app.command()
def verify(runs: SomeRuns = None, json: Json = False) -> None:
    """Check the files of finished runs against the hashes kept when they ended."""
    from workbench.cli import output
    from workbench.runs.run import all_runs, damage, open_run

    found = [open_run(name) for name in runs] if runs else [run for run, _ in all_runs()]
    wrong = {}
    for run in found:
        if run.status.state == "done":
            with output.progress(f"checking {run.name}"):
                wrong[run.name] = damage(run.path)
        elif runs:
            raise WorkbenchError(
                f"the run is {run.status.state} and has no results to check.",
                where=run.name,
                remedy="Name finished runs, or none for all of them.",
            )
    output.verified(wrong, json)


@app.command()
def cancel(runs: RunNames) -> None:
    """End runs that wait or are under way, and free their devices."""
    from workbench.cli import output
    from workbench.runs.launch import cancel as end
    from workbench.runs.run import open_run

    for found in [open_run(name) for name in runs]:
        with output.progress(f"ending {found.name}"):
            state = end(found).state
        print(f"{found.name}: {state}")


@app.command()
def resume(
    runs: RunNames,
    scheduler: Scheduler = "",
    share: Share = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Go on with runs that failed, died or were cancelled, from their last checkpoint."""
    from workbench.cli import output
    from workbench.runs.launch import start
    from workbench.runs.run import open_run

    found = [open_run(name) for name in runs]
    if json and len(found) > 1:
        raise WorkbenchError("--json prints one run.", remedy="Resume them one by one.")
    for one in found:
        if not one.spec.answerable:
            raise WorkbenchError(
                "what it looks at was handed over as an object.",
                where=one.name,
                remedy="Call wb.run again with the same object.",
            )
        begun = start(one.spec, share=share, scheduler=scheduler)
        if detach:
            output.started(begun, json)
        else:
            output.followed(begun)
            output.answer(begun, json)


@app.command()
def rm(
    runs: RunNames,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove runs, with all they left."""
    import sys

    from workbench.runs.launch import remove
    from workbench.runs.run import open_run

    found = [open_run(name) for name in runs]
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise WorkbenchError("nobody is there to be asked.", remedy="Say --yes to remove them.")
    if not yes:
        typer.confirm(f"Remove {', '.join(one.name for one in found)}?", abort=True)
    for one in found:
        remove(one)
        print(f"{one.name}: removed")
