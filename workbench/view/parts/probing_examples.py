"""Targets that a layer gets right and the one below it wrong, marked in their sentences.

Sentences and labels come from anyone's corpus and are shown as text. Costs milliseconds.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from workbench.view.parts.plain import as_html
from workbench.view.theme import COLOURS, Kind

if TYPE_CHECKING:
    import pandas as pd

AROUND = 160  # characters shown on either side of the spans
LABEL = 80  # characters of a label
_CHIP = "font-size:.7em;font-weight:600;padding:0 .1em 0 .25em;vertical-align:super"
_STYLE = (
    "<style>ol.gains {margin: 0; padding-left: 2.2rem} ol.gains li {margin-bottom: .9rem;"
    " overflow-wrap: anywhere; line-height: 1.9} ol.gains p {margin: 0; line-height: 1.5;"
    " opacity: .85; font-size: .92em} ol.gains mark {color: inherit; padding: .1em .05em}</style>"
)
Span = tuple[int, int]


def listed(rows: "pd.DataFrame", layer: int, kind: Kind) -> str:
    """The rows of `gains` as HTML."""
    items = [
        f"<li><div>{marked(str(row.text), _spans(row), kind)}</div>"
        f"<p>layer {layer}: <b>{as_html(row.gold, LABEL)}</b>, as it is; "
        f"layer {layer - 1} said <b>{as_html(row.below, LABEL)}</b></p></li>"
        for row in rows.itertuples()
    ]
    return f'{_STYLE}<ol class="gains">{"".join(items)}</ol>'


def marked(text: str, spans: list[Span], kind: Kind, names: Sequence[str] = ()) -> str:
    """A text with some spans marked, by number or by name; they may lie in one another, or cross.

    Spans of one name have one colour.
    """
    names = names or [str(n + 1) for n in range(len(spans))]
    hues = [list(dict.fromkeys(names)).index(name) for name in names]
    first = max(min((start for start, _ in spans), default=0) - AROUND, 0)
    last = min(max((end for _, end in spans), default=0) + AROUND, len(text))
    edges = sorted({first, last, *(edge for span in spans for edge in span)})
    parts = ["… " if first else ""]
    for start, end in pairwise(edges):
        inside = [n for n, span in enumerate(spans) if span[0] <= start and end <= span[1]]
        piece = as_html(text[start:end])
        parts.append(
            f'<mark style="{_style([hues[n] for n in inside], kind)}">{piece}</mark>'
            if inside
            else piece
        )
        parts += [_chip(names[n], hues[n], kind) for n, s in enumerate(spans) if s[1] == end]
    return "".join([*parts, " …" if last < len(text) else ""])


def _spans(row: object) -> list[Span]:
    found = [
        (int(getattr(row, f"span{side}_start")), int(getattr(row, f"span{side}_end")))
        for side in (1, 2)
    ]
    return [span for span in found if 0 <= span[0] < span[1]]


def _style(inside: list[int], kind: Kind) -> str:
    """A tint, and a line below for each span that lies here."""
    lines = [f"inset 0 -{2 + 3 * place}px 0 {COLOURS[kind][n]}" for place, n in enumerate(inside)]
    return f"background:{COLOURS[kind][inside[0]]}26;box-shadow:{','.join(lines)}"


def _chip(name: str, hue: int, kind: Kind) -> str:
    return f'<span style="{_CHIP};color:{COLOURS[kind][hue]}">{as_html(name)}</span>'
