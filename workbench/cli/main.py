"""The `workbench` command: read a choice, call one function, show the answer.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted. Everything heavy is
imported inside the command that needs it, so that `workbench --help` is quick.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from workbench import __version__
from workbench.cli import corpora_models, report_fetch, run, runs, train
from workbench.cli.options import Json, Several
from workbench.core.errors import WorkbenchError

app = typer.Typer(
    name="workbench",
    help="Train or load language models and see what is inside them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(corpora_models.corpora_app, name="corpora")
app.add_typer(corpora_models.models_app, name="models")
app.add_typer(run.experiments, name="experiments")
app.command(
    cls=Several, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(run.run)
app.command(
    cls=Several, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(train.train)
app.add_typer(runs.app, name="runs")
app.command()(report_fetch.report)
app.command()(report_fetch.export)
app.command("fetch")(report_fetch.fetch_command)


def main() -> None:
    """Run the command line; a user's mistake is one line and exit code 2, never a traceback."""
    from workbench.cli import output

    output.print_whatever_comes()
    with output.whole_output():
        try:
            app()
        except WorkbenchError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"workbench {__version__}")
        raise typer.Exit


@app.callback()
def workbench(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def doctor(json: Json = False) -> None:
    """Device, versions, caches, what is missing and the command that mends it."""
    from workbench.cli import output
    from workbench.doctor import facts

    with output.progress("looking around"):
        found = facts()
    output.print_json(found.as_dict()) if json else output.print_facts(found)


@app.command()
def demo(json: Json = False) -> None:
    """A tour: every experiment on the built-in corpus and models, offline, in one report."""
    from workbench.cli.demo import tour

    tour(json)


@app.command(name="app")
def open_app(
    port: Annotated[
        int, typer.Option(help="Where on localhost to serve.", min=1, max=65535)
    ] = 8501,
    headless: Annotated[bool, typer.Option(help="Do not open a browser.")] = False,
    address: Annotated[
        str, typer.Option(help="Where to listen; 0.0.0.0 lets other machines in.")
    ] = "localhost",
    host_name: Annotated[
        list[str] | None,
        typer.Option(help="A name the app is reached by, besides localhost.", metavar="NAME …"),
    ] = None,
    allow: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder that may be read when others are let in; on localhost all may.",
            metavar="FOLDER …",
        ),
    ] = None,
) -> None:
    """The app, on localhost."""
    from workbench.cli.serve import serve

    serve(port, headless, address, host_name or (), allow or ())


if __name__ == "__main__":
    main()
