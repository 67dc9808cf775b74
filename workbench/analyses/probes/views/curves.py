"""The opened run of edge probing, the run it is compared with, and views of both.

Costs: one look at the status file of each run, and reading a run's small tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.analyses.probes.figures import probing as drawn
from workbench.analyses.probes.figures.probing import SOURCE, true
from workbench.analyses.probes.figures.probing_curves import (
    NAMES,
    PUBLISHED,
    RunCurves,
    add_published_layers,
    curve_controls,
    draw_curves,
    published_tasks,
)
from workbench.app import tables_and_figures
from workbench.app.runs import run_form, run_list
from workbench.app.tables_and_figures import Column, caption_of, segment, select
from workbench.app.text import as_html, plain, show_error
from workbench.core.errors import WorkbenchError
from workbench.core.head_names import at_state, parse_state, state_name, state_number
from workbench.drawing.sentence import Span, marked
from workbench.drawing.theme import Kind

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from workbench.runs.run import Run

# --- views ----------------------------------------------------------------------------------------

NAME = "edge-probing"
COMPARE = "compare"  # in the address: the second run
_REQUIRED = {
    "means": ("mean", "lower", "upper", "stack"),
    "summary": ("expected_layer", "best_score"),
}


def comparison_run(run: "Run") -> "Run | None":
    """The run to compare with, chosen by the address or the box."""
    titles = {name: title for name, title in run_form.titles(NAME).items() if name != run.name}
    in_address = st.query_params.get(COMPARE)
    if not titles and not in_address:
        return None
    names = list(titles)
    key = f"compare {run.name} {in_address}"
    st.selectbox(
        "Compare with",
        names,
        names.index(in_address) if in_address in names else None,
        format_func=titles.__getitem__,
        key=key,
        placeholder="no other run",
        help="Draws the curves of both runs. The difference of their best layers is tested if both "
        "were scored on the same sentences.",
        on_change=lambda: run_list.set_query_from(key, COMPARE, in_address),
    )
    if not in_address or in_address == run.name:
        return None
    return _second(in_address)


def _second(name: str) -> "Run | None":
    """The run that the address names; the name is not trusted."""
    try:
        other = run_list.open_named(name)
        if other.spec.experiment != NAME or other.spec.sweep:
            raise WorkbenchError(
                f"this run is a sweep, or not a run of {NAME}.",
                code="run-not-comparable",
                where=other.name,
                remedy=f"Choose a run of {NAME} that is not a sweep.",
            )
        curves_of(other)
    except WorkbenchError as error:
        show_error(error)
        return None
    return other


def is_preview(run: "Run") -> bool:
    """Whether the run used closed-form probes, not trained ones."""
    return bool(run.settings.get("preview"))


def curves_of(run: "Run", name: str = "") -> RunCurves:
    """The curves of a run; an error if its tables lack a column."""
    means, summary = (
        tables_and_figures.table_with(run, table, columns) for table, columns in _REQUIRED.items()
    )
    return RunCurves(name or label_of(run), means, summary)


def label_of(run: "Run") -> str:
    """The label of a run in a legend: its model, and whether it is a preview."""
    name = ", ".join(model.name for model in run.spec.models)
    return f"{name} (preview)" if is_preview(run) else name


# --- views: the order of tasks, mixing weights, confusions, examples ------------------------------

PREVIEW = "Preview: closed-form ridge probes, less accurate than trained ones."
NO_MIX = "This run has no mix of layers: "


@dataclass(frozen=True)
class OpenRuns:
    """The opened run with its curves, and the run it is compared with."""

    run: "Run"
    curves: RunCurves
    second: "Run | None" = None
    second_curves: RunCurves | None = None

    @property
    def all_curves(self) -> list[RunCurves]:
        return [self.curves, *([self.second_curves] if self.second_curves else [])]

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(self.curves.summary["task"]))


def draw(runs: OpenRuns, figure: "go.Figure | Mapping[str, Any]", about: object, name: str) -> None:
    """Draw a figure with its caption; the caption of a preview says so."""
    previews = [run for run in (runs.run, runs.second) if run is not None and is_preview(run)]
    caption = f"{PREVIEW} {caption_of(about)}" if previews else about
    tables_and_figures.draw_view(runs.run, name, figure, caption)


def select_tasks(runs: OpenRuns, key: str = "shown") -> list[str]:
    """Draw a box for the tasks to show; return them, all by default."""
    picked = st.multiselect(
        "Tasks shown",
        runs.tasks,
        key=key,
        bind="query-params",
        placeholder="all",
        width=320,
    )
    return [task for task in picked if task in runs.tasks] or runs.tasks


def select_published(key: str = "published") -> str:
    """Draw a box for published results to compare with."""
    about = f"Published results of BERT-base or BERT-large: {SOURCE}."
    return select("Published results", PUBLISHED, key, width=190, help=about)


def pipeline(runs: OpenRuns) -> None:
    """Draw the order of tasks by expected layer, and the baselines."""
    tables = {"summary": runs.curves.summary, "means": runs.curves.means}
    try:
        figure = drawn.pipeline(tables)
    except KeyError:
        _no_mix(runs)
        return
    about = caption_of(drawn.pipeline)
    model = select_published("published-order")
    if model in NAMES:
        tasks = add_published_layers(figure, runs.curves, model)
        about += (
            f" Diamonds: expected layers of {NAMES[model]} at the same depth, computed "
            f"from {SOURCE}, for {', '.join(tasks) or 'none of these tasks'}."
        )
    draw(runs, figure, about, "pipeline")
    undefined = runs.curves.summary["expected_layer"].isna()
    if undefined.any():
        names = ", ".join(dict.fromkeys(runs.curves.summary.loc[undefined, "task"]))
        st.caption(
            f"Undefined for {plain(names)}: F1 does not rise when more layers are added to the "
            "mix, so there is no expected layer."
        )
    draw(runs, drawn.baselines(tables), drawn.baselines, "baselines")


def mix(runs: OpenRuns) -> None:
    """Draw the mixing weight of each layer."""
    try:
        figure = drawn.mixes({"mix": tables_and_figures.table_of(runs.run, "mix")})
    except KeyError:
        _no_mix(runs)
        return
    draw(runs, figure, drawn.mixes, "mix")


def _no_mix(runs: OpenRuns) -> None:
    reason = (
        "a preview probes each layer separately."
        if is_preview(runs.run)
        else "run it with the mode mix or cumulative."
    )
    st.text(f"{NO_MIX}{reason}")


def confusion(runs: OpenRuns) -> None:
    """Draw the confusion matrix of one task and layer."""
    table = tables_and_figures.table_of(runs.run, "confusion")
    table = table[table["mode"].isin(drawn.SINGLE)]
    if table.empty:
        st.text("No confusion matrix: no task of this run has exactly one label per target.")
        return
    rows, what, layer = _select_rows(runs, table)
    if rows.empty:
        st.text("There are no predictions for this choice.")
        return
    figure = drawn.confusion_of(rows)
    total = int(rows["n"].sum())
    right = int(rows.loc[rows["gold"] == rows["predicted"], "n"].sum())
    about = (
        f"Confusion matrix: {what}, {state_name(layer)}. {right:,} of {total:,} predictions are "
        "right (all seeds). A row is a gold label; its shares sum to 100 %."
    )
    draw(runs, figure, about, "confusion")


def examples(runs: OpenRuns) -> None:
    """Draw targets that a layer predicts correctly and the layer below does not."""
    table = tables_and_figures.table_of(runs.run, "gains")
    rows, what, layer = _select_rows(runs, table)
    if rows.empty:
        st.text(f"{what}: {at_state(layer)} gets no target right that the layer below gets wrong.")
        return
    if is_preview(runs.run):
        st.caption(PREVIEW)
    st.caption(
        f"{plain(what)}: {len(rows)} targets (first seed) that are right at {at_state(layer)} and "
        f"wrong at {at_state(layer - 1)}. 1 and 2 mark the spans that the probe receives."
    )
    st.html(listed(rows, layer, tables_and_figures.kind()))


def _select_rows(runs: OpenRuns, table: "pd.DataFrame") -> "tuple[pd.DataFrame, str, int]":
    """Draw boxes for task, probe, stack and layer; return the rows, their label and the layer."""
    labels = []
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for column in ("task", "probe", "stack"):
            options = list(dict.fromkeys(table[column].astype(str)))
            picked = options[0]
            if column == "task" or len(options) > 1:
                picked = select(column.capitalize(), options, column, width=200)
                labels.append(picked)
            table = table[table[column] == picked]
        layers = [state_number(layer) for layer in sorted(set(table["layer"]))]
        summary = runs.curves.summary
        best = summary.loc[summary["task"] == labels[0], "best_layer"]
        default = state_number(best.iloc[0]) if len(best) else layers[0]
        index = layers.index(default) if default in layers else 0
        layer = parse_state(select("Layer", layers, "layer", index, width=200))
    return table[table["layer"] == layer], ", ".join(labels), layer


def controls(runs: OpenRuns) -> None:
    """Draw the selectivity of each layer."""
    tasks = select_tasks(runs, "shown-controls")
    try:
        figure = curve_controls(runs.curves, tasks)
    except KeyError:
        st.text(
            "This run has no control tasks: they were switched off, or no single layer was probed."
        )
        return
    about = (
        "Selectivity by layer: F1 on the task minus F1 on a control task with random labels for "
        "each word type (Hewitt and Liang 2019). If it is near zero, the probe could learn any "
        "labels."
    )
    draw(runs, figure, about, "controls")


# --- curves by layer, with baselines and published results; and a test of two runs ----------------
#
# Costs: milliseconds; about a second for a test of two runs, which is cached.

BEST_LAYERS = {
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
EACH = "each layer"
MODES = {EACH: "layer", "mix up to each layer": "cumulative"}
NONE = "none"
CONTROL = "The findings count the control task as a baseline, too: see the tab Controls. "
DEPTH = " The models have different numbers of layers, so the x-axis is relative depth."


def layers(runs: OpenRuns) -> None:
    """Draw F1 by layer, with baselines, published results and the second run."""
    available = set(true(runs.curves.means)["mode"])
    modes = [label for label, mode in MODES.items() if mode in available]
    if not modes:
        st.text("This run has no curves. Run it with the mode layer or cumulative.")
        return
    place = st.container()
    with st.container(key="controls-curves", horizontal=True, vertical_alignment="bottom"):
        mode = segment("Probe input", modes, "mode")
        published = select_published()
        tasks = select_tasks(runs)
    figure = _curves(runs, tasks, MODES[mode], published if published in NAMES else NONE)
    has_control = bool(runs.curves.summary["selectivity"].notna().any())
    intervals = "Bands" if runs.second is None else "When you point"
    about = (
        f"Probe F1 by layer ({mode}). {intervals}: 95 % bootstrap intervals over sentences and "
        "seeds. Dashed grey: the best of static vectors, random weights and the majority label. "
        f"{CONTROL if has_control else ''}"
        "The model knows a task if the interval of its best layer lies above the interval (not "
        "drawn) of every baseline; a layer knows it if its own does. Hollow "
        "marks did not converge; crosses did not learn the task."
    )
    if len({each.deepest for each in runs.all_curves}) > 1:
        about += DEPTH
    with place:
        draw(runs, figure, about, "layers")
    _note_published(published, tasks, runs.all_curves)
    if runs.second is not None and runs.second_curves is not None:
        labels = runs.curves.name, runs.second_curves.name
        _compared(runs.run, runs.second, labels, tasks, MODES[mode])


def _curves(runs: OpenRuns, tasks: list[str], mode: str, published: str) -> "Mapping[str, Any]":
    """The curves of the runs, and of published results."""
    shown = [(str(run.path), run.status.ended) for run in (runs.run, runs.second) if run]
    curves = runs.all_curves
    return tables_and_figures.remembered(
        ("layers", shown, [each.name for each in curves], tasks, mode, published),
        lambda: draw_curves(curves, tasks, mode, published),
    )


def draw_ahead(run: "Run") -> None:
    """Draw the curves of a run as they are first seen."""
    runs = OpenRuns(run, curves_of(run))
    tables_and_figures.finish_ahead(_curves(runs, runs.tasks, MODES[EACH], NONE))


def _note_published(published: str, tasks: list[str], curves: list[RunCurves]) -> None:
    """Draw what the published results are, and how to read them."""
    if published not in NAMES:
        return
    included = published_tasks(published, tasks)
    if not included:
        st.caption("There are no published results for these tasks.")
        return
    n_layers = {12 if published == "bert-base" else 24}
    st.caption(
        f"Thin grey lines: {NAMES[published]} in {SOURCE}, for {plain(', '.join(included))}. "
        "Those probes were trained and scored on other corpora: compare where a curve rises, not "
        "its height." + (DEPTH if {each.deepest for each in curves} != n_layers else "")
    )


def _compared(
    first: "Run", second: "Run", labels: tuple[str, str], tasks: list[str], mode: str
) -> None:
    """Draw the best layers of two runs in one mode, and whether they differ."""
    st.subheader("Comparison of best layers", anchor=False)
    if first.is_builtin or second.is_builtin:
        st.text(
            "Built-in results are shipped without the counts of each sentence, so the difference "
            "is not tested. Run the command of the built-in result to test it."
        )
        return
    table = _between(str(first.path), first.status.ended, str(second.path), second.status.ended)
    table = table[table["task"].isin(tasks) & (table["mode"] == mode)]
    if table.empty:
        st.text("The other run has none of these tasks in this mode.")
        return
    single = ["probe"] if table["probe"].nunique() < 2 else []
    columns = {
        **BEST_LAYERS,
        "first": BEST_LAYERS["first"]._replace(heading=f"A: {labels[0]}"),
        "second": BEST_LAYERS["second"]._replace(heading=f"B: {labels[1]}"),
    }
    key = f"between {first.name} {second.name}"
    tables_and_figures.draw_columns(table.drop(columns=single), columns, key)
    st.caption(
        "F1 (%) over the seeds that both runs have. Difference with its 95 % interval and a "
        "two-sided p-value from a paired bootstrap over sentences, not corrected for the number of "
        "rows. Both are empty if the targets differ. The best layers were chosen on the same "
        "sentences."
    )


@st.cache_data(max_entries=16, show_spinner="Computing bootstrap intervals …")
def _between(first: str, first_ended: str, second: str, second_ended: str) -> "pd.DataFrame":
    from workbench.analyses.probes.compare_runs import between
    from workbench.runs.run import Run

    runs = [Run(Path(path)) for path in (first, second)]
    return between(
        *(
            part
            for run in runs
            for part in (run.tables["scores"], run.arrays["counts"], run.arrays["sentences"])
        )
    )


# --- examples marked in their sentences -----------------------------------------------------------
#
# Sentences and labels come from any corpus and are shown as text.

LABEL = 80  # characters of a label
_STYLE = (
    "<style>ol.gains {margin: 0; padding-left: 2.2rem} ol.gains li {margin-bottom: .9rem;"
    " overflow-wrap: anywhere; line-height: 1.9} ol.gains p {margin: 0; line-height: 1.5;"
    " opacity: .85; font-size: .92em} ol.gains mark {color: inherit; padding: .1em .05em}</style>"
)


def listed(rows: "pd.DataFrame", layer: int, kind: Kind) -> str:
    """HTML of the rows of the table `gains`."""
    items = [
        f"<li><div>{marked(str(row.text), _spans(row), kind)}</div>"
        f"<p>{state_name(layer)}: <b>{as_html(row.gold, LABEL)}</b> (correct); "
        f"{state_name(layer - 1)}: <b>{as_html(row.below, LABEL)}</b></p></li>"
        for row in rows.itertuples()
    ]
    return f'{_STYLE}<ol class="gains">{"".join(items)}</ol>'


def _spans(row: object) -> list[Span]:
    spans = [
        (int(getattr(row, f"span{side}_start")), int(getattr(row, f"span{side}_end")))
        for side in (1, 2)
    ]
    return [span for span in spans if 0 <= span[0] < span[1]]
