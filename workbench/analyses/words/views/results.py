"""What the page Words shows, as plain data: computed once for a content, then cached.

Keys are hashes of weights, tokenizer, texts, precision and device, never a model's name alone.
Costs: a forward pass of the text and a product of all states with one vector for neighbours; a
second for the senses of a form; milliseconds for pieces.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import streamlit as st

from workbench.analyses.words.views.choices import Query
from workbench.analyses.words.views.index import Indexed, Key
from workbench.app import cache

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.words.neighbours import Neighbours
    from workbench.analyses.words.occurrences import Form, Occurrences
    from workbench.analyses.words.senses import Senses
    from workbench.analyses.words.tokenizations import Tokenization, TokenizationSteps

ENTRIES = 128  # of each cache
AMONG = ("all words", "the same form", "the same lemma", "one of each form")
FEWEST = 10  # occurrences of a form that is offered
N_FORMS = 200  # forms that are offered


# --- neighbours -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """Which occurrences are searched, and how many are shown."""

    layers: tuple[int, ...] = ()  # none: 0, the middle, the last
    stack: str = ""  # "" for the first
    k: int = 10
    among: str = AMONG[0]


def neighbours(query: Query, indexed: Indexed, search: Search) -> "Neighbours":
    """The nearest occurrences of a word, by layer."""
    return _neighbours(query.key, indexed.key, search, query, indexed.index)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _neighbours(
    key: tuple[str, int], index_key: Key, search: Search, _query: Query, _index: "Occurrences"
) -> "Neighbours":
    from workbench.analyses.words.neighbours import neighbours
    from workbench.engine.forward_pass import ALONE

    same: dict[str, Literal["form", "lemma"]] = {AMONG[1]: "form", AMONG[2]: "lemma"}
    with ALONE:
        return neighbours(
            _query.model,
            _index,
            _query.doc,
            _query.word,
            layers=search.layers or None,
            stack=cast(Any, search.stack or None),
            k=search.k,
            same_word=same.get(search.among),
            distinct=search.among == AMONG[3],
        )


# --- senses ---------------------------------------------------------------------------------------


def forms(indexed: Indexed) -> "list[Form]":
    """Forms that occur often enough for a map; first those with a second tag that is frequent."""
    return _forms(indexed.key, indexed.index)


@st.cache_data(max_entries=8, show_spinner=False)
def _forms(key: Key, _index: "Occurrences") -> "list[Form]":
    from workbench.analyses.words.occurrences import frequent_forms

    return frequent_forms(_index, FEWEST)[:N_FORMS]


@dataclass(frozen=True)
class Mapped:
    """Which occurrences are on the map, and in how many clusters."""

    form: str
    layer: int
    stack: str = ""
    n_clusters: int | None = None  # None: as many as have the largest silhouette


def senses(model: Any, indexed: Indexed, mapped: Mapped) -> "Senses":
    """The occurrences of a form on a map, in clusters, compared with their labels."""
    return _senses(indexed.key, mapped, model, indexed.index)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _senses(key: Key, mapped: Mapped, _model: Any, _index: "Occurrences") -> "Senses":
    from workbench.analyses.words.senses import senses

    return senses(
        _model,
        _index,
        mapped.form,
        layer=mapped.layer,
        stack=cast(Any, mapped.stack or None),
        n_clusters=mapped.n_clusters,
    )


# --- tokenizers -----------------------------------------------------------------------------------


def tokenization(ref: str, doc: "Doc") -> "Tokenization":
    """A text in the pieces of a model."""
    splitter = cache.splitter(ref)
    return _tokenization(splitter.name, splitter.content_hash, doc.text, doc, splitter)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _tokenization(
    name: str, content: str, text: str, _doc: "Doc", _splitter: Any
) -> "Tokenization":
    from workbench.analyses.words.tokenizations import tokenizations

    return tokenizations(_doc, _splitter).results[0]


def steps(ref: str, doc: "Doc", word: int) -> "TokenizationSteps":
    """How a model splits a word of a text, step by step."""
    splitter = cache.splitter(ref)
    return _steps(splitter.name, splitter.content_hash, doc.text, word, doc, splitter)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _steps(
    name: str, content: str, text: str, word: int, _doc: "Doc", _splitter: Any
) -> "TokenizationSteps":
    from workbench.analyses.words.tokenizations import tokenizations

    return tokenizations(_doc, _splitter).steps(word)


# --- one occurrence -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Occurrence:
    """A word of the corpus in its sentence, and the index of its text in its split."""

    sentence: str
    start: int
    end: int
    labels: tuple[tuple[str, str], ...]  # names and values
    split: str
    document: str
    text: int


def occurrence(index: "Occurrences", number: int) -> Occurrence | None:
    """An occurrence of an index; None if there is no such one."""
    if not 0 <= number < len(index):
        return None
    row = index.described([number]).iloc[0]
    is_same_split = (index.sentences["split"] == row["split"]).to_numpy()
    docs = index.table["doc"].to_numpy()
    first = docs[is_same_split[index.table["sentence"].to_numpy()]].min()
    return Occurrence(
        row["sentence"],
        int(row["start"]),
        int(row["end"]),
        tuple((name, row[name]) for name in ("form", "lemma", "tag", "relation") if row[name]),
        row["split"],
        row["document"],
        int(docs[number] - first),
    )
