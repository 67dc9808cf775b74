"""Views of a run of edge probing, one a tab: the order of tasks, mixes, confusions, examples.

Each reads the tables it needs and draws them. Costs milliseconds.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from workbench.view import probing as drawn
from workbench.view.parts import figures, results, tables
from workbench.view.parts import probing_curves as curves
from workbench.view.parts.plain import plain
from workbench.view.parts.probing_curves import Laid
from workbench.view.parts.probing_examples import listed
from workbench.view.parts.probing_run import is_preview

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from workbench.runs.run import Run

PREVIEW = "A preview: closed-form ridge probes, rougher than trained ones."
NO_MIX = "There is no mix of layers here: "


@dataclass(frozen=True)
class Looked:
    """The run that is looked at, and the one beside it."""

    run: "Run"
    own: Laid
    second: "Run | None" = None
    other: Laid | None = None

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(self.own.summary["task"]))


def draw(looked: Looked, figure: "go.Figure", about: str, name: str) -> None:
    """A figure, made harmless, in the looks of the page; a preview says that it is one."""
    from workbench.report.drawings import Drawing
    from workbench.view.harmless import harmless

    previews = [run for run in (looked.run, looked.second) if run is not None and is_preview(run)]
    about = f"{PREVIEW} {about}" if previews else about
    figures.draw(Drawing(name, about, harmless(figure)), f"probing {name} {looked.run.name}")


def tasks_shown(looked: Looked) -> list[str]:
    """Which tasks are drawn; all where none is chosen."""
    picked = st.multiselect(
        "Tasks shown",
        looked.tasks,
        key="shown",
        bind="query-params",
        placeholder="all",
    )
    return [task for task in picked if task in looked.tasks] or looked.tasks


def published_chosen() -> str:
    """Which published model is laid beneath, or none."""
    picked = st.selectbox(
        "Published",
        curves.PUBLISHED,
        key="published",
        bind="query-params",
        width=190,
        help=f"{drawn.SOURCE}, of BERT-base or BERT-large.",
    )
    return str(picked)


def pipeline(looked: Looked) -> None:
    """In which order tasks are found."""
    found = {"summary": looked.own.summary, "means": looked.own.means}
    try:
        figure = drawn.pipeline(found)
    except KeyError:
        _no_mix(looked)
        return
    about = _about(drawn.pipeline)
    model = published_chosen()
    if model in curves.NAMES:
        tasks = curves.order_beneath(figure, looked.own, model, figures.kind())
        about += f" Diamonds: expected layers of {curves.NAMES[model]} at the same depth, worked "
        about += f"out from {drawn.SOURCE}; of {', '.join(tasks) or 'none of these tasks'}."
    draw(looked, figure, about, "pipeline")
    undefined = looked.own.summary["expected_layer"].isna()
    if undefined.any():
        names = ", ".join(dict.fromkeys(looked.own.summary.loc[undefined, "task"]))
        st.caption(
            f"Undefined for {plain(names)}: the curve of the mix up to each layer does not rise, "
            "so there is no layer at which it would."
        )
    draw(looked, drawn.baselines(found), _about(drawn.baselines), "baselines")


def mix(looked: Looked) -> None:
    """How much each layer counts."""
    try:
        figure = drawn.mixes({"mix": tables.of(looked.run, "mix")})
    except KeyError:
        _no_mix(looked)
        return
    draw(looked, figure, _about(drawn.mixes), "mix")


def _no_mix(looked: Looked) -> None:
    why = (
        "a preview reads each layer alone."
        if is_preview(looked.run)
        else "ask for the mode mix, or cumulative."
    )
    st.text(f"{NO_MIX}{why}")


def confusion(looked: Looked) -> None:
    """Which label is taken for which."""
    table = tables.of(looked.run, "confusion")
    table = table[table["mode"].isin(drawn.SINGLE)]
    if table.empty:
        st.text("No task here has one label a target, so none can be taken for another.")
        return
    own, what, layer = _picked(looked, table)
    if own.empty:
        st.text("There is nothing to show of this one.")
        return
    import plotly.graph_objects as go

    labels = len({*own["gold"], *own["predicted"]})
    figure = drawn.square(go.Figure(drawn.confusion_map(own)), labels)
    total = int(own["n"].sum())
    right = int(own.loc[own["gold"] == own["predicted"], "n"].sum())
    about = (
        f"Which label is taken for which: {what}, layer {layer}. Of {total:,} answers, seeds "
        f"together, {right:,} are right. A row is a gold label, and its shares sum to 100 %."
    )
    draw(looked, figure, about, "confusion")


def examples(looked: Looked) -> None:
    """What a layer gets right and the one below it wrong."""
    table = tables.of(looked.run, "gains")
    if table.empty:
        st.text("No layer gets right what the layer below it gets wrong.")
        return
    own, what, layer = _picked(looked, table)
    if own.empty:
        st.text(f"Of {what}, layer {layer} gets nothing right that the layer below gets wrong.")
        return
    if is_preview(looked.run):
        st.caption(PREVIEW)
    st.caption(
        f"{plain(what)}: {len(own)} targets of the first seed, each right at layer {layer} and "
        f"wrong at layer {layer - 1}. 1 and 2 are the spans the probe is given."
    )
    st.html(listed(own, layer, figures.kind()))


def _picked(looked: Looked, table: "pd.DataFrame") -> "tuple[pd.DataFrame, str, int]":
    """The rows of one task, probe, stack and layer that are chosen, and what they are called."""
    names = []
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for column in ("task", "probe", "stack"):
            there = list(dict.fromkeys(table[column].astype(str)))
            picked = there[0]
            if column == "task" or len(there) > 1:
                picked = _one(column.capitalize(), there, column)
                names.append(picked)
            table = table[table[column] == picked]
        layers = [str(layer) for layer in sorted(set(table["layer"]))]
        best = looked.own.summary.loc[looked.own.summary["task"] == names[0], "best_layer"]
        usual = str(best.iloc[0]) if len(best) else layers[0]
        layer = _one("Layer", layers, "layer", layers.index(usual) if usual in layers else 0)
    return table[table["layer"] == int(layer)], ", ".join(names), int(layer)


def _one(label: str, there: list[str], key: str, index: int = 0) -> str:
    picked = st.selectbox(label, there, index, key=key, bind="query-params", width=200)
    return str(picked) if picked in there else there[index]


def controls(looked: Looked) -> None:
    """How much more each layer tells of the task than of labels drawn by word type."""
    tasks = tasks_shown(looked)
    try:
        figure = curves.controls(looked.own, tasks, figures.kind())
    except KeyError:
        st.text("This run has no control tasks: they were switched off, or no layer was asked for.")
        return
    about = (
        "Selectivity by layer: F1 on the task less F1 on labels drawn by word type, which say "
        "nothing of language (Hewitt and Liang 2019). Where it is near nought, the probe "
        "could learn anything."
    )
    draw(looked, figure, about, "controls")


def all_tables(looked: Looked) -> None:
    """Every table, and what leaves the app as a file."""
    results.every_table(looked.run)


def _about(draw: object) -> str:
    """What a figure's function says of itself."""
    return " ".join((draw.__doc__ or "").split())
