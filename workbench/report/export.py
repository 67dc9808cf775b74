"""One table or figure of a run as a file of its own, every digit of it.

Tables as CSV, Parquet and JSON; figures as a page that needs no network, as Plotly's JSON, and
where a browser is at hand as SVG, PNG and PDF. In CSV, text that a spreadsheet would run as a
formula gets an apostrophe before it; Parquet and JSON hold it as it is. Costs writing the file, and
for pictures the start of a browser.
"""

import json
import math
import zipfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import read_regular, user_path, written_whole
from workbench.core.public import public
from workbench.report.content import Content, Drawing, Part, drawings
from workbench.report.format import attributes
from workbench.report.html import figure_page, html
from workbench.report.images import drawn, key, pictures, whole
from workbench.runs import spec
from workbench.runs.run import PROVENANCE, TABLES, Run, opened_run
from workbench.runs.spec import inside, is_name, unlinked

TABLE_ENDINGS = (".csv", ".parquet", ".json")
FIGURE_ENDINGS = (".html", ".json", ".svg", ".png", ".pdf")
_STARTS, _RUNS = ("=", "+", "-", "@", "\t", "\r"), ("(", "|", "!")


@public
def export(run: Run | str, name: str, out: "str | PathLike[str]") -> Path:
    """Write one table or figure of a run, every digit of it.

    Args:
        run: A finished `Run`, or its name.
        name: The name of a table or a figure of it; where a table and a figure share it, the
            table unless the ending is a figure's alone.
        out: The file; its ending says in what form: a table as .csv, .parquet or .json, a figure
            as .html, .json, .svg, .png or .pdf.

    Returns:
        The file's path.

    Raises:
        WorkbenchError: The run has nothing of that name, the ending is not known, or the file
            cannot be written.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> wb.export(run, "relations", "relations.csv").name
        'relations.csv'
    """
    run = opened_run(run, "wb.export")
    ending = user_path(out).suffix.lower()
    as_figure = name not in run.tables or (ending in FIGURE_ENDINGS and ending not in TABLE_ENDINGS)
    if as_figure and name in drawings(run):
        return export_figure(run, name, out)
    return export_table(run, name, out)


def export_table(run: Run, table: str, out: "str | PathLike[str]") -> Path:
    """Write a run's table; the file's ending says in what form."""
    path = _path(out, TABLE_ENDINGS, "a table")
    found = run.tables[table]
    with written_whole(path) as draft:
        if path.suffix.lower() == ".parquet":
            found.to_parquet(draft, index=False)
        elif path.suffix.lower() == ".csv":
            draft.write_bytes(csv(found))
        else:
            draft.write_bytes(records(run, table))
    return path


def export_figure(run: Run, name: str, out: "str | PathLike[str]") -> Path:
    """Write a run's figure; the file's ending says in what form."""
    path = _path(out, FIGURE_ENDINGS, "a figure")
    found = drawings(run)
    if name not in found:
        raise WorkbenchError(
            f"the run has no figure {name!r:.60}.",
            where=run.name,
            remedy=did_you_mean(name, found),
        )
    written = _figure(run, found[name], path.suffix.lower())
    with written_whole(path) as draft:
        draft.write_bytes(written)
    return path


def csv(table: pd.DataFrame) -> bytes:
    """A table as CSV, in UTF-8."""
    safe = table.copy()
    for place, kind in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(kind):
            safe.isetitem(place, [_no_formula(value) for value in table.iloc[:, place]])
    safe.columns = pd.Index([_no_formula(column) for column in table.columns])
    return bytes(safe.to_csv(index=False, lineterminator="\n").encode("utf-8", "surrogatepass"))


def records(run: Run, name: str) -> bytes:
    """A table as JSON: what it is about, its keys, and a record for each row."""
    table = run.tables[name]
    about, keys = attributes(table)
    rows = [
        {str(column): _plain(value) for column, value in zip(table.columns, row, strict=True)}
        for row in table.itertuples(index=False, name=None)
    ]
    whole = {"run": run.name, "table": name, "about": about, "keys": keys, "rows": rows}
    return f"{json.dumps(whole, ensure_ascii=True, indent=1, allow_nan=False)}\n".encode()


def figure_json(drawing: Drawing) -> bytes:
    """A figure as Plotly reads it."""
    return f"{json.dumps(whole(drawing), sort_keys=True)}\n".encode()


def _figure(run: Run, drawing: Drawing, ending: str) -> bytes:
    if ending == ".json":
        return figure_json(drawing)
    if ending == ".html":
        return figure_page(run.name, drawing).encode()
    return pictures({drawing.name: drawing}, ending[1:])[drawing.name]


def _path(out: "str | PathLike[str]", endings: tuple[str, ...], what: str) -> Path:
    path = user_path(out)
    if (ending := path.suffix.lower()) not in endings:
        raise WorkbenchError(
            f"{what} cannot be written as {ending!r}." if ending else "the file has no ending.",
            where=str(path),
            remedy=did_you_mean(ending, endings),
        )
    return path


def _no_formula(value: Any) -> Any:
    """Text as it is, unless it starts as a formula does and could do something; never a number."""
    if not isinstance(value, str) or not value.startswith(_STARTS):
        return value
    return f"'{value}" if any(sign in value for sign in _RUNS) else value


def _plain(value: Any) -> Any:
    """A cell as JSON has it: null where there is none, and text for what JSON has no word for."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return None if value is pd.NA or value is pd.NaT else str(value)


# --- a report as a zip with its data: the page, and of each run its tables, figures and spec ------
#
#     report.html
#     data/RUN/spec.json, provenance.json, tables/*.csv, *.parquet, figures/*.json, *.svg
#
# Pictures are there where a browser is at hand. Equal runs give equal bytes: the files have no
# date of their own. Costs writing the tables twice, and the start of a browser.

BEGINNING = (1980, 1, 1, 0, 0, 0)  # the first moment a zip can tell


def write(content: Content, path: Path) -> None:
    """Write the whole archive."""
    with written_whole(path) as draft, zipfile.ZipFile(draft, "w") as archive:
        for name, data in _files(content):
            entry = zipfile.ZipInfo(name, BEGINNING)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)


def _files(content: Content) -> Iterator[tuple[str, bytes]]:
    yield "report.html", html(content).encode()
    pictures, _ = drawn(content, "svg")
    taken: set[str] = set()
    for part in content.parts:
        name = part.run.name if is_name(part.run.name) else f"run-{part.number}"
        folder = f"data/{f'{name}-{part.number}' if name in taken else name}"
        taken.add(name)
        for file, data in _data(part):
            yield f"{folder}/{file}", data
        for name in part.drawings:
            if picture := pictures.get(key(part.number, name)):
                yield f"{folder}/figures/{name}.svg", picture


def _data(part: Part) -> Iterator[tuple[str, bytes]]:
    run = part.run
    for file in (spec.FILE, PROVENANCE):
        yield file, read_regular(unlinked(run.path / file))
    for name in run.tables:
        table = inside(run.path / TABLES, name, ".parquet", "table")
        yield f"{TABLES}/{name}.parquet", read_regular(table)
        yield f"{TABLES}/{name}.csv", csv(run.tables[name])
    for name, drawing in part.drawings.items():
        yield f"figures/{name}.json", figure_json(drawing)
