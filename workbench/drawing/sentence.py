"""A sentence as HTML: its words with arcs between them, and its text with marked spans.

displaCy draws the arcs. Every word and label is escaped and shown as text. Costs: a pass over the
sentence.
"""

import html
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from workbench.drawing.sanitize import as_html, shortened
from workbench.drawing.theme import COLOURS, FONTS, INK, Kind

if TYPE_CHECKING:
    from spacy.tokens import Span as Words

# --- arcs -----------------------------------------------------------------------------------------
#
# An image in the colours of the page: inside an image no script runs and nothing is loaded. Without
# the kind of the page it is SVG of the page, in the colour of its text.

_BOX = (
    "overflow-x:auto;overflow-y:hidden;max-width:100%;padding:0.25rem 0;"
    "border:1px solid rgba(128,128,128,.3);border-radius:.5rem"
)


def arcs(sentence: "Words", kind: Kind | None = "light") -> str:
    """HTML of a sentence's tree as an image in a scrolling box, with a text for screen readers."""
    start = sentence.start
    tokens = [word(token.text, token.pos_ or token.tag_) for token in sentence]
    drawn: list[dict[str, Any]] = [
        arc(token.head.i - start, token.i - start, token.dep_)
        for token in sentence
        if token.head.i != token.i and sentence.start <= token.head.i < sentence.end
    ]
    direction = str(sentence.vocab.writing_system.get("direction", "ltr"))
    alt = "; ".join(
        f"{token.text}: {token.dep_}"
        + ("" if token.head.i == token.i else f" of {token.head.text}")
        for token in sentence
    )
    return picture(tokens, drawn, kind, "Dependency arcs", alt, direction)


def word(text: str, below: str = "") -> dict[str, str]:
    """A word of an image, in displaCy's form, with the label below it."""
    return {"text": shortened(text, 40), "tag": html.escape(shortened(below, 24))}


def arc(first: int, second: int, label: str) -> dict[str, Any]:
    """An arrow of an image, in displaCy's form, from one word to another."""
    return {
        "start": min(first, second),
        "end": max(first, second),
        "label": html.escape(shortened(label, 24)),
        "dir": "left" if second < first else "right",
    }


def picture(
    tokens: list[dict[str, str]],
    drawn: list[dict[str, Any]],
    kind: Kind | None,
    label: str,
    alt: str,
    direction: str = "ltr",
) -> str:
    """HTML of words with arcs above them, as an image in a scrolling box with an alt text."""
    svg = _svg(tokens, drawn, direction, kind)
    about = html.escape(shortened(alt))
    if kind is None:
        image = f'<div role="img" aria-label="{about}">{svg}</div>'
    else:
        encoded = b64encode(svg.encode("utf-8", "replace")).decode()
        image = (
            f'<img src="data:image/svg+xml;base64,{encoded}" alt="{about}"'
            ' style="max-width:none;display:block">'
        )
    return f'<div style="{_BOX}" tabindex="0" role="group" aria-label="{label}">{image}</div>'


def _svg(
    tokens: list[dict[str, str]], drawn: list[dict[str, Any]], direction: str, kind: Kind | None
) -> str:
    """displaCy's SVG, without the empty space that its square arcs leave at the top."""
    from spacy.displacy.render import DependencyRenderer

    widest = max(len(token["text"]) for token in tokens)
    longest = max((len(one["label"]) for one in drawn), default=0)
    renderer = DependencyRenderer(
        {
            "compact": True,
            "color": "currentColor" if kind is None else INK[kind],
            "bg": "transparent",
            "font": FONTS.replace("'", ""),
            "distance": min(320, max(120, 11 * widest, 10 * longest + 24)),
            "offset_x": max(50, 6 * widest),
            "word_spacing": 28,
            "arrow_stroke": 1.5,
            "arrow_width": 7,
            "arrow_spacing": 16,
        }
    )
    renderer.direction = direction
    svg: str = renderer.render_svg(f"arcs-{token_hex(4)}", tokens, drawn).strip()
    top = renderer.offset_y - renderer.highest_level * renderer.distance / 6 - 6
    height = renderer.height - top
    box = f'viewBox="0 {top} {renderer.width} {height}" height="{height}"'
    return svg.replace(f'height="{renderer.height}"', box, 1).replace(
        f"height: {renderer.height}px", f"height: {height}px", 1
    )


# --- marked spans in a text -----------------------------------------------------------------------

AROUND = 160  # characters of context shown on either side of the spans
_CHIP = "font-size:12px;font-weight:600;padding:0 .1em 0 .25em;vertical-align:super"
Span = tuple[int, int]


def marked(
    text: str, spans: list[Span], kind: Kind | None, names: Sequence[str] = (), around: int = AROUND
) -> str:
    """HTML of a text with spans marked by number or name; spans may be nested or overlap.

    Spans of one name share a colour; `around` characters of context are shown on either side.
    """
    names = names or [str(n + 1) for n in range(len(spans))]
    hues = [list(dict.fromkeys(names)).index(name) for name in names]
    first = max(min((start for start, _ in spans), default=0) - around, 0)
    last = min(max((end for _, end in spans), default=0) + around, len(text))
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


def _style(inside: list[int], kind: Kind | None) -> str:
    """CSS: a tint, and one underline for each span that covers this part."""
    colours = [_colour(hue, kind) for hue in inside]
    underlines = [f"inset 0 -{2 + 3 * i}px 0 {colour}" for i, colour in enumerate(colours)]
    tint = f"color-mix(in srgb, {colours[0]} 15%, transparent)"
    return f"color:inherit;background:{tint};box-shadow:{','.join(underlines)}"


def _chip(name: str, hue: int, kind: Kind | None) -> str:
    return f'<span style="{_CHIP};color:{_colour(hue, kind)}">{as_html(name, 40)}</span>'


def _colour(hue: int, kind: Kind | None) -> str:
    """The colour of a name; of a page that is light or dark by itself, both."""
    if kind is None:
        return f"light-dark({_colour(hue, 'light')}, {_colour(hue, 'dark')})"
    return COLOURS[kind][hue % len(COLOURS[kind])]
