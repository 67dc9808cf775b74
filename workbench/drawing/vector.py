"""Figures without a browser: pictures for papers, and SVG with hover texts for pages.

The second renderer of figures draws the same JSON as Plotly: `picture` as SVG, PDF or PNG with
matplotlib, for one or two columns of a paper; `inline_svg` as part of a page, whose style
(`page_style`) gives the colours for light, dark and print. The same figure gives the same bytes.
Costs: about 50 ms per figure, and 300 ms as a picture.
"""

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from html import escape
from itertools import groupby, pairwise
from typing import Any, Literal

from plotly.colors import hex_to_rgb

from workbench.core.errors import WorkbenchError, require_one_of
from workbench.drawing.hover import Line
from workbench.drawing.layout import WIDTH, scene
from workbench.drawing.sanitize import is_right_to_left, visible
from workbench.drawing.shapes import NAMED, SPACING, STEPS, Disc, Element, Plain, Shape, Words
from workbench.drawing.theme import (
    AROUND_ZERO,
    BASELINE,
    COLOURS,
    CONTROL,
    FAINT,
    GREY_CELL,
    INK,
    LINES,
    MODEL,
    PAPER,
    SCALE,
    TUNED,
    Kind,
)

Format = Literal["svg", "pdf", "png"]
FORMATS = ("svg", "pdf", "png")
CENTIMETRES = {1: 8.5, 2: 17.0}  # width of columns of a paper
DOTS = 300  # of a PNG, per inch
FONTS = ("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans Arabic", "Noto Sans Hebrew",
         "Noto Sans Devanagari", "Noto Sans Thai")  # the first comes with matplotlib  # fmt: skip
_NO_METADATA: Mapping[
    str, dict[str, None]
] = {  # such as dates: the same figure gives the same bytes
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_ACROSS: Mapping[str, Literal["left", "center", "right"]] = {
    "start": "left",
    "middle": "center",
    "end": "right",
}
_ISOLATES = str.maketrans("", "", "\u2066\u2067\u2068\u2069")
_KINDS: tuple[Kind, ...] = ("light", "dark", "print")
_MEANING: Mapping[Kind, Mapping[str, str]] = {
    "light": {"model": MODEL, "tuned": TUNED, "baseline": BASELINE, "control": CONTROL},
    "dark": {"model": "#6bb3ea", "tuned": "#f0a24a", "baseline": "#9aa4ae", "control": "#78828d"},
    "print": {"model": MODEL, "tuned": TUNED, "baseline": BASELINE, "control": CONTROL},
}


def picture(
    plain: Plain, kind: Format, *, title: str = "", subtitle: str = "", columns: int = 2
) -> bytes:
    """Return a figure as a picture on white, as wide as one or two columns of a paper."""
    require_one_of(
        kind,
        FORMATS,
        f"a picture cannot be made as {kind!r:.20}.",
        code="format-unknown",
        where="figure",
    )
    if columns not in CENTIMETRES:
        raise WorkbenchError(
            f"a picture cannot be {columns!r:.20} columns wide.",
            code="columns-invalid",
            where="figure",
            remedy="Choose 1 or 2 columns.",
        )
    return _with_matplotlib(plain, kind, title, subtitle, columns)


# --- colours --------------------------------------------------------------------------------------


@cache
def colours(kind: Kind) -> Mapping[str, str]:
    """Return the values of the colours that depend on the page."""
    named = {
        "ink": INK[kind],
        "faint": FAINT[kind],
        "grid": LINES[kind],
        "axis": FAINT[kind],
        "page": PAPER[kind],
        "on-bar": "#ffffff" if kind != "dark" else "#000000",
        "not-significant": "#c5cad0" if kind != "dark" else "#4c565f",
        "grey-cell": GREY_CELL[kind],
        **_MEANING[kind],
        **{f"series-{index}": colour for index, colour in enumerate(COLOURS[kind])},
    }
    for name, scale in (("seq", SCALE[kind]), ("div", AROUND_ZERO[kind])):
        for step in range(STEPS):
            named[f"{name}-{step:02d}"] = _on_scale(scale, (step + 0.5) / STEPS)
    cells = [name for name in named if name.startswith(("seq-", "div-", "grey-"))]
    return {**named, **{f"on-{name}": _text_on(named[name]) for name in cells}}


def _on_scale(scale: Sequence[str], share: float) -> str:
    at = share * (len(scale) - 1)
    low = min(int(at), len(scale) - 2)
    pairs = zip(hex_to_rgb(scale[low]), hex_to_rgb(scale[low + 1]), strict=True)
    return "#" + "".join(f"{round(a + (at - low) * (b - a)):02x}" for a, b in pairs)


def _text_on(colour: str) -> str:
    red, green, blue = hex_to_rgb(colour)
    return "#1d2733" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"


# --- matplotlib -----------------------------------------------------------------------------------


def _with_matplotlib(plain: Plain, kind: Format, title: str, subtitle: str, columns: int) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2D

    inches = CENTIMETRES[columns] / 2.54
    width = WIDTH * CENTIMETRES[columns] / CENTIMETRES[2]
    laid_out = scene(plain, width, *(_clean(text.replace("`", "")) for text in (title, subtitle)))
    per_pixel = inches / width
    look: Any = {
        "svg.hashsalt": "workbench",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "font.family": list(_fonts()),
        "path.simplify": False,
    }
    with matplotlib.rc_context(look):
        figure = Figure(figsize=(inches, laid_out.height * per_pixel), facecolor="white")
        place = (
            Affine2D().scale(1 / width, -1 / laid_out.height).translate(0, 1) + figure.transFigure
        )
        for element in laid_out.elements:
            for artist in _artists(element, place, per_pixel * 72):
                figure.add_artist(artist)
        stream = io.BytesIO()
        with warnings.catch_warnings():
            if kind == "svg":  # its letters come from the fonts of whatever shows it
                warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            figure.savefig(stream, format=kind, dpi=DOTS, metadata=_NO_METADATA[kind])
    return stream.getvalue()


@cache
def _fonts() -> tuple[str, ...]:
    """Return the installed fonts for figures."""
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    return tuple(font for font in FONTS if font in installed)


def _paint(colour: str) -> Any:
    """Return a colour for matplotlib."""
    if not colour or colour == "none":
        return "none"
    value = colours("light").get(colour, colour)
    if found := re.fullmatch(r"rgba?\(([^)]*)\)", value):
        red, green, blue, *alpha = (float(part) for part in found[1].split(","))
        return (red / 255, green / 255, blue / 255, alpha[0] if alpha else 1.0)
    return value if re.fullmatch(r"#[0-9a-fA-F]{3,8}", value) else _named_colour(value)


def _named_colour(name: str) -> Any:
    """Return a CSS colour that matplotlib knows; else black."""
    from matplotlib.colors import is_color_like

    return name if is_color_like(name) else "black"


def _artists(element: Element, place: Any, points: float) -> Iterator[Any]:
    """Return the matplotlib artists of an element; `points` is the size of a pixel."""
    from matplotlib.patches import Circle, PathPatch

    if isinstance(element, Words):
        yield from _texts(element, place, points)
        return
    look = element.look
    style = {
        "facecolor": _paint(look.fill),
        "edgecolor": _paint(look.line) if look.width else "none",
        "linewidth": look.width * points,
        "alpha": look.opacity if look.opacity < 1 else None,
        "transform": place,
    }
    if isinstance(element, Disc):
        yield Circle((element.x, element.y), element.radius, **style)
        return
    if look.dash:
        style["linestyle"] = (0, tuple(part / max(look.width, 1) for part in look.dash))
    if not element.closed:
        style["facecolor"] = "none"
    joins = {"joinstyle": "round", "capstyle": "butt"}
    yield PathPatch(_path(element), **style, **joins)


def _path(shape: Shape) -> Any:
    from matplotlib.path import Path

    points, codes = [], []
    for path in shape.paths:
        points += [*path, *([path[0]] if shape.closed else [])]
        codes += [Path.MOVETO, *[Path.LINETO] * (len(path) - 1)]
        codes += [Path.CLOSEPOLY] if shape.closed else []
    return Path(points or [(0, 0)], codes or [Path.MOVETO])


def _texts(words: Words, place: Any, points: float) -> Iterator[Any]:
    from matplotlib.text import Text

    for x, y, line in _baselines(words):
        yield Text(
            x,
            y,
            _clean(line.text),
            color=_paint(words.colour),
            fontsize=words.size * points,
            fontweight="bold" if line.is_bold else "normal",
            horizontalalignment=_ACROSS[words.across],
            verticalalignment="baseline",
            rotation=-words.angle,
            rotation_mode="anchor",
            transform=place,
            parse_math=False,
        )


def _baselines(words: Words) -> Iterator[tuple[float, float, Line]]:
    """Return the left, middle or right end of each line's baseline."""
    step = words.size * SPACING
    tall = step * len(words.lines)
    first = {"top": 0.0, "middle": -tall / 2, "bottom": -tall}[words.up] + 0.81 * step
    turn = math.radians(words.angle)
    for index, line in enumerate(words.lines):
        down = first + index * step
        yield words.x - down * math.sin(turn), words.y + down * math.cos(turn), line


def _clean(text: str) -> str:
    """Return a text with its invisible characters shown, without marks of direction."""
    return visible(text.translate(_ISOLATES))


# --- SVG of a page --------------------------------------------------------------------------------


def inline_svg(plain: Plain, width: float = WIDTH) -> str:
    """Return a figure as SVG for a page, with hover texts as `data-tip`.

    The colours are those of `page_style`.
    """
    laid_out = scene(plain, width)
    parts = [
        f'<svg class="figure" viewBox="0 0 {_short(laid_out.width)} {_short(laid_out.height)}" '
        'xmlns="http://www.w3.org/2000/svg">'
    ]
    for style, group in groupby(laid_out.elements, _style):
        inner = "".join(_drawn(element) for element in group)
        parts.append(f"<g{style}>{inner}</g>")
    return "".join([*parts, "</svg>"])


def page_style(only: Kind | None = None, *, by_scheme: bool = False) -> str:
    """Return the style of all figures of a page: colours for light, dark and print, or for one.

    With `by_scheme`, the property `color-scheme` of what is around a figure decides for light or
    dark, not the system: in a notebook the page decides.
    """
    light, dark, printed = (_variables(only or kind) for kind in _KINDS)
    if by_scheme:
        light, dark = _variables_by_scheme(), ""
    cells = [name for name in colours("light") if name.startswith(("seq-", "div-", "grey-"))]
    rules = "".join(
        f".figure .{_class(name)}{{fill:var(--fig-{name})}}"
        f".figure .{_class(f'on-{name}')}{{fill:var(--fig-on-{name})}}"
        for name in cells
    )
    return (
        f".figure{{{light}display:block;width:100%;height:auto;font-family:inherit;"
        "color:var(--fig-ink);overflow:visible}"
        ".figure text{white-space:pre}.figure [data-tip]{pointer-events:all}"
        ".figure [class^=o]{pointer-events:none}"
        f"{rules}"
        + (f"@media (prefers-color-scheme:dark){{.figure{{{dark}}}}}" if dark else "")
        + f"@media print{{.figure{{{printed}}}}}"
    )


def _variables(kind: Kind) -> str:
    return "".join(f"--fig-{name}:{value};" for name, value in colours(kind).items())


def _variables_by_scheme() -> str:
    dark = colours("dark")
    return "".join(
        f"--fig-{name}:light-dark({value},{dark[name]});"
        if dark[name] != value
        else f"--fig-{name}:{value};"
        for name, value in colours("light").items()
    )


@lru_cache(256)
def _class(name: str) -> str:
    """Return the class of a colour: `q07` for step 7 of the scale from low to high."""
    for long, short in (("on-", "o"), ("seq-", "q"), ("div-", "d"), ("grey-cell", "g")):
        name = name.replace(long, short)
    return name


@lru_cache(1024)
def _value(colour: str) -> str:
    """Return a colour in SVG: a variable of the page if it depends on the page."""
    if not colour or colour == "none":
        return "none"
    if colour in ("ink", "page", "grid", "axis", "faint", "on-bar") or colour in NAMED.values():
        return f"var(--fig-{colour},{colours('light')[colour]})"
    return escape(colour, quote=True)


def _style(element: Element) -> str:
    """Return the attributes that an element shares with its neighbours."""
    if isinstance(element, Words):
        size = f' font-size="{_short(element.size)}"'
        across = f' text-anchor="{element.across}"' if element.across != "start" else ""
        if element.colour.startswith("on-") and element.colour != "on-bar":
            return f' class="{_class(element.colour)}"{size}{across}'
        return f' style="fill:{_value(element.colour)}"{size}{across}'
    look = element.look
    fill = look.fill if not isinstance(element, Shape) or element.closed else ""
    parts = ""
    if fill.startswith(("seq-", "div-", "grey-")):
        parts += f' class="{_class(fill)}"'
    else:
        parts += f' fill="{_value(fill)}"'
    if look.line and look.width:
        parts += f' stroke="{_value(look.line)}"'
        parts += f' stroke-width="{_short(look.width)}"' if look.width != 1 else ""
    if look.dash:
        parts += f' stroke-dasharray="{" ".join(_short(part) for part in look.dash)}"'
    if look.opacity < 1:
        parts += f' opacity="{_short(look.opacity, 2)}"'
    return parts


def _drawn(element: Element) -> str:
    """Return the part of an element that is its own."""
    if isinstance(element, Words):
        return "".join(_text(element, x, y, line) for x, y, line in _baselines(element))
    hover = f' data-tip="{_escaped(element.tip)}"' if element.tip else ""
    if isinstance(element, Disc):
        where = f'cx="{_short(element.x)}" cy="{_short(element.y)}" r="{_short(element.radius)}"'
        return f"<circle {where}{hover}/>"
    return f'<path d="{_commands(element)}"{hover}/>'


def _text(words: Words, x: float, y: float, line: Line) -> str:
    turned = ""
    if words.angle:
        turned = f' transform="rotate({_short(words.angle)} {_short(x)} {_short(y)})"'
    bold = ' font-weight="600"' if line.is_bold else ""
    return f'<text x="{_short(x)}" y="{_short(y)}"{turned}{bold}>{_escaped(line.text)}</text>'


def _commands(shape: Shape) -> str:
    """Return a path in few characters: relative, with one decimal."""
    text = []
    for path in shape.paths:
        tenths = [(round(10 * x), round(10 * y)) for x, y in path]
        text.append(f"M{_tenth(tenths[0][0])} {_tenth(tenths[0][1])}")
        steps = [(x - a, y - b) for (a, b), (x, y) in pairwise(tenths)]
        for is_vertical, is_level, step in ((not x, not y, (x, y)) for x, y in steps):
            if is_level:
                text.append(f"h{_tenth(step[0])}")
            elif is_vertical:
                text.append(f"v{_tenth(step[1])}")
            else:
                text.append(f"l{_tenth(step[0])} {_tenth(step[1])}")
        text.append("z" if shape.closed else "")
    return "".join(text)


def _tenth(tenths: int) -> str:
    whole, rest = divmod(abs(tenths), 10)
    return f"{'-' if tenths < 0 else ''}{whole}{f'.{rest}' if rest else ''}"


def _short(value: float, digits: int = 1) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _escaped(text: str) -> str:
    """Return text for SVG, escaped; text from right to left is isolated."""
    shown = escape(visible(text.translate(_ISOLATES), lines=True), quote=True)
    shown = shown.replace("\n", "&#10;")
    return f"\u2068{shown}\u2069" if is_right_to_left(shown) else shown
