"""`workbench report`, `export` and `fetch`: write reports and exports, download corpora and models.

Costs: reading the tables of the runs, or the download.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workbench.cli.options import Json, Objective, RunName, RunNames, model_refs

if TYPE_CHECKING:
    from workbench.runs.run import Run

Form = Literal["transformers", "onnx"]


def report(
    runs: RunNames,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .html, .md, .tex, .pdf or .zip file (default: report.html in the run's folder; "
            "of a built-in result, NAME.html in the current folder)."
        ),
    ] = None,
    title: Annotated[
        str, typer.Option(help="Title of the report (default: experiment, models and corpora).")
    ] = "",
    notes: Annotated[
        str, typer.Option(help="Your own comments, shown below the title (default: none).")
    ] = "",
) -> None:
    """Write a report of one run, or of several runs side by side."""
    from workbench.cli import output
    from workbench.runs.run import open_run

    opened = [open_run(name) for name in runs]
    with output.progress("writing"):
        from workbench.report import write_report

        path = write_report(opened, out or _default(opened[0]), title=title, notes=notes)
    print(f"written: {path}")


def _default(run: "Run") -> Path:
    """Return where a report is written by default; never into the folder of a built-in result."""
    return Path(f"{run.path.name}.html") if run.is_builtin else run.path / "report.html"


def export_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            help="Model: a run that saved one, a folder, a hub id.",
            autocompletion=model_refs,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist, or be empty.")],
    as_: Annotated[
        Form, typer.Option("--as", help="Form of the folder (default: transformers).")
    ] = "transformers",
    objective: Objective = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace a folder that holds a model.")
    ] = False,
    json: Json = False,
) -> None:
    """Write a model as a folder that plain transformers opens with equal outputs."""
    from workbench.cli import output

    with output.progress("exporting"):
        from workbench.runs.exported_model import export_model as write

        result = write(model, out, as_, objective=objective, force=force)
    if json:
        output.print_json(result.as_dict())
    else:
        print(f"written: {out}\n{result}")


def export(
    run: RunName,
    name: Annotated[
        str, typer.Argument(metavar="TABLE", help="Name of a table or figure of the run.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="A table as .csv, .parquet, .json; a figure as .html, .json, .svg, .png, .pdf."
        ),
    ],
    columns: Annotated[
        int,
        typer.Option(
            min=1, max=2, help="Width of an .svg, .png or .pdf in columns of a paper (default 2)."
        ),
    ] = 2,
) -> None:
    """Write one table or figure of a run to a file."""
    from workbench.cli import output
    from workbench.core.errors import require_one_of
    from workbench.runs.run import open_run
    from workbench.runs.spec import checked

    opened = open_run(run)
    with output.progress("writing"):
        from workbench.report.export import FIGURE_ENDINGS, export_figure, export_table

        checked(name, "table")
        tables = {*opened.tables, *opened.provenance["tables"]}  # a file may be missing
        figures = {*opened.figures, *opened.provenance["figures"]}
        require_one_of(
            name,
            tables | figures,
            f"the run has no table or figure {name!r}.",
            code="result-not-found",
            where=opened.name,
        )
        as_figure = name in figures and (out.suffix in FIGURE_ENDINGS or name not in tables)
        as_figure = as_figure and not (out.suffix == ".json" and name in tables)
        if as_figure:
            path = export_figure(opened, name, out, columns)
        else:
            path = export_table(opened, name, out)
    print(f"written: {path}")


def fetch_command(
    name: Annotated[
        str | None, typer.Argument(help="Name of a corpus or model (default: list all).")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check the hashes of files that are downloaded already."),
    ] = False,
    json: Json = False,
) -> None:
    """Download a public corpus or model to the cache, and show its licence."""
    if name is None:
        print_entries(json)
    else:
        fetch_one(name, verify, json)


# --- what `workbench fetch` prints: the catalogue, licences, and the progress of a download -------


def print_entries(json: bool) -> None:
    """List everything that can be downloaded."""
    from workbench.cli import output
    from workbench.fetch import entries, is_there

    catalogue = entries()
    if json:
        rows = [{**asdict(e), "size": e.size, "here": is_there(e)} for e in catalogue]
        output.print_json({"entries": rows})
        return
    for kind, title in (("corpus", "Corpora"), ("model", "Models")):
        table = [
            (e.name, output.in_bytes(e.size), e.licence, "yes" if is_there(e) else "", e.about)
            for e in catalogue
            if e.kind == kind
        ]
        output.print_table(title, ("name", "size", "licence", "downloaded", ""), table)


def fetch_one(name: str, verify: bool, json: bool) -> None:
    """Download one entry; print its licence first, and its path at the end."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from workbench.cli import output
    from workbench.fetch import fetch, find

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
        task = bar.add_task("checking")
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
