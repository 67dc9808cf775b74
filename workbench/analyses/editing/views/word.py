"""The page of one word: its pieces, its surprise, its frequency, its neighbours, and its heads.

Costs: a forward pass over the text; the index of the corpus of the page Words, made once.
"""

import math
from typing import TYPE_CHECKING

import streamlit as st

from workbench.analyses.editing.views import part
from workbench.analyses.heads.views.all_heads import HEAD
from workbench.analyses.predictions.views import results as predict_results
from workbench.analyses.predictions.views.choices import AT, Place, row
from workbench.analyses.predictions.views.results import Side
from workbench.analyses.words.views import choices as words
from workbench.analyses.words.views import index as words_index
from workbench.analyses.words.views import neighbours as words_neighbours
from workbench.app import cache, choice, navigation, style, tables_and_figures
from workbench.app.runs import run_list
from workbench.app.tables_and_figures import Column
from workbench.app.text import errors_shown, plain, shortened
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import Contexts, contexts
from workbench.core.findings import percent, plural

if TYPE_CHECKING:
    import pandas as pd
    from spacy.tokens import Doc

    from workbench.engine.model import Model

WORD = "word"  # in the address
FIRST = "girls"
LOOKED_AT = 2_000  # sentences of each split, for one with the word
SENTENCES = 24  # in view
SEARCHED = 50_000  # words of the corpus that are indexed
HEADS = 10  # in view


def page() -> None:
    """Draw the page."""
    style.draw_text_page()
    with errors_shown(stop=True):
        _draw()


def _draw() -> None:
    ref, _, model = part.opened()
    word = " ".join(st.query_params.get(WORD, "").split()[:1]) or FIRST
    name = choice.name_of(ref, "models")
    st.title(f"“{plain(shortened(word))}” in {plain(name)}", anchor=False)
    st.caption(
        "One word: the pieces that it is read as, how surprising it is in a text, its nearest "
        "words, the sentences of the corpus that have it, and the heads that attend to it."
    )
    links = st.container(horizontal=True)
    with row():
        box = f"word {word}"
        st.text_input(
            "Word", word, key=box, width=180, label_visibility="collapsed", max_chars=60,
            on_change=lambda: _choose(str(st.session_state.get(box) or "")),
        )  # fmt: skip
        doc, at = _text(word)
    if doc[at].text.lower() != word.lower():
        st.caption(plain(f"The text has no “{word}”; neither have the sentences looked at."))
        return
    st.markdown(plain(_pieces(model, doc, at)))
    with errors_shown():
        _surprise(ref, model, doc, at)
    with links:
        _links(word, doc, at)
    names = ("Nearest words", "Sentences", "Heads")
    for title, place in zip(names, st.tabs(names, key="view", bind="query-params"), strict=True):
        if not place.open:
            continue
        with place, errors_shown():
            if title == "Nearest words":
                words_neighbours.draw(ref, [doc], [at])
            elif title == "Sentences":
                _sentences(model, word)
            else:
                _heads(model, doc, at)


def _choose(word: str) -> None:
    """Put another word into the address, without the text of the former one."""
    run_list.set_query(WORD, word or None)
    for key in (words.TEXTS[0], AT):
        run_list.set_query(key, None)


def _text(word: str) -> "tuple[Doc, int]":
    """Draw the box of the text, by default a sentence of the corpus; return it and the word."""
    given = st.query_params.get(words.TEXTS[0], "")
    text = given or _sentence_with(word, choice.corpus()) or word
    key = f"text with {word} {text}"
    st.text_input(
        "Text", text, key=key, label_visibility="collapsed",
        on_change=lambda: run_list.set_query(
            words.TEXTS[0], str(st.session_state.get(key) or "") or None
        ),
    )  # fmt: skip
    doc = cache.typed(text)
    return doc, next((token.i for token in doc if token.text.lower() == word.lower()), 0)


def _sentence_with(word: str, corpus: str) -> str:
    """The first sentence of the corpus that has the word; "" if none was found."""
    for split in cache.corpus(corpus).splits:
        for doc in cache.sentences(corpus, split, 0, LOOKED_AT):
            if any(token.text.lower() == word.lower() for token in doc):
                return doc.text
    return ""


def _pieces(model: "Model", doc: "Doc", at: int) -> str:
    """The pieces that a word is read as, in words."""
    from workbench.analyses.editing.words import pieces_of

    own = pieces_of(model, doc, at)
    if not own or any(each.unknown for each in own):
        return f"{model.name} does not know “{doc[at].text}”: it is read as any unknown word."
    return f"Read as {plural(len(own), 'piece')}: {' · '.join(each.piece for each in own)}."


def _surprise(ref: str, model: "Model", doc: "Doc", at: int) -> None:
    """Say how probable the word is where it stands."""
    if not model.objective or model.task_head is not None:
        st.caption("The model predicts no words, so it is not surprised by any.")
        return
    place = Place("word", at)
    if place not in predict_results.places(model, doc):
        st.caption("The model cannot predict this word from the words around it.")
        return
    top = predict_results.top(Side(ref, model, doc, place), predict_results.COUNT)
    if top.gold is None:
        st.caption("The word is not one of the model's choices, so its surprise is not known.")
        return
    probability = top.known[top.gold]
    st.markdown(
        plain(
            f"In this text the model gives “{top.gold_text.strip()}” {percent(probability, 1)}, a "
            f"surprise of {-math.log(max(probability, 1e-30)):.2f} nats; it is number "
            f"{top.gold_rank:,} of all choices. The first is “{top.texts[0].strip()}” "
            f"({percent(top.probabilities[0], 1)})."
        )
    )


def _links(word: str, doc: "Doc", at: int) -> None:
    """Draw links to the same word of the same text on other pages."""
    query = {**choice.in_url(), "text": doc.text}
    pages = (
        ("predict", "Why? Explain", ":material/psychology:", {AT: Place("word", at).as_text}),
        ("words", "In Words", ":material/text_fields:", {words.AT[0]: str(at)}),
        ("attention", "In Attention", ":material/visibility:", {"from": "Your own text"}),
    )
    for name, label, icon, more in pages:
        navigation.link(name, label, icon=icon, query_params={**query, **more})


def _sentences(model: "Model", word: str) -> None:
    """Draw how often the corpus has the word, and sentences with it."""
    from workbench.analyses.editing.words import frequency

    part_of = words.Searched(choice.corpus(), "", SEARCHED)
    words_index.progress(model, part_of)
    if (indexed := words_index.ready(model, part_of)) is None:
        return
    found = indexed.index
    codes, names = found.lowered
    if (code := names.get(word.lower())) is None:
        st.text(f"“{word}” is not among the first {len(codes):,} words of the corpus.")
        return
    own = frequency(codes, len(names), code, SENTENCES)
    st.markdown(
        plain(
            f"{choice.name_of(choice.corpus(), 'corpora')} has it "
            f"{plural(own.times, 'time')} in {len(codes):,} words "
            f"({1000 * own.times / len(codes):.2f} in 1,000): number {own.rank:,} of "
            f"{len(names):,} word forms by frequency."
        )
    )
    shown = found.described(own.places)
    rows = [words_neighbours.context_of(each, None) for each in shown.to_dict("records")]
    token_views([contexts("sentences", [Contexts(word, rows)])], "sentences", lambda chosen: None)


def _heads(model: "Model", doc: "Doc", at: int) -> None:
    """Draw the heads that attend most to the word, and those by which it attends to one word."""
    if not model.sites:
        st.text(f"This model has no attention heads. {model.without_heads}.")
        return
    if len(doc) < 2:
        st.text("The text has no other word that could attend to it.")
        return
    table = _attention(part.content_of(model, doc), at, model, doc)
    left, right = st.columns(2, gap="medium")
    for column, what, heading, about in (
        (left, "received", "attention to it, %", "Mean attention of the other words to this word."),
        (right, "given", "attention, %", "The largest attention of this word to another one."),
    ):
        best = table.sort_values(what, ascending=False)[:HEADS]
        columns = {
            "head": Column("head"),
            "to": Column("attends to"),
            what: Column(heading, "%.1f", True, about),
        }
        with column:
            st.caption("They attend to it" if what == "received" else "It attends by them")
            shown = best.drop(columns="to") if what == "received" else best
            tables_and_figures.draw_columns(shown, columns, f"heads {what}", HEADS)
            with st.container(horizontal=True):
                for name in best["head"][:3]:
                    navigation.link(
                        "head",
                        f"head {name}",
                        icon=":material/toggle_off:",
                        query_params={**choice.in_url(), HEAD: str(name), "text": doc.text},
                    )


@st.cache_data(max_entries=64, show_spinner="Computing attention …")
def _attention(key: str, at: int, _model: "Model", _doc: "Doc") -> "pd.DataFrame":
    from workbench.analyses.editing.words import attention_at

    return attention_at(_model, _doc, at, part.heads_of(_model))
