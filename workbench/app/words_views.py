"""The page Words: the texts with their chosen words, the tabs, and the experiments over a corpus.

Costs: those of `words_results` for the open tab.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from workbench.app import (
    choice,
    run_list,
    run_view,
    tables_and_figures,
    words,
    words_neighbours,
    words_senses,
    words_tokenizers,
)
from workbench.app.text import ago, errors_shown, plain
from workbench.core.experiment import EXPERIMENTS
from workbench.token_views.component import token_views
from workbench.token_views.views import Token, index_in, strip

if TYPE_CHECKING:
    from spacy.tokens import Doc

ABOUT = (
    "Click a word of a text. Which occurrences of a corpus are nearest to it, layer by layer? Does "
    "the model separate its senses? How do tokenizers split it?"
)


def page() -> None:
    """Draw the page."""
    ref = choice.model()
    st.markdown(ABOUT)
    docs = words.texts()
    chosen = words.chosen_words(docs)
    _strips(docs, chosen)
    drawn = st.tabs(list(TABS), key="view", bind="query-params")
    for tab, (draw, experiments) in zip(drawn, TABS.values(), strict=True):
        if tab.open:
            with tab:
                with errors_shown():
                    draw(ref, docs, chosen)
                _over_a_corpus(experiments)


def _strips(docs: "Sequence[Doc]", chosen: Sequence[int]) -> None:
    """Draw the texts, whose words can be chosen."""
    for number, column in enumerate(st.columns(2)[: len(docs)]):
        doc = docs[number]

        def pick(what: Mapping[str, Any], number: int = number, doc: "Doc" = doc) -> None:
            if (index := index_in(what, "i", len(doc))) is not None:
                words.choose_word(number, index)

        label = "The text. Choose a word" if not number else "The second text. Choose a word"
        tokens = [Token(token.text, token.i) for token in doc]
        with column:
            token_views(
                [strip(f"word {number}", label, tokens, selected=chosen[number], scrolls=True)],
                f"words {number}",
                pick,
            )


# --- tabs -----------------------------------------------------------------------------------------


def _neighbours(ref: str, docs: "Sequence[Doc]", chosen: Sequence[int]) -> None:
    words_neighbours.draw(ref, docs, chosen)


def _senses(ref: str, docs: "Sequence[Doc]", chosen: Sequence[int]) -> None:
    words_senses.draw(ref, docs[0][chosen[0]].text)


def _tokenizers(ref: str, docs: "Sequence[Doc]", chosen: Sequence[int]) -> None:
    words_tokenizers.draw(ref, docs[0], chosen[0])


Draw = Callable[[str, "Sequence[Doc]", Sequence[int]], None]


class OverCorpus(NamedTuple):
    """An experiment that does over a corpus what a tab does for a word."""

    name: str
    label: str
    figure: str  # its main figure, for the tab


TABS: Mapping[str, tuple[Draw, tuple[OverCorpus, ...]]] = {
    "Neighbours": (
        _neighbours,
        (
            OverCorpus("neighbours", "Neighbours over the whole corpus", "shares"),
            OverCorpus("geometry", "Geometry: how contextual each layer is", "contextuality"),
        ),
    ),
    "Senses": (
        _senses,
        (OverCorpus("neighbours", "Senses of all forms of the corpus", "separation"),),
    ),
    "Tokenizers": (
        _tokenizers,
        (OverCorpus("tokenization", "Pieces per word over the whole corpus", "fertility_by_tag"),),
    ),
}


# --- the same over a corpus -----------------------------------------------------------------------


def _over_a_corpus(experiments: Sequence[OverCorpus]) -> None:
    """Draw links to the experiments of a tab, and what their last run found."""
    st.divider()
    st.markdown("**Over the whole corpus**")
    with st.container(horizontal=True):
        for name, label, _ in experiments:
            st.page_link(
                "pages/experiments.py",
                label=label,
                icon=":material/functions:",
                query_params={**choice.in_url(), "experiment": name},
                help=f"Opens the form of the experiment {name}. {EXPERIMENTS[name].about}",
            )
    for each in experiments:
        with errors_shown():
            _last_run(each)


def _last_run(experiment: OverCorpus) -> None:
    """Draw the findings and the main figure of the last run for this model and corpus."""
    model, corpus = choice.model(), choice.corpus()
    runs = (
        (name, now)
        for name, now in run_list.all_statuses()
        if (now.experiment, now.state) == (experiment.name, "done")
        and model in now.models
        and corpus in now.corpora
    )
    name, now = next(runs, ("", None))
    if now is None:
        return
    title = f"Last run of {experiment.name}: {model}, {corpus} ({ago(now.created)})"
    key = f"last-{experiment.name}"
    with st.expander(
        plain(title), key=key, icon=":material/task_alt:", bind="query-params"
    ) as drawn:
        if not drawn.open:
            return
        run = run_list.open_named(name)
        run_view.findings(run.findings)
        if drawing := tables_and_figures.figures_of(run).get(experiment.figure):
            tables_and_figures.draw_figure(drawing, f"words {name} {drawing.name}")
        st.page_link(
            "pages/runs.py",
            label="Open the run",
            icon=":material/open_in_new:",
            query_params={run_list.OPENED: name},
        )
