"""Random Docs with every layer a Doc can carry, and a comparison of two Docs."""

from typing import Any

import numpy as np
import spacy
from hypothesis import strategies as st
from spacy.tokens import Doc

from workbench.corpora.layers import Edge, Mention, mentions, set_spans

VOCAB = spacy.blank("en").vocab

_ODD = [*"_#-'()|=%𝒳", "[1]", "1-2", "1.1", "%28", "don't", "naïve", "e\u0301", "漢字", "אב"]
_INVISIBLE = ["\u200b", "\x85", "\u2028", "\ufeff", "\x00"]
_PLAIN = st.sampled_from(
    ["the", "dog", "barks", "It", "rains", ".", "New York", "10 000", *_ODD, *_INVISIBLE]
)
_LETTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\t\n\r")
_LABELS = st.sampled_from(["person", "place", "A-B", "x (y)", "50%", "[z]|w"])
_NAMES = st.text("abcXYZ019-_.", min_size=1, max_size=6)
_TAGS = st.sampled_from(["", "NN", "VBZ", ".", "-LRB-"])
_LEMMAS = st.one_of(st.just(""), st.sampled_from(["be", "dog", "New York"]), _NAMES).filter(
    lambda lemma: lemma != "_"
)
_POS = st.sampled_from(["", "NOUN", "VERB", "PUNCT", "X"])
_MORPHS = st.sampled_from(["", "Number=Sing", "Case=Acc,Dat|Gender=Fem", "Mood=Ind|VerbForm=Fin"])
_RELATIONS = st.sampled_from(["nsubj", "obj", "nmod:poss", "punct", "dep"])


def words(*, spaces_inside: bool = True) -> st.SearchStrategy[str]:
    """Words of all kinds; never empty, and never with what ends a line or a column."""
    drawn = st.one_of(_PLAIN, st.text(_LETTERS, min_size=1, max_size=6))
    return drawn if spaces_inside else drawn.filter(lambda word: word.split() == [word])


@st.composite
def docs(draw: Any, *, spaces_inside: bool = True, max_words: int = 12) -> Doc:
    """One Doc: some of all layers, each of which may be missing.

    Mentions of one chain never cross; `spaces_inside=False` leaves out words with a space in them.
    """
    texts = draw(st.lists(words(spaces_inside=spaces_inside), min_size=1, max_size=max_words))
    starts = _sentence_starts(draw, len(texts))
    ranges = _multiword(draw, starts, len(texts))
    doc = Doc(VOCAB, words=texts, spaces=_spaces(draw, len(texts), ranges), **_tags(draw, texts))
    _add_tree(draw, doc, starts)
    doc._.multiword = ranges
    _add_forms(draw, doc)
    _add_spans(draw, doc)
    if draw(st.booleans()):
        doc._.edges = draw(st.dictionaries(_NAMES, edges(len(texts)), max_size=2))
    doc._.labels = draw(st.dictionaries(_NAMES, st.one_of(_LABELS, st.floats(-9, 9)), max_size=2))
    doc._.document = draw(st.one_of(st.just(""), _NAMES))
    doc._.sent_ids = tuple(draw(st.one_of(st.just(""), _NAMES)) for _ in starts)
    return doc


def edges(length: int) -> st.SearchStrategy[list[Edge]]:
    """Labelled edges over so many words: one span or a pair, one label or several."""
    span = ranges_within(length)
    labels = st.lists(_LABELS, min_size=1, max_size=3, unique=True).map(tuple)
    return st.lists(st.builds(Edge, span, st.one_of(st.none(), span), labels), max_size=4)


def ranges_within(length: int) -> st.SearchStrategy[tuple[int, int]]:
    """A span of at least one word."""
    ends = st.tuples(st.integers(0, length - 1), st.integers(1, length))
    return ends.map(lambda pair: (min(pair[0], pair[1] - 1), max(pair[0] + 1, pair[1])))


def contents(doc: Doc) -> dict[str, object]:
    """All content of a Doc, so that two Docs can be compared."""
    return {
        "text": doc.text,
        "words": [(token.text, token.whitespace_) for token in doc],
        "forms": [token._.form for token in doc],
        "pos": [token.pos_ for token in doc],
        "tags": [token.tag_ for token in doc],
        "lemmas": [token.lemma_ for token in doc],
        "morphs": [str(token.morph) for token in doc],
        "tree": [(token.head.i, token.dep_) for token in doc],
        "sentences": [token.is_sent_start for token in doc],
        "entities of spaCy": [(e.start, e.end, e.label_, e.id_, e.kb_id_) for e in doc.ents],
        "spans": {layer: sorted(mentions(doc, layer)) for layer in doc.spans},
        "edges": {layer: list(found) for layer, found in doc._.edges.items()},
        "labels": doc._.labels,
        "document": doc._.document,
        "sent_ids": doc._.sent_ids,
        "multiword": doc._.multiword,
    }


def _sentence_starts(draw: Any, length: int) -> list[int]:
    cuts = draw(st.sets(st.integers(1, length - 1), max_size=2)) if length > 1 else set()
    return [0, *sorted(cuts)]


def _multiword(draw: Any, starts: list[int], length: int) -> tuple[tuple[int, int], ...]:
    """At most one range a sentence, of two or more words."""
    ranges = []
    for start, end in zip(starts, [*starts[1:], length], strict=True):
        if end - start > 1 and draw(st.booleans()):
            first = draw(st.integers(start, end - 2))
            ranges.append((first, draw(st.integers(first + 2, end))))
    return tuple(ranges)


def _spaces(draw: Any, length: int, ranges: tuple[tuple[int, int], ...]) -> list[bool]:
    """No space inside a word written as one, nor at the end of the text."""
    spaces = draw(st.lists(st.booleans(), min_size=length, max_size=length))
    for first, end in ranges:
        spaces[first : end - 1] = [False] * (end - 1 - first)
    return [*spaces[:-1], False]


def _tags(draw: Any, texts: list[str]) -> dict[str, list[str] | None]:
    columns = {"tags": _TAGS, "lemmas": _LEMMAS, "pos": _POS, "morphs": _MORPHS}
    return {
        name: draw(st.none() | st.lists(of, min_size=len(texts), max_size=len(texts)))
        for name, of in columns.items()
    }


def _add_tree(draw: Any, doc: Doc, starts: list[int]) -> None:
    """A tree a sentence, projective or not, or none; the sentences are as given either way."""
    heads, relations = list(range(len(doc))), [""] * len(doc)
    if draw(st.booleans()):
        for start, end in zip(starts, [*starts[1:], len(doc)], strict=True):
            order = draw(st.permutations(range(start, end)))
            relations[order[0]] = "root"
            for place, word in enumerate(order[1:], start=1):
                heads[word] = order[draw(st.integers(0, place - 1))]
                relations[word] = draw(_RELATIONS)
    offsets = np.array([head - word for word, head in enumerate(heads)], dtype=np.int64)
    names = np.array([VOCAB.strings.add(relation) for relation in relations], dtype=np.uint64)
    doc.from_array(["HEAD", "DEP"], np.column_stack([offsets.astype(np.uint64), names]))
    sentences = [1 if word in starts else -1 for word in range(len(doc))]
    doc.from_array(["SENT_START"], np.array(sentences, dtype=np.int64).astype(np.uint64))


def _add_forms(draw: Any, doc: Doc) -> None:
    """Inside a multiword token, forms of which the text shows only the beginning, or nothing."""
    for first, end in doc._.multiword:
        for word in range(first, end - 1):
            if draw(st.booleans()):
                mark = "¶" if doc[word + 1].text.startswith("§") else "§"
                doc[word]._.form = doc[word].text + mark
        last = doc[end - 1]
        form = draw(st.one_of(st.just(last.text), words()))
        last._.form = form if form != last.text else ""


def _add_spans(draw: Any, doc: Doc) -> None:
    """Entities with or without a name, which may be among the mentions of chains or not."""
    chained: list[Mention] = []
    if draw(st.booleans()):
        chained = _without_crossing(draw(_mentions(doc, "1", "2", "e-3", "(4)")), [])
        set_spans(doc, "coreference", chained)
    if draw(st.booleans()):
        shared = draw(st.lists(st.sampled_from(chained), unique=True)) if chained else []
        named = [m._replace(id=draw(st.sampled_from([m.id, ""]))) for m in shared]
        others = draw(_mentions(doc, "", "", "1", "Q5"))
        set_spans(doc, "entities", [*named, *_without_crossing(others, chained)])


def _mentions(doc: Doc, *names: str) -> st.SearchStrategy[list[Mention]]:
    drawn = st.tuples(ranges_within(len(doc)), _LABELS, st.sampled_from(names))
    return st.lists(drawn.map(lambda one: Mention(*one[0], one[1], one[2])), max_size=4)


def _without_crossing(drawn: list[Mention], others: list[Mention]) -> list[Mention]:
    chosen: list[Mention] = []
    for mention in drawn:
        if not any(mention.id and cross(mention, other) for other in (*others, *chosen)):
            chosen.append(mention)
    return chosen


def cross(one: Mention, two: Mention) -> bool:
    """Two mentions of a chain that share more than a word without either holding the other."""
    first, second = sorted([one, two])
    overlap = first.start < second.start < first.end - 1
    return one.id == two.id and overlap and first.end < second.end
