"""A run of edge probing that is looked at: which one, which one beside it, and what each told.

Reads the runs' folders. Costs a look at every run's status, and at a run's small tables.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from workbench.app import run_form, run_list, run_view, tables_and_figures
from workbench.app.text import as_html, plain, tell
from workbench.core.errors import WorkbenchError
from workbench.figures import probing as drawn
from workbench.figures.probing import (
    BASELINES,
    SOURCE,
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

if TYPE_CHECKING:
    from workbench.runs.run import Run

# --- curves of probing ----------------------------------------------------------------------------
#
# Curves of edge probing in the page's own colours: tasks together, runs together, published ones.
#
# Pure functions of tables; a colour is a task, a dash a run. Runs of models with other numbers of
# layers share an axis of depth, 0 the embeddings and 1 the top. Costs milliseconds.

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
    for place, (name, value) in enumerate(draw_compared_curves(runs[0], lines)):
        end = 1 if relative else runs[0].deepest
        figure.add_trace(_level(f"{name} ({lines})", value, place, end, FAINT[kind]))
    _axes(figure, "depth (0: embeddings, 1: top)" if relative else "layer", "F1", max(depths))
    if relative:
        figure.update_xaxes(dtick=0.25)
    return figure


def curve_controls(run: Laid, tasks: Sequence[str], kind: Kind) -> go.Figure:
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


def draw_compared_curves(run: Laid, task: str) -> list[tuple[str, float]]:
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


# --- views ----------------------------------------------------------------------------------------

NAME = "edge-probing"
BESIDE = "beside"  # in the address: the second run
_WANTED = {"means": "mean lower upper stack", "summary": "expected_layer best_score"}


def choose(opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    run_form.choose(NAME, opened, (BESIDE,))


def beside(run: "Run") -> "Run | None":
    """The run that is laid beside this one, by the address or the box."""
    there = {name: title for name, title in run_form.titles(NAME).items() if name != run.name}
    asked = st.query_params.get(BESIDE)
    if not there and not asked:
        return None
    names = list(there)
    key = f"beside {run.name} {asked}"
    st.selectbox(
        "Another run beside it",
        names,
        names.index(asked) if asked in names else None,
        format_func=there.__getitem__,
        key=key,
        placeholder="none",
        help="Its curves are drawn with this one's, and the difference of their best layers is "
        "tested where both scored the same sentences.",
        on_change=lambda: _lay(st.session_state.get(key)),
    )
    if not asked or asked == run.name:
        return None
    return _second(asked)


def _second(name: str) -> "Run | None":
    """The run that the address names, which anybody may have written."""
    try:
        other = run_list.open_named(name)
        if other.spec.experiment != NAME or other.spec.sweep:
            raise WorkbenchError(
                "this is no run of edge probing.",
                where=other.name,
                remedy="Choose a run of edge-probing that is no sweep.",
            )
        laid(other)
    except WorkbenchError as error:
        tell(error)
        return None
    return other


def _lay(name: str | None) -> None:
    if name:
        st.query_params[BESIDE] = name
    else:
        st.query_params.pop(BESIDE, None)


def is_preview(run: "Run") -> bool:
    """Whether its probes were not trained."""
    return bool(run.spec.settings.get("preview"))


def laid(run: "Run", name: str = "") -> Laid:
    """The curves of a run; an error where its tables are not those of today."""
    found = {}
    for table, columns in _WANTED.items():
        read = tables_and_figures.table_of(run, table)
        if missing := [column for column in columns.split() if column not in read.columns]:
            raise WorkbenchError(
                f"its table {table!r} has no column {missing[0]!r}.",
                where=run.name,
                remedy="It was made by another version; ask the same question again.",
            )
        found[table] = read
    return Laid(name or called(run), found["means"], found["summary"])


def called(run: "Run") -> str:
    """A run in a legend: its model, marked where it is a preview."""
    name = ", ".join(model.name for model in run.spec.models)
    return f"{name} (preview)" if is_preview(run) else name


# --- views of a run of edge probing, one a tab: the order of tasks, mixes, confusions, examples ---
#
# Each reads the tables it needs and draws them. Costs milliseconds.

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
    from workbench.figures.sanitize import harmless
    from workbench.report.content import Drawing

    previews = [run for run in (looked.run, looked.second) if run is not None and is_preview(run)]
    about = f"{PREVIEW} {about}" if previews else about
    tables_and_figures.draw_figure(
        Drawing(name, about, harmless(figure)), f"probing {name} {looked.run.name}"
    )


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
        PUBLISHED,
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
    if model in NAMES:
        tasks = order_beneath(figure, looked.own, model, tables_and_figures.kind())
        about += f" Diamonds: expected layers of {NAMES[model]} at the same depth, worked "
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
        figure = drawn.mixes({"mix": tables_and_figures.table_of(looked.run, "mix")})
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
    table = tables_and_figures.table_of(looked.run, "confusion")
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
    table = tables_and_figures.table_of(looked.run, "gains")
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
    st.html(listed(own, layer, tables_and_figures.kind()))


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
        figure = curve_controls(looked.own, tasks, tables_and_figures.kind())
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
    run_view.every_table(looked.run)


def _about(draw: object) -> str:
    """What a figure's function says of itself."""
    return " ".join((draw.__doc__ or "").split())


# --- curves by layer, with baselines and what was published; and two runs' best layers, tested ----
#
# Costs milliseconds; a test of two runs about a second, which is kept.

MODES = {"each layer": "layer", "mix up to each layer": "cumulative"}
NONE = "none"


def layers(looked: Looked) -> None:
    """The curves of some tasks, and what is laid beside and beneath them."""
    there = set(true(looked.own.means)["mode"])
    modes = [words for words, mode in MODES.items() if mode in there]
    if not modes:
        st.text(
            "This run has no curve: it was asked neither for each layer nor for mixes up to it."
        )
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        tasks = tasks_shown(looked)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        picked = st.segmented_control(
            "What a probe reads",
            modes,
            default=modes[0],
            required=True,
            key="mode",
            bind="query-params",
        )
        words = picked if picked in modes else modes[0]
        lines = st.selectbox(
            "Baselines of", [NONE, *tasks], key="baselines", bind="query-params", width=190
        )
        beneath = published_chosen()
    runs = [looked.own, *([looked.other] if looked.other else [])]
    figure = draw_curves(
        runs,
        tasks,
        MODES[words],
        tables_and_figures.kind(),
        lines if lines in tasks else "",
        beneath if beneath in NAMES else NONE,
    )
    about = f"F1 by layer ({words}), with 95 % intervals of sentences and seeds drawn again."
    if len({run.deepest for run in runs}) > 1:
        about += " The models have other numbers of layers, so the axis is depth."
    draw(looked, figure, about, "layers")
    _told_beneath(beneath, tasks, runs)
    if looked.second is not None and looked.other is not None:
        names = looked.own.name, looked.other.name
        _compared(looked.run, looked.second, names, tasks, MODES[words])


def _told_beneath(beneath: str, tasks: list[str], runs: list[Laid]) -> None:
    """What lies beneath, and how it may be read."""
    if beneath not in NAMES:
        return
    found = laid_beneath(beneath, tasks)
    if not found:
        st.caption("Nothing was published of these tasks.")
        return
    axis = (
        " The models have other numbers of layers, so the axis is depth."
        if {run.deepest for run in runs} != {12 if beneath == "bert-base" else 24}
        else ""
    )
    st.caption(
        f"Thin broken lines: {NAMES[beneath]} in {SOURCE}; of {plain(', '.join(found))}. "
        "Its probes were trained and scored on other corpora: compare where a curve rises, not how "
        "high it lies." + axis
    )


def _compared(
    first: "Run", second: "Run", called: tuple[str, str], tasks: list[str], mode: str
) -> None:
    """The best layers of two runs in one mode, and whether they differ."""
    st.subheader("The best layers, side by side", anchor=False)
    table = _between(
        str(first.path), first.status.ended, str(second.path), second.status.ended
    ).copy()
    table = table[table["task"].isin(tasks) & (table["mode"] == mode)]
    if table.empty:
        st.text("The other run has none of these tasks in this mode.")
        return
    names = {"first": f"A: {called[0]}", "second": f"B: {called[1]}"}
    for column in ("first", "second", "difference", "lower", "upper"):
        table[column] *= 100
    shares = st.column_config.NumberColumn(format="%.1f")
    signed = st.column_config.NumberColumn(format="%+.1f")
    columns = "task probe first first_layer second second_layer difference lower upper p_value"
    if table["probe"].nunique() < 2:
        columns = columns.replace("probe ", "")
    headings = {"first_layer": "A's layer", "second_layer": "B's layer", "difference": "B − A",
              "lower": "from", "upper": "to", "p_value": "p", **names}  # fmt: skip
    st.dataframe(
        table[columns.split()].rename(columns=headings),
        hide_index=True,
        height=min(len(table) + 1, 16) * 35 + 3,
        column_config={
            **dict.fromkeys(names.values(), shares),
            **dict.fromkeys(("B − A", "from", "to"), signed),
            "p": st.column_config.NumberColumn(format="%.3f"),
        },
        placeholder="–",
        key=f"between {first.name} {second.name}",
    )
    st.caption(
        "F1 in per cent, of the seeds that both have. The difference with its 95 % interval, and a "
        "two-sided p-value from the same sentences drawn again for both, not corrected for the "
        "number of rows; both are empty where the targets differ. The best layers are chosen on "
        "these very sentences."
    )


@st.cache_data(max_entries=16, show_spinner="Drawing sentences again …")
def _between(first: str, first_ended: str, second: str, second_ended: str) -> "pd.DataFrame":
    from probes.compare_runs import between
    from workbench.runs.run import Run

    one, other = Run(Path(first)), Run(Path(second))
    return between(
        one.tables["scores"],
        one.arrays["counts"],
        one.arrays["sentences"],
        other.tables["scores"],
        other.arrays["counts"],
        other.arrays["sentences"],
    )


# --- targets that a layer gets right and the one below it wrong, marked in their sentences --------
#
# Sentences and labels come from anyone's corpus and are shown as text. Costs milliseconds.

AROUND = 160  # characters shown on either side of the spans
LABEL = 80  # characters of a label
_CHIP = "font-size:.7em;font-weight:600;padding:0 .1em 0 .25em;vertical-align:super"
_STYLE = (
    "<style>ol.gains {margin: 0; padding-left: 2.2rem} ol.gains li {margin-bottom: .9rem;"
    " overflow-wrap: anywhere; line-height: 1.9} ol.gains p {margin: 0; line-height: 1.5;"
    " opacity: .85; font-size: .92em} ol.gains mark {color: inherit; padding: .1em .05em}</style>"
)
Span = tuple[int, int]


def listed(rows: "pd.DataFrame", layer: int, kind: Kind) -> str:
    """The rows of `gains` as HTML."""
    items = [
        f"<li><div>{marked(str(row.text), _spans(row), kind)}</div>"
        f"<p>layer {layer}: <b>{as_html(row.gold, LABEL)}</b>, as it is; "
        f"layer {layer - 1} said <b>{as_html(row.below, LABEL)}</b></p></li>"
        for row in rows.itertuples()
    ]
    return f'{_STYLE}<ol class="gains">{"".join(items)}</ol>'


def marked(text: str, spans: list[Span], kind: Kind, names: Sequence[str] = ()) -> str:
    """A text with some spans marked, by number or by name; they may lie in one another, or cross.

    Spans of one name have one colour.
    """
    names = names or [str(n + 1) for n in range(len(spans))]
    hues = [list(dict.fromkeys(names)).index(name) for name in names]
    first = max(min((start for start, _ in spans), default=0) - AROUND, 0)
    last = min(max((end for _, end in spans), default=0) + AROUND, len(text))
    edges = sorted({first, last, *(edge for span in spans for edge in span)})
    parts = ["… " if first else ""]
    for start, end in pairwise(edges):
        inside = [n for n, span in enumerate(spans) if span[0] <= start and end <= span[1]]
        piece = as_html(text[start:end])
        parts.append(
            f'<mark style="{_style([hues[n] for n in inside], kind)}">{piece}</mark>'
            if inside
            else piece
        )
        parts += [_chip(names[n], hues[n], kind) for n, s in enumerate(spans) if s[1] == end]
    return "".join([*parts, " …" if last < len(text) else ""])


def _spans(row: object) -> list[Span]:
    found = [
        (int(getattr(row, f"span{side}_start")), int(getattr(row, f"span{side}_end")))
        for side in (1, 2)
    ]
    return [span for span in found if 0 <= span[0] < span[1]]


def _style(inside: list[int], kind: Kind) -> str:
    """A tint, and a line below for each span that lies here."""
    lines = [f"inset 0 -{2 + 3 * place}px 0 {COLOURS[kind][n]}" for place, n in enumerate(inside)]
    return f"background:{COLOURS[kind][inside[0]]}26;box-shadow:{','.join(lines)}"


def _chip(name: str, hue: int, kind: Kind) -> str:
    return f'<span style="{_CHIP};color:{COLOURS[kind][hue]}">{as_html(name)}</span>'
