"""Building blocks of figures: bars, curves and marks with intervals, heat maps, panels.

Pure functions: from columns of a table to a trace, and from traces to a figure with axes. Data is
escaped where it becomes text of a figure. Costs: milliseconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb
from plotly.subplots import make_subplots

from workbench.core.experiment import HEAD
from workbench.figures.sanitize import escaped
from workbench.figures.theme import DASHES, EITHER, FADED, MARKS

Tables = Mapping[str, pd.DataFrame]
Draw = Callable[[Tables], go.Figure]
Trace = Any  # a Plotly trace
Look = Mapping[str, Any]  # attributes of an axis, a line or a marker
DOWN: Look = {"type": "category", "autorange": "reversed"}  # a category axis, the first name on top
NOT_LEARNED = "x-thin-open"  # mark of a probe that did not learn its task
CELLS: Look = {"showgrid": False, "zeroline": False}  # of an axis of a heat map
WRITTEN = 16  # maximum columns of a heat map with text in its cells
TITLE, LEGEND, BELOW = 30, 54, 50  # pixels of a panel title, of the legend, below the panels
ROW, THIN = 30, 14  # height of a layer of heads in pixels: maximum and minimum


# --- figures --------------------------------------------------------------------------------------


def plot(
    traces: Iterable[Trace],
    height: float,
    x: Look | None = None,
    y: Look | None = None,
    **look: Any,
) -> go.Figure:
    """A figure of traces on one pair of axes."""
    layout = {"height": height, "xaxis": x or {}, "yaxis": y or {}, **look}
    return go.Figure(_named_once([*traces]), layout)


def panels(
    parts: Sequence[tuple[object, Sequence[Trace]]],
    tall: float | Sequence[float],
    across: int = 1,
    gap: float = 64,
    x: Look | Sequence[Look] | None = None,
    y: Look | Sequence[Look] | None = None,
    shared: bool = False,
    top: float = LEGEND,
    apart: float = 0.2,
    **look: Any,
) -> go.Figure:
    """Small multiples: one panel for each part, with a title; `tall` is the height in pixels.

    A common axis has its title only at the lowest or first panels. `x` and `y` may also be lists
    with one axis per panel. Panels in a column may have a `shared` x axis. `top` is the room for a
    legend in pixels; `apart` is the share of the width between panels.
    """
    across = max(1, min(across, len(parts)))
    rows = [tall] * max(1, -(-len(parts) // across)) if isinstance(tall, int | float) else [*tall]
    inner = sum(rows) + gap * (len(rows) - 1)
    titles = [escaped(title) for title, _ in parts]
    above = TITLE if any(titles) else 6
    figure = make_subplots(
        len(rows),
        across,
        subplot_titles=titles if any(titles) else None,
        row_heights=rows,
        vertical_spacing=gap / inner if len(rows) > 1 else 0,
        horizontal_spacing=apart / across,
        shared_xaxes=shared,
    )
    left = {"x": 0, "xanchor": "left"} if across == 1 else {}
    figure.update_annotations(font={"size": 13}, **left)
    _named_once([trace for _, traces in parts for trace in traces])
    for index, (_, traces) in enumerate(parts):
        at = {"row": index // across + 1, "col": index % across + 1}
        for trace in traces:
            figure.add_trace(trace, **at)
        is_lowest, is_first = index + across >= len(parts), index % across == 0
        panel_x, panel_y = (axis[index] if isinstance(axis, Sequence) else axis for axis in (x, y))
        figure.update_xaxes(_titled(panel_x, is_lowest or panel_x is not x), **at)
        figure.update_yaxes(_titled(panel_y, is_first or panel_y is not y), **at)
    return figure.update_layout(
        **{
            "height": inner + above + top + BELOW,
            "margin": {"t": above + top, "b": BELOW},
            "legend": {"y": 1 + above / inner},
            **look,
        }
    )


def choice(
    parts: Sequence[tuple[object, Sequence[Trace]]], height: float, at: float = 1.02, **look: Any
) -> go.Figure:
    """One part at a time; a menu at this height selects the part if there are several."""
    owners = [index for index, (_, traces) in enumerate(parts) for _ in traces]
    figure = plot((trace for _, traces in parts for trace in traces), height, **look)
    for owner, trace in zip(owners, figure.data, strict=True):
        trace.visible = owner == 0
    buttons = [
        {
            "label": escaped(name),
            "method": "update",
            "args": [{"visible": [owner == index for owner in owners]}],
        }
        for index, (name, _) in enumerate(parts)
    ]
    return add_menu(figure, buttons, at) if len(parts) > 1 else figure


def add_menu(figure: go.Figure, buttons: Sequence[Look], at: float = 1.02) -> go.Figure:
    """The figure with a menu above it."""
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": at, "yanchor": "bottom"}
    return figure.update_layout(updatemenus=[menu])


def _named_once(traces: list[Trace]) -> list[Trace]:
    """Traces with each name once in the legend. Clicking it hides or shows all traces of that name;
    traces without a name are not in the legend."""
    names = [trace.name for trace in traces]
    for index, (trace, name) in enumerate(zip(traces, names, strict=True)):
        if not name or trace.showlegend is False:
            trace.showlegend = False
        elif len([each for each in names if each]) > 1:
            trace.showlegend = name not in names[:index]
            trace.legendgroup = name if names.count(name) > 1 else trace.legendgroup
    return traces


def _titled(axis: Look | None, is_titled: bool) -> Look:
    """The axis, without its title unless `is_titled`."""
    return {key: value for key, value in (axis or {}).items() if is_titled or key != "title"}


# --- bars, curves and marks -----------------------------------------------------------------------


def interval(rows: pd.DataFrame, value: str, low: str = "lower", high: str = "upper") -> Look:
    """Error bars of a column, from its lower and upper bounds."""
    return {
        "type": "data",
        "symmetric": False,
        "array": (rows[high] - rows[value]).clip(lower=0),
        "arrayminus": (rows[value] - rows[low]).clip(lower=0),
        "thickness": 1,
        "width": 3,
    }


def bars(
    values: Iterable[Any],
    names: Iterable[Any],
    hover: str,
    name: str | None = None,
    colour: str | None = EITHER,
    upright: bool = False,
    spread: Look | None = None,
    marker: Look | None = None,
    **look: Any,
) -> go.Bar:
    """Horizontal bars, or `upright` ones; `spread` are their error bars."""
    ends = {"x": names, "y": values} if upright else {"x": values, "y": names, "orientation": "h"}
    return go.Bar(
        **ends,
        name=name and escaped(name),
        marker={"color": colour, **(marker or {})},
        hovertemplate=_hover(hover),
        **({f"error_{'y' if upright else 'x'}": spread} if spread else {}),
        **look,
    )


def marks(
    x: Iterable[Any],
    y: Iterable[Any],
    hover: str,
    name: str | None = None,
    colour: object = None,
    symbol: object = None,
    size: int = 8,
    marker: Look | None = None,
    **look: Any,
) -> go.Scatter:
    """A mark for each value; error bars are `error_x` or `error_y`."""
    return go.Scatter(
        **{"mode": "markers", **look},
        x=x,
        y=y,
        name=name and escaped(name),
        marker={"color": colour, "symbol": symbol, "size": size, **(marker or {})},
        hovertemplate=_hover(hover),
    )


def curve(
    x: Iterable[Any],
    y: Iterable[Any],
    hover: str,
    name: str | None = None,
    style: int = 0,
    colour: str | None = None,
    marker: Look | None = None,
    line: Look | None = None,
    **look: Any,
) -> go.Scatter:
    """A line with marks; `style` is the index of its dash and mark."""
    return go.Scatter(
        **{"mode": "lines+markers", **look},
        x=x,
        y=y,
        name=name and escaped(name),
        line={"color": colour, "dash": DASHES[style % len(DASHES)], **(line or {})},
        marker={"symbol": MARKS[style % len(MARKS)], **(marker or {})},
        hovertemplate=_hover(hover),
    )


def level(
    ends: Sequence[Any], value: float, hover: str, name: str, style: int, **look: Any
) -> go.Scatter:
    """A straight line at one value, between the ends."""
    return curve(ends, [value] * len(ends), hover, name, style, mode="lines", **look)


def band(
    x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str, group: str
) -> go.Scatter:
    """The area between two curves in a pale colour, in a group of the legend."""
    return go.Scatter(
        x=[*x, *x[::-1]],
        y=[*high, *low[::-1]],
        fill="toself",
        fillcolor=f"rgba{(*hex_to_rgb(colour), 0.14)}",
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
        legendgroup=group,
    )


def sign(name: str, **look: Any) -> go.Scatter:
    """A legend entry without data: a marker, or a line."""
    mode = "lines" if "line" in look else "markers"
    return go.Scatter(x=[None], y=[None], name=escaped(name), mode=mode, **look)


def symbols(rows: pd.DataFrame, mark: str, learnt: str = "learnt") -> list[str]:
    """The mark of each row: hollow if the probe did not converge, a thin cross if it did not learn
    its task. Tables of earlier versions have no such columns."""
    flags = rows.reindex(columns=["converged", learnt], fill_value=True).astype(bool)
    return [
        NOT_LEARNED if not is_learnt else mark if is_done else f"{mark}-open"
        for is_done, is_learnt in flags.itertuples(index=False)
    ]


def faded(rows: pd.DataFrame, mark: str) -> Look:
    """Markers of probes: faded if the probe did not learn its task, hollow if not converged."""
    return {
        "symbol": symbols(rows, mark, ""),
        "opacity": [1.0 if each else FADED for each in rows["learnt"]],
    }


def _hover(text: str) -> str | None:
    return f"{text}<extra></extra>" if text and "<extra>" not in text else text or None


# --- heat maps and heads --------------------------------------------------------------------------


def matrix(
    rows: Iterable[object], columns: Iterable[object], values: Iterable[object]
) -> pd.DataFrame:
    """Values by row and column, in their order in the input; numeric columns are sorted."""
    table = pd.DataFrame({"row": [*rows], "column": [*columns], "value": [*values]})
    wide = table.pivot(index="row", columns="column", values="value")
    if not pd.api.types.is_numeric_dtype(wide.columns):
        wide = wide[list(dict.fromkeys(table["column"]))]
    return wide.loc[list(dict.fromkeys(table["row"]))]


def heat_map(
    wide: pd.DataFrame,
    hover: str = "",
    title: str = "",
    form: str = "",
    tickformat: str | None = None,
    gap: float = 2,
    **look: Any,
) -> go.Heatmap:
    """A heat map; with few columns, each value is written in its cell in the format `form`."""
    return go.Heatmap(
        z=wide.to_numpy(dtype=float),
        x=list(wide.columns),
        y=list(wide.index),
        xgap=gap,
        ygap=gap,
        autocolorscale="colorscale" not in look,
        texttemplate=form if len(wide.columns) <= WRITTEN else "",
        colorbar={"title": {"text": title}, "tickformat": tickformat},
        **({"hovertemplate": _hover(hover)} if hover else {"hoverinfo": "skip"}),
        **look,
    )


def tick(deepest: float) -> int:
    """Distance of ticks on an axis of layers."""
    return 4 if deepest > 13 else 1


def largest(values: pd.Series | pd.DataFrame) -> float:
    """The largest absolute value, for the ends of a colour scale; 1 if all values are 0."""
    return float(np.nanmax(np.abs(values.to_numpy(dtype=float)), initial=0.0)) or 1.0


def ends(values: pd.Series, around: bool = True) -> Look:
    """A colour scale from 0 to the largest value; symmetric if `around` and a value is below 0."""
    top = largest(values)
    is_below = around and bool((values.astype(float) < 0).any())
    return {"zmin": -top if is_below else 0.0, "zmax": top}


def head_grid(
    heads: pd.DataFrame,
    values: pd.Series,
    words: pd.Series | None = None,
    over: Callable[[pd.DataFrame], Sequence[Trace]] = lambda part: [],
    **look: Any,
) -> go.Figure:
    """Values of attention heads: one row per layer, lowest on top; one panel per stack and kind.

    `words` are the texts of the cells; `over` returns traces to draw over a panel.
    """
    if heads.empty:
        raise KeyError("no heads")
    groups = [
        (" ".join(map(str, name)), part) for name, part in heads.groupby([*HEAD[:2]], sort=False)
    ]
    parts: list[tuple[str, list[Trace]]] = []
    layers, sizes = [], []
    for title, part in groups:
        at = part["layer"], part["head"]
        if words is not None:
            look["text"] = matrix(*at, words[part.index]).fillna("").to_numpy()
        cells = heat_map(matrix(*at, values[part.index]), **{"showscale": not parts, **look})
        parts.append((title if len(groups) > 1 else "", [cells, *over(part)]))
        layers.append([int(part["layer"].max()) + 0.5, int(part["layer"].min()) - 0.5])
        sizes.append(part["layer"].nunique())
    tall = max(THIN, min(ROW, 900 // sum(sizes)))
    widest = int(heads["head"].max()) + 1
    fixed = {**CELLS, "fixedrange": True}
    return panels(
        parts,
        [tall * size for size in sizes],
        gap=72,
        x={
            **fixed,
            "title": "head",
            "range": [-0.5, widest - 0.5],
            "dtick": 1 if widest <= WRITTEN else 4,
        },
        y=[
            {**fixed, "title": "layer", "range": span, "dtick": 1 if max(sizes) <= 24 else 4}
            for span in layers
        ],
        hovermode="closest",
        dragmode=False,
    )
