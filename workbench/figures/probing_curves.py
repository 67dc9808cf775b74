"""Curves of edge probing for a page: several tasks, several runs, and published curves.

Pure functions of tables; each task has a colour, each run a dash. Runs of models with different
numbers of layers share an axis of relative depth, from 0 (embeddings) to 1 (top). Costs:
milliseconds.
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
PUBLISHED_LINE = {"dash": DASHES[-1], "width": 1.5}
_PUBLISHED_AS = {"proto-roles": "proto-roles-1", "relations": "relations-semeval"}


@dataclass(frozen=True)
class RunCurves:
    """The tables of a run, and its name in figures of several runs."""

    name: str
    means: pd.DataFrame
    summary: pd.DataFrame

    @property
    def deepest(self) -> int:
        """Number of layers above the embeddings."""
        layers = true(self.means)["layer"]
        return max(int(layers.max()), 1) if len(layers) else 1


def draw_curves(
    runs: Sequence[RunCurves],
    tasks: Sequence[str],
    mode: str,
    kind: Kind,
    baselines_of: str = "",
    published_model: str = "none",
) -> go.Figure:
    """Curves of some tasks in one mode. `baselines_of` is a task whose baselines of the first
    run are drawn; `published_model` is a published model whose curves are drawn below."""
    known = _published(published_model, tasks)
    depths = {run.deepest for run in runs} | {*known["layer"].groupby(known["model"]).max()}
    relative = len(depths) > 1
    colours = _colours(runs, kind)
    traces: list[Trace] = []
    for task, line in known.groupby("task", sort=False):
        name = f"{task}, {NAMES[published_model]}"
        traces.append(
            curve(
                line["layer"] / (line["layer"].max() if relative else 1),
                line["f1"],
                f"{escaped(name)}, layer %{{customdata}}: %{{y:.1%}}",
                name,
                line={**PUBLISHED_LINE, "color": colours[str(task)][0]},
                mode="lines",
                customdata=line["layer"],
                legendgroup=str(task),
                showlegend=False,
            )
        )
    dashes: dict[str, int] = {}  # index of the dash, by legend text
    for run in runs:
        model = true(run.means)
        for task, which, line in _lines(model[model["mode"] == mode], tasks):
            label = ", ".join([*([run.name] if len(runs) > 1 else []), *which])
            dash = dashes.setdefault(label, len(dashes))
            scale = run.deepest if relative else 1
            traces += _banded(line, task, label, dash, colours[task], scale)
    traces += _legend(dashes, FAINT[kind])
    if len(known):
        traces.append(
            sign(
                f"{NAMES[published_model]}, published",
                line={**PUBLISHED_LINE, "color": FAINT[kind]},
            )
        )
    end = 1 if relative else runs[0].deepest
    for index, (name, value) in enumerate(baseline_scores(runs[0], baselines_of), start=1):
        name = f"{name} ({baselines_of})"
        look = {"color": FAINT[kind], "width": 1.5}
        traces.append(
            level([0, end], value, f"{escaped(name)}: %{{y:.1%}}", name, index, line=look)
        )
    x = {"title": "layer", "dtick": tick(max(depths))}
    if relative:
        x = {"title": "depth (0: embeddings, 1: top)", "dtick": 0.25}
    return _plot(traces, x, {"title": "F1", "zeroline": False})


def curve_controls(run: RunCurves, tasks: Sequence[str], kind: Kind) -> go.Figure:
    """Selectivity of each layer: F1 on the task minus F1 on the control task (random labels by word
    type)."""
    rows = whole(run.means)
    rows = rows[(rows["encoder"] == "model") & (rows["mode"] == "layer")]
    keys = ["task", *PROBE, "layer"]
    wide = rows.pivot_table(index=keys, columns="control", values="mean", sort=False)
    if not {True, False} <= set(wide.columns):
        raise KeyError("control")
    table = wide.dropna().rename(columns={False: "task_score", True: "control"}).reset_index()
    colours = _colours([run], kind)
    dashes: dict[str, int] = {}
    traces: list[Trace] = []
    for task, which, line in _lines(table, tasks):
        index = dashes.setdefault(", ".join(which), len(dashes))
        colour, mark = colours[task]
        traces.append(
            curve(
                line["layer"],
                line["task_score"] - line["control"],
                f"{escaped(', '.join([task, *which]))}, layer %{{x}}: %{{y:.1%}} "
                "(%{customdata[0]:.1%} − %{customdata[1]:.1%})",
                task,
                index,
                colour,
                {"symbol": mark},
                customdata=line[["task_score", "control"]],
            )
        )
    x = {"title": "layer", "dtick": tick(run.deepest)}
    traces += _legend(dashes, FAINT[kind])
    return _plot(traces, x, {"title": "selectivity (F1)", "zeroline": True})


def add_published_layers(figure: go.Figure, run: RunCurves, model: str, kind: Kind) -> list[str]:
    """Add the published expected layers to the bars of `pipeline`, at the same relative depth.
    Returns the tasks that have one."""
    from probes.edge_probing import expected_layer

    rows = first_probe(run.summary)
    with_layer, x, y = [], [], []
    for task, label in zip(map(str, rows["task"]), with_scores(rows, run.means), strict=True):
        known = _published(model, [task])
        if len(known):
            layer = expected_layer(known.rename(columns={"f1": "mean"}))
            with_layer.append(task)
            x.append(layer / int(known["layer"].max()) * run.deepest)
            y.append(label)
    hover, name = f"%{{y}}, {NAMES[model]}: %{{x:.2f}}", f"{NAMES[model]}, published"
    figure.add_trace(marks(x, y, hover, name, COLOURS[kind][1], "diamond", 11))
    return list(dict.fromkeys(with_layer))


def baseline_scores(run: RunCurves, task: str) -> list[tuple[str, float]]:
    """Names and scores of the available baselines of a task."""
    rows = run.summary[run.summary["task"] == task]
    return [
        (name, float(rows[column].max()))
        for name, column in BASELINES.items()
        if rows[column].notna().any()
    ]


def published_tasks(model: str, tasks: Sequence[str]) -> list[str]:
    """The tasks that have a published curve."""
    return list(dict.fromkeys(_published(model, tasks)["task"]))


def _published(model: str, tasks: Sequence[str]) -> pd.DataFrame:
    """Published curves of some tasks, under the names of tasks here."""
    table = published()
    of_model = table[table["model"] == model]
    parts = [
        of_model[of_model["task"] == _PUBLISHED_AS.get(task, task)].assign(task=task)
        for task in tasks
    ]
    return pd.concat([of_model[:0], *parts])


def _colours(runs: Sequence[RunCurves], kind: Kind) -> dict[str, tuple[str, str]]:
    """Colour and mark of every task of the runs; they do not depend on the tasks shown."""
    colours = COLOURS[kind]
    tasks = dict.fromkeys(str(task) for run in runs for task in run.means["task"])
    return {  # the seventh task has the first colour and another mark
        task: (colours[n % len(colours)], MARKS[(n + n // len(colours)) % len(MARKS)])
        for n, task in enumerate(tasks)
    }


def _lines(
    table: pd.DataFrame, tasks: Sequence[str]
) -> Iterator[tuple[str, list[str], pd.DataFrame]]:
    """Lines of each task: probe and stack if there are several, and the rows."""
    several = [table[name].nunique() > 1 for name in PROBE]
    for task in tasks:
        for key, line in table[table["task"] == task].groupby(PROBE, sort=False):
            which = [str(part) for part, is_shown in zip(key, several, strict=True) if is_shown]
            yield task, which, line.sort_values("layer")


def _banded(
    line: pd.DataFrame, task: str, label: str, dash: int, look: tuple[str, str], scale: int
) -> Iterator[go.Scatter]:
    """A curve with the band of its intervals; in the legend it has the name of its task."""
    lower, upper = line["lower"].tolist(), line["upper"].tolist()
    x = (line["layer"] / scale).tolist()
    colour, mark = look
    yield band(x, lower, upper, colour, task)
    shown = [f"{low:.1%} to {high:.1%}" for low, high in zip(lower, upper, strict=True)]
    yield curve(
        x,
        line["mean"].tolist(),
        f"{escaped(f'{label}: {task}' if label else task)}, layer %{{customdata[0]}}: %{{y:.1%}} "
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
    """Legend entries of the dashes, if there are several."""
    looks = zip(dashes, DASHES * 9, strict=False)
    names = {name: {"dash": dash, "color": colour, "width": 2} for name, dash in looks}
    return [sign(name, line=line) for name, line in names.items()] if len(names) > 1 else []


def _plot(traces: list[Trace], x: Look, y: Look) -> go.Figure:
    named = sum(1 for trace in traces if trace.name and trace.showlegend is not False)
    default = {"zeroline": False}
    return plot(traces, 440 + 8 * named, {**default, **x}, {**y, "tickformat": ".0%"})
