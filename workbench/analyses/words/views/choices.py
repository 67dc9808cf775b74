"""The choices of the page Words: the texts, the chosen word of each, and the opened occurrence.

Every choice that makes the view is in the address. `words_results` computes what the choices mean,
and `words_views` draws it. Costs: nothing.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import cache, choice
from workbench.app.runs import run_list
from workbench.app.text_boxes import TYPED_AT
from workbench.drawing.sanitize import visible

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.engine.model import Model

TEXTS = ("text", "text2")  # in the address
AT = ("at", "at2")  # the chosen words, in the address without boxes of their own
FORM, OPENED = "form", "open"
EXAMPLES = ("They will play a game.", "The play was long.")
REACH = 20  # words of a text: a later one may be beyond the maximum length of a model
SHORT = 3  # characters of a word that is not chosen because two texts share it
SIZES = ("10000", "50000", "250000")  # words of a corpus that are searched
_SET = "text was set"  # by a button: Streamlit warns of a default value next to a value that is set


@dataclass(frozen=True)
class Query:
    """A word of a text, for a model."""

    ref: str
    model: "Model"
    doc: "Doc"
    word: int
    number: int = 0  # of the text: 0 or 1

    @property
    def name(self) -> str:
        """The name of the model in the app."""
        return choice.name_of(self.ref, "models")

    @property
    def form(self) -> str:
        return self.doc[self.word].text

    @property
    def key(self) -> tuple[str, int]:
        """The content, for caches."""
        from workbench.corpora.encode import content_key

        return content_key(self.model, self.doc), self.word


@dataclass(frozen=True)
class Searched:
    """The part of a corpus that is searched."""

    corpus: str
    split: str  # "" for all
    most: int  # maximum number of words


def texts() -> "list[Doc]":
    """Draw the boxes for the texts; return their Docs, the second one only if it is not empty."""
    labels = ("Text", "Second text")
    helps = (
        "What is shown follows while you type. Words are split by an installed spaCy pipeline, or "
        "else by rules.",
        "Optional: the same word in another context, to compare its neighbours.",
    )
    typed = []
    is_set = st.session_state.pop(_SET, False)
    for number, column in enumerate(st.columns(2)):
        with column:
            typed.append(
                st.text_input(
                    labels[number],
                    value="" if is_set and not number else EXAMPLES[number],
                    key=TEXTS[number],
                    bind="query-params",
                    live=TYPED_AT,
                    on_change=forget_words,
                    label_visibility="collapsed",
                    placeholder=("Type a text", "Second text (optional)")[number],
                    help=helps[number],
                )
                or ""
            )
    first = cache.typed(typed[0])
    return [first, cache.typed(typed[1])] if typed[1].strip() else [first]


def chosen_words(docs: "list[Doc]") -> list[int]:
    """The chosen word of each text: that of the address, or one that all texts share."""
    found: list[int] = []
    for number, doc in enumerate(docs):
        index = st.query_params.get(AT[number], "")
        if index.isascii() and index.isdecimal() and int(index[:9]) < len(doc):
            found.append(int(index[:9]))
        elif found:
            found.append(_same_or_last(doc, {docs[0][found[0]].text.lower()}))
        else:
            others = {token.text.lower() for other in docs[1:] for token in other}
            found.append(_same_or_last(doc, others))
    return found


def _same_or_last(doc: "Doc", forms: set[str]) -> int:
    """The longest word that is one of these forms; short ones, such as `the`, are left out.

    If there is none, the last word with a letter or digit. Only the first words are looked at.
    """
    first = list(doc[:REACH])
    words = [token for token in first if any(map(str.isalnum, token.text))] or first
    shared = [token for token in words if token.text.lower() in forms and len(token) > SHORT]
    longest = max(shared, key=len, default=None)
    return (words[-1] if longest is None else longest).i


def choose_word(number: int, index: int) -> None:
    """Put a word of a text into the address, without what belongs to another word."""
    st.query_params[AT[number]] = str(index)
    for key in (FORM, OPENED):
        run_list.set_query(key, None)


def forget_words() -> None:
    """A text was changed: the chosen words belong to the former one."""
    for key in (*AT, FORM, OPENED):
        run_list.set_query(key, None)


def search_from(sentence: str, start: int) -> None:
    """Make a sentence the text, and the word at this character the chosen one."""
    before = sentence[:start]
    offset = len(" ".join(before.split())) + bool(before.split() and before[-1:].isspace())
    text = " ".join(sentence.split())[: cache.LONGEST]
    st.session_state[TEXTS[0]] = text
    st.session_state[_SET] = True
    forget_words()
    doc = cache.typed(text)
    if word := [token.i for token in doc if token.idx <= offset < token.idx + len(token)]:
        st.query_params[AT[0]] = str(word[0])


def opened() -> int | None:
    """The occurrence in the address; None if there is none, or it is nonsense."""
    index = st.query_params.get(OPENED, "")
    return int(index[:9]) if index.isascii() and index.isdecimal() else None


def open_occurrence(index: int) -> None:
    """Put an occurrence into the address; the same one again closes it."""
    run_list.set_query(OPENED, None if opened() == index else str(index))


def clipped(text: str, most: int = 40) -> str:
    """A text for a heading, on one line."""
    shown = visible(" ".join(text.split()))
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
