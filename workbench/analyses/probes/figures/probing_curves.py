"""Curves of edge probing for a page: several tasks, two runs, and published curves.

Pure functions of tables. Each task has its own panel and scale; the first run and the
second have their colours, and baselines and published curves are grey. Runs of models with
different numbers of layers share an axis of relative depth, from 0 (embeddings) to 1 (top). Costs:
milliseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from workbench.analyses.probes.figures.probing import (
    F1,
    PROBE,
    best_baseline,
    by_task,
    first_probe,
    markers,
    published,
    remarks,
    true,
    whole,
    with_scores,
)
from workbench.core.findings import percent_span
from workbench.core.head_names import state_name
from workbench.drawing.primitives import STATE, Trace, band, curve, level, marks, state_axis
from workbench.drawing.sanitize import escaped
from workbench.drawing.theme import BASELINE, CONTROL, DASHES, MARKS, MODEL, TUNED

PUBLISHED = ("none", "bert-base", "bert-large")
NAMES = {"bert-base": "BERT-base", "bert-large": "BERT-large"}
PUBLISHED_LINE = {"dash": DASHES[-1], "width": 1.5, "color": CONTROL}
RUNS = (MODEL, TUNED)  # the colours of the first run and of the second
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
    runs: Sequence[RunCurves], tasks: Sequence[str], mode: str, published_model: str = "none"
) -> go.Figure:
    """Curves of some tasks in one mode, with the best baseline of the first run. `published_model`
    is a published model whose curves are drawn below."""
    known = _published(published_model, tasks)
    depths = {run.deepest for run in runs} | {*known["layer"].groupby(known["model"]).max()}
    relative = len(depths) > 1
    end = 1 if relative else runs[0].deepest
    parts = []
    for task in tasks:
        traces: list[Trace] = []
        best = best_baseline(runs[0].summary, task)
        if best is not None:
            hover = f"best baseline, {best[0]}: %{{y:.1%}}"
            traces.append(level([0, end], best[1], hover, "best baseline", 1, colour=BASELINE))
        line = known[known["task"] == task]
        if len(line):
            name = f"{NAMES[published_model]}, published"
            traces.append(
                curve(
                    line["layer"] / (line["layer"].max() if relative else 1),
                    line["f1"],
                    f"{escaped(name)}, %{{customdata}}: %{{y:.1%}}",
                    name,
                    line=PUBLISHED_LINE,
                    mode="lines",
                    customdata=line["layer"].map(state_name),
                )
            )
        for run, colour in zip(runs, RUNS, strict=False):
            model = true(run.means)
            own = [*_lines(model[model["mode"] == mode], task)]
            for style, (which, rows) in enumerate(own):
                name = ", ".join([*([run.name] if len(runs) > 1 else []), *which]) or "model"
                scale = run.deepest if relative else 1
                if len(own) == 1 and len(runs) == 1:  # bands of two runs overlap
                    x = (rows["layer"] / scale).tolist()
                    ends = rows["lower"].tolist(), rows["upper"].tolist()
                    traces.append(band(x, *ends, colour, escaped(name)))
                traces.append(_curve(rows, name, style, colour, scale))
        parts.append((task, traces))
    x_axis = state_axis(max(depths))
    if relative:
        x_axis = {"title": "depth", "dtick": 0.5, "zeroline": False}
    return by_task(parts, x_axis, F1)


def curve_controls(run: RunCurves, tasks: Sequence[str]) -> go.Figure:
    """Selectivity of each layer: F1 on the task minus F1 on the control task (random labels by word
    type)."""
    rows = whole(run.means)
    rows = rows[(rows["encoder"] == "model") & (rows["mode"] == "layer")]
    keys = ["task", *PROBE, "layer"]
    wide = rows.pivot_table(index=keys, columns="control", values="mean", sort=False)
    if not {True, False} <= set(wide.columns):
        raise KeyError("control")
    table = wide.dropna().rename(columns={False: "task_score", True: "control"}).reset_index()
    parts = []
    for task in tasks:
        zero = level([0, run.deepest], 0, "", "no selectivity", 1, colour=BASELINE)
        traces: list[Trace] = [zero]
        for index, (which, line) in enumerate(_lines(table, task)):
            name = ", ".join(which) or "model"
            traces.append(
                curve(
                    line["layer"],
                    100 * (line["task_score"] - line["control"]),
                    f"{escaped(name)}, {STATE}: %{{y:.1f}} points "
                    "(%{customdata[0]:.1%} − %{customdata[1]:.1%})",
                    name,
                    index,
                    MODEL,
                    customdata=line[["task_score", "control"]],
                )
            )
        parts.append((task, traces))
    return by_task(
        parts,
        state_axis(run.deepest),
        {"title": "selectivity, points", "zeroline": False},
    )


def add_published_layers(figure: go.Figure, run: RunCurves, model: str) -> list[str]:
    """Add the published expected layers to the bars of `pipeline`, at the same relative depth.
    Returns the tasks that have one."""
    from workbench.analyses.probes.edge_probing import expected_layer

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
    figure.add_trace(marks(x, y, hover, name, CONTROL, "diamond", 11))
    return list(dict.fromkeys(with_layer))


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


def _lines(table: pd.DataFrame, task: str) -> Iterator[tuple[list[str], pd.DataFrame]]:
    """Lines of a task: probe and stack if there are several, and the rows."""
    several = [table[name].nunique() > 1 for name in PROBE]
    for key, line in table[table["task"] == task].groupby(PROBE, sort=False):
        which = [str(part) for part, is_shown in zip(key, several, strict=True) if is_shown]
        yield which, line.sort_values("layer")


def _curve(line: pd.DataFrame, name: str, style: int, colour: str, scale: int) -> go.Scatter:
    """A curve with its intervals in the hover."""
    shown = [
        percent_span(low, high, 1) for low, high in zip(line["lower"], line["upper"], strict=True)
    ]
    return curve(
        (line["layer"] / scale).tolist(),
        line["mean"].tolist(),
        f"{escaped(name)}, %{{customdata[0]}}: %{{y:.1%}} (%{{customdata[1]}})%{{customdata[2]}}",
        name,
        style,
        colour,
        markers(line, MARKS[style % len(MARKS)], colour),
        customdata=list(zip(line["layer"].map(state_name), shown, remarks(line), strict=True)),
    )
