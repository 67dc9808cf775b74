"""A report as a zip with its data: the page, and of each run its tables, figures and spec.

    report.html
    data/RUN/spec.json, provenance.json, tables/*.csv, *.parquet, figures/*.json, *.svg

Pictures are there where a browser is at hand. Equal runs give equal bytes: the files have no date
of their own. Costs writing the tables twice, and the start of a browser.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from workbench.files import read_regular, written_whole
from workbench.report.beside import drawn, key
from workbench.report.content import Content, Part
from workbench.report.export import csv, figure_json
from workbench.report.html import html
from workbench.runs import spec
from workbench.runs.integrity import PROVENANCE
from workbench.runs.names import inside, is_name, unlinked
from workbench.runs.results import TABLES

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
        for figure in part.drawings:
            if picture := pictures.get(key(part.number, figure)):
                yield f"{folder}/figures/{figure}.svg", picture


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
