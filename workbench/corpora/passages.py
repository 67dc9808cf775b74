"""Passages of a corpus, and questions whose answers stand in them.

    found = passages_of(wb.read("primer/questions").docs("test"), 100)

A passage is as many whole sentences of a document as have at most so many words. In a corpus of
questions (two texts, with answers marked in the second one) the passages are those of the second
texts. In any other corpus a question is a sentence with a hidden word, and its passage is the one
that the sentence stands in. Texts that occur twice are one passage. Costs: the reading of the
stream.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from workbench.corpora.layers import mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

HIDDEN = ("NOUN", "PROPN")  # parts of speech of hidden words
SHOWN_SENTENCE = 0.1  # share of pairs whose passage keeps the sentence (Lee et al. 2019)


class Question(NamedTuple):
    """A question, or a text with a gap, and its answer."""

    before: str  # the question, or the text before the gap
    after: str | None  # the text after the gap; None: a question
    answer: str
    passage: int  # index of the passage with the answer
    kind: str  # answers of one kind can replace one another

    @property
    def text(self) -> str:
        """The question without its answer, as a retriever reads it."""
        return self.before if self.after is None else f"{self.before} {self.after}".strip()


@dataclass
class Passages:
    """Passages with the names of their documents, and questions about them."""

    texts: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)  # text and its passage, to train on
    index: dict[str, int] = field(default_factory=dict)

    def add(self, text: str, document: str) -> int:
        """The index of a passage, which is added if it is new."""
        if text not in self.index:
            self.index[text] = len(self.texts)
            self.texts.append(text)
            self.documents.append(document)
        return self.index[text]


def passages_of(docs: "Iterable[Doc]", words: int, seed: int = 0) -> Passages:
    """The passages of some Docs, of at most `words` words, with questions and training pairs.

    Pairs are questions with their passages. Without questions they are made by inverse cloze: a
    sentence, and the other sentences of its passage; in a tenth of the pairs it stays there.
    """
    found, random = Passages(), Random(f"pairs {seed}")
    for name, group in groupby(docs, key=lambda doc: doc._.document or str(id(doc))):
        sentences: list[Span] = []
        for doc in group:
            if len(mentions(doc, "segments")) == 2:
                _add_question(found, doc, words, name)
            else:
                sentences += _sentences(doc[:], words)
        for window in _windows(sentences, words):
            _add_gaps(found, window, name, random)
    return found


def _sentences(text: "Span", words: int) -> "Iterator[Span]":
    """The sentences of a text; without their boundaries, parts of so many words."""
    doc = text.doc
    if not doc.has_annotation("SENT_START"):
        for start in range(text.start, text.end, words):
            yield doc[start : min(start + words, text.end)]
        return
    starts = [token.i for token in text if token.is_sent_start or token.i == text.start]
    for start, end in zip(starts, [*starts[1:], text.end], strict=True):
        yield doc[start:end]


def _windows(sentences: "Sequence[Span]", words: int) -> "Iterator[list[Span]]":
    """Consecutive sentences with at most so many words together; one at least."""
    window: list[Span] = []
    for sentence in sentences:
        if window and sum(map(len, window)) + len(sentence) > words:
            yield window
            window = []
        window.append(sentence)
    if window:
        yield window


def _text(sentences: "Iterable[Span]") -> str:
    return " ".join(text for each in sentences if (text := each.text.strip()))


def _add_question(found: Passages, doc: "Doc", words: int, name: str) -> None:
    """The passages of a Doc of a question and a text, and the question if it is answered there."""
    asked, text = (doc[part.start : part.end] for part in mentions(doc, "segments"))
    answers = mentions(doc, "answers") if "answers" in doc.spans else []
    question = asked.text.strip()
    for window in _windows(list(_sentences(text, words)), words):
        passage = found.add(_text(window), name)
        inside = [a for a in answers if window[0].start <= a.start and a.end <= window[-1].end]
        if inside and question:
            answer = doc[inside[0].start : inside[0].end].text
            kind = question.split()[0].lower()
            found.questions.append(Question(question, None, answer, passage, kind))
            found.pairs.append((question, found.texts[passage]))


def _add_gaps(found: Passages, window: "Sequence[Span]", name: str, random: Random) -> None:
    """A passage, its sentences with their last noun (or last word) hidden, and a training pair."""
    if not (text := _text(window)):
        return
    passage = found.add(text, name)
    for sentence in window:
        words = [word for word in sentence[1:] if word.text[0].isalpha()]
        nouns = [word for word in words if word.pos_ in HIDDEN] if words and words[0].pos else words
        if nouns:
            word, first = nouns[-1], sentence.start_char
            before = sentence.text[: word.idx - first].strip()
            after = sentence.text[word.idx - first + len(word) :].strip()
            found.questions.append(Question(before, after, word.text, passage, word.pos_))
    if len(window) > 1:
        chosen = random.randrange(len(window))
        rest = [each for n, each in enumerate(window) if n != chosen]
        is_shown = random.random() < SHOWN_SENTENCE
        found.pairs.append((window[chosen].text.strip(), text if is_shown else _text(rest)))


def with_answer(passage: str, answer: str, other: str) -> str:
    """A passage with one answer, everywhere, in the place of another."""
    return re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", lambda _: other, passage)
