"""A run of edge probing that is looked at: which one, which one beside it, and what each told.

Reads the runs' folders. Costs a look at every run's status, and at a run's small tables.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from workbench.app import run_form, run_list, tables_and_figures
from workbench.app.tables_and_figures import Column, caption_of, one, segment
from workbench.app.text import Span, as_html, marked, plain, tell
from workbench.core.errors import WorkbenchError
from workbench.figures import probing as drawn
from workbench.figures.probing import SOURCE, true
from workbench.figures.probing_curves import (
    NAMES,
    PUBLISHED,
    Laid,
    curve_controls,
    draw_curves,
    laid_beneath,
    order_beneath,
)
from workbench.figures.theme import Kind

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from workbench.runs.run import Run

# --- views ----------------------------------------------------------------------------------------

NAME = "edge-probing"
BESIDE = "beside"  # in the address: the second run
_WANTED = {
    "means": ("mean", "lower", "upper", "stack"),
    "summary": ("expected_layer", "best_score"),
}


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
        on_change=lambda: run_list.put(BESIDE, st.session_state.get(key)),
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


def is_preview(run: "Run") -> bool:
    """Whether its probes were not trained."""
    return bool(run.settings.get("preview"))


def laid(run: "Run", name: str = "") -> Laid:
    """The curves of a run; an error where its tables are not those of today."""
    means, summary = (
        tables_and_figures.table_with(run, table, columns) for table, columns in _WANTED.items()
    )
    return Laid(name or called(run), means, summary)


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


def draw(looked: Looked, figure: "go.Figure", about: object, name: str) -> None:
    """A figure with its caption; a preview says that it is one."""
    previews = [run for run in (looked.run, looked.second) if run is not None and is_preview(run)]
    caption = f"{PREVIEW} {caption_of(about)}" if previews else about
    tables_and_figures.draw_view(looked.run, name, figure, caption)


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
    about = f"{SOURCE}, of BERT-base or BERT-large."
    return one("Published", PUBLISHED, "published", width=190, help=about)


def pipeline(looked: Looked) -> None:
    """In which order tasks are found."""
    found = {"summary": looked.own.summary, "means": looked.own.means}
    try:
        figure = drawn.pipeline(found)
    except KeyError:
        _no_mix(looked)
        return
    about = caption_of(drawn.pipeline)
    model = published_chosen()
    if model in NAMES:
        tasks = order_beneath(figure, looked.own, model, tables_and_figures.kind())
        about += f" Diamonds: expected layers of {NAMES[model]} at the same depth, worked "
        about += f"out from {SOURCE}; of {', '.join(tasks) or 'none of these tasks'}."
    draw(looked, figure, about, "pipeline")
    undefined = looked.own.summary["expected_layer"].isna()
    if undefined.any():
        names = ", ".join(dict.fromkeys(looked.own.summary.loc[undefined, "task"]))
        st.caption(
            f"Undefined for {plain(names)}: the curve of the mix up to each layer does not rise, "
            "so there is no layer at which it would."
        )
    draw(looked, drawn.baselines(found), drawn.baselines, "baselines")


def mix(looked: Looked) -> None:
    """How much each layer counts."""
    try:
        figure = drawn.mixes({"mix": tables_and_figures.table_of(looked.run, "mix")})
    except KeyError:
        _no_mix(looked)
        return
    draw(looked, figure, drawn.mixes, "mix")


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
    figure = drawn.confusion_of(own)
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
                picked = one(column.capitalize(), there, column, width=200)
                names.append(picked)
            table = table[table[column] == picked]
        layers = [str(layer) for layer in sorted(set(table["layer"]))]
        best = looked.own.summary.loc[looked.own.summary["task"] == names[0], "best_layer"]
        usual = str(best.iloc[0]) if len(best) else layers[0]
        at = layers.index(usual) if usual in layers else 0
        layer = one("Layer", layers, "layer", at, width=200)
    return table[table["layer"] == int(layer)], ", ".join(names), int(layer)


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


# --- curves by layer, with baselines and what was published; and two runs' best layers, tested ----
#
# Costs milliseconds; a test of two runs about a second, which is kept.

BETWEEN = {
    "task": Column("task"),
    "probe": Column("probe"),
    "first": Column("A", "%.1f", True),
    "first_layer": Column("A's layer"),
    "second": Column("B", "%.1f", True),
    "second_layer": Column("B's layer"),
    "difference": Column("B − A", "%+.1f", True),
    "lower": Column("from", "%+.1f", True),
    "upper": Column("to", "%+.1f", True),
    "p_value": Column("p", "%.3f"),
}
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
        words = segment("What a probe reads", modes, "mode")
        lines = one("Baselines of", [NONE, *tasks], "baselines", width=190)
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
    table = _between(str(first.path), first.status.ended, str(second.path), second.status.ended)
    table = table[table["task"].isin(tasks) & (table["mode"] == mode)]
    if table.empty:
        st.text("The other run has none of these tasks in this mode.")
        return
    single = ["probe"] if table["probe"].nunique() < 2 else []
    columns = {
        **BETWEEN,
        "first": BETWEEN["first"]._replace(heading=f"A: {called[0]}"),
        "second": BETWEEN["second"]._replace(heading=f"B: {called[1]}"),
    }
    key = f"between {first.name} {second.name}"
    tables_and_figures.draw_columns(table.drop(columns=single), columns, key)
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

    runs = [Run(Path(path)) for path in (first, second)]
    return between(
        *(
            part
            for run in runs
            for part in (run.tables["scores"], run.arrays["counts"], run.arrays["sentences"])
        )
    )


# --- targets that a layer gets right and the one below it wrong, marked in their sentences --------
#
# Sentences and labels come from anyone's corpus and are shown as text. Costs milliseconds.

LABEL = 80  # characters of a label
_STYLE = (
    "<style>ol.gains {margin: 0; padding-left: 2.2rem} ol.gains li {margin-bottom: .9rem;"
    " overflow-wrap: anywhere; line-height: 1.9} ol.gains p {margin: 0; line-height: 1.5;"
    " opacity: .85; font-size: .92em} ol.gains mark {color: inherit; padding: .1em .05em}</style>"
)


def listed(rows: "pd.DataFrame", layer: int, kind: Kind) -> str:
    """The rows of `gains` as HTML."""
    items = [
        f"<li><div>{marked(str(row.text), _spans(row), kind)}</div>"
        f"<p>layer {layer}: <b>{as_html(row.gold, LABEL)}</b>, as it is; "
        f"layer {layer - 1} said <b>{as_html(row.below, LABEL)}</b></p></li>"
        for row in rows.itertuples()
    ]
    return f'{_STYLE}<ol class="gains">{"".join(items)}</ol>'


def _spans(row: object) -> list[Span]:
    found = [
        (int(getattr(row, f"span{side}_start")), int(getattr(row, f"span{side}_end")))
        for side in (1, 2)
    ]
    return [span for span in found if 0 <= span[0] < span[1]]
