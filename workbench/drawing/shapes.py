"""Parts of a drawn figure: shapes and words in pixels, and the data of Plotly's traces.

A scene does not depend on the renderer: `vector` draws it with matplotlib, and as SVG of a page.
Sizes are Plotly's pixels; colours are those of the figure, or names of colours that depend on the
page. Costs: microseconds per part.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from workbench.core.errors import WorkbenchError
from workbench.drawing.hover import Line
from workbench.drawing.theme import (
    BASELINE,
    COLOURS,
    CONTROL,
    MODEL,
    NOT_SIGNIFICANT,
    TUNED,
)

TYPES = ("heatmap", "bar", "scatter")  # known traces, the lowest first
STEPS = 32  # of a colour scale
SIZE, SMALL = 13.0, 12.0  # pixels of text
SPACING = 1.25  # of lines of text, in sizes
NAMED = {
    MODEL: "model",
    TUNED: "tuned",
    BASELINE: "baseline",
    CONTROL: "control",
    NOT_SIGNIFICANT: "not-significant",
    **{
        colour: f"series-{index}"
        for index, colour in enumerate(COLOURS["light"])
        if colour not in (TUNED, BASELINE)
    },
}  # colours of a figure that depend on the page
DASHED: Mapping[str, tuple[int, ...]] = {
    "solid": (),
    "dot": (2, 3),
    "dash": (7, 4),
    "longdash": (12, 4),
    "dashdot": (7, 3, 2, 3),
    "longdashdot": (12, 3, 2, 3),
}

Point = tuple[float, float]
Plain = Mapping[str, Any]


class Look(NamedTuple):
    """Colours and lines of a shape."""

    fill: str = ""
    line: str = ""
    width: float = 1.0
    dash: tuple[int, ...] = ()
    opacity: float = 1.0


@dataclass(frozen=True)
class Shape:
    """Polygons or open lines, with a hover text."""

    paths: Sequence[Sequence[Point]]
    look: Look
    closed: bool = True
    tip: str = ""


@dataclass(frozen=True)
class Disc:
    """A circle, with a hover text."""

    x: float
    y: float
    radius: float
    look: Look
    tip: str = ""


@dataclass(frozen=True)
class Words:
    """Lines of text; `x` and `y` are the place of the anchor of the whole block."""

    x: float
    y: float
    lines: Sequence[Line]
    colour: str = "ink"
    size: float = SIZE
    across: str = "middle"  # start, middle or end
    up: str = "middle"  # top, middle or bottom
    angle: float = 0.0  # degrees, clockwise


Element = Shape | Disc | Words


@dataclass
class Scene:
    """A laid-out figure."""

    width: float
    height: float
    elements: list[Element] = field(default_factory=list)


# --- data of traces -------------------------------------------------------------------------------


def values(data: Any) -> list[Any]:
    """Return a column of a trace as a list; Plotly packs numbers in base64."""
    if isinstance(data, dict) and "bdata" in data:
        array = np.frombuffer(base64.b64decode(data["bdata"]), dtype=np.dtype(data["dtype"]))
        shape = data.get("shape")
        if shape is not None:
            array = array.reshape([int(size) for size in str(shape).split(",")])
        return list(array.tolist())
    return list(data) if isinstance(data, list | tuple) else []


def each(value: Any, index: int, default: Any = None) -> Any:
    """Return the value of one mark, of a list or of a value for all."""
    if isinstance(value, dict) and "bdata" in value:
        value = values(value)
    if isinstance(value, list):
        value = value[index] if index < len(value) else None
    return default if value is None else value


def number(value: Any) -> float:
    """Return a number; NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


_UNPACKED = ("x", "y", "z", "text", "customdata")


def shown_traces(plain: Plain) -> list[dict[str, Any]]:
    """Return the visible traces with their numbers unpacked, and the index of each."""
    shown = []
    for index, trace in enumerate(plain.get("data", [])):
        kind = trace.get("type", "scatter")
        if kind not in TYPES:
            raise WorkbenchError(
                f"a figure has a trace of type {kind!r:.40}, which cannot be drawn.",
                code="figure-type-unknown",
                where="figure",
                remedy=f"Draw it with {', '.join(TYPES)} traces, or export the figure as .html.",
            )
        if trace.get("visible", True) is True:
            unpacked = {
                name: values(trace[name])
                for name in _UNPACKED
                if isinstance(trace.get(name), dict | list)
            }
            shown.append({**trace, **unpacked, "type": kind, "index": index})
    n_scatter = 0
    for trace in shown:
        trace["style"] = n_scatter
        n_scatter += trace["type"] == "scatter"
    return shown


def colour_of(colour: Any, index: int = 0) -> str:
    """Return the name of a colour that depends on the page, or the colour itself."""
    if not isinstance(colour, str) or not colour:
        colour = COLOURS["light"][index % len(COLOURS["light"])]
    return str(NAMED.get(colour.lower(), colour))


# --- text -----------------------------------------------------------------------------------------


@cache
def _font(bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return get_font(
        findfont(FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal"))
    )


@lru_cache(8192)
def text_width(text: str, size: float = SIZE, bold: bool = False) -> float:
    """Return the width of a text in pixels."""
    if not text.isascii():  # a letter of another script is about as wide as its font is high
        wide = sum(ord(character) > 0x2E80 for character in text)
        text = "".join(c if ord(c) < 0x250 or c in "−→Δ…" else "n" for c in text)
        return _ascii_width(text, bold) * size / 100 + wide * size * 0.36
    return _ascii_width(text, bold) * size / 100


@lru_cache(8192)
def _ascii_width(text: str, bold: bool) -> float:
    font = _font(bold)
    font.set_size(100, 72)  # each time: drawing with matplotlib changes its size
    font.set_text(text, 0.0)
    return float(font.get_width_height()[0]) / 64


def block(words: Sequence[Line], size: float) -> Point:
    """Return width and height of lines of text."""
    widest = max((text_width(line.text, size, line.is_bold) for line in words), default=0.0)
    return widest, size * SPACING * len(words)


def wrapped(text: str, width: float, size: float, bold: bool = False) -> list[Line]:
    """Return a plain text in lines of at most this width."""
    done: list[str] = []
    for word in text.split():
        longer = f"{done[-1]} {word}" if done else word
        if done and text_width(longer, size, bold) <= width:
            done[-1] = longer
        else:
            done.append(word)
    return [Line(line, bold) for line in done]


def shortened(text: str, width: float, size: float) -> str:
    """Return a text cut to a width."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(f"{text}…", size) > width:
        text = text[:-1]
    return f"{text.rstrip()}…"
