"""The tab Ask: a question about a passage, typed or found in the corpus, and its answer.

A head for answers extracts spans, which are lit up in the passage; a language model writes the
answer. Costs: a forward pass for each window of the passage; or those of `writing`. The first
search of a corpus indexes it.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from workbench.analyses.asking.views import able, writing
from workbench.app import cache, choice
from workbench.app.runs import run_list
from workbench.app.tables_and_figures import segment
from workbench.app.text import captions, errors_shown, plain
from workbench.app.text_boxes import TYPED_AT
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import (
    Choice,
    Context,
    Contexts,
    Predictions,
    Token,
    bars,
    contexts,
    index_in,
    strip,
)
from workbench.core.findings import percent

if TYPE_CHECKING:
    from workbench.analyses.predictions.results import Labelled
    from workbench.analyses.retrieval.search import FoundPassage
    from workbench.engine.model import Model

QUESTION = "Who went to the river?"
PASSAGE = (
    "Anna went to the river because Ben was tired. She met the captain, who gave her a letter for "
    "her brother."
)
TYPED, FOUND = "typed", "of the corpus"
CHOSEN = "found"  # in the address: which of the passages that were found
ANSWERERS = ("answers", *able.WRITERS)
PIECES = 24  # maximum, of a written answer
COUNT = 5  # answers, and passages
ENTRIES = 64


def draw() -> None:
    """Draw the tab."""
    ref, model = able.model_for("answer questions", ANSWERERS)
    with st.container(key="beside"):
        left, right = st.columns([5, 8], gap="medium")
    with left:
        question = st.text_input(
            "Question",
            QUESTION,
            key="question",
            bind="query-params",
            live=TYPED_AT,
            placeholder="Type a question",
            help="The answer follows while you type.",
        )
        where = segment(
            "Passage",
            [TYPED, FOUND],
            "passage_is",
            help="A passage of your own, or those of the corpus that are nearest to the question, "
            "by BM25.",
        )
        if where == TYPED:
            passage = st.text_area(
                "Passage",
                PASSAGE,
                height=180,
                key="passage",
                bind="query-params",
                label_visibility="collapsed",
                placeholder="Type or paste a passage",
            )
        else:
            with errors_shown(stop=True):
                passage = _of_corpus(cache.checked(question or "", "question"))
    with right, errors_shown():
        question = cache.checked(question or "", "question")
        passage = cache.checked(passage or "", "passage")
        if model.task_head is not None:
            _extracted(ref, model, question, passage)
        else:
            _written(ref, model, question, passage)


# --- the passage ----------------------------------------------------------------------------------


def _of_corpus(question: str) -> str:
    """Draw the passages that are nearest to a question, and return the chosen one."""
    from workbench.corpora.browse import stamp

    corpus = choice.corpus()
    with st.spinner("Searching the corpus …"):
        found = _passages(stamp(corpus), corpus, question)
    index = st.query_params.get(CHOSEN, "")
    at = int(index[:3]) if index.isascii() and index.isdecimal() else 0
    at = at if at < len(found) else 0
    rows = []
    for n, each in enumerate(found):
        before, word, after = _around(each.text, question)
        rows.append(Context(n, before, word, after, each.probability, is_open=n == at))
    name = f"Passages of {choice.name_of(corpus, 'corpora')}"

    def chosen(pick: Mapping[str, Any]) -> None:
        picked = index_in(pick, "i", len(found))
        run_list.set_query(CHOSEN, str(picked) if picked else None)

    about = "Answer from this passage"
    note = "The number is the probability of a passage among these (softmax of BM25)."
    token_views(
        [contexts("passages", [Contexts(name, rows, note=note)], pickable=True, about=about)],
        "passages",
        chosen,
    )
    return found[at].text


def _around(text: str, question: str) -> tuple[str, str, str]:
    """A passage around the longest word that it shares with the question."""
    for word in sorted(re.findall(r"\w+", question), key=len, reverse=True):
        if match := re.search(rf"\b{word}\b", text, re.IGNORECASE):
            return text[: match.start()], match[0], text[match.end() :]
    return text, "", ""


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _passages(stamp: str, ref: str, question: str) -> "list[FoundPassage]":
    from workbench.analyses.retrieval.search import find_passages

    return find_passages(question, cache.corpus(ref), COUNT)


# --- the answer -----------------------------------------------------------------------------------


def _extracted(ref: str, model: "Model", question: str, passage: str) -> None:
    """Draw what a task head answers: spans with their probabilities, lit up in the passage."""
    found = _answer(
        f"{model.content_hash} {model.precision} {model.device}", question, passage, model
    )
    st.markdown(f"### {plain(found.guess)}")
    if not found.spans:
        return
    rows = [
        Choice(n, span.text or found.guess, span.probability, "target" if not n else "")
        for n, span in enumerate(found.spans)
    ]
    name = choice.name_of(ref, "models")
    token_views([bars("answers", [Predictions(name, rows)])], "answers", writing.none_chosen)
    tokens = []
    for word, start, end in _words(passage):
        share = sum(s.probability for s in found.spans if s.start < end and start < s.end)
        tokens.append(
            Token(word, start, score=min(share, 1.0), tip=f"in an answer: {percent(share, 1)}")
        )
    token_views(
        [
            strip(
                "passage",
                "The passage",
                tokens,
                pickable=False,
                diverging=False,
                legend=("", "probability that a word is in the answer"),
                note="Summed over the best answers.",
                scrolls=True,
            )
        ],
        "lit passage",
        writing.none_chosen,
    )
    captions(found.notes)


def _words(text: str) -> list[tuple[str, int, int]]:
    from workbench.corpora.encode import doc_of

    return [(t.text, t.idx, t.idx + len(t)) for t in doc_of(text) if not t.is_space]


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _answer(key: str, question: str, passage: str, _model: "Model") -> "Labelled":
    from workbench.analyses.predictions.generate import answer
    from workbench.engine.forward_pass import ALONE

    with ALONE:
        return cast("Labelled", answer(_model, question, passage, top=COUNT))


def _written(ref: str, model: "Model", question: str, passage: str) -> None:
    """Draw the answer that a language model writes."""
    from workbench.analyses.predictions.generate import CONTEXT
    from workbench.analyses.predictions.generate import QUESTION as PREFIX
    from workbench.corpora.encode import doc_of

    text = f"{passage}\nQuestion: {question}\nAnswer:"
    if model.objective == "seq2seq":
        text = f"{PREFIX}{question}{CONTEXT}{passage}"
    asked = writing.Prompt(ref, model, doc_of(text), PIECES, one_line=True)
    writing.draw("ask", asked, "Answer")
    able.draw_what_it_has_read(ref, writes=True)
