"""Writes one table or figure of a run to a file, with all digits.

Tables as CSV, Parquet and JSON; figures as a page that needs no network, as Plotly JSON, and as
SVG, PNG and PDF, as wide as one or two columns of a paper. In CSV, text that a spreadsheet would
run as a formula gets an apostrophe in front; Parquet and JSON have it unchanged. Costs: writing the
file, and for a picture half a second.
"""

import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from workbench.core.errors import WorkbenchError, did_you_mean, require_one_of
from workbench.core.files import atomic_write, read_json, read_regular, user_path, write_atomically
from workbench.core.public import public
from workbench.drawing.hover import plain
from workbench.drawing.sanitize import harmless
from workbench.drawing.theme import PAPER, template
from workbench.drawing.vector import Format, picture
from workbench.report.content import Content, Drawing, Part, drawings, public_text
from workbench.report.drawn import pictured
from workbench.report.format import attributes
from workbench.report.html import figure_page, html
from workbench.runs import spec
from workbench.runs.run import FINDINGS, PROVENANCE, TABLES, Run, opened_run
from workbench.runs.spec import inside, is_name, unlinked

TABLE_ENDINGS = (".csv", ".parquet", ".json")
FIGURE_ENDINGS = (".html", ".json", ".svg", ".png", ".pdf")
_STARTS, _RUNS = ("=", "+", "-", "@", "\t", "\r"), ("(", "|", "!")


@overload
def export(run: Run | str, name: str, out: "str | PathLike[str]", *, columns: int = 2) -> Path: ...
@overload
def export(
    run: go.Figure,
    name: "str | PathLike[str]" = "",
    out: "str | PathLike[str]" = "",
    *,
    columns: int = 2,
) -> Path: ...
@public
def export(
    run: Run | str | go.Figure,
    name: "str | PathLike[str]" = "",
    out: "str | PathLike[str]" = "",
    *,
    columns: int = 2,
) -> Path:
    """Write one table or figure of a run to a file, with all digits; or any figure.

    Args:
        run: A finished `Run`, or its name; or a figure, such as `wb.lens(...).figure()`, whose file
            is the second argument.
        name: The name of a table or a figure of the run. If a table and a figure have this name,
            the table is written unless only figures have the suffix.
        out: The output file; its suffix selects the format: a table as .csv, .parquet or .json, a
            figure as .html, .json, .svg, .png or .pdf.
        columns: The width of a picture (.svg, .png or .pdf) in columns of a paper: 1 (8.5 cm) or 2
            (17 cm).

    Returns:
        The file's path.

    Raises:
        WorkbenchError: The run has no table or figure of that name, the suffix is not known, or
            the file cannot be written.

    Example:
        >>> run = wb.run("describe", corpus="primer:size=40")
        >>> wb.export(run, "relations", "relations.csv").name
        'relations.csv'
        >>> model = wb.load("mini:gpt", device="cpu")
        >>> figure = wb.lens(model, "Ben walks to the hill.").figure()
        >>> wb.export(figure, "lens.pdf").name  # as wide as two columns
        'lens.pdf'
    """
    if isinstance(run, go.Figure):
        path = _path(out or name, FIGURE_ENDINGS, "a figure")
        drawing = Drawing(path.stem, plain(run.layout.title.text or ""), "", "", harmless(run))
        drawing.plain["layout"].pop("title", None)
        write_atomically(path, _figure("", drawing, path.suffix.lower(), columns))
        return path
    name = str(name)
    run = opened_run(run, "wb.export")
    ending = user_path(out).suffix.lower()
    as_figure = name not in run.tables or (ending in FIGURE_ENDINGS and ending not in TABLE_ENDINGS)
    figures = drawings(run) if as_figure else {}
    known = list(dict.fromkeys([*run.tables, *figures]))
    what = f"the run has no table or figure {name!r:.60}."
    require_one_of(name, known, what, code="table-not-found", where=run.name)
    if name in figures:
        return export_figure(run, name, out, columns)
    return export_table(run, name, out)


def export_table(run: Run, table: str, out: "str | PathLike[str]") -> Path:
    """Write a table of a run; the suffix of the file selects the format."""
    path = _path(out, TABLE_ENDINGS, "a table")
    data = run.tables[table]
    with atomic_write(path) as draft:
        if path.suffix.lower() == ".parquet":
            data.to_parquet(draft, index=False)
        elif path.suffix.lower() == ".csv":
            draft.write_bytes(csv(data))
        else:
            draft.write_bytes(records(run, table))
    return path


def export_figure(run: Run, name: str, out: "str | PathLike[str]", columns: int = 2) -> Path:
    """Write a figure of a run; the suffix of the file selects the format."""
    path = _path(out, FIGURE_ENDINGS, "a figure")
    figures = drawings(run)
    require_one_of(
        name,
        figures,
        f"the run has no figure {name!r:.60}.",
        code="figure-not-found",
        where=run.name,
    )
    content = _figure(run.name, figures[name], path.suffix.lower(), columns)
    write_atomically(path, content)
    return path


def csv(table: pd.DataFrame) -> bytes:
    """Return a table as CSV, in UTF-8."""
    safe = table.copy()
    for index, dtype in enumerate(table.dtypes):
        if not pd.api.types.is_numeric_dtype(dtype):
            safe.isetitem(index, [_no_formula(value) for value in table.iloc[:, index]])
    safe.columns = pd.Index([_no_formula(column) for column in table.columns])
    return bytes(safe.to_csv(index=False, lineterminator="\n").encode("utf-8", "surrogatepass"))


def records(run: Run, name: str) -> bytes:
    """Return a table as JSON: its description, its keys, and a record for each row."""
    table = run.tables[name]
    about, keys = attributes(table)
    rows = [
        {str(column): _plain(value) for column, value in zip(table.columns, row, strict=True)}
        for row in table.itertuples(index=False, name=None)
    ]
    whole = {"run": run.name, "table": name, "about": about, "keys": keys, "rows": rows}
    return f"{json.dumps(whole, ensure_ascii=True, indent=1, allow_nan=False)}\n".encode()


def figure_json(drawing: Drawing) -> bytes:
    """Return a figure as Plotly JSON."""
    return f"{json.dumps(whole(drawing), sort_keys=True)}\n".encode()


def whole(drawing: Drawing) -> dict[str, Any]:
    """Return the figure with its template, on a white background."""
    style = template("light").to_plotly_json()
    white = PAPER["light"]
    style["layout"] = {**style["layout"], "paper_bgcolor": white, "plot_bgcolor": white}
    traces = enumerate(drawing.plain["data"])
    return {
        "data": [{"uid": f"{index:06d}", **trace} for index, trace in traces],
        "layout": {**drawing.plain["layout"], "template": style},
    }


def _figure(of: str, drawing: Drawing, ending: str, columns: int) -> bytes:
    if ending == ".json":
        return figure_json(drawing)
    if ending == ".html":
        return figure_page(of, drawing).encode()
    kinds: Mapping[str, Format] = {".svg": "svg", ".png": "png", ".pdf": "pdf"}
    try:
        return picture(
            drawing.plain,
            kinds[ending],
            title=drawing.title,
            subtitle=drawing.subtitle,
            columns=columns,
        )
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise WorkbenchError(
            f"the figure {drawing.name!r:.60} cannot be drawn: {error}.",
            code="figure-damaged",
            where=of,
            remedy="Export it as .json, or as .html, which Plotly draws.",
        ) from error


def _path(out: "str | PathLike[str]", endings: tuple[str, ...], what: str) -> Path:
    path = user_path(out)
    if (ending := path.suffix.lower()) not in endings:
        raise WorkbenchError(
            f"{what} cannot be written as {ending!r}." if ending else "the file has no suffix.",
            code="format-unknown",
            where=str(out) or "out",
            remedy=did_you_mean(ending, endings),
        )
    return path


def _no_formula(value: Any) -> Any:
    """Escape text that a spreadsheet would run as a formula; numbers stay."""
    if not isinstance(value, str) or not value.startswith(_STARTS):
        return value
    return f"'{value}" if any(sign in value for sign in _RUNS) else value


def _plain(value: Any) -> Any:
    """Return a cell as a JSON value: null if it is missing, text for types that JSON lacks."""
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


# --- a report as a zip with its data: the page, and the tables, figures and spec of each run ------
#
#     report.html
#     data/RUN/spec.json, provenance.json, findings.json, tables/*.csv, *.parquet,
#              figures/*.json, *.svg, *.pdf
#
# Private folders are removed from texts. Equal runs give equal bytes: all files have the same date.
# Costs: writing the tables twice, and some tenths of a second per figure.

FORMATS: tuple[Format, ...] = ("svg", "pdf")
BEGINNING = (1980, 1, 1, 0, 0, 0)  # the earliest date in a zip


def write(content: Content, path: Path) -> None:
    """Write the whole archive."""
    with atomic_write(path) as draft, zipfile.ZipFile(draft, "w") as archive:
        for name, data in _files(content):
            entry = zipfile.ZipInfo(name, BEGINNING)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)


def _files(content: Content) -> Iterator[tuple[str, bytes]]:
    yield "report.html", html(content).encode()
    taken: set[str] = set()
    for part in content.parts:
        name = part.run.path.name if is_name(part.run.path.name) else f"run-{part.number}"
        folder = f"data/{f'{name}-{part.number}' if name in taken else name}"
        taken.add(name)
        for file, data in _data(part):
            yield f"{folder}/{file}", data


def _data(part: Part) -> Iterator[tuple[str, bytes]]:
    run, public = part.run, public_text(part.run)
    provenance = read_json(unlinked(run.path / PROVENANCE))
    yield spec.FILE, _as_json(_texts(part.spec.model_dump(mode="json"), public))
    yield PROVENANCE, _as_json(_texts(provenance, public))
    yield FINDINGS, _as_json([finding.as_data() for finding in part.findings])
    for name in run.tables:
        table = inside(run.path / TABLES, name, ".parquet", "table")
        yield f"{TABLES}/{name}.parquet", read_regular(table)
        yield f"{TABLES}/{name}.csv", csv(run.tables[name])
    for name, drawing in part.drawings.items():
        yield f"figures/{name}.json", figure_json(drawing)
        for kind in FORMATS:
            if image := pictured(drawing, kind, with_title=True):
                yield f"figures/{name}.{kind}", image


def _as_json(value: Any) -> bytes:
    return f"{json.dumps(value, ensure_ascii=False, indent=1)}\n".encode("utf-8", "surrogatepass")


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with each of its texts changed; names stay."""
    if isinstance(value, dict):
        return {name: _texts(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_texts(item, change) for item in value]
    return change(value) if isinstance(value, str) else value
