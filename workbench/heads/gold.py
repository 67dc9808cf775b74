"""What heads are asked about each text: arcs, rare words, antecedents, and where sentences begin.

Taken from Docs once, as flat arrays with offsets by document, so that the pass itself needs no
spaCy. Relations are UD's main types, or with their subtypes; `root` and `punct` are left out. How
rare a word is, is its place in the corpus' own list of frequencies, equal ones by the alphabet.
Costs a pass over the Docs, and some 40 bytes a word.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.layers import Mention

LEFT_OUT = ("root", "punct", "")
DIRECTIONS = ("dependent-to-head", "head-to-dependent")
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """A mention that has an antecedent: which earlier mentions there are, and which are right."""

    word: int  # the head word of the mention
    candidates: tuple[int, ...]  # head words of the mentions before it, nearest first
    right: tuple[bool, ...]
    guess: int  # the place, among candidates, that the same head word would choose


@dataclass(frozen=True)
class Gold:
    """What is known of every document's words."""

    relations: tuple[str, ...]  # names, sorted
    arcs: tuple[Numbers, ...]  # of each document: [arcs, 3], dependent, head, relation
    ranks: tuple[Numbers, ...]  # of each document: how rare each word is, 0 the most frequent
    sentences: tuple[Numbers, ...]  # of each document: the sentence of each word
    questions: tuple[tuple[Question, ...], ...]  # of each document
    frequent: int  # words of a lower rank are no rare ones

    def __len__(self) -> int:
        return len(self.arcs)

    @property
    def has_arcs(self) -> bool:
        return any(len(arcs) for arcs in self.arcs)

    @property
    def has_questions(self) -> bool:
        return any(self.questions)


def gold_of(docs: "Sequence[Doc]", subtypes: bool = False, frequent: int = 500) -> Gold:
    """Everything the heads are asked, of all documents."""
    counts = Counter(token.text for doc in docs for token in doc)
    by_rank = sorted(counts, key=lambda word: (-counts[word], word))
    rank = {word: place for place, word in enumerate(by_rank)}
    names = sorted({name for doc in docs for *_, name in _arcs(doc, subtypes)})
    number = {name: place for place, name in enumerate(names)}
    return Gold(
        tuple(names),
        tuple(
            _array([(a, b, number[name]) for a, b, name in _arcs(doc, subtypes)], 3) for doc in docs
        ),
        tuple(_array([rank[token.text] for token in doc]) for doc in docs),
        tuple(_array(_sentences(doc)) for doc in docs),
        tuple(tuple(_questions(doc)) for doc in docs),
        frequent,
    )


def relation_of(label: str, subtypes: bool) -> str:
    """The name under which a relation counts; "" where it is left out."""
    name = label.lower() if subtypes else label.lower().split(":")[0]
    return "" if name.split(":")[0] in LEFT_OUT else name


def _arcs(doc: "Doc", subtypes: bool) -> Iterator[tuple[int, int, str]]:
    for token in doc:
        if token.head.i != token.i and (name := relation_of(token.dep_, subtypes)):
            yield token.i, token.head.i, name


def _array(rows: object, columns: int = 0) -> Numbers:
    found: Numbers = np.array(rows, dtype=np.int64)
    return found.reshape(-1, columns) if columns else found


def _sentences(doc: "Doc") -> list[int]:
    if not doc.has_annotation("SENT_START"):
        return [0] * len(doc)
    return [place for place, sentence in enumerate(doc.sents) for _ in sentence]


def _questions(doc: "Doc") -> Iterator[Question]:
    """Every mention with an earlier one of its chain, and all mentions that began before it."""
    from workbench.corpora.layers import chains

    mentions = sorted(
        ((mention, name) for name, chain in chains(doc).items() for mention in chain),
        key=lambda each: (each[0].start, each[0].end),
    )
    heads = [head_word(doc, mention) for mention, _ in mentions]
    for place, (_, chain) in enumerate(mentions):
        before: dict[int, bool] = {}  # head words, nearest first
        for other in range(place - 1, -1, -1):
            if heads[other] != heads[place] and heads[other] < heads[place]:
                right = mentions[other][1] == chain
                before[heads[other]] = before.get(heads[other], False) or right
        if not any(before.values()):
            continue
        words = sorted(before, reverse=True)
        own = doc[heads[place]].text.lower()
        same = [at for at, word in enumerate(words) if doc[word].text.lower() == own]
        yield Question(
            heads[place], tuple(words), tuple(before[word] for word in words), (same or [0])[0]
        )


def head_word(doc: "Doc", mention: "Mention") -> int:
    """The word of a mention whose own head lies outside of it; without a tree, its last word."""
    if doc.has_annotation("DEP"):
        for token in doc[mention.start : mention.end]:
            if token.head.i == token.i or not mention.start <= token.head.i < mention.end:
                return token.i
    return mention.end - 1
