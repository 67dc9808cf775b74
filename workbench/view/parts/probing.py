"""Asking what each layer knows: tasks of the chosen corpus, how they are probed, preview and run.

The question is the one of the page Experiments, with the tasks to choose from and two ways to start
it. Costs the reading of 200 sentences of each split, and what asking costs.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st
from pydantic import create_model

from workbench.errors import WorkbenchError
from workbench.experiment import EXPERIMENTS, Experiment, Settings
from workbench.view.parts import asking, chosen, corpus_upload, forms, uploads
from workbench.view.parts.plain import plain
from workbench.view.parts.probing_run import NAME
from workbench.view.parts.problems import tell

if TYPE_CHECKING:
    from workbench.runs.run import Run

OWN = ("tasks", "preview")  # settings that are asked for here in another way
ALL = "all the corpus has"


def experiment() -> Experiment[Any]:
    """Edge probing."""
    return EXPERIMENTS[NAME]


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this experiment is said."""
    return asking.opened_or_told(kind, "edge probing")


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
    models, corpora = asking.inputs(kind, chosen.model(), chosen.corpus())
    tasks = _tasks_asked(corpora[0], given)
    if tasks is None:
        return
    settings = forms.settings(_without(kind), given)
    if tasks:
        settings["tasks"] = tasks
    options = asking.options(kind)
    ways = {"Preview": {**settings, "preview": True}, "Run": settings}
    found = {
        way: asking.preview(kind.name, models, corpora, asked, options)
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
                asking.start(kind.name, models, corpora, ways[way], options)
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
    from probes.inputs import tasks_in
    from workbench.view.parts import sources

    return {task.name: task.about for task in tasks_in(sources.corpus(corpus))}


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
        corpus_upload.draw_upload()
        st.page_link("pages/corpora.py", label="Other ways to bring a corpus")
