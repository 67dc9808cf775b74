"""The `workbench` command: parse options, call one function, print the result.

Analyses announce commands of their own (`workbench.core.analysis`).
Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted. Costs: the import of
typer; heavy modules are imported inside the command that needs them, so `workbench --help` is fast.
"""

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from workbench.cli import corpora_models, report_fetch, run, runs
from workbench.cli.options import WITH_SETTINGS, Json, takes_settings
from workbench.core.analysis import announced
from workbench.core.ending import run_process
from workbench.core.errors import WorkbenchError
from workbench.core.registry import imported
from workbench.core.version import __version__

_OUTPUT_FAULTS = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT}


class _Commands(TyperGroup):
    """The commands; messages of wrong values have no prefix of the library that checks them."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="workbench",
    cls=_Commands,
    help="Train or load language models, and analyse what they have learnt.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(corpora_models.corpora_app, name="corpora")
app.add_typer(corpora_models.models_app, name="models")
app.add_typer(run.experiments, name="experiments")
app.command(**WITH_SETTINGS)(run.run)
app.add_typer(runs.app, name="runs")
app.command()(report_fetch.report)
app.command()(report_fetch.export)
app.command("export-model")(report_fetch.export_model)
app.command("fetch")(report_fetch.fetch_command)


@cache
def commands() -> typer.Typer:
    """Return all commands, with those that analyses announce."""
    for name, home in announced("commands").items():
        try:
            command = imported(home, f"the command {name}")
        except WorkbenchError as error:  # of this command alone
            command = _refused(error)
        app.command(name, **(WITH_SETTINGS if takes_settings(command) else {}))(command)
    return app


def _refused(error: WorkbenchError) -> Callable[..., None]:
    """A command that cannot be imported: it raises the error, whatever its options."""

    def refused(context: typer.Context) -> None:
        raise error

    refused.__doc__ = f"Cannot be used: {error.what}"
    return refused


def main() -> None:
    """Run the command line; a user error prints its message and remedy, and exits with 2."""
    _escape_unencodable()
    with flushed_output():
        try:
            commands()()
        except WorkbenchError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)


def _escape_unencodable() -> None:
    """Escape characters that standard output cannot encode, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def flushed_output() -> Iterator[None]:
    """Flush the output at the end; if that fails, print an error and exit with 1.

    A reader that closed the pipe early is not an error message.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout:
                sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_FAULTS:
            raise
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # else Python tries again at exit
        if error.errno != errno.EPIPE:
            print(f"error: the output cannot be written: {error.strerror}.", file=sys.stderr)
        raise SystemExit(1) from None


def _version(is_set: bool) -> None:
    if is_set:
        print(f"workbench {__version__}")
        raise typer.Exit


@app.callback()
def workbench(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def doctor(json: Json = False) -> None:
    """Check this machine: device, versions, caches, missing packages and how to install them."""
    from workbench.cli import output
    from workbench.core.doctor import facts

    with output.progress("checking"):
        machine = facts()
    output.print_json(machine.as_dict()) if json else output.print_facts(machine)


@app.command()
def demo(
    all_: Annotated[
        bool, typer.Option("--all", help="Run every experiment instead; takes some minutes.")
    ] = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Open the report in a browser at the end.")
    ] = False,
    json: Json = False,
) -> None:
    """Answer eleven questions about small language models, offline, and write one report."""
    if all_:
        from workbench.cli.demo_all import every_experiment

        every_experiment(json, open_)
    else:
        from workbench.cli.demo import tour

        tour(json, open_)


@app.command(name="app")
def open_app(
    port: Annotated[int, typer.Option(help="Port of the server.", min=1, max=65535)] = 8501,
    headless: Annotated[bool, typer.Option(help="Do not open a browser.")] = False,
    address: Annotated[
        str, typer.Option(help="Address of the server; 0.0.0.0 is reachable from other machines.")
    ] = "localhost",
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            help="Another host name of the app, in addition to localhost.", metavar="NAME …"
        ),
    ] = None,
    allow: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder that the app may read when other machines can reach it (localhost: all).",
            metavar="FOLDER …",
        ),
    ] = None,
) -> None:
    """Start the app, on localhost."""
    from workbench.cli.serve import check_port, serve

    check_port(address, port)
    serve(port, headless, address, host_name or (), allow or ())


if __name__ == "__main__":
    run_process(main)
