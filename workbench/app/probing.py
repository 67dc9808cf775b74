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
from workbench.app.probing_views import NAME, Looked, beside, called, is_preview, laid, layers
from workbench.app.text import plain, tell, told
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import EXPERIMENTS, Experiment, Settings

if TYPE_CHECKING:
    from workbench.runs.run import Run

OWN = ("tasks", "preview")  # settings that are asked for here in another way
ALL = "all the corpus has"


def experiment() -> Experiment[Any]:
    """Edge probing."""
    return EXPERIMENTS[NAME]


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this experiment is said."""
    return run_form.opened_or_told(kind, "edge probing")


def ask(kind: Experiment[Any], run: "Run | None") -> None:
    """The question: in view where no run is opened, else behind a fold."""
    given = run.spec.settings if run else {}
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
    options = run_form.run_options(kind)
    ways = {"Preview": {**settings, "preview": True}, "Run": settings}
    found = {
        way: run_form.preview(kind.name, models, corpora, asked, options)
        for way, asked in ways.items()
    }
    problems = found["Run"].problems or found["Preview"].problems
    for problem in problems:
        tell(problem)
    if found["Run"].name and not problems:
        st.badge("It fits", icon=":material/check:", color="green")
    with st.container(horizontal=True):
        for way, about in (
            ("Run", "Trains every probe: minutes, or hours for a large model and corpus."),
            ("Preview", "Closed-form ridge probes of each layer: seconds, and rougher."),
        ):
            there = found[way].answered
            if st.button(
                f"Show the {'preview' if way == 'Preview' else 'answer'}" if there else way,
                type="primary" if way == "Run" else "secondary",
                icon=":material/bolt:" if way == "Preview" else ":material/play_arrow:",
                disabled=bool(problems),
                help=about,
                key=f"probing {way}",
            ):
                run_form.start(kind.name, models, corpora, ways[way], options)
    if found["Run"].command:
        with st.expander("The same from the command line"):
            st.code(found["Run"].command, language="bash", wrap_lines=True)


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

VIEWS = {
    "Layers": layers,
    "Pipeline": views.pipeline,
    "Mix": views.mix,
    "Confusion": views.confusion,
    "Examples": views.examples,
    "Controls": views.controls,
    "Tables": views.all_tables,
}
COLUMNS = {
    "task": "task",
    "probe": "probe",
    "stack": "stack",
    "best_layer": "best layer",
    "best_score": "F1",
    "interval": "95 %",
    "baseline_lexical": "layer 0",
    "baseline_no_positions": "no positions",
    "baseline_static": "static",
    "baseline_random": "random",
    "baseline_majority": "majority",
    "selectivity": "selectivity",
    "data_gain": "gain of twice the data",
    "expected_layer": "expected layer",
    "centre_of_gravity": "centre of gravity",
    "n": "targets",
}  # of the summary: its names, and what they are called here
ALWAYS = ("preview", "Preset quick", "did not learn", "still improving", "More training targets")
SHARES = [name for name in COLUMNS if name.startswith("baseline")]
SHARES += ["selectivity", "data_gain"]


def show(run: "Run") -> None:
    """A run that is done."""
    own = laid(run)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(plain(run_view.run_title(run)), anchor=False, width="content")
        text.state(run.status.state)
        if is_preview(run):
            st.badge("preview", icon=":material/bolt:", color="orange")
        elif run.spec.settings.get("preset") == "quick":
            st.badge("quick", icon=":material/bolt:", color="orange")
    text.facts([("run", run.name), ("asked", text.ago(run.status.created))])
    run_view.caveats(run, ALWAYS)
    _summary(run)
    other = beside(run)
    names = called(run), called(other) if other else ""
    if other and names[0] == names[1]:
        names = f"{names[0]} ({_tail(run)})", f"{names[1]} ({_tail(other)})"
    looked = Looked(
        run,
        laid(run, names[0]) if other else own,
        other,
        laid(other, names[1]) if other else None,
    )
    tabs = st.tabs(list(VIEWS), key="view", bind="query-params")
    for tab, view in zip(tabs, VIEWS.values(), strict=True):
        if tab.open:
            with tab, told():
                view(looked)


def _tail(run: "Run") -> str:
    return run.name.rpartition("-")[2][:6]


def _summary(run: "Run") -> None:
    """A line a task: its best layer, what stands beside it, and where it is found."""
    table = tables_and_figures.table_of(run, "summary").copy()
    ends = zip(table["lower"], table["upper"], strict=True)
    table["interval"] = [f"{100 * low:.1f}–{100 * high:.1f}" for low, high in ends]
    for name in (*SHARES, "best_score"):
        if name in table:
            table[name] *= 100
    single = [name for name in ("probe", "stack") if table[name].nunique() < 2]
    empty = [name for name in COLUMNS if name in table and table[name].isna().all()]
    kept = [name for name in COLUMNS if name in table and name not in (*single, *empty)]
    config = {COLUMNS[name]: st.column_config.NumberColumn(format="%.1f") for name in SHARES}
    config["F1"] = st.column_config.NumberColumn(format="%.1f")
    for name in ("expected layer", "centre of gravity"):
        config[name] = st.column_config.NumberColumn(format="%.2f")
    st.dataframe(
        table[kept].rename(columns=COLUMNS),
        hide_index=True,
        height=min(len(table) + 1, 17) * 35 + 3,
        column_config=config,
        placeholder="–",
        key=f"summary {run.name}",
    )
    st.caption(
        "F1 in per cent of the best layer, beside layer 0 and what needs no model or none that has "
        "learnt. Selectivity: how much more than on labels drawn by word type. Gain of "
        "twice the data: the most that any layer scores more than with half of its targets."
    )
