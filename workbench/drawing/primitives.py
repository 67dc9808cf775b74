"""Building blocks of figures: bars, curves and marks with intervals, heat maps, panels.

Pure functions: from columns of a table to a trace, and from traces to a figure with axes. Up to
five named curves have their names at their ends; other figures have a legend. Data is escaped where
it becomes text of a figure. Costs: milliseconds.
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from html import unescape
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb
from plotly.subplots import make_subplots

from workbench.core.findings import Tables, decimal, score
from workbench.core.head_names import FIRST, state_name
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, CONTROL, DASHES, EITHER, MARKS, SERIES
from workbench.experiment.definition import HEAD

Draw = Callable[[Tables], go.Figure]
Trace = Any  # a Plotly trace
Look = Mapping[str, Any]  # attributes of an axis, a line or a marker
DOWN: Look = {"type": "category", "autorange": "reversed"}  # a category axis, the first name on top
NOT_LEARNED = "x-thin-open"  # mark of a probe that did not learn its task
CELLS: Look = {"showgrid": False, "zeroline": False}  # of an axis of a heat map
WRITTEN = 16  # maximum columns of a heat map with text in its cells
TITLE, LEGEND, BELOW = 30, 54, 50  # pixels of a panel title, of the legend, below the panels
ROW, THIN = 30, 14  # height of a layer of heads in pixels: maximum and minimum
FEW, TALL, BROAD = 8, 44, 88  # layers or heads that are few; then the height and width of a cell
WIDEST = "widest"  # in `meta` of a figure: the width in pixels beyond which it does not grow
ACROSS = 620  # pixels of the cells of a heat map that is as wide as the figure
STATE = "%{state}"  # in a hover text: the name of the layer on the axis of layers
SHORT = "emb."  # the embeddings, where an axis has little room
LABELS = 5  # maximum number of curves with their names at their ends
LINE, LETTER = 15, 6.8  # pixels of a label: height of a line, mean width of a character
WORDS = 22  # characters of a line of a label


# --- figures --------------------------------------------------------------------------------------


def plot(
    traces: Iterable[Trace],
    height: float,
    x: Look | None = None,
    y: Look | None = None,
    **look: Any,
) -> go.Figure:
    """A figure of traces on one pair of axes."""
    shown = [*traces]
    names = _direct(shown)
    layout = {"height": height, "xaxis": x or {}, "yaxis": y or {}, **look}
    figure = go.Figure(_named_once(shown), layout)
    return _label(figure, names, [(figure.data, "x", "y", height - 90)]) if names else figure


def panels(
    parts: Sequence[tuple[object, Sequence[Trace]]],
    tall: float | Sequence[float],
    across: int = 1,
    gap: float = 64,
    x: Look | Sequence[Look] | None = None,
    y: Look | Sequence[Look] | None = None,
    shared: bool = False,
    top: float | None = None,
    apart: float = 0.2,
    **look: Any,
) -> go.Figure:
    """Small multiples: one panel for each part, with a title; `tall` is the height in pixels.

    A common axis has its title only at the lowest or first panels. `x` and `y` may also be lists
    with one axis per panel. Panels in a column may have a `shared` x axis. `top` is the room for a
    legend in pixels; `apart` is the share of the width between panels. Names of curves are at their
    ends in the last panel of the first row if it has all of them; else there is a legend.
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
    names = _direct([trace for _, traces in parts for trace in traces])
    labelled = range(len(parts)) if across == 1 else [across - 1]
    if across > 1 and not set(names) <= {trace.name for trace in parts[across - 1][1]}:
        names = []
    top = (4 if names else LEGEND) if top is None else top
    _named_once([trace for _, traces in parts for trace in traces])
    for index, (_, traces) in enumerate(parts):
        at = {"row": index // across + 1, "col": index % across + 1}
        for trace in traces:
            figure.add_trace(trace, **at)
        is_lowest, is_first = index + across >= len(parts), index % across == 0
        panel_x, panel_y = (axis[index] if isinstance(axis, Sequence) else axis for axis in (x, y))
        figure.update_xaxes(_titled(panel_x, is_lowest or panel_x is not x), **at)
        figure.update_yaxes(_titled(panel_y, is_first or panel_y is not y), **at)
    figure.update_layout(
        **{
            "height": inner + above + top + BELOW,
            "margin": {"t": above + top, "b": BELOW},
            "legend": {"y": 1 + above / inner},
            **look,
        }
    )
    if not names:
        return figure
    panes = []
    for index in labelled:
        number = "" if index == 0 else str(index + 1)
        inside = [trace for trace in figure.data if (trace.yaxis or "y") == f"y{number}"]
        panes.append((inside, f"x{number}", f"y{number}", rows[index // across]))
    return _label(figure, names, panes)


def drawable(table: pd.DataFrame, missing: str) -> pd.DataFrame:
    """The table; a KeyError if it has no rows, so that its figure is left out."""
    if table.empty:
        raise KeyError(missing)
    return table


def plot_or_panels(
    parts: Sequence[tuple[object, Sequence[Trace]]],
    height: float = 400,
    tall: float = 260,
    x: Look | None = None,
    y: Look | None = None,
) -> go.Figure:
    """The only part without a title, at this height; of several a panel for each."""
    if len(parts) == 1:
        return plot(parts[0][1], height, x, y)
    return panels(parts, tall, x=x, y=y)


def multiples(
    series: Sequence[tuple[object, Sequence[Trace]]],
    references: Sequence[Trace] = (),
    tall: float = 170,
    across: int = 3,
    x: Look | None = None,
    y: Look | None = None,
    **look: Any,
) -> go.Figure:
    """One panel per series, all on the same scales, with the same grey references in each."""
    parts = [(name, [*map(deepcopy, references), *traces]) for name, traces in series]
    return panels(
        parts,
        tall,
        across,
        x={"matches": "x", **(x or {})},
        y={"matches": "y", **(y or {})},
        **look,
    )


def choice(
    parts: Sequence[tuple[object, Sequence[Trace]]], height: float, at: float = 1.02, **look: Any
) -> go.Figure:
    """One part at a time; a menu at this height selects the part if there are several."""
    owners = [index for index, (_, traces) in enumerate(parts) for _ in traces]
    shown = [trace for _, traces in parts for trace in traces]
    if len(parts) == 1:
        return plot(shown, height, **look)
    layout = {f"{name}axis": look.pop(name, None) or {} for name in "xy"}
    figure = go.Figure(_named_once(shown), {"height": height, **layout, **look})
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
    return add_menu(figure, buttons, at)


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


# --- names at the ends of curves ------------------------------------------------------------------


def _direct(traces: Sequence[Trace]) -> list[str]:
    """The names of all curves in order, if they can be written at their ends; else nothing.

    Curves without a colour get one.
    """
    named = [trace for trace in traces if trace.name and trace.showlegend is not False]
    names = list(dict.fromkeys(trace.name for trace in named))
    if not 1 <= len(names) <= LABELS or len(traces) < 2:
        return []
    if any(trace.type != "scatter" or "lines" not in (trace.mode or "") for trace in named):
        return []
    if any(_end(trace) is None for trace in named):
        return []  # an entry of the legend without data, or names on the axis
    for trace in named:
        if not trace.line.color:
            trace.line.color = trace.marker.color or SERIES[names.index(trace.name)]
    return names


def _end(trace: Trace) -> float | None:
    """The last value of a curve."""
    return next(reversed(_values(trace)), None)


def _label(
    figure: go.Figure,
    names: Sequence[str],
    panes: Iterable[tuple[Sequence[Trace], str, str, float]],
) -> go.Figure:
    """The figure with names of curves instead of a legend, and a margin for them.

    A pane has traces, names of its axes, and its height in pixels.
    """
    texts = {name: textwrap.wrap(unescape(name), WORDS) or [""] for name in names}
    widest = max(len(line) for lines in texts.values() for line in lines)
    are_matched = any(axis.matches for axis in figure.select_yaxes())
    for traces, x, y, tall in panes:
        axis = figure.layout[y.replace("y", "yaxis")]
        is_log = axis.type == "log"
        ends: dict[str, tuple[float, str]] = {}
        for name in names:
            same = [trace for trace in traces if trace.name == name]
            if same:
                mean = float(np.mean([_end(trace) for trace in same]))
                ends[name] = (math.log10(mean) if is_log else mean), same[0].line.color
        low, high = axis.range or _extent(figure.data if are_matched else traces, axis)
        scale = tall / ((high - low) or 1)
        wanted = [(value - low) * scale for value, _ in ends.values()]
        places = spaced(wanted, [LINE * len(texts[name]) for name in ends], tall)
        for (name, (value, colour)), want, place in zip(ends.items(), wanted, places, strict=True):
            figure.add_annotation(
                text="<br>".join(map(escaped, texts[name])),
                x=1,
                xref=f"{x} domain",
                xanchor="left",
                xshift=6,
                y=value,
                yref=y,
                yanchor="middle",
                yshift=round(place - want, 1),
                align="left",
                font={"color": colour, "size": 12},
                showarrow=False,
            )
    room = round(12 + LETTER * widest)
    margin = figure.layout.margin.to_plotly_json()
    return figure.update_layout(showlegend=False, margin={**margin, "r": room})


def spaced(wanted: Sequence[float], sizes: Sequence[float], room: float) -> list[float]:
    """Places near the wanted ones at which labels of these sizes do not overlap."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    blocks: list[tuple[list[int], float]] = []  # labels that touch, and the start of the first
    for index in order:
        members = [index]
        while True:
            total = sum(sizes[member] for member in members)
            offsets = np.cumsum([0.0, *(sizes[member] for member in members[:-1])])
            starts = [
                wanted[member] - sizes[member] / 2 - offset
                for member, offset in zip(members, offsets, strict=True)
            ]
            start = max(0.0, min(float(np.mean(starts)), room - total))
            if not blocks:
                break
            before, at = blocks[-1]
            if at + sum(sizes[member] for member in before) <= start:
                break
            members = [*before, *members]
            blocks.pop()
        blocks.append((members, start))
    places = [0.0] * len(wanted)
    for members, start in blocks:
        for member in members:
            places[member] = start + sizes[member] / 2
            start += sizes[member]
    return places


def _extent(traces: Iterable[Trace], axis: Any) -> tuple[float, float]:
    """About the range of an axis that Plotly would choose."""
    values = [0.0] if axis.rangemode == "tozero" else []
    for trace in traces:
        y = pd.to_numeric(
            pd.Series([] if trace.y is None else [*trace.y], dtype=object), errors="coerce"
        ).to_numpy()
        for sign_of, name in ((1, "array"), (-1, "arrayminus")):
            error = trace.error_y[name]
            values += [*(y + sign_of * np.array(0 if error is None else error, dtype=float))]
    finite = [value for value in values if np.isfinite(value)] or [0.0, 1.0]
    if axis.type == "log":
        finite = [math.log10(value) for value in finite if value > 0]
    low, high = min(finite), max(finite)
    edge = 0.06 * (high - low)
    return (low if axis.rangemode == "tozero" and low >= 0 else low - edge), high + edge


# --- axes at the data -----------------------------------------------------------------------------

EDGE, CLOSE = 0.08, 0.05  # room around the data, as a share; the least extent of an axis


def at_data(
    parts: Sequence[tuple[object, Sequence[Trace]]], y: Look, tall: float, across: int
) -> list[Look]:
    """A y axis for each panel, at the data of the model; what it is compared with may lie beyond.

    A curve that would leave at the top is data, too: the model does not exceed it. A baseline far
    below would press the curves together: `name_beyond` names it at the edge. Below
    the data there is room for such names. `tall` is the height of a panel in pixels.
    """
    looks: list[Look] = []
    for index, (_, traces) in enumerate(parts):
        others = [trace for trace in traces if trace.line.color in (BASELINE, CONTROL)]
        data = [v for trace in traces if trace not in others for v in _with_errors(trace)]
        ends = _ends(data or [0.0, 1.0], [trace for trace in others if trace.name], tall)
        looks.append({**y, "range": ends, **({"title": None} if index % across else {})})
    return looks


def _ends(data: Sequence[float], others: Sequence[Trace], tall: float) -> list[float]:
    """The ends of an axis with this data, with room for the names of others that lie below it."""
    low, high = min(data), max(data)
    extent = max(high - low, CLOSE)
    middle = (low + high) / 2
    top = middle + extent / 2
    if high <= 1 < top:  # a share
        top = 1.0
    low, top = top - extent * (1 + EDGE), top + extent * EDGE
    below = [trace for trace in others if _side(trace, low, top) < 0]
    room = LINE * len(below)
    end = low - (top - low) * room / max(tall - room, LINE)
    near = [trace for trace in below if _side(trace, end, top) == 0]
    near += [each for each in others if _side(each, low, top) == 0 and max(_values(each)) > top]
    if near:  # it would cross the names, or the top
        return _ends(
            [*data, *_values(near[0])], [each for each in others if each is not near[0]], tall
        )
    return [end, top]


def _with_errors(trace: Trace) -> list[float]:
    """The values of a trace along y, and the ends of its error bars."""
    values = _values(trace)
    if trace.error_y.array is None or len(values) != len(trace.error_y.array):
        return values
    below = trace.error_y.array if trace.error_y.arrayminus is None else trace.error_y.arrayminus
    ends = [value + error for value, error in zip(values, trace.error_y.array, strict=True)]
    return [*ends, *(value - error for value, error in zip(values, below, strict=True))]


def _side(trace: Trace, low: float, high: float) -> int:
    """Whether a trace lies wholly below (-1) or above (1) a range; else 0."""
    values = _values(trace)
    if not values or (max(values) >= low and min(values) <= high):
        return 0
    return -1 if max(values) < low else 1


def name_beyond(figure: go.Figure) -> go.Figure:
    """The figure with the names and values of curves beyond an axis at its edge."""
    for axis in dict.fromkeys(trace.yaxis or "y" for trace in figure.data):
        look = figure.layout[axis.replace("y", "yaxis")]
        n_named = {-1: 0, 1: 0}
        for trace in figure.data:
            if (trace.yaxis or "y") != axis or not trace.name or look.range is None:
                continue
            if not (side := _side(trace, *look.range)):
                continue
            nearest = (max if side < 0 else min)(_values(trace))
            value = score(nearest) if look.tickformat == ".0%" else decimal(nearest, 2)
            figure.add_annotation(
                text=f"{'↓' if side < 0 else '↑'} {trace.name} {value}",
                x=1,
                xref=f"{trace.xaxis or 'x'} domain",
                xanchor="right",
                xshift=-2,
                y=0 if side < 0 else 1,
                yref=f"{axis} domain",
                yanchor="bottom" if side < 0 else "top",
                yshift=-side * LINE * n_named[side],
                font={"color": trace.line.color, "size": 10},
                showarrow=False,
            )
            n_named[side] += 1
    return figure


def _values(trace: Trace) -> list[float]:
    """The finite values of a trace along y."""
    y = [] if trace.y is None else trace.y
    return [float(v) for v in y if isinstance(v, Real) and math.isfinite(float(v))]


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
        hovertemplate=_hover(hover, names),
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
        hovertemplate=_hover(hover, x),
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
        hovertemplate=_hover(hover, x),
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
    its task. A table that does not say so has neither."""
    flags = rows.reindex(columns=["converged", learnt], fill_value=True).astype(bool)
    return [
        NOT_LEARNED if not is_learnt else mark if is_done else f"{mark}-open"
        for is_done, is_learnt in flags.itertuples(index=False)
    ]


def _hover(text: str, layers: Iterable[Any] = ()) -> str | list[str] | None:
    """A hover text; one for each mark if it names the layer."""
    text = f"{text}<extra></extra>" if text and "<extra>" not in text else text
    if STATE in text:
        return [text.replace(STATE, state_name(layer)) for layer in layers]
    return text or None


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
    width: float = ACROSS,
    **look: Any,
) -> go.Heatmap:
    """A heat map. Values are written in the cells as `form` if they have room there: `width` are
    the pixels of all columns."""
    texts = look.get("text") if "%{text}" in form else None
    longest = 5 if texts is None else max((len(str(text)) for text in np.ravel(texts)), default=0)
    has_room = len(wide.columns) * (LETTER * min(longest, 8) + 4) <= width
    return go.Heatmap(
        z=wide.to_numpy(dtype=float),
        x=list(wide.columns),
        y=list(wide.index),
        xgap=gap,
        ygap=gap,
        autocolorscale="colorscale" not in look,
        texttemplate=form if has_room else "",
        colorbar={"title": {"text": title}, "tickformat": tickformat},
        **({"hovertemplate": _hover(hover)} if hover else {"hoverinfo": "skip"}),
        **look,
    )


def heat_maps(
    wide: pd.DataFrame, significant: pd.DataFrame, hover: str = "", **look: Any
) -> list[go.Heatmap]:
    """A heat map of the significant cells, and one of the others, in grey with the same texts."""
    mask = significant.to_numpy(dtype=bool)
    drawn = []
    for here in (~mask, mask):
        part = dict(look)
        if "text" in look:
            part["text"] = np.where(here, np.asarray(look["text"], dtype=object), "")
        if here is not mask:  # the scale of negative numbers is grey: see `theme.template`
            part |= {"zmin": -2.0, "zmax": -1.0, "showscale": False}
            part.pop("colorscale", None)
        drawn.append(heat_map(wide.where(here), hover, **part))
    return drawn


def state_axis(deepest: float) -> Look:
    """An axis of layers by number, from the embeddings to the deepest one."""
    step = 1 if deepest <= FEW else 2 if deepest <= WRITTEN else 4
    layers = range(0, int(deepest) + 1, step)
    return {"title": "layer", **state_ticks(layers, layers), "zeroline": False}


def state_ticks(places: Iterable[Any], layers: Iterable[Any]) -> Look:
    """Short names of layers at places of an axis: `emb.` is the embeddings."""
    return {
        "tickvals": [*places],
        "ticktext": [str(layer) if layer else SHORT for layer in layers],
    }


def state_cells(layers: Iterable[Any]) -> tuple[list[str], Look]:
    """The names of columns of a heat map over layers, and their axis."""
    numbers = [*layers]
    names = [state_name(layer) for layer in numbers]
    return names, {**CELLS, "type": "category", "title": "layer", **state_ticks(names, numbers)}


def largest(values: pd.Series | pd.DataFrame) -> float:
    """The largest absolute value, for the ends of a colour scale; 1 if all values are 0."""
    return float(np.nanmax(np.abs(values.to_numpy(dtype=float)), initial=0.0)) or 1.0


def ends(values: pd.Series | Sequence[pd.Series], around: bool = True) -> Look:
    """One colour scale for one or several maps: from 0 to the largest value; symmetric if `around`
    and a value is below 0."""
    joined = pd.concat([values] if isinstance(values, pd.Series) else values)
    top = largest(joined)
    is_below = around and bool((joined.astype(float) < 0).any())
    return {"zmin": -top if is_below else 0.0, "zmax": top}


def head_grid(
    heads: pd.DataFrame,
    values: pd.Series,
    words: pd.Series | None = None,
    over: Callable[[pd.DataFrame], Sequence[Trace]] = lambda part: [],
    significant: pd.Series | None = None,
    top: float = LEGEND,
    **look: Any,
) -> go.Figure:
    """Values of attention heads: one row per layer, lowest on top; one panel per stack and kind.

    `words` are the texts of the cells; `over` returns traces to draw over a panel; heads that are
    not `significant` are grey; `top` is the room above the panels in pixels.
    """
    drawable(heads, "no heads")
    groups = [
        (" ".join(map(str, name)), part) for name, part in heads.groupby([*HEAD[:2]], sort=False)
    ]
    parts: list[tuple[str, list[Trace]]] = []
    layers, sizes = [], []
    for title, part in groups:
        at = part["layer"] + FIRST, part["head"] + FIRST
        if words is not None:
            look["text"] = matrix(*at, words[part.index]).fillna("").to_numpy()
        wide, shown = matrix(*at, values[part.index]), {"showscale": not parts, **look}
        if significant is None:
            cells = [heat_map(wide, **shown)]
        else:
            sure = matrix(*at, significant[part.index].astype(bool)).fillna(False)
            cells = heat_maps(wide, sure, **shown)
        parts.append((title if len(groups) > 1 else "", [*cells, *over(part)]))
        layers.append([int(at[0].max()) + 0.5, int(at[0].min()) - 0.5])
        sizes.append(part["layer"].nunique())
    tall = max(THIN, min(TALL if sum(sizes) <= FEW else ROW, 900 // sum(sizes)))
    widest = int(heads["head"].max()) + 1
    if widest <= FEW:  # cells that are not much wider than high; with room for labels and a scale
        look_of_page: dict[str, Any] = {"meta": {WIDEST: 180 + BROAD * widest}}
    else:
        look_of_page = {}
    fixed = {**CELLS, "fixedrange": True}
    return panels(
        parts,
        [tall * size for size in sizes],
        gap=72,
        top=top,
        x={
            **fixed,
            "title": "head",
            "range": [0.5, widest + 0.5],
            "dtick": 1 if widest <= WRITTEN else 4,
        },
        y=[
            {**fixed, "title": "layer", "range": span, "dtick": 1 if max(sizes) <= 24 else 4}
            for span in layers
        ],
        hovermode="closest",
        dragmode=False,
        **look_of_page,
    )


LONGEST = 60  # units of a text; of a longer one those with the largest values are drawn


def distinct(texts: pd.Series) -> list[str]:
    """Texts made different by a number, because a category axis joins equal names."""
    seen: dict[str, int] = {}
    names = []
    for text in texts.astype(str):
        shown = " ".join(text.split())
        shown = shown if len(shown) <= 40 else f"{shown[:39]}…"
        seen[shown] = seen.get(shown, 0) + 1
        names.append(shown if seen[shown] == 1 else f"{shown} ({seen[shown]})")
    return names
