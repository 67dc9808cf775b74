"""The page Predict & explain: the text with the predicted place, the predictions, and their reasons.

Costs: those of `predict_results`; the explanation of the open tab only.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.app import cache, predict, predict_explain, predict_results, sidebar
from workbench.app.predict import Place
from workbench.app.predict_results import Side, Top
from workbench.app.text import errors_shown, plain
from workbench.token_views.component import token_views
from workbench.token_views.views import Choice, Predictions, Token, View, bars, strip

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.engine.model import Model

COUNT = 8  # predictions in view


def page() -> None:
    """Draw the page."""
    ref = sidebar.model()
    model = cache.model(ref)
    st.markdown(_about(model))
    docs = predict.text(_labels(model))
    doc = docs[0]
    other = predict.second_model()
    places = predict_results.places(model, doc)
    place = _place(places)
    sides = [Side(ref, model, doc, place)]
    with errors_shown():
        if other:
            sides.append(Side(other, cache.model(other), doc, place))
    _question(sides[0], places, sides)
    _tabs(sides)


def _tabs(sides: list[Side]) -> None:
    """Draw the open tab."""
    tabs = {"Why?": lambda: predict_explain.why(sides)}
    for tab, draw in zip(st.tabs(list(tabs), key="view", bind="query-params"), tabs.values(), strict=True):
        if tab.open:
            with tab, errors_shown():
                draw()


def _labels(model: "Model") -> tuple[str, ...]:
    return ("Text",)


def _about(model: "Model") -> str:
    what = {
        "masked": "Click a word: the model reads the text without it and predicts it.",
        "causal": "The model predicts the next word. Click a word to see what it predicts there, "
        "from the words before it.",
        "bidirectional": "The model predicts the next word. Click a word to see what it predicts "
        "there, from both sides.",
        "seq2seq": "Click a word: the model fills the gap. Or see what its decoder writes.",
    }
    return what.get(model.objective, "What the model predicts for a text, and why.")


def _place(places: list[Place]) -> Place:
    """The place in the address, if this model predicts it for this text; else a default."""
    place = predict.place_in_address()
    if place in places:
        return place
    if places[-1].kind == "next":
        return places[-1]
    return places[max(0, len(places) - 2)]


def _question(side: Side, places: list[Place], sides: list[Side]) -> None:
    by_word = {place.index: place for place in places if place.kind == "word"}
    tokens = [
        Token(token.text, token.i, fixed=token.i not in by_word) for token in side.doc
    ]
    by_index = dict(by_word)
    if Place("next") in places:
        tokens.append(Token("next word?", len(side.doc), slot=True))
        by_index[len(side.doc)] = Place("next")
    selected = next((n for n, t in enumerate(tokens) if by_index.get(t.i) == side.place), None)
    tops = [predict_results.top(each, COUNT) for each in sides]
    views = [
        strip("place", "The text. Choose the place that is predicted", tokens, selected=selected),
        bars("choices", [_list(each, top) for each, top in zip(sides, tops, strict=True)],
             pickable=True, about="Explain this choice"),
    ]

    def chosen(pick: Mapping[str, Any]) -> None:
        if pick.get("view") == "place":
            predict.picked_place(pick, by_index)
        elif pick.get("view") == "choices":
            pass

    token_views(views, "question", chosen)


def _list(side: Side, top: Top) -> Predictions:
    rows = [
        Choice(choice, text, p, note="in the text" if text == top.gold else "")
        for choice, text, p in zip(top.choices, top.texts, top.probabilities, strict=True)
    ]
    return Predictions(side.model.name, rows, rest=top.rest)
