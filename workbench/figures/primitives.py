"""What every figure is made of: bars, curves and marks with intervals, heat maps, panels.

Pure functions: from columns of a table to a trace, and from traces to a figure with its axes. What
is data is escaped where it becomes words of a figure. Costs milliseconds.
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
Trace = Any  # of Plotly
Look = Mapping[str, Any]  # attributes of an axis, a line or a marker
DOWN: Look = {"type": "category", "autorange": "reversed"}  # names, the first on top
UNLEARNT = "x-thin-open"  # the mark of what was not learnt
CELLS: Look = {"showgrid": False, "zeroline": False}  # of an axis of a heat map
WRITTEN = 16  # columns of a heat map whose cells have words
TITLE, LEGEND, BELOW = 30, 54, 50  # pixels of a panel's title, of the legend, below the panels
ROW, THIN = 30, 14  # pixels of a layer of heads, and where there are many


# --- figures --------------------------------------------------------------------------------------


def plot(
    traces: Iterable[Trace],
    height: float,
    x: Look | None = None,
    y: Look | None = None,
    **look: Any,
) -> go.Figure:
    """Traces on one pair of axes."""
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
    """Small multiples: the traces of each part under its title, in panels of some pixels.

    An axis of all panels has its title below the lowest ones, or beside the first ones; `x` and `y`
    may also be a list, of an axis for each panel. Panels below one another may have a `shared` x
    axis. `top` is the room for a legend, in pixels; `apart` the share of the width that lies
    between panels.
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
    for place, (_, traces) in enumerate(parts):
        at = {"row": place // across + 1, "col": place % across + 1}
        for trace in traces:
            figure.add_trace(trace, **at)
        is_lowest, is_first = place + across >= len(parts), place % across == 0
        own_x, own_y = (own[place] if isinstance(own, Sequence) else own for own in (x, y))
        figure.update_xaxes(_titled(own_x, is_lowest or own_x is not x), **at)
        figure.update_yaxes(_titled(own_y, is_first or own_y is not y), **at)
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
    """The traces of one part at a time, chosen by a menu at this height where there are several."""
    owners = [place for place, (_, traces) in enumerate(parts) for _ in traces]
    figure = plot((trace for _, traces in parts for trace in traces), height, **look)
    for owner, trace in zip(owners, figure.data, strict=True):
        trace.visible = owner == 0
    buttons = [
        {
            "label": escaped(name),
            "method": "update",
            "args": [{"visible": [owner == place for owner in owners]}],
        }
        for place, (name, _) in enumerate(parts)
    ]
    return add_menu(figure, buttons, at) if len(parts) > 1 else figure


def add_menu(figure: go.Figure, buttons: Sequence[Look], at: float = 1.02) -> go.Figure:
    """A menu above the figure."""
    menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": at, "yanchor": "bottom"}
    return figure.update_layout(updatemenus=[menu])


def _named_once(traces: list[Trace]) -> list[Trace]:
    """A name that several traces have stands in the legend once, and hides or shows all of them;
    what has no name is not there."""
    names = [trace.name for trace in traces]
    for place, (trace, name) in enumerate(zip(traces, names, strict=True)):
        if not name or trace.showlegend is False:
            trace.showlegend = False
        elif len([each for each in names if each]) > 1:
            trace.showlegend = name not in names[:place]
            trace.legendgroup = name if names.count(name) > 1 else trace.legendgroup
    return traces


def _titled(axis: Look | None, is_titled: bool) -> Look:
    return {key: value for key, value in (axis or {}).items() if is_titled or key != "title"}


# --- bars, curves and marks -----------------------------------------------------------------------


def interval(rows: pd.DataFrame, value: str, low: str = "lower", high: str = "upper") -> Look:
    """The bars of error of a column, from two others."""
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
    """Bars to the right, or `upright`; `spread` are their intervals."""
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
    """A mark for each value; intervals are `error_x` or `error_y`."""
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
    place: int = 0,
    colour: str | None = None,
    marker: Look | None = None,
    line: Look | None = None,
    **look: Any,
) -> go.Scatter:
    """A line with marks; `place` chooses its dash and its mark among those there are."""
    return go.Scatter(
        **{"mode": "lines+markers", **look},
        x=x,
        y=y,
        name=name and escaped(name),
        line={"color": colour, "dash": DASHES[place % len(DASHES)], **(line or {})},
        marker={"symbol": MARKS[place % len(MARKS)], **(marker or {})},
        hovertemplate=_hover(hover),
    )


def level(
    ends: Sequence[Any], value: float, hover: str, name: str, place: int, **look: Any
) -> go.Scatter:
    """A line at one value, from end to end."""
    return curve(ends, [value] * len(ends), hover, name, place, mode="lines", **look)


def band(
    x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str, group: str
) -> go.Scatter:
    """What lies between two curves, in a pale colour; in the legend it belongs to a group."""
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
    """An entry of the legend that is nothing in the figure: a marker, or a line."""
    mode = "lines" if "line" in look else "markers"
    return go.Scatter(x=[None], y=[None], name=escaped(name), mode=mode, **look)


def symbols(rows: pd.DataFrame, mark: str, learnt: str = "learnt") -> list[str]:
    """The mark of each row: hollow where training was cut off, a thin cross where nothing was
    learnt. Tables of earlier versions have no such columns."""
    known = rows.reindex(columns=["converged", learnt], fill_value=True).astype(bool)
    return [
        UNLEARNT if not is_learnt else mark if is_done else f"{mark}-open"
        for is_done, is_learnt in known.itertuples(index=False)
    ]


def faded(rows: pd.DataFrame, mark: str) -> Look:
    """Markers of probes: faded where nothing was learnt, hollow where training was cut off."""
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
    """Values by row and column, in the order in which they come; numbers of columns by size."""
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
    """A cell for each value; where there are few columns, it is written there in a `form`."""
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
    """Between marks on an axis of layers."""
    return 4 if deepest > 13 else 1


def largest(values: pd.Series | pd.DataFrame) -> float:
    """The largest absolute value, for the ends of a scale; 1 where there is none but 0."""
    return float(np.nanmax(np.abs(values.to_numpy(dtype=float)), initial=0.0)) or 1.0


def ends(values: pd.Series, around: bool = True) -> Look:
    """A scale from 0 to the largest value; even to both sides where one may be, and is, below 0."""
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
    """Values of heads, a layer a row, the lowest on top, and a panel for each kind of attention.

    `words` are the `text` of the cells; `over` draws on the cells of a panel's heads.
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
