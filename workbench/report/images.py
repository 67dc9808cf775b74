"""Figures as pictures: SVG, PNG and PDF, drawn by Kaleido in a browser that is at hand.

Nothing is loaded: Plotly comes from the installed package, and MathJax is left out. The same figure
gives the same bytes. Costs a browser's start, about three seconds, and half a second a figure.
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
from workbench.core.files import written_whole
from workbench.doctor import find_browser
from workbench.figures.theme import PAPER, template
from workbench.report.content import Content, Drawing, Part

WIDTH = 760  # pixels, where a figure does not say
SHARPNESS = 2  # pixels of a PNG for each of the figure's
BROWSER = "On Debian: apt-get install chromium; elsewhere: plotly_get_chrome"
_DATES = re.compile(rb"/(CreationDate|ModDate) \(D:\d{14}")


def missing() -> WorkbenchError | None:
    """Why pictures cannot be made here, and what to do; None where they can."""
    if find_spec("kaleido") is None:
        return missing_package("kaleido", "saving figures as pictures")
    if find_browser() is None:
        return WorkbenchError(
            "saving figures as pictures needs Chrome or Chromium, and there is none.",
            remedy=f"{BROWSER}. Or export the figure as .html, which needs neither.",
        )
    return None


def pictures(drawings: Mapping[str, Drawing], kind: str) -> dict[str, bytes]:
    """Every figure as a picture; one browser draws them all."""
    if why := missing():
        raise why
    if not drawings:
        return {}
    with ThreadPoolExecutor(1) as thread:  # a notebook has a loop of its own in this one
        try:
            drawn = thread.submit(asyncio.run, _drawn(drawings, kind)).result()
        except Exception as error:  # whatever a browser that will not start comes up with
            first = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise WorkbenchError(
                f"the browser drew no picture: {first.rstrip('.')}.",
                where=str(find_browser()),
                remedy="Name another in BROWSER_PATH, or export the figure as .html.",
            ) from error
    return {name: _same(picture, kind) for name, picture in zip(drawings, drawn, strict=True)}


async def _drawn(drawings: Mapping[str, Drawing], kind: str) -> list[bytes]:
    kaleido = import_module("kaleido")
    page = kaleido.PageGenerator(mathjax=False)
    page.header += "<style>@page { margin: 0 }</style>"  # else the foot of a PDF is cut off
    async with kaleido.Kaleido(path=find_browser(), page_generator=page) as browser:
        return [
            await browser.calc_fig(whole(drawing), opts=_size(drawing, kind))
            for drawing in drawings.values()
        ]


def whole(drawing: Drawing) -> dict[str, Any]:
    """The figure with its looks, on white."""
    looks = template("light").to_plotly_json()
    white = PAPER["light"]
    looks["layout"] = {**looks["layout"], "paper_bgcolor": white, "plot_bgcolor": white}
    traces = enumerate(drawing.plain["data"])
    return {
        "data": [{"uid": f"{place:06d}", **trace} for place, trace in traces],
        "layout": {**drawing.plain["layout"], "template": looks},
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
    """The picture without what differs from one drawing to the next: dates, and a name in SVG."""
    if kind == "pdf":
        return _DATES.sub(rb"/\1 (D:19800101000000", picture)
    if kind == "svg" and (name := re.search(rb'id="defs-([0-9a-f]{6})"', picture)):
        return picture.replace(name[1], b"000000")
    return picture


# --- pictures in a folder beside a report, for the forms that cannot hold them --------------------
#
# Where no picture can be made the report says so, and what to do, and stands without. Costs the
# start of a browser.


@dataclass(frozen=True)
class Beside:
    """Where each picture is, relative to the report; or why there is none."""

    places: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""

    def place(self, part: Part, figure: str) -> str:
        """Where the picture of a run's figure is; "" where there is none."""
        return self.places.get(key(part.number, figure), "")


def key(number: int, figure: str) -> str:
    """The name of a figure's picture among those of a whole report."""
    return f"run-{number}-{figure}"


def drawn(content: Content, kind: str) -> tuple[dict[str, bytes], str]:
    """A picture of every figure of a report; or why there is none."""
    wanted = {
        key(part.number, name): drawing
        for part in content.parts
        for name, drawing in part.drawings.items()
    }
    if not wanted:
        return {}, ""
    try:
        return pictures(wanted, kind), ""
    except WorkbenchError as error:
        return {}, f"Figures are left out: {error.what} {error.remedy}"


def write_beside(content: Content, path: Path, kind: str) -> Beside:
    """Draw every figure into the folder NAME_files."""
    found, why_not = drawn(content, kind)
    folder = f"{re.sub(r'[^A-Za-z0-9-]+', '-', path.stem).strip('-') or 'report'}_files"
    places = {name: f"{folder}/{name}.{kind}" for name in found}
    for name, picture in found.items():
        with written_whole(path.parent / places[name]) as draft:
            draft.write_bytes(picture)
    return Beside(places, why_not)
