"""The page Words: the texts with their chosen words, the tabs, and the experiments over a corpus.

Costs: those of `words_results` for the open tab.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from workbench.analyses.words.views import choices as words
from workbench.analyses.words.views import neighbours as words_neighbours
from workbench.analyses.words.views import senses as words_senses
from workbench.analyses.words.views import tokenizers as words_tokenizers
from workbench.app import choice, style
from workbench.app import navigation as analyses
from workbench.app.runs import context, run_list, verdicts
from workbench.app.text import ago, errors_shown, plain
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import Token, index_in, strip
from workbench.core.findings import headline
from workbench.experiment.definition import EXPERIMENTS

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.runs.run import Run

ABOUT = (
    "Click a word of a text. Which occurrences of a corpus are nearest to it, layer by layer? Does "
    "the model separate its senses? How do tokenizers split it?"
)


def page() -> None:
    """Draw the page."""
    style.draw_text_page()
    st.title("Words", anchor=False)
    with errors_shown(stop=True):
        _draw()


def _draw() -> None:
    ref = choice.model()
    docs = words.texts()
    chosen = words.chosen_words(docs)
    _strips(docs, chosen)
    st.caption(ABOUT)
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
    measure: str = ""  # of the finding that is shown; "": the first one


TABS: Mapping[str, tuple[Draw, tuple[OverCorpus, ...]]] = {
    "Neighbours": (
        _neighbours,
        (
            OverCorpus("neighbours", "Neighbours over the whole corpus"),
            OverCorpus("geometry", "Geometry: how contextual each layer is"),
        ),
    ),
    "Senses": (
        _senses,
        (
            OverCorpus(
                "neighbours",
                "Senses of all forms of the corpus",
                "accuracy of senses, minus permuted senses",
            ),
        ),
    ),
    "Tokenizers": (
        _tokenizers,
        (OverCorpus("tokenization", "Pieces per word over the whole corpus"),),
    ),
}


# --- the same over a corpus -----------------------------------------------------------------------


def _over_a_corpus(experiments: Sequence[OverCorpus]) -> None:
    """Draw what the experiments of a tab found over a corpus, with links to their results."""
    with st.container(key="over-corpus", gap="small"):
        for each in experiments:
            with errors_shown():
                _result(each)


def _result(experiment: OverCorpus) -> None:
    """Draw the finding of the last run, else of the built-in result, and a link to it."""
    model, corpus = choice.model(), choice.corpus()
    run, when = _best_run(experiment.name, model, corpus)
    heading = f"**{experiment.label}**"
    form = {**choice.in_url(), "experiment": experiment.name}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if run is None:
            st.markdown(f"{heading} · {plain(EXPERIMENTS[experiment.name].about)}")
            st.page_link(
                "pages/experiments.py", label="Run it", icon=":material/play_arrow:",
                query_params=form,
            )  # fmt: skip
            return
        where = f"{choice.chip(model, 'models')}, {choice.chip(corpus, 'corpora')}, {when}"
        about = [each for each in run.findings if experiment.measure in ("", each.measure)]
        first = headline(about)
        said = f" {verdicts.in_line(first)}" if first else ""
        st.markdown(f"{heading} ({plain(where)}){':' if said else ''}{said}")
        st.page_link(
            f"pages/{analyses.page_of(experiment.name)}.py",
            label="Open the result",
            icon=":material/open_in_new:",
            query_params={run_list.OPENED: run.name},
        )


def _best_run(experiment: str, model: str, corpus: str) -> "tuple[Run | None, str]":
    """The most thorough run of an experiment with a model and a corpus, and when it was."""
    run = context.best_result(experiment, model, corpus)
    if run is None or run.is_builtin:
        return run, "built-in"
    return run, ago(run.status.created)
