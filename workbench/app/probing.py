"""Asking what each layer knows: tasks of the chosen corpus, how they are probed, preview and run.

The question is the one of the page Experiments, with the tasks to choose from and two ways to start
it. Costs the reading of 200 sentences of each split, and what asking costs.
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
    text,
    uploads,
)
from workbench.app.analysis import TABLES, Analysis, View
from workbench.app.probing_views import BESIDE, NAME, Looked, beside, called, is_preview, laid
from workbench.app.tables_and_figures import Column
from workbench.app.text import plain, tell
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Experiment, Settings

if TYPE_CHECKING:
    from workbench.runs.run import Run

OWN = ("tasks", "preview")  # settings that are asked for here in another way
ABOUT = {
    "Run": "Trains every probe: minutes, or hours for a large model and corpus.",
    "Preview": "Closed-form ridge probes of each layer: seconds, and rougher.",
}
ALL = "all the corpus has"


def ask(kind: Experiment[Any], run: "Run | None") -> None:
    """The question: in view where no run is opened, else behind a fold."""
    given = run.settings if run else {}
    if run is None:
        _question(kind, given)
    else:
        with st.expander("Ask a question", icon=":material/science:"):
            _question(kind, given)
    _upload()


def _question(kind: Experiment[Any], given: Mapping[str, Any]) -> None:
    models, corpora = run_form.inputs(kind, sidebar.model(), sidebar.corpus())
    tasks = _tasks_asked(corpora[0], given)
    if tasks is None:
        return
    settings = settings_form.settings(_without(kind), given)
    if tasks:
        settings["tasks"] = tasks
    asked = (kind.name, models, corpora, settings, run_form.run_options(kind))
    preview = (*asked[:3], {**settings, "preview": True}, asked[4])
    run_form.offer({run_form.RUN: asked, "Preview": preview}, ABOUT)


def _tasks_asked(corpus: str, given: Mapping[str, Any]) -> list[str] | None:
    """The tasks that are chosen, none where it is all; None where the corpus has none to offer."""
    try:
        there = tasks(corpus)
    except WorkbenchError as error:
        tell(error)
        return None
    picked: list[str] = st.multiselect(
        "Tasks",
        list(there),
        [task for task in given.get("tasks", ()) if task in there],
        key=f"tasks of {corpus}",
        placeholder=ALL,
        help="What is looked for in each layer. "
        + " ".join(f"{plain(name)}: {about}." for name, about in there.items() if about),
        persist_state="session",
    )
    return [task for task in picked if task in there]


def tasks(corpus: str) -> dict[str, str]:
    """The tasks of a corpus, each with what it asks."""
    from workbench.corpora.browse import stamp

    return _tasks(corpus, stamp(corpus))


@st.cache_data(max_entries=64, show_spinner="Looking for tasks …")
def _tasks(corpus: str, stamp: str) -> dict[str, str]:
    from probes.probe_inputs import tasks_in
    from workbench.app import cache

    return {task.name: task.about for task in tasks_in(cache.corpus(corpus))}


def _without(kind: Experiment[Any]) -> Experiment[Any]:
    """The same, without the settings that are asked for here."""
    fields: dict[str, Any] = {
        name: (field.annotation, field)
        for name, field in kind.settings.model_fields.items()
        if name not in OWN
    }
    return replace(kind, settings=create_model("Further", __base__=Settings, **fields))


def _upload() -> None:
    """One's own targets: a file with spans and labels, told by line where it is wrong."""
    uploads.draw_news("corpus-news")
    with st.expander("Targets of your own", icon=":material/upload:"):
        st.markdown(
            "Edge JSONL: a sentence a line, its words between single spaces, and labelled spans "
            "that count words from 0. The file's name tells the task: `srl-mine.jsonl` holds "
            "semantic roles; another name becomes a task of its own."
        )
        st.code(
            '{"text": "Ann sees Bo", "targets": [{"span1": [1, 2], "span2": [0, 1], "label": '
            '"ARG0"}]}',
            language="json",
            wrap_lines=True,
        )
        uploads.draw_corpus_upload()
        st.page_link("pages/corpora.py", label="Other ways to bring a corpus")


# --- the page -------------------------------------------------------------------------------------
#
# What a run of edge probing found: a summary, and views of it one by one, each in the address.
#
# Only the view that is open is drawn. Costs milliseconds; two runs' tests a second, which is
# kept.

COLUMNS = {
    "task": Column("task"),
    "probe": Column("probe"),
    "stack": Column("stack"),
    "best_layer": Column("best layer"),
    "best_score": Column("F1", "%.1f", True),
    "interval": Column("95 %"),
    "baseline_lexical": Column("layer 0", "%.1f", True),
    "baseline_no_positions": Column("no positions", "%.1f", True),
    "baseline_static": Column("static", "%.1f", True),
    "baseline_random": Column("random", "%.1f", True),
    "baseline_majority": Column("majority", "%.1f", True),
    "selectivity": Column("selectivity", "%.1f", True),
    "data_gain": Column("gain of twice the data", "%.1f", True),
    "expected_layer": Column("expected layer", "%.2f"),
    "centre_of_gravity": Column("centre of gravity", "%.2f"),
    "n": Column("targets"),
}  # of the summary
ALWAYS = ("preview", "Preset quick", "did not learn", "still improving", "More training targets")


def look(run: "Run") -> Looked:
    """What stands above the views: how it was asked, the summary, and the run beside it."""
    own = laid(run)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(plain(run_view.run_title(run)), anchor=False, width="content")
        text.state(run.status.state)
        quick = "preview" if is_preview(run) else str(run.settings.get("preset"))
        if quick in ("preview", "quick"):
            st.badge(quick, icon=":material/bolt:", color="orange")
    text.facts([("run", run.name), ("asked", text.ago(run.status.created))])
    run_view.caveats(run, ALWAYS)
    _summary(run)
    other = beside(run)
    if other is None:
        return Looked(run, own)
    names = called(run), called(other)
    if names[0] == names[1]:
        names = f"{names[0]} ({_tail(run)})", f"{names[1]} ({_tail(other)})"
    return Looked(run, replace(own, name=names[0]), other, laid(other, names[1]))


def _tail(run: "Run") -> str:
    return run.name.rpartition("-")[2][:6]


def _summary(run: "Run") -> None:
    """A line a task: its best layer, what stands beside it, and where it is found."""
    table = tables_and_figures.table_of(run, "summary")
    single = [name for name in ("probe", "stack") if table[name].nunique() < 2]
    shown = table.assign(interval=tables_and_figures.intervals(table)).drop(columns=single)
    tables_and_figures.draw_columns(
        shown.dropna(axis=1, how="all"), COLUMNS, f"summary {run.name}", 16
    )
    st.caption(
        "F1 in per cent of the best layer, beside layer 0 and what needs no model or none that has "
        "learnt. Selectivity: how much more than on labels drawn by word type. Gain of "
        "twice the data: the most that any layer scores more than with half of its targets."
    )


VIEWS = {
    "Layers": View(views.layers),
    "Pipeline": View(views.pipeline),
    "Mix": View(views.mix),
    "Confusion": View(views.confusion),
    "Examples": View(
        views.examples, ("gains",), "No layer gets right what the layer below it gets wrong."
    ),
    "Controls": View(views.controls),
    "Tables": TABLES,
}
PROBING = Analysis(
    "Probing",
    "A probe is a small classifier that reads a frozen layer. What it can tell, the layer knows; "
    "what it could tell anyway is told by the baselines and control tasks beside it.",
    {"Probing": NAME},
    {NAME: VIEWS},
    look,
    ask,
    (BESIDE,),
)
