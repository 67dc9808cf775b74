"""Curves of edge probing in the page's own colours: tasks together, runs together, published ones.

Pure functions of tables; a colour is a task, a dash a run. Runs of models with other numbers of
layers share an axis of depth, 0 the embeddings and 1 the top. Costs milliseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.probing import (
    BASELINES,
    first_probe,
    markers,
    published,
    remarks,
    tick,
    true,
    whole,
    with_scores,
)
from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, DASHES, FAINT, MARKS, Kind

PUBLISHED = ("none", "bert-base", "bert-large")
NAMES = {"bert-base": "BERT-base", "bert-large": "BERT-large"}
BROKEN = DASHES[-1]  # of what was published
_PUBLISHED_AS = {"proto-roles": "proto-roles-1", "relations": "relations-semeval"}


@dataclass(frozen=True)
class Laid:
    """A run's curves, and what they are called where there are several runs."""

    name: str
    means: pd.DataFrame
    summary: pd.DataFrame

    @property
    def deepest(self) -> int:
        """The number of its layers above the embeddings."""
        layers = true(self.means)["layer"]
        return max(int(layers.max()), 1) if len(layers) else 1


@dataclass(frozen=True)
class _Look:
    """What tells a line from another."""

    colour: str
    mark: str
    dash: str


def layers(
    runs: Sequence[Laid],
    tasks: Sequence[str],
    mode: str,
    kind: Kind,
    lines: str = "",
    beneath: str = "none",
) -> go.Figure:
    """Curves of some tasks in one mode: `lines` is a task whose baselines are drawn of the first
    run, `beneath` a published model whose curves lie under them."""
    figure = go.Figure()
    depths = {run.deepest for run in runs}
    known = _published(beneath, tasks)
    if len(known):
        depths.add(int(known["layer"].max()))
    relative = len(depths) > 1
    order = _order(runs)
    for task in dict.fromkeys(map(str, known["task"])):
        curve = known[known["task"] == task]
        look = _look(order.index(task), 0, kind)
        figure.add_trace(_beneath(curve, f"{task}, {NAMES[beneath]}", look, relative))
    dashes: dict[str, int] = {}  # by what a dash stands for
    for run in runs:
        model = true(run.means)
        for task, which, line in _curves(model[model["mode"] == mode], tasks):
            of = ", ".join([*([run.name] if len(runs) > 1 else []), *which])
            look = _look(order.index(task), dashes.setdefault(of, len(dashes)), kind)
            for trace in _banded(line, task, of, look, run.deepest if relative else 1):
                figure.add_trace(trace)
    _legend(figure, dashes, FAINT[kind])
    if len(known):
        figure.add_trace(_sign(f"{NAMES[beneath]}, published", BROKEN, 1.5, FAINT[kind]))
    for place, (name, value) in enumerate(beside(runs[0], lines)):
        end = 1 if relative else runs[0].deepest
        figure.add_trace(_level(f"{name} ({lines})", value, place, end, FAINT[kind]))
    _axes(figure, "depth (0: embeddings, 1: top)" if relative else "layer", "F1", max(depths))
    if relative:
        figure.update_xaxes(dtick=0.25)
    return figure


def controls(run: Laid, tasks: Sequence[str], kind: Kind) -> go.Figure:
    """What each layer scores more on the task than on labels drawn by word type."""
    found = whole(run.means)
    found = found[(found["encoder"] == "model") & (found["mode"] == "layer")]
    keys = ["task", "probe", "stack", "layer"]
    wide = found.pivot_table(index=keys, columns="control", values="mean", sort=False)
    if not {True, False} <= set(wide.columns):
        raise KeyError("control")
    table = wide.dropna().rename(columns={False: "own", True: "control"}).reset_index()
    figure = go.Figure()
    order = _order([run])
    dashes: dict[str, int] = {}
    for task, which, line in _curves(table, tasks):
        of = ", ".join(which)
        look = _look(order.index(task), dashes.setdefault(of, len(dashes)), kind)
        name = escaped(", ".join([task, *which]))
        figure.add_trace(
            go.Scatter(
                x=line["layer"].tolist(),
                y=(line["own"] - line["control"]).tolist(),
                customdata=line[["own", "control"]].to_numpy().tolist(),
                mode="lines+markers",
                name=escaped(task),
                legendgroup=task,
                showlegend=dashes[of] == 0,
                line={"color": look.colour, "dash": look.dash},
                marker={"symbol": look.mark},
                hovertemplate=f"{name}, layer %{{x}}: %{{y:.1%}} "
                "(%{customdata[0]:.1%} less %{customdata[1]:.1%})<extra></extra>",
            )
        )
    _legend(figure, dashes, FAINT[kind])
    _axes(figure, "layer", "selectivity", run.deepest)
    figure.update_yaxes(zeroline=True)
    return figure


def order_beneath(figure: go.Figure, run: Laid, model: str, kind: Kind) -> list[str]:
    """Lay the published expected layers beside the bars of `pipeline`, at the same depth; of which
    tasks."""
    from probes.edge_tables import expected_layer

    rows = first_probe(run.summary)
    found, x, y = [], [], []
    for task, label in zip(map(str, rows["task"]), with_scores(rows, run.means), strict=True):
        known = _published(model, [task])
        if len(known):
            layer = expected_layer(known.rename(columns={"f1": "mean"}))
            found.append(task)
            x.append(layer / int(known["layer"].max()) * run.deepest)
            y.append(label)
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            mode="markers",
            name=f"{NAMES[model]}, published",
            marker={"symbol": "diamond", "size": 11, "color": COLOURS[kind][1]},
            hovertemplate=f"%{{y}}, {NAMES[model]}: %{{x:.2f}}<extra></extra>",
        )
    )
    return list(dict.fromkeys(found))


def beside(run: Laid, task: str) -> list[tuple[str, float]]:
    """The baselines of a task that there are: what they are called, and what they score."""
    own = run.summary[run.summary["task"] == task]
    return [
        (name, float(own[column].max()))
        for name, column in BASELINES.items()
        if len(own) and own[column].notna().any()
    ]


def laid_beneath(model: str, tasks: Sequence[str]) -> list[str]:
    """The tasks of which a published curve is drawn."""
    return list(dict.fromkeys(_published(model, tasks)["task"]))


def _published(model: str, tasks: Sequence[str]) -> pd.DataFrame:
    """The published curves of some tasks, by our names for them."""
    table = published()
    parts = [
        table[(table["model"] == model) & (table["task"] == _PUBLISHED_AS.get(task, task))].assign(
            task=task
        )
        for task in tasks
    ]
    return pd.concat(parts) if parts else table[:0]


def _order(runs: Sequence[Laid]) -> list[str]:
    """Every task of the runs; its place tells its colour, whichever tasks are shown."""
    return list(dict.fromkeys(str(task) for run in runs for task in run.means["task"]))


def _curves(
    table: pd.DataFrame, tasks: Sequence[str]
) -> Iterator[tuple[str, list[str], pd.DataFrame]]:
    """Each task's lines: the probe and the stack, where there are several, and its rows."""
    for task in tasks:
        own = table[table["task"] == task]
        for (probe, stack), line in own.groupby(["probe", "stack"], sort=False):
            which = [str(probe)] if table["probe"].nunique() > 1 else []
            which += [str(stack)] if table["stack"].nunique() > 1 else []
            yield task, which, line.sort_values("layer")


def _look(task: int, dash: int, kind: Kind) -> _Look:
    colours = COLOURS[kind]
    round_ = task // len(colours)  # the seventh has the first one's colour and another mark
    mark = MARKS[(task + round_) % len(MARKS)]
    return _Look(colours[task % len(colours)], mark, DASHES[dash % len(DASHES)])


def _banded(
    line: pd.DataFrame, task: str, of: str, look: _Look, scale: int
) -> Iterator[go.Scatter]:
    """A curve on the band of its intervals; the solid one stands in the legend for its task."""
    x = (line["layer"] / scale).tolist()
    upper, lower = line["upper"].tolist(), line["lower"].tolist()
    red, green, blue = (int(look.colour[place : place + 2], 16) for place in (1, 3, 5))
    yield go.Scatter(
        x=x + x[::-1],
        y=upper + lower[::-1],
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},0.16)",
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        showlegend=False,
        legendgroup=task,
    )
    name = escaped(f"{of}: {task}" if of else task)
    shown = [f"{low:.1%} to {high:.1%}" for low, high in zip(lower, upper, strict=True)]
    yield go.Scatter(
        x=x,
        y=line["mean"].tolist(),
        customdata=list(zip(line["layer"].tolist(), shown, remarks(line), strict=True)),
        mode="lines+markers",
        name=escaped(task),
        legendgroup=task,
        showlegend=look.dash == "solid",
        line={"color": look.colour, "dash": look.dash},
        marker=markers(line, look.mark),
        hovertemplate=f"{name}, layer %{{customdata[0]}}: %{{y:.1%}} "
        "(%{customdata[1]})%{customdata[2]}<extra></extra>",
    )


def _beneath(curve: pd.DataFrame, name: str, look: _Look, relative: bool) -> go.Scatter:
    scale = int(curve["layer"].max()) if relative else 1
    return go.Scatter(
        x=(curve["layer"] / scale).tolist(),
        y=curve["f1"].tolist(),
        customdata=curve["layer"].tolist(),
        mode="lines",
        name=escaped(name),
        legendgroup=str(curve["task"].iloc[0]),
        showlegend=False,
        line={"color": look.colour, "dash": BROKEN, "width": 1.5},
        hovertemplate=f"{escaped(name)}, layer %{{customdata}}: %{{y:.1%}}<extra></extra>",
    )


def _legend(figure: go.Figure, dashes: Iterable[str], colour: str) -> None:
    """What each dash stands for, where there are several."""
    names = list(dashes)
    for place, name in enumerate(names if len(names) > 1 else []):
        figure.add_trace(_sign(name, DASHES[place % len(DASHES)], 2, colour))


def _sign(name: str, dash: str, width: float, colour: str) -> go.Scatter:
    """An entry of the legend that is no curve."""
    return go.Scatter(
        x=[None],
        y=[None],
        mode="lines",
        name=escaped(name),
        line={"dash": dash, "color": colour, "width": width},
    )


def _level(name: str, value: float, place: int, end: float, colour: str) -> go.Scatter:
    return go.Scatter(
        x=[0, end],
        y=[value, value],
        mode="lines",
        name=escaped(name),
        line={"color": colour, "dash": DASHES[(place + 1) % len(DASHES)], "width": 1.5},
        hovertemplate=f"{escaped(name)}: %{{y:.1%}}<extra></extra>",
    )


def _axes(figure: go.Figure, x: str, y: str, deepest: int) -> None:
    named = sum(1 for trace in figure.data if trace.showlegend is not False)
    figure.update_layout(height=440 + 8 * named)
    figure.update_xaxes(title=x, dtick=tick(deepest), zeroline=False)
    figure.update_yaxes(title=y, tickformat=".0%", zeroline=False)
