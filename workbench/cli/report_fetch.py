"""`workbench report`, `export` and `fetch`: what leaves the folder of runs, and what comes in."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from workbench.cli import output
from workbench.cli.options import Json, RunName, RunNames
from workbench.fetch import entries, fetch, find, is_there


def report(
    runs: RunNames,
    out: Annotated[
        Path | None,
        typer.Option(help="A .html, .md, .tex or .zip file; report.html in the run's folder."),
    ] = None,
) -> None:
    """Write a report of one run, or of several side by side."""
    from workbench.cli import output
    from workbench.runs.run import open_run

    found = [open_run(name) for name in runs]
    with output.progress("writing"):
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
    from workbench.cli import output
    from workbench.core.errors import WorkbenchError, did_you_mean
    from workbench.runs.run import open_run
    from workbench.runs.spec import checked

    found = open_run(run)
    with output.progress("writing"):
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


def fetch_command(
    name: Annotated[str | None, typer.Argument(help="What to fetch; nothing lists it all.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Hash again what is there already.")
    ] = False,
    json: Json = False,
) -> None:
    """Download a public corpus or model into the cache, with its licence shown."""

    if name is None:
        print_entries(json)
    else:
        fetch_one(name, verify, json)


# --- what `workbench fetch` prints: the catalogue, licences, and the progress of a download -------


def print_entries(json: bool) -> None:
    """All there is to fetch."""
    found = entries()
    if json:
        told = [{**asdict(e), "size": e.size, "here": is_there(e)} for e in found]
        output.print_json({"entries": told})
        return
    for kind, title in (("corpus", "Corpora"), ("model", "Models")):
        rows = [
            (e.name, output.in_bytes(e.size), e.licence, "here" if is_there(e) else "", e.about)
            for e in found
            if e.kind == kind
        ]
        output.print_table(title, ("name", "size", "licence", "", ""), rows)


def fetch_one(name: str, verify: bool, json: bool) -> None:
    """Fetch one entry; its licence is said before, and how to use it after."""
    entry = find(name)
    print(f"{entry.name}: {entry.licence} ({entry.licence_url})", file=sys.stderr)
    print(f"Checksums: {entry.checksum}; revision {entry.revision}", file=sys.stderr)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    console = output.err
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("looking")
        path = fetch(
            name,
            lambda done, total, doing: bar.update(
                task, completed=done, total=total, description=doing
            ),
            verify=verify,
        )
    if json:
        output.print_json({"name": name, "path": str(path), "licence": entry.licence})
    else:
        print(f"--{entry.kind} {path}")
