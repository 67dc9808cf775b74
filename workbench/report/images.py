"""Figures as pictures: SVG, PNG and PDF, drawn by Kaleido in an installed browser.

Nothing is downloaded: Plotly comes from the installed package, and MathJax is not used. The same
figure gives the same bytes. Costs: the start of a browser, about three seconds, and half a second
per figure.
"""

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workbench.core.errors import WorkbenchError, missing_package
from workbench.core.files import atomic_write
from workbench.doctor import find_browser
from workbench.figures.theme import PAPER, template
from workbench.report.content import Content, Drawing, Part

WIDTH = 760  # default width in pixels
SHARPNESS = 2  # pixels of a PNG per pixel of the figure
BROWSER = "On Debian: apt-get install chromium; elsewhere: plotly_get_chrome"
_DATES = re.compile(rb"/(CreationDate|ModDate) \(D:\d{14}")


def missing() -> WorkbenchError | None:
    """Return the error if pictures cannot be made on this machine; else None."""
    if find_spec("kaleido") is None:
        return missing_package("kaleido", "saving figures as pictures")
    if find_browser() is None:
        return WorkbenchError(
            "saving figures as pictures needs Chrome or Chromium, which is not installed.",
            code="browser-missing",
            remedy=f"{BROWSER}. Or export the figure as .html, which needs no browser.",
        )
    return None


def pictures(drawings: Mapping[str, Drawing], kind: str) -> dict[str, bytes]:
    """Return all figures as pictures, drawn by one browser."""
    if error := missing():
        raise error
    if not drawings:
        return {}
    with ThreadPoolExecutor(1) as thread:  # a notebook already runs an event loop in this thread
        try:
            drawn = thread.submit(asyncio.run, _drawn(drawings, kind)).result()
        except Exception as error:  # a browser that does not start raises many kinds
            first = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise WorkbenchError(
                f"the browser drew no picture: {first.rstrip('.')}.",
                code="picture-failed",
                where=str(find_browser()),
                remedy="Set BROWSER_PATH to another browser, or export the figure as .html.",
            ) from error
    return {name: _same(picture, kind) for name, picture in zip(drawings, drawn, strict=True)}


async def _drawn(drawings: Mapping[str, Drawing], kind: str) -> list[bytes]:
    kaleido = import_module("kaleido")
    page = kaleido.PageGenerator(mathjax=False)
    page.header += "<style>@page { margin: 0 }</style>"  # otherwise the bottom of a PDF is cut off
    async with kaleido.Kaleido(path=find_browser(), page_generator=page) as browser:
        return [
            await browser.calc_fig(whole(drawing), opts=_size(drawing, kind))
            for drawing in drawings.values()
        ]


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


def _size(drawing: Drawing, kind: str) -> dict[str, Any]:
    width = drawing.plain["layout"].get("width")
    return {
        "format": kind,
        "width": width if isinstance(width, int | float) else WIDTH,
        "height": drawing.height,
        "scale": SHARPNESS if kind == "png" else 1,
    }


def _same(picture: bytes, kind: str) -> bytes:
    """Return the picture without parts that change with each drawing: dates, and an id in SVG."""
    if kind == "pdf":
        return _DATES.sub(rb"/\1 (D:19800101000000", picture)
    if kind == "svg" and (name := re.search(rb'id="defs-([0-9a-f]{6})"', picture)):
        return picture.replace(name[1], b"000000")
    return picture


# --- pictures in a folder next to a report, for formats that cannot contain them ------------------
#
# If no picture can be made, the report says why and what to do, and has no pictures. Costs: the
# start of a browser.


@dataclass(frozen=True)
class Pictures:
    """The path of each picture, relative to the report; or why there are none."""

    paths: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""

    def path(self, part: Part, figure: str) -> str:
        """Return the path of the picture of a figure; "" if there is none."""
        return self.paths.get(key(part.number, figure), "")


def key(number: int, figure: str) -> str:
    """Return the name of the picture of a figure, unique in a report."""
    return f"run-{number}-{figure}"


def drawn(content: Content, kind: str) -> tuple[dict[str, bytes], str]:
    """Return a picture of each figure of a report; or why there are none."""
    figures = {
        key(part.number, name): drawing
        for part in content.parts
        for name, drawing in part.drawings.items()
    }
    if not figures:
        return {}, ""
    try:
        return pictures(figures, kind), ""
    except WorkbenchError as error:
        return {}, f"Figures are left out: {error.what} {error.remedy}"


def write_pictures(content: Content, path: Path, kind: str) -> Pictures:
    """Draw all figures of a report into the folder NAME_files."""
    images, why_not = drawn(content, kind)
    folder = f"{re.sub(r'[^A-Za-z0-9-]+', '-', path.stem).strip('-') or 'report'}_files"
    paths = {name: f"{folder}/{name}.{kind}" for name in images}
    for name, picture in images.items():
        with atomic_write(path.parent / paths[name]) as draft:
            draft.write_bytes(picture)
    return Pictures(paths, why_not)
