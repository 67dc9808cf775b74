"""The choices of the page Predict & explain: the text, the place that is predicted, the target.

Every choice that makes the view is in the address. `predict_results` computes what the choices
mean, and `predict_views` draws it. Costs: nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import streamlit as st

from workbench.app import cache, choice, selection
from workbench.app.runs import run_list
from workbench.app.tables_and_figures import segment
from workbench.app.text_boxes import CORPUS, OWN, second_model, text_in_address

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from streamlit.delta_generator import DeltaGenerator

AT, EDITS = selection.AT, "edits"  # in the address, without a box of their own
TARGET, AGAINST = "target", "against"
CORRUPT = ("corrupt", "corrupt2")  # the counterfactual of the text, or of each text of a pair
OF_TEXT = (*selection.OF_TEXT, TARGET, AGAINST, EDITS, *CORRUPT)  # forgotten with another text
TOP = "top prediction"
EXAMPLE = "The girls did not visit it because they were tall."

# What is predicted: a word from its context; a hidden word that the visitor typed as [MASK]; the
# next word; what a decoder writes; a label.
Kind = Literal["word", "gap", "next", "written", "label"]


def row() -> "DeltaGenerator":
    """The container of the choices above the text; a presentation hides it."""
    return st.container(
        key="controls-text", horizontal=True, vertical_alignment="center", gap="small"
    )


@dataclass(frozen=True)
class Place:
    """The place that is predicted; the index of a word, a gap, a written piece, or a label."""

    kind: Kind
    index: int = 0

    @property
    def as_text(self) -> str:
        """The place as it is in the address."""
        return self.kind if self.kind == "next" else f"{self.kind}.{self.index}"


def place_in_address() -> Place | None:
    """The place in the address; None if there is none, or it is nonsense."""
    kind, _, index = st.query_params.get(AT, "").partition(".")
    if kind == "next":
        return Place("next")
    if kind in ("word", "gap", "written", "label") and index.isascii() and index.isdecimal():
        return Place(kind, int(index[:9]))  # type: ignore[arg-type]
    return None


def choose_place(place: Place) -> None:
    """Put a place into the address, without the target of another place."""
    run_list.set_query(AT, place.as_text, (TARGET, AGAINST))


def forget_place() -> None:
    """The text was changed: what belongs to the former one is forgotten."""
    run_list.set_query(EDITS, None, OF_TEXT)


def choose_target(text: str) -> None:
    """Explain the choice with this text."""
    run_list.set_query(TARGET, text)


# --- the text -------------------------------------------------------------------------------------


def text_and_second_model(labels: tuple[str, ...] = ("Text",)) -> "tuple[Doc, str]":
    """Draw the boxes for a text and for a second model; return the Doc and the reference.

    Two labels are those of a pair: the Doc then has its two segments.
    """
    is_pair = len(labels) > 1
    with row():
        source = OWN
        if not is_pair:
            source = segment(
                "From",
                [OWN, CORPUS],
                "from",
                label_visibility="collapsed",
                format_func=lambda name: {OWN: "Own text"}.get(name, name),
            )
        doc = _sentence() if source == CORPUS else None
        read = None if doc is not None else own_text(labels)
        other = second_model(label_visibility="visible" if is_pair else "collapsed")
    if doc is None:
        assert read is not None, "the text is one's own"
        doc = read()
    return doc, other


def own_text(labels: tuple[str, ...] = ("Text",)) -> "Callable[[], Doc]":
    """Draw the boxes for a text, or a pair; return what reads it, so that errors come later."""
    typed = _typed(labels)

    def read() -> "Doc":
        docs = [cache.typed(text) for text in typed]
        if len(docs) == 1:
            return docs[0]
        from workbench.corpora.text_prediction import pair_of

        return pair_of(*docs)

    return read


def _typed(labels: tuple[str, ...]) -> list[str]:
    return [
        text_in_address(
            label,
            _example(labels)[n],
            (selection.TEXT, "text2")[n],
            OF_TEXT,
            label_visibility="visible" if len(labels) > 1 else "collapsed",
            placeholder="Type a text",
            help="The prediction follows while you type. Write [MASK] or ___ for a hidden "
            "word. Words are split by an installed spaCy "
            "pipeline, or else by rules.",
        )
        for n, label in enumerate(labels)
    ]


def _example(labels: tuple[str, ...]) -> tuple[str, ...]:
    if len(labels) > 1 and labels[0] == "Question":
        return "Who went to the river?", "Anna went to the river because Ben was tired."
    return EXAMPLE, "The girls visited it."


def _sentence() -> "Doc":
    """Draw the boxes for a sentence of the corpus."""
    corpus = choice.corpus()
    split = st.selectbox(
        "Split",
        list(cache.corpus(corpus).splits),
        key=choice.SPLIT,
        bind="query-params",
        on_change=forget_place,
        label_visibility="collapsed",
        width=120,
    )
    index = st.number_input(
        "Sentence",
        min_value=0,
        max_value=999_999_999,
        step=1,
        key=choice.SENTENCE,
        bind="query-params",
        on_change=forget_place,
        label_visibility="collapsed",
        width=130,
        help="Number of the sentence, counted from 0. Search for a sentence on the page Corpora.",
    )
    return cache.sentence(corpus, split, int(index or 0))
