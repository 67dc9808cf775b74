"""Figures as pictures: SVG, PNG and PDF, drawn by Kaleido in an installed browser.

Nothing is downloaded: Plotly comes from the installed package, and MathJax is not used. The same
figure gives the same bytes. Costs: the start of a browser, about three seconds, and half a second
per figure.
"""

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from workbench.core.errors import WorkbenchError, missing_package
from workbench.doctor import find_browser
from workbench.figures.theme import PAPER, template
from workbench.report.content import Drawing

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
