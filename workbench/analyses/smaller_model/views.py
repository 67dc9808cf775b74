"""The page "What can I cut?": the bound, what the stages take, and the answer with its files.

Costs: looking at the facts of the model and the size of the corpus; a file is made when its button
is clicked.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.smaller_model import figures
from workbench.analyses.smaller_model.experiments import SMALLER_MODEL
from workbench.analyses.smaller_model.plan import Stage, left_out, stages, total
from workbench.analyses.smaller_model.result import code_of, one_page
from workbench.app import cache
from workbench.app.runs.new_run import Form, Refs
from workbench.app.runs.result_page import ResultPage, View, figure_view
from workbench.app.text import plain, show_error
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.runs.run import Run

ABOUT = (
    "From any encoder and a table of labelled texts to the smallest model that keeps its score: a "
    "folder that plain transformers opens, with its card, and a report of one page."
)
LEAVES = (
    "You get a folder with the smaller model, its model card and the code that opens it, and a "
    "report of one page: size, speed on this machine, score with its interval, and what was lost."
)


def _bound(corpora: Refs, initial: Mapping[str, Any]) -> dict[str, Any] | None:
    """Draw the boxes of the label and the bound; None if it is no share, which is said."""
    from workbench.runs.request import checked_settings

    own: dict[str, Any] = {}
    with suppress(WorkbenchError), st.spinner("Reading the labels …"):  # which else is said below
        own = _label(corpora[0])
    typed = st.text_input(
        "Share of the score to keep",
        f"{100 * float(initial['keep']):g}%",
        key="keep",
        help="Decided on dev texts, and reported on test texts: 99%, 0.99 or 99.",
        width=220,
        persist_state="session",
    )
    try:
        checked: Any = checked_settings(SMALLER_MODEL, {"keep": typed or ""})
        return {**own, "keep": checked.keep}
    except WorkbenchError as error:
        show_error(error)
        return None


def _label(corpus: str) -> dict[str, str]:
    """Draw the label that is predicted: a choice if several labels of the corpus can be learnt."""
    labels = [] if cache.is_remote_corpus(corpus) else cache.labels(corpus)
    if not labels:
        return {}
    is_only = len(labels) == 1
    named = labels[0] if is_only else st.query_params.get("task")
    picked = st.selectbox(
        "Label to predict",
        labels,
        labels.index(named) if named in labels else None,
        key=f"label of {corpus}",
        placeholder="Choose",
        disabled=is_only,
        width=220,
    )
    return {} if is_only else {"task": picked or ""}


def _costs(models: Refs, corpora: Refs, settings: Mapping[str, Any]) -> None:
    """Draw what is done, what is trained and about how long it takes; nothing if unknown."""
    with suppress(WorkbenchError):  # the check of the request says what is wrong
        planned, without = _planned(models, corpora, settings)
        if planned:
            words = f"{len(planned)} stages, {total(planned)} on this processor"
            with st.expander(words, icon=":material/format_list_numbered:", type="compact"):
                st.markdown("\n".join(f"1. {plain(str(stage))}" for stage in planned))
                for name, reason in without.items():
                    st.caption(plain(f"{name}: left out; {reason}."))
            st.caption(LEAVES)


def _planned(
    models: Refs, corpora: Refs, settings: Mapping[str, Any]
) -> tuple[list[Stage], dict[str, str]]:
    from workbench.runs.model_facts import known
    from workbench.runs.request import absolute, checked_settings

    if cache.is_remote_model(models[0]) or cache.is_remote_corpus(corpora[0]):
        return [], {}
    with st.spinner("Opening the model …"):
        facts = known(absolute(models[0])).facts
    checked: Any = checked_settings(SMALLER_MODEL, settings)
    sizes = cache.sizes(corpora[0], whole=False)
    return stages(checked, facts, sizes), left_out(checked, facts)


def _files(run: "Run") -> None:
    """Draw the report of one page, and the code that opens the folder."""
    st.download_button(
        "Report of one page",
        partial(_page, run),
        file_name=f"{run.name}.html",
        mime="text/html",
        icon=":material/download:",
        on_click="ignore",
    )
    if run.model is not None:
        st.markdown(
            "*Export model* above packs the folder of the model. Unpack it, and open it from there:"
        )
        st.code(code_of(run, Path(run.name)), language="python", wrap_lines=True)


def _page(run: "Run") -> bytes:
    return one_page(run).encode()


def _view(name: str, table: str, missing: str) -> View:
    return figure_view(name, table, figures.FIGURES[name], missing)


SMALLER = ResultPage(
    title="What can I cut?",
    about=ABOUT,
    experiments={"What can I cut?": "smaller-model"},
    views={
        "smaller-model": {
            "Models": _view("points", "points", "Nothing was cut: the finding says why."),
            "Files": View(_files),
            "Speed": _view("speed", "cost", "The speed was not measured."),
            "What was lost": _view("lost", "lost", "There were too few texts to compare groups."),
        }
    },
    form=Form(("keep",), _bound, in_view=True, costs=_costs),
)
