"""Sanitise figures and text from untrusted sources: data is shown as plain text.

Plotly reads a subset of HTML in strings, and loads pictures and maps by URL. Strings in lists are
data, and their markup is escaped. Texts of the figure itself keep line breaks and emphasis.
Anything that would be loaded is removed. Invisible characters, and characters that change the
writing direction, are shown by code point; marks of word starts as spaces. Costs: one pass over the
figure.
"""

import json
import re
import unicodedata
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

LONGEST = 200  # maximum characters of a data string in a figure
LOADING = {  # trace types that load tiles or outlines from the network
    "scattergeo", "choropleth", "scattermap", "choroplethmap", "densitymap",
    "scattermapbox", "choroplethmapbox", "densitymapbox",
}  # fmt: skip
INSTEAD = {"scattergl": "scatter", "scatterpolargl": "scatterpolar"}  # a report does not allow eval
_POSITIONS = {"x", "y", "x0", "x1", "y0", "y1"}  # of annotations and shapes, in axis values
_TEMPLATES = {"hovertemplate", "texttemplate"}  # texts of the figure itself, also in lists
_OWN = re.compile(r"<(?!/?(?:br|b|i|em|strong|sub|sup|extra) ?/?>)", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*")
_VISIBLE = {  # control characters, line separators, and direction marks
    number: f"⟨U+{number:04X}⟩"
    for number in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F),
                   *range(0x2066, 0x206A), 0xFEFF, *range(0xFFF9, 0xFFFC))
}  # fmt: skip
_LINES = {number: sign for number, sign in _VISIBLE.items() if chr(number) not in "\n\t"}
START = "▁"  # how pieces that start a word are stored, whatever their tokenizer
_LONE = re.compile(rf"{START}+(?=$|[\s”])")
_HALVES = re.compile("[\ud800-\udfff]")
_TURNING = {"R", "AL", "AN", "RLE", "RLO", "RLI"}


def harmless(figure: "go.Figure") -> dict[str, Any]:
    """The figure as plain data without its template: `data` and `layout`, safe to draw."""
    plain = json.loads(figure.to_json(engine="json"))
    layout = {key: value for key, value in plain.get("layout", {}).items() if key != "template"}
    traces = [
        {**trace, "type": INSTEAD.get(trace.get("type"), trace.get("type", "scatter"))}
        for trace in plain.get("data", [])
        if trace.get("type") not in LOADING
    ]
    return {"data": [_tamed(trace) for trace in traces], "layout": _tamed(layout)}


def escaped(text: object) -> str:
    """Data for texts of the figure, such as a title, with its markup escaped."""
    return visible(str(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def visible(text: str, lines: bool = False, marks: bool = False) -> str:
    """Text with every invisible character shown by code point; `lines` keeps line breaks.

    Marks of the starts of words are drawn as spaces, unless `marks` keeps them.
    """
    if not marks:
        text = spaced(text)
    whole = text if text.isascii() else _HALVES.sub(lambda c: f"⟨U+{ord(c[0]):04X}⟩", text)
    return whole.translate(_LINES if lines else _VISIBLE)


def as_html(text: object, max_length: int | None = None) -> str:
    """Data escaped for HTML; its text direction does not affect what follows."""
    shown = escape(shortened(text, max_length))
    return f"<bdi>{shown}</bdi>" if is_right_to_left(shown) else shown


def shortened(text: object, max_length: int | None = None) -> str:
    """One line of visible characters, cut to `max_length`."""
    shown = visible(" ".join(str(text).split(" ")))
    if max_length is None or len(shown) <= max_length:
        return shown
    return f"{shown[: max_length - 1]}…"


def spaced(text: str) -> str:
    """Pieces with the mark of a word start (`▁the`) drawn as a space; a lone mark is drawn as ␣.

    Continuations keep their mark (`##ing`). `visible` of the browser components does the same.
    """
    if START not in text:
        return text
    return _LONE.sub(lambda run: "␣" * len(run[0]), text).replace(START, "\u00a0")


def is_right_to_left(text: str) -> bool:
    """Whether the text has characters that are written from right to left."""
    return not text.isascii() and any(unicodedata.bidirectional(c) in _TURNING for c in text)


def _tamed(value: Any, key: str = "", listed: bool = False) -> Any:
    """A value of a figure with its strings escaped and its URLs removed."""
    if isinstance(value, dict):
        if "bdata" in value:  # numbers, packed
            return value
        safe = {name: _tamed(item, name) for name, item in value.items()}
        return {name: item for name, item in safe.items() if not _is_address(name, item)}
    if isinstance(value, list):
        return [_tamed(item, key, listed=True) for item in value]
    if not isinstance(value, str):
        return value
    if _PICTURE.fullmatch(value):
        return value
    shown = value if len(value) <= LONGEST or not listed else f"{value[: LONGEST - 1]}…"
    is_data = (listed and key not in _TEMPLATES) or key in _POSITIONS
    shown = escaped(shown) if is_data else _OWN.sub("&lt;", visible(shown, lines=True))
    return f"\u2068{shown}\u2069" if is_right_to_left(shown) else shown


def _is_address(name: str, value: Any) -> bool:
    """Whether drawing the value would load a URL."""
    if not isinstance(value, str):
        return False
    return name in {"source", "geojson"} and not _PICTURE.fullmatch(value)
