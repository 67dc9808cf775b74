"""Curves of edge probing in the page's own colours: tasks together, runs together, published ones.

Pure functions of tables; a colour is a task, a dash a run. Runs of models with other numbers of
layers share an axis of depth, 0 the embeddings and 1 the top. Costs milliseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from workbench.figures.primitives import Look, Trace, band, curve, level, marks, plot, sign, tick
from workbench.figures.probing import (
    BASELINES,
    PROBE,
    first_probe,
    markers,
    published,
    remarks,
    true,
    whole,
    with_scores,
)
from workbench.figures.sanitize import escaped
from workbench.figures.theme import COLOURS, DASHES, FAINT, MARKS, Kind

PUBLISHED = ("none", "bert-base", "bert-large")
NAMES = {"bert-base": "BERT-base", "bert-large": "BERT-large"}
BROKEN = {"dash": DASHES[-1], "width": 1.5}  # of what was published
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


def draw_curves(
    runs: Sequence[Laid],
    tasks: Sequence[str],
    mode: str,
    kind: Kind,
    lines: str = "",
    beneath: str = "none",
) -> go.Figure:
    """Curves of some tasks in one mode: `lines` is a task whose baselines are drawn of the first
    run, `beneath` a published model whose curves lie under them."""
    known = _published(beneath, tasks)
    depths = {run.deepest for run in runs} | {*known["layer"].groupby(known["model"]).max()}
    relative = len(depths) > 1
    colours = _colours(runs, kind)
    shown: list[Trace] = []
    for task, line in known.groupby("task", sort=False):
        name = f"{task}, {NAMES[beneath]}"
        shown.append(
            curve(
                line["layer"] / (line["layer"].max() if relative else 1),
                line["f1"],
                f"{escaped(name)}, layer %{{customdata}}: %{{y:.1%}}",
                name,
                line={**BROKEN, "color": colours[str(task)][0]},
                mode="lines",
                customdata=line["layer"],
                legendgroup=str(task),
                showlegend=False,
            )
        )
    dashes: dict[str, int] = {}  # by what a dash stands for
    for run in runs:
        model = true(run.means)
        for task, which, line in _lines(model[model["mode"] == mode], tasks):
            of = ", ".join([*([run.name] if len(runs) > 1 else []), *which])
            dash = dashes.setdefault(of, len(dashes))
            scale = run.deepest if relative else 1
            shown += _banded(line, task, of, dash, colours[task], scale)
    shown += _legend(dashes, FAINT[kind])
    if len(known):
        shown.append(sign(f"{NAMES[beneath]}, published", line={**BROKEN, "color": FAINT[kind]}))
    end = 1 if relative else runs[0].deepest
    for place, (name, value) in enumerate(draw_compared_curves(runs[0], lines), start=1):
        name = f"{name} ({lines})"
        look = {"color": FAINT[kind], "width": 1.5}
        shown.append(level([0, end], value, f"{escaped(name)}: %{{y:.1%}}", name, place, line=look))
    x = {"title": "layer", "dtick": tick(max(depths))}
    if relative:
        x = {"title": "depth (0: embeddings, 1: top)", "dtick": 0.25}
    return _plot(shown, x, {"title": "F1", "zeroline": False})


def curve_controls(run: Laid, tasks: Sequence[str], kind: Kind) -> go.Figure:
    """What each layer scores more on the task than on labels drawn by word type."""
    found = whole(run.means)
    found = found[(found["encoder"] == "model") & (found["mode"] == "layer")]
    keys = ["task", *PROBE, "layer"]
    wide = found.pivot_table(index=keys, columns="control", values="mean", sort=False)
    if not {True, False} <= set(wide.columns):
        raise KeyError("control")
    table = wide.dropna().rename(columns={False: "own", True: "control"}).reset_index()
    colours = _colours([run], kind)
    dashes: dict[str, int] = {}
    shown: list[Trace] = []
    for task, which, line in _lines(table, tasks):
        place = dashes.setdefault(", ".join(which), len(dashes))
        colour, mark = colours[task]
        shown.append(
            curve(
                line["layer"],
                line["own"] - line["control"],
                f"{escaped(', '.join([task, *which]))}, layer %{{x}}: %{{y:.1%}} "
                "(%{customdata[0]:.1%} less %{customdata[1]:.1%})",
                task,
                place,
                colour,
                {"symbol": mark},
                customdata=line[["own", "control"]],
            )
        )
    x = {"title": "layer", "dtick": tick(run.deepest)}
    shown += _legend(dashes, FAINT[kind])
    return _plot(shown, x, {"title": "selectivity", "zeroline": True})


def order_beneath(figure: go.Figure, run: Laid, model: str, kind: Kind) -> list[str]:
    """Lay the published expected layers beside the bars of `pipeline`, at the same depth; of which
    tasks."""
    from probes.edge_probing import expected_layer

    rows = first_probe(run.summary)
    found, x, y = [], [], []
    for task, label in zip(map(str, rows["task"]), with_scores(rows, run.means), strict=True):
        known = _published(model, [task])
        if len(known):
            layer = expected_layer(known.rename(columns={"f1": "mean"}))
            found.append(task)
            x.append(layer / int(known["layer"].max()) * run.deepest)
            y.append(label)
    hover, name = f"%{{y}}, {NAMES[model]}: %{{x:.2f}}", f"{NAMES[model]}, published"
    figure.add_trace(marks(x, y, hover, name, COLOURS[kind][1], "diamond", 11))
    return list(dict.fromkeys(found))


def draw_compared_curves(run: Laid, task: str) -> list[tuple[str, float]]:
    """The baselines of a task that there are: what they are called, and what they score."""
    own = run.summary[run.summary["task"] == task]
    return [
        (name, float(own[column].max()))
        for name, column in BASELINES.items()
        if own[column].notna().any()
    ]


def laid_beneath(model: str, tasks: Sequence[str]) -> list[str]:
    """The tasks of which a published curve is drawn."""
    return list(dict.fromkeys(_published(model, tasks)["task"]))


def _published(model: str, tasks: Sequence[str]) -> pd.DataFrame:
    """The published curves of some tasks, by our names for them."""
    table = published()
    own = table[table["model"] == model]
    parts = [own[own["task"] == _PUBLISHED_AS.get(task, task)].assign(task=task) for task in tasks]
    return pd.concat([own[:0], *parts])


def _colours(runs: Sequence[Laid], kind: Kind) -> dict[str, tuple[str, str]]:
    """The colour and the mark of every task of the runs, whichever tasks are shown."""
    colours = COLOURS[kind]
    tasks = dict.fromkeys(str(task) for run in runs for task in run.means["task"])
    return {  # the seventh has the first one's colour and another mark
        task: (colours[n % len(colours)], MARKS[(n + n // len(colours)) % len(MARKS)])
        for n, task in enumerate(tasks)
    }


def _lines(
    table: pd.DataFrame, tasks: Sequence[str]
) -> Iterator[tuple[str, list[str], pd.DataFrame]]:
    """Each task's lines: the probe and the stack, where there are several, and its rows."""
    several = [table[name].nunique() > 1 for name in PROBE]
    for task in tasks:
        for key, line in table[table["task"] == task].groupby(PROBE, sort=False):
            which = [str(part) for part, is_told in zip(key, several, strict=True) if is_told]
            yield task, which, line.sort_values("layer")


def _banded(
    line: pd.DataFrame, task: str, of: str, dash: int, look: tuple[str, str], scale: int
) -> Iterator[go.Scatter]:
    """A curve on the band of its intervals; the solid one stands in the legend for its task."""
    lower, upper = line["lower"].tolist(), line["upper"].tolist()
    x = (line["layer"] / scale).tolist()
    colour, mark = look
    yield band(x, lower, upper, colour, task)
    shown = [f"{low:.1%} to {high:.1%}" for low, high in zip(lower, upper, strict=True)]
    yield curve(
        x,
        line["mean"].tolist(),
        f"{escaped(f'{of}: {task}' if of else task)}, layer %{{customdata[0]}}: %{{y:.1%}} "
        "(%{customdata[1]})%{customdata[2]}",
        task,
        dash,
        colour,
        markers(line, mark),
        customdata=list(zip(line["layer"].tolist(), shown, remarks(line), strict=True)),
        legendgroup=task,
        showlegend=True,
    )


def _legend(dashes: Iterable[str], colour: str) -> list[go.Scatter]:
    """What each dash stands for, where there are several."""
    looks = zip(dashes, DASHES * 9, strict=False)
    names = {name: {"dash": dash, "color": colour, "width": 2} for name, dash in looks}
    return [sign(name, line=line) for name, line in names.items()] if len(names) > 1 else []


def _plot(traces: list[Trace], x: Look, y: Look) -> go.Figure:
    named = sum(1 for trace in traces if trace.name and trace.showlegend is not False)
    usual = {"zeroline": False}
    return plot(traces, 440 + 8 * named, {**usual, **x}, {**y, "tickformat": ".0%"})
