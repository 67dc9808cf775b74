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
    from spacy.tokens import Doc, Span, Token

HIDDEN = ("NOUN", "PROPN")  # parts of speech of hidden words
SHOWN_SENTENCE = 0.1  # share of pairs whose passage keeps the sentence (Lee et al. 2019)


class Question(NamedTuple):
    """A question, or a text with a gap, and its answer."""

    before: str  # the question, or the text before the gap
    after: str | None  # the text after the gap, with its first space; None: a question
    answer: str
    passage: int  # index of the passage with the answer
    kind: str  # answers of one kind can replace one another

    @property
    def text(self) -> str:
        """The question without its answer, as a retriever reads it."""
        return self.before if self.after is None else f"{self.before}{self.after}"

    @property
    def whole(self) -> str:
        """The text with its answer; of a question, the question and then the answer."""
        return f"{self.before} {self.answer}{self.after or ''}".strip()

    @property
    def shown(self) -> str:
        """The question, or the text with its gap."""
        return self.before if self.after is None else f"{self.before} ___{self.after}"


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


def passages_of(
    docs: "Iterable[Doc]", words: int, seed: int = 0, salient: bool = False
) -> Passages:
    """The passages of some Docs, of at most `words` words, with questions and training pairs.

    In texts without questions the last noun of each sentence is hidden; if `salient`, each name,
    number and date in turn (Guu et al. 2020).

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
            _add_gaps(found, window, name, random, salient)
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


def _add_gaps(
    found: Passages, window: "Sequence[Span]", name: str, random: Random, salient: bool
) -> None:
    """A passage, its sentences with a word or a name hidden, and a training pair."""
    if not (text := _text(window)):
        return
    passage = found.add(text, name)
    for sentence in window:
        for span in salient_spans(sentence) if salient else _last_noun(sentence):
            first = sentence.start_char
            before = sentence.text[: span.start_char - first].strip()
            after = sentence.text[span.end_char - first :].rstrip()
            kind = span[-1].ent_type_ or span[-1].pos_
            found.questions.append(Question(before, after, span.text, passage, kind))
    if len(window) > 1:
        chosen = random.randrange(len(window))
        rest = [each for n, each in enumerate(window) if n != chosen]
        is_shown = random.random() < SHOWN_SENTENCE
        found.pairs.append((window[chosen].text.strip(), text if is_shown else _text(rest)))


def _last_noun(sentence: "Span") -> "Iterator[Span]":
    """The last noun after the first word; without parts of speech, the last word."""
    words = [word for word in sentence[1:] if word.text[0].isalpha()]
    nouns = [word for word in words if word.pos_ in HIDDEN] if words and words[0].pos else words
    if nouns:
        yield sentence.doc[nouns[-1].i : nouns[-1].i + 1]


def salient_spans(sentence: "Span") -> "Iterator[Span]":
    """Names, numbers and dates: entities, and what else is a name or a number.

    These are proper nouns and numbers by their parts of speech; without these, words with a capital
    letter after the first word, and digits.
    """
    doc = sentence.doc
    entities = [(m.start, m.end) for m in mentions(doc, "entities")]
    inside = [span for span in entities if sentence.start <= span[0] and span[1] <= sentence.end]
    yield from (doc[start:end] for start, end in inside)
    taken = {n for start, end in inside for n in range(start, end)}

    def is_salient(token: "Token") -> bool:
        is_name = (
            token.pos_ == "PROPN" if token.pos else token.is_title and token.i > sentence.start
        )
        return token.i not in taken and (is_name or token.like_num)

    for is_chosen, run in groupby(sentence, is_salient):
        if is_chosen:
            tokens = list(run)
            yield doc[tokens[0].i : tokens[-1].i + 1]


def without(passage: str, text: str) -> str:
    """A passage without a text that stands in it."""
    return " ".join(passage.replace(text, " ").split())


def with_answer(passage: str, answer: str, other: str) -> str:
    """A passage with one answer, everywhere, in the place of another."""
    return re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", lambda _: other, passage)
