"""Cloze items: a text with a gap, the words that belong there, and those they are chosen from.

    items = cloze_items(wb.read("lambada.jsonl").docs("test"))

A Doc of a cloze file has the right words in `doc.spans["gap"]`, what the null leaves out (the
passage before a question, the subject of a fact) in `doc.spans["passage"]`, and the words to choose
from in the label `options`. Counterfactual pairs are two items with the same two options. In any
other corpus the gap is the last word of each document, as in LAMBADA, and its passage are the
sentences before. Costs: the reading of the stream.
"""

import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.errors import WorkbenchError
from workbench.corpora.counterfactuals import PREDICTED, counterfactual_pairs, phenomenon_of
from workbench.corpora.layers import Range, mentions

if TYPE_CHECKING:
    from spacy.tokens import Doc

GAP, PASSAGE, OPTIONS, PAIR = "gap", "passage", "options", "pair"
SEPARATOR = " | "  # of options in a label
_ENDS, _QUOTES = (".", "!", "?", "…"), ('"', "'", "”", "’", "''", ")")


class Cloze(NamedTuple):
    """A text with the right words in its gap, as ranges of words."""

    doc: "Doc"
    gap: Range
    options: tuple[str, ...] = ()  # with the right one; none: any word
    passage: Range | None = None
    phenomenon: str = "all"
    pair: str = ""  # items of one pair have the same options, and another right one

    @property
    def answer(self) -> str:
        """The right words."""
        return self.doc[self.gap[0] : self.gap[1]].text

    def filled(self, words: str) -> "Cloze":
        """The same text with other words in its gap."""
        first, last = self.gap
        parts = words.split()
        doc = _doc(
            self.doc, [(0, first)], parts, [(last, len(self.doc))], self.doc[last - 1].whitespace_
        )
        shift = len(parts) - (last - first)
        return self._replace(doc=doc, gap=(first, last + shift))

    def without_passage(self) -> "Cloze | None":
        """The same item without its passage; None if it has none, or nothing else."""
        if self.passage is None:
            return None
        first, last = self.passage
        kept = [(0, first), (last, len(self.doc))]
        if len(self.doc) - (last - first) <= self.gap[1] - self.gap[0]:
            return None
        shift = last - first if last <= self.gap[0] else 0
        doc = _doc(self.doc, kept, [], [])
        return self._replace(doc=doc, gap=(self.gap[0] - shift, self.gap[1] - shift), passage=None)

    def shortened(self, words: int) -> "Cloze":
        """The same item without so many of its first words, but never without the gap."""
        words = min(words, self.gap[0])
        doc = _doc(self.doc, [(words, len(self.doc))], [], [])
        first, last = self.gap
        passage = self.passage and (
            max(0, self.passage[0] - words), max(0, self.passage[1] - words)
        )  # fmt: skip
        return self._replace(doc=doc, gap=(first - words, last - words), passage=passage)


def _doc(
    doc: "Doc",
    before: Sequence[Range],
    words: Sequence[str],
    after: Sequence[Range],
    space: str = "",
) -> "Doc":
    """A Doc of ranges of another, with new words and a space between them; words only."""
    from spacy.tokens import Doc

    def tokens(ranges: Sequence[Range]) -> list[tuple[str, bool]]:
        return [(t.text, bool(t.whitespace_)) for first, end in ranges for t in doc[first:end]]

    new = [(word, index < len(words) - 1 or bool(space)) for index, word in enumerate(words)]
    every = [*tokens(before), *new, *tokens(after)]
    spaces = [has_space for _, has_space in every]
    return Doc(doc.vocab, [word for word, _ in every], [*spaces[:-1], False])


# --- items of a corpus ----------------------------------------------------------------------------


def cloze_items(docs: "Iterable[Doc]") -> list[Cloze]:
    """The items of these Docs, in order."""
    waiting = iter(docs)
    first = next(waiting, None)
    if first is None:
        items = []
    elif GAP in first.spans:
        items = [_marked(doc) for doc in chain([first], waiting)]
    elif PREDICTED in first.spans:
        items = list(_counterfactual(chain([first], waiting)))
    else:
        items = list(_last_words(chain([first], waiting)))
    if not items:
        raise WorkbenchError(
            "there are no gaps to fill in this corpus.",
            code="no-gaps",
            remedy="Read a text whose documents end with a word, a table with the columns text "
            "(with ___) and answer, primer/counterfactuals, or a file of the Children's Book Test, "
            "of WinoGrande, of WinoGender or of LAMA.",
        )
    return items


def _marked(doc: "Doc") -> Cloze:
    gaps = mentions(doc, GAP) if GAP in doc.spans else []
    if len(gaps) != 1:
        raise WorkbenchError(
            f"this text has {len(gaps)} gaps, and the first one has 1.",
            code="no-gaps",
            where=doc._.document or f"the text {doc.text[:40]!r}",
            remedy="Mark one gap in every text.",
        )
    passages = mentions(doc, PASSAGE) if PASSAGE in doc.spans else []
    labels = doc._.labels
    options = tuple(str(labels.get(OPTIONS, "")).split(SEPARATOR)) if labels.get(OPTIONS) else ()
    return Cloze(
        doc,
        (gaps[0].start, gaps[0].end),
        options,
        (passages[0].start, passages[0].end) if passages else None,
        phenomenon_of(labels),
        str(labels.get(PAIR, "")),
    )


def _counterfactual(docs: "Iterable[Doc]") -> Iterator[Cloze]:
    """Two items of each pair: which word follows the clean and which the corrupt context."""
    pairs, _ = counterfactual_pairs(docs)
    for number, pair in enumerate(pairs):
        if not pair.has_against:
            continue
        sides = ((pair.clean, pair.word), (pair.corrupt, pair.corrupt_word))
        options = tuple(doc[word].text for doc, word in sides)
        for doc, word in sides:
            yield Cloze(doc, (word, word + 1), options, None, pair.phenomenon, f"pair {number + 1}")


def _last_words(docs: "Iterable[Doc]") -> Iterator[Cloze]:
    """The last word of each document, or of each Doc if some Doc of it has several sentences."""
    for _, group in groupby(docs, key=lambda doc: doc._.document or id(doc)):
        parts = [doc for doc in group if len(doc)]
        if len(parts) > 1 and not any(map(_last_sentence, parts)):
            yield from _last_word(parts, sum(map(len, parts[:-1])))
        else:
            for doc in parts:
                yield from _last_word([doc], _last_sentence(doc))


def _last_sentence(doc: "Doc") -> int:
    """Where the last sentence of a Doc begins, by its annotation or its punctuation."""
    starts = [s.start for s in doc.sents] if doc.has_annotation("SENT_START") else [0]
    last_word = next((n for n in reversed(range(len(doc))) if doc[n].text[0].isalnum()), 0)
    ends = [n + 1 for n in range(starts[-1], last_word) if doc[n].text in _ENDS]
    begin = max([starts[-1], *ends])
    while begin < last_word and doc[begin].text in _QUOTES:
        begin += 1
    return begin


def _last_word(parts: "Sequence[Doc]", begin: int) -> Iterator[Cloze]:
    """The item of the last word of some Docs; the last sentence begins at `begin`."""
    from spacy.tokens import Doc

    tokens = [token for doc in parts for token in doc]
    last_of_doc = {id(doc): len(doc) - 1 for doc in parts}
    later = reversed(range(begin + 1, len(tokens)))
    place = next((n for n in later if tokens[n].text[0].isalpha()), None)
    if place is None:
        return
    spaces = [bool(t.whitespace_) or t.i == last_of_doc[id(t.doc)] for t in tokens]
    words = [token.text for token in tokens]
    pos = [token.pos_ for token in tokens]
    doc = Doc(tokens[0].vocab, words, [*spaces[:-1], False], pos=pos if all(pos) else None)
    yield Cloze(doc, (place, place + 1), (), (0, begin) if begin else None)


# --- options for open items -----------------------------------------------------------------------


def with_options(items: Sequence[Cloze], number: int, seed: int) -> list[Cloze]:
    """Items with so many words to choose from, where they have none, as the Children's Book Test.

    Others than the right one are words of the same part of speech (if it is known) of the text
    itself, then right words of other items.
    """
    answers = list(dict.fromkeys(item.answer for item in items))
    chosen = []
    for index, item in enumerate(items):
        if item.options or number < 2:
            chosen.append(item)
            continue
        random = Random(f"options {seed} {index}")
        word = item.doc[item.gap[0]]
        own = [
            token.text
            for token in item.doc
            if token.pos == word.pos and token.text[0] not in string.punctuation
        ]
        wrong = [
            dict.fromkeys(each for each in part if each.lower() != item.answer.lower())
            for part in (own, answers)
        ]
        first, more = (random.sample(list(part), len(part)) for part in wrong)
        others = list(dict.fromkeys([*first, *more]))[: number - 1]
        options = [item.answer, *others]
        random.shuffle(options)
        chosen.append(item._replace(options=tuple(options)))
    return chosen
