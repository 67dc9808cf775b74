"""The page Probing: the tasks in its form, the summary of a run of `edge-probing`, and its views.

Costs: reading 200 sentences of each split for the form; a view reads the tables of a run.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.probes.views import curves as views
from workbench.analyses.probes.views.curves import (
    COMPARE,
    NAME,
    OpenRuns,
    comparison_run,
    curves_of,
    is_preview,
    label_of,
)
from workbench.app import tables_and_figures
from workbench.app.library import uploads
from workbench.app.runs import new_run
from workbench.app.runs.result_page import ResultPage, View
from workbench.app.tables_and_figures import Column
from workbench.app.text import plain, show_error
from workbench.core.errors import WorkbenchError
from workbench.core.head_names import state_number

if TYPE_CHECKING:
    from workbench.runs.run import Run

ALL = "all tasks of the corpus"


def _draw_tasks(corpora: tuple[str, ...], initial: Mapping[str, Any]) -> dict[str, Any] | None:
    """Draw the tasks; return the chosen ones, or None if the corpus cannot be read."""
    picked = _chosen_tasks(corpora[0], initial)
    return None if picked is None else {"tasks": picked}


def _chosen_tasks(corpus: str, initial: Mapping[str, Any]) -> list[str] | None:
    """The chosen tasks, empty for all; None if the corpus cannot be read."""
    try:
        available = tasks(corpus)
    except WorkbenchError as error:
        show_error(error)
        return None
    picked: list[str] = st.multiselect(
        "Tasks",
        list(available),
        [task for task in initial.get("tasks", ()) if task in available],
        key=f"tasks of {corpus}",
        placeholder=ALL,
        help="Tasks to probe (default: all of the corpus). "
        + " ".join(f"{plain(name)}: {about}." for name, about in available.items() if about),
        persist_state="session",
    )
    return [task for task in picked if task in available]


def tasks(corpus: str) -> dict[str, str]:
    """The tasks of a corpus, each with its description."""
    from workbench.corpora.browse import stamp

    return _tasks(corpus, stamp(corpus))


@st.cache_data(max_entries=64, show_spinner=False)
def _tasks(corpus: str, stamp: str) -> dict[str, str]:
    from workbench.analyses.probes.probe_inputs import tasks_about
    from workbench.runs.processes.forked_call import forked_call

    return forked_call(tasks_about, corpus)


def show_ahead(model: str, corpus: str) -> None:
    """Read the tasks of a corpus before a visitor sees them."""
    tasks(corpus)


def _upload() -> None:
    """Draw the upload of a file with spans and labels; its faults are shown by line."""
    uploads.draw_news("corpus-news")
    with st.expander("Upload your own targets", icon=":material/upload:", type="compact"):
        st.markdown(
            "Edge JSONL: one sentence per line, with single spaces between words. Spans are word "
            "indices, counted from 0. The file name gives the task: `srl-mine.jsonl` holds "
            "semantic roles; any other name is a new task."
        )
        st.code(
            '{"text": "Ann sees Bo", "targets": [{"span1": [1, 2], "span2": [0, 1], "label": '
            '"ARG0"}]}',
            language="json",
            wrap_lines=True,
        )
        uploads.draw_corpus_upload()
        st.page_link("pages/corpora.py", label="Other ways to add a corpus")


# --- the page -------------------------------------------------------------------------------------
#
# The result of a run of edge probing: a summary, and one view at a time.
#
# Costs: milliseconds; a second for the test of two runs, which is cached.

COLUMNS = {
    "task": Column("task"),
    "probe": Column("probe"),
    "stack": Column("stack"),
    "best_layer": Column("layer"),
    "best_score": Column("F1", "%.1f", True),
    "interval": Column("95 % CI"),
    "baseline_lexical": Column("embeddings", "%.1f", True),
    "baseline_no_positions": Column("no pos.", "%.1f", True),
    "baseline_static": Column("static", "%.1f", True),
    "baseline_random": Column("random", "%.1f", True),
    "baseline_majority": Column("majority", "%.1f", True),
    "selectivity": Column("selectivity", "%.1f", True),
    "data_gain": Column("2× data", "%.1f", True),
    "expected_layer": Column("expected", "%.2f"),
    "centre_of_gravity": Column("centre", "%.2f"),
    "n": Column("targets"),
}  # of the summary
# words of caveats that come first
ALWAYS = ("preview", "Preset quick", "did not learn", "still improving")


def select(run: "Run") -> OpenRuns:
    """Draw the run to compare with; return both with their curves."""
    curves = curves_of(run)
    with st.container(key="controls-compare"):
        other = comparison_run(run)
    if other is None:
        return OpenRuns(run, curves)
    labels = label_of(run), label_of(other)
    if labels[0] == labels[1]:
        labels = f"{labels[0]} ({_short_hash(run)})", f"{labels[1]} ({_short_hash(other)})"
    return OpenRuns(run, replace(curves, name=labels[0]), other, curves_of(other, labels[1]))


def _rough(run: "Run") -> str:
    quick = "preview" if is_preview(run) else str(run.settings.get("effort"))
    return quick if quick in ("preview", "quick") else ""


def _short_hash(run: "Run") -> str:
    return run.name.rpartition("-")[2][:6]


def _summary(runs: OpenRuns) -> None:
    """Draw one row for each task: its best layer, the baselines, and the expected layer."""
    run = runs.run
    table = tables_and_figures.table_of(run, "summary")
    single = [name for name in ("probe", "stack") if table[name].nunique() < 2]
    shown = table.assign(
        interval=tables_and_figures.intervals(table),
        best_layer=table["best_layer"].map(state_number),
        expected_layer=table["expected_layer"].where(table["expected_layer"] >= 0),
    ).drop(columns=single)
    tables_and_figures.draw_columns(
        shown.dropna(axis=1, how="all"), COLUMNS, f"summary {run.name}", 16
    )
    st.caption(
        "F1 (%) of the best layer, and of the baselines: the embeddings, no positions (no pos.), "
        "static vectors, a random-weight model, the majority label. Selectivity: F1 minus F1 on "
        "the control task, whose labels are random for each word type. 2× data: the largest gain "
        "of a layer over half of the targets. Expected: the mean layer at which the "
        "score rises, if it rises. Centre: the mean layer under the weights of the mix."
    )


VIEWS = {
    "Layers": View(views.layers),
    "Summary": View(_summary),
    "Pipeline": View(views.pipeline),
    "Mix": View(views.mix),
    "Confusion": View(views.confusion),
    "Examples": View(
        views.examples,
        ("gains",),
        "No layer predicts a target correctly that the layer below gets wrong.",
    ),
    "Controls": View(views.controls),
}
PROBING = ResultPage(
    "Probing",
    "A probe is a small classifier trained on a frozen layer. It shows what the layer encodes, "
    "compared with baselines and control tasks.",
    {"Probing": NAME},
    {NAME: VIEWS},
    select,
    new_run.Form(("tasks", "preview"), _draw_tasks),
    (COMPARE,),
    first_cautions=ALWAYS,
    rough=_rough,
    draw_below=_upload,
    ahead=views.draw_ahead,
)
