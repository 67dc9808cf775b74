"""The page Probing: its form, the summary of a run of `edge-probing`, and its views.

The form is that of the page Experiments, with the tasks of the corpus and a button for a preview.
Costs: reading 200 sentences of each split, and checking the request.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st
from pydantic import create_model

from workbench.app import probing_views as views
from workbench.app import (
    run_form,
    run_view,
    settings_form,
    sidebar,
    tables_and_figures,
    uploads,
)
from workbench.app.analysis import TABLES, Analysis, View
from workbench.app.probing_views import (
    COMPARE,
    NAME,
    OpenRuns,
    comparison_run,
    curves_of,
    is_preview,
    label_of,
)
from workbench.app.tables_and_figures import Column
from workbench.app.text import plain, show_error
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Experiment, Settings

if TYPE_CHECKING:
    from workbench.runs.run import Run

FORM_SETTINGS = ("tasks", "preview")  # drawn by this page, not by the form of settings
ABOUT = {
    "Run": "Trains every probe. Takes minutes, or hours for a large model and corpus.",
    "Preview": "Closed-form ridge probes of each layer: seconds, but less accurate.",
}
ALL = "all tasks of the corpus"


def draw_form(experiment: Experiment[Any], run: "Run | None") -> None:
    """Draw the form: in view if no run is opened, else in an expander."""
    initial = run.settings if run else {}
    if run is None:
        _form(experiment, initial)
    else:
        with st.expander("New run", icon=":material/science:"):
            _form(experiment, initial)
    _upload()


def _form(experiment: Experiment[Any], initial: Mapping[str, Any]) -> None:
    models, corpora = run_form.inputs(experiment, sidebar.model(), sidebar.corpus())
    tasks = _chosen_tasks(corpora[0], initial)
    if tasks is None:
        return
    settings = settings_form.settings(_without(experiment), initial)
    if tasks:
        settings["tasks"] = tasks
    options = run_form.run_options(experiment)
    full = (experiment.name, models, corpora, settings, options)
    preview = (experiment.name, models, corpora, {**settings, "preview": True}, options)
    run_form.offer({run_form.RUN: full, "Preview": preview}, ABOUT)


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
    from probes.probe_inputs import tasks_about
    from workbench.runs.forked_call import forked_call

    return forked_call(tasks_about, corpus)


def _without(experiment: Experiment[Any]) -> Experiment[Any]:
    """The experiment without the settings that this page draws itself."""
    fields: dict[str, Any] = {
        name: (field.annotation, field)
        for name, field in experiment.settings.model_fields.items()
        if name not in FORM_SETTINGS
    }
    settings = create_model("FurtherSettings", __base__=Settings, **fields)
    return replace(experiment, settings=settings)


def _upload() -> None:
    """Draw the upload of a file with spans and labels; its faults are shown by line."""
    uploads.draw_news("corpus-news")
    with st.expander("Upload your own targets", icon=":material/upload:"):
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
    "best_layer": Column("best layer"),
    "best_score": Column("F1", "%.1f", True),
    "interval": Column("95 % CI"),
    "baseline_lexical": Column("layer 0", "%.1f", True),
    "baseline_no_positions": Column("no positions", "%.1f", True),
    "baseline_static": Column("static", "%.1f", True),
    "baseline_random": Column("random", "%.1f", True),
    "baseline_majority": Column("majority", "%.1f", True),
    "selectivity": Column("selectivity", "%.1f", True),
    "data_gain": Column("gain from 2× data", "%.1f", True),
    "expected_layer": Column("expected layer", "%.2f"),
    "centre_of_gravity": Column("centre of gravity", "%.2f"),
    "n": Column("targets"),
}  # of the summary
# words of caveats that stay in view
ALWAYS = ("preview", "Preset quick", "did not learn", "still improving", "More training targets")


def draw_header(run: "Run") -> OpenRuns:
    """Draw the title, the caveats and the summary; return the run and the one to compare with."""
    curves = curves_of(run)
    quick = "preview" if is_preview(run) else str(run.settings.get("preset"))
    run_view.heading(run, quick if quick in ("preview", "quick") else "")
    run_view.findings(run.findings)
    run_view.caveats(run, ALWAYS)
    _summary(run)
    other = comparison_run(run)
    if other is None:
        return OpenRuns(run, curves)
    labels = label_of(run), label_of(other)
    if labels[0] == labels[1]:
        labels = f"{labels[0]} ({_short_hash(run)})", f"{labels[1]} ({_short_hash(other)})"
    return OpenRuns(run, replace(curves, name=labels[0]), other, curves_of(other, labels[1]))


def _short_hash(run: "Run") -> str:
    return run.name.rpartition("-")[2][:6]


def _summary(run: "Run") -> None:
    """Draw one row for each task: its best layer, the baselines, and the expected layer."""
    table = tables_and_figures.table_of(run, "summary")
    single = [name for name in ("probe", "stack") if table[name].nunique() < 2]
    shown = table.assign(interval=tables_and_figures.intervals(table)).drop(columns=single)
    tables_and_figures.draw_columns(
        shown.dropna(axis=1, how="all"), COLUMNS, f"summary {run.name}", 16
    )
    st.caption(
        "F1 (%) of the best layer, and of the baselines: layer 0, no positions, static vectors, a "
        "random-weight model, the majority label. Selectivity: F1 minus F1 on the control task, "
        "whose labels are random for each word type. Gain from 2× data: the largest gain of a "
        "layer over half of the targets."
    )


VIEWS = {
    "Layers": View(views.layers),
    "Pipeline": View(views.pipeline),
    "Mix": View(views.mix),
    "Confusion": View(views.confusion),
    "Examples": View(
        views.examples,
        ("gains",),
        "No layer predicts a target correctly that the layer below gets wrong.",
    ),
    "Controls": View(views.controls),
    "Tables": TABLES,
}
PROBING = Analysis(
    "Probing",
    "A probe is a small classifier trained on a frozen layer. It shows what the layer encodes, "
    "compared with baselines and control tasks.",
    {"Probing": NAME},
    {NAME: VIEWS},
    draw_header,
    draw_form,
    (COMPARE,),
)
