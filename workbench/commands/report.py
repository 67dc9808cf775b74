"""`workbench report`, `export` and `fetch`: what leaves the folder of runs, and what comes in."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.commands.options import Json, RunName, RunNames


def report(
    runs: RunNames,
    out: Annotated[
        Path | None,
        typer.Option(help="A .html, .md, .tex or .zip file; report.html in the run's folder."),
    ] = None,
) -> None:
    """Write a report of one run, or of several side by side."""
    from workbench import terminal
    from workbench.runs.run import open_run

    found = [open_run(name) for name in runs]
    with terminal.progress("writing"):
        from workbench.report import write_report

        path = write_report(found, out or found[0].path / "report.html")
    print(f"written: {path}")


def export(
    run: RunName,
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A table or figure of the run.")],
    out: Annotated[
        Path,
        typer.Option(help="A table as .csv, .parquet, .json; a figure as .html, .svg, .png, .pdf."),
    ],
) -> None:
    """Write one table or figure of a run to a file."""
    from workbench import terminal
    from workbench.errors import WorkbenchError, did_you_mean
    from workbench.runs.names import checked
    from workbench.runs.run import open_run

    found = open_run(run)
    with terminal.progress("writing"):
        from workbench.report.export import FIGURE_ENDINGS, export_figure, export_table

        checked(name, "table")
        tables = {*found.tables, *found.provenance.get("tables", ())}  # one may be missing
        figures = {*found.figures, *found.provenance.get("figures", ())}
        if name not in tables | figures:
            raise WorkbenchError(
                f"the run has no table or figure {name!r}.",
                where=found.name,
                remedy=did_you_mean(name, tables | figures),
            )
        as_figure = name in figures and (out.suffix in FIGURE_ENDINGS or name not in tables)
        as_figure = as_figure and not (out.suffix == ".json" and name in tables)
        write = export_figure if as_figure else export_table
        path = write(found, name, out)
    print(f"written: {path}")


def fetch(
    name: Annotated[str | None, typer.Argument(help="What to fetch; nothing lists it all.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Hash again what is there already.")
    ] = False,
    json: Json = False,
) -> None:
    """Download a public corpus or model into the cache, with its licence shown."""
    from workbench.commands import fetching

    if name is None:
        fetching.print_entries(json)
    else:
        fetching.fetch_one(name, verify, json)
