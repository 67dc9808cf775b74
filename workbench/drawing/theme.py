"""The style of figures: one Plotly template for light pages, dark pages and print.

A colour has one meaning in all figures: `MODEL`, `TUNED`, and greys for `BASELINE` and `CONTROL`;
what is not significant is `NOT_SIGNIFICANT`.
Colours are distinguishable for colour-blind readers, and series also differ by mark and dash. In
print, bars have patterns, since the print may have no colour. No font is loaded: the app has Inter,
and other pages use the system's. Backgrounds are transparent. Costs: nothing.
"""

from functools import cache
from typing import Literal

import plotly.graph_objects as go

Kind = Literal["light", "dark", "print"]

FONTS = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
PAPER: dict[Kind, str] = {"light": "#ffffff", "dark": "#15191e", "print": "#ffffff"}
INK: dict[Kind, str] = {"light": "#1d2733", "dark": "#e3e8ee", "print": "#000000"}
FAINT: dict[Kind, str] = {"light": "#55616f", "dark": "#a5b0bd", "print": "#333333"}
LINES: dict[Kind, str] = {"light": "#e2e7ec", "dark": "#323c47", "print": "#cccccc"}
_ON_LIGHT = ("#1f6fa8", "#d9730d", "#184b33", "#821669", "#838d97", "#6f581b")
_ON_DARK = ("#6bb3ea", "#f0a24a", "#54f0ad", "#db5c96", "#cad4e2", "#ebe520")
COLOURS: dict[Kind, tuple[str, ...]] = {
    "light": _ON_LIGHT,
    "dark": _ON_DARK,
    "print": _ON_LIGHT,
}

# Colours with a meaning, visible on light and dark pages. Lines differ by dash as well.
MODEL = "#3a80bf"  # the analysed model
TUNED = "#d9730d"  # the same model after fine-tuning, or the second of two
BASELINE = "#838d97"  # a simpler method, random weights, chance: grey
CONTROL = "#606973"  # a control task, or a permutation null: dark grey
NOT_SIGNIFICANT = "rgba(131,141,151,.4)"  # a bar or a mark; cells: see `GREY_CELL`
GREY_CELL: dict[Kind, str] = {"light": "#d9dde1", "dark": "#3c444d", "print": "#dddddd"}
SERIES = (MODEL, TUNED, "#9545e6", "#b28659", "#cc0022")  # up to five named curves
EITHER = MODEL

MANY = (
    "#5900ff",
    "#ab9afd",
    "#92387f",
    "#0772ff",
    "#f48c12",
    "#0bc28f",
    "#4c5a0e",
    "#a5964d",
    "#236f49",
    "#7a2caa",
    "#e091ca",
)  # for more kinds than `COLOURS` has; visible on light and dark pages
_LOW_TO_HIGH = ("#e8f1f8", "#a9cde6", "#5b9fcb", "#1f6fa8", "#0b3c66")
SCALE: dict[Kind, tuple[str, ...]] = {
    "light": _LOW_TO_HIGH,
    "dark": ("#1d2a36", "#1f5480", "#3a86bd", "#85bfe8", "#e1f0fb"),
    "print": _LOW_TO_HIGH,
}
AROUND_ZERO: dict[Kind, tuple[str, ...]] = {
    "light": ("#a3480a", "#eaa56b", "#f4f4f2", "#7fb4d8", "#0b5a8f"),
    "dark": ("#f5b06a", "#9c5a1e", "#262c33", "#2f6f9f", "#85c4f2"),
    "print": ("#a3480a", "#eaa56b", "#f4f4f2", "#7fb4d8", "#0b5a8f"),
}
MARKS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("/", ".", "x", "-", "+")


@cache
def template(kind: Kind = "light") -> go.layout.Template:
    """The Plotly template with the default style of figures."""
    axis = {
        "automargin": True,
        "gridcolor": LINES[kind],
        "linecolor": LINES[kind],
        "zerolinecolor": FAINT[kind],
        "zerolinewidth": 1,
        "tickfont": {"color": FAINT[kind]},
        "ticklabelstandoff": 5,
        "title": {"standoff": 12, "font": {"size": 13, "color": FAINT[kind]}},
    }
    layout = go.Layout(
        font={"family": FONTS, "size": 13, "color": INK[kind]},
        title={"x": 0, "xanchor": "left", "font": {"size": 16}},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        colorway=COLOURS[kind],
        colorscale={
            "sequential": _scale(SCALE[kind]),
            "sequentialminus": _scale((GREY_CELL[kind],) * 2),  # see `primitives.heat_maps`
            "diverging": _scale(AROUND_ZERO[kind]),
        },
        coloraxis={"colorbar": _bar(kind)},
        margin={"l": 8, "r": 16, "t": 32, "b": 8},
        xaxis=axis,
        yaxis=axis,
        legend={"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"},
        hoverlabel={
            "bgcolor": PAPER[kind],
            "bordercolor": FAINT[kind],
            "align": "left",
            "font": {"family": FONTS, "color": INK[kind]},
            "namelength": 40,
        },
        bargap=0.25,
    )
    return go.layout.Template(layout=layout, data=_traces(kind))


def palettes() -> dict[str, dict[str, object]]:
    """The colours of both themes, as the scripts in `js/` read them."""
    kinds: tuple[Kind, ...] = ("light", "dark")
    return {
        kind: {
            "scale": list(SCALE[kind]),
            "around": list(AROUND_ZERO[kind]),
            "paper": PAPER[kind],
            "ink": INK[kind],
            "faint": FAINT[kind],
            "lines": LINES[kind],
            "accent": COLOURS[kind][1],
            "series": list(COLOURS[kind]),
        }
        for kind in kinds
    }


def _traces(kind: Kind) -> dict[str, list[dict[str, object]]]:
    """Styles of the first, second, … series of each trace type; they repeat."""
    colour_bar = {"colorbar": _bar(kind)}
    patterns = PATTERNS if kind == "print" else ()
    return {
        "bar": [
            {"marker": {**colour_bar, "line": {"width": 0}, **pattern}}
            for pattern in (
                {},
                *({"pattern": {"shape": shape, "fillmode": "overlay"}} for shape in patterns),
            )
        ],
        "scatter": [
            {"marker": {**colour_bar, "symbol": mark, "size": 7}, "line": {"dash": dash}}
            for mark, dash in zip(MARKS, DASHES, strict=True)
        ],
        **{kind: [{**colour_bar, "autocolorscale": True}] for kind in ("heatmap", "contour")},
    }


def _bar(kind: Kind) -> dict[str, object]:
    """The colour bar: thin, without a frame."""
    faint = {"size": 12, "color": FAINT[kind]}
    return {"outlinewidth": 0, "thickness": 12, "tickfont": faint, "title": {"font": faint}}


def _scale(colours: tuple[str, ...]) -> list[tuple[float, str]]:
    return [(index / (len(colours) - 1), colour) for index, colour in enumerate(colours)]
