"""The words of a `.spacy` file as columns of numbers, checked before spaCy may see them.

Every number that stands for a string must have one, every head must lie in its Doc and lead to a
root, entities must begin before they go on. Whole columns at a time; costs 50 ms a million numbers.
"""

import struct
from collections.abc import Mapping
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import (
    DEP,
    ENT_ID,
    ENT_IOB,
    ENT_KB_ID,
    ENT_TYPE,
    HEAD,
    IDS,
    LEMMA,
    MORPH,
    NORM,
    ORTH,
    POS,
    SENT_START,
    TAG,
)
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.vocab import Vocab

Column = NDArray[np.uint64]

SPAN = struct.Struct(">QQQllll")  # id, kb_id, label, start, end, first and last character
_NAMES = {code: name for name, code in IDS.items()}
STRINGS = (ORTH, NORM, TAG, DEP, ENT_TYPE, ENT_KB_ID, ENT_ID, LEMMA, MORPH)
_CHOICES = {
    POS: {int(code) for code in PARTS_OF_SPEECH.values()},
    ENT_IOB: {0, 1, 2, 3},
    SENT_START: {0, 1, 2**64 - 1},
}
_ATTRIBUTES = (NORM, TAG, POS, MORPH, LEMMA, ENT_IOB, ENT_TYPE, ENT_KB_ID, ENT_ID, HEAD, DEP)
_INSIDE, _BEGIN = 1, 3  # of ENT_IOB


class Columns(NamedTuple):
    """The words of all Docs, one after another, and where each Doc ends."""

    ends: list[int]
    words: Column
    spaces: NDArray[np.bool_]
    attributes: list[int]
    values: Column  # [words, attributes]
    sentence_starts: Column | None


def read_columns(packed: Mapping[str, Any], vocab: Vocab) -> Columns:
    """The columns of an unpacked file; whatever is wrong with them is a ValueError or TypeError."""
    attributes = [index(attribute) for attribute in packed["attrs"]]
    lengths = np.frombuffer(packed["lengths"], dtype=np.int32).astype(np.int64)
    spaces = np.frombuffer(packed["spaces"], dtype=np.uint8) != 0
    table = np.frombuffer(packed["tokens"], dtype=np.uint64).reshape(-1, len(attributes))
    if lengths.min(initial=0) < 0 or not lengths.sum() == len(table) == len(spaces):
        raise ValueError("its parts are of different lengths")
    given = {attribute: table[:, i] for i, attribute in enumerate(attributes)}
    if ORTH not in given:
        raise ValueError("it has no words")
    for string in packed["strings"]:
        if not isinstance(string, str):
            raise ValueError(f"{string!r:.80} is no text")
        vocab.strings.add(string)
    _check_values(given, vocab)
    ends = lengths.cumsum()
    if HEAD in given:
        _check_trees(given[HEAD].astype(np.int64), lengths, ends)
    if ENT_IOB in given:
        types = given.get(ENT_TYPE, np.zeros(len(table), dtype=np.uint64))
        _check_entities(given[ENT_IOB], types, lengths, ends)
    if MORPH in given:
        given[MORPH] = _analyses(given[MORPH], vocab)
    kept = [attribute for attribute in _ATTRIBUTES if attribute in given]
    values = np.stack([given[a] for a in kept], axis=1) if kept else table[:, :0]
    return Columns(ends.tolist(), given[ORTH], spaces, kept, values, given.get(SENT_START))


def _check_values(given: Mapping[int, Column], vocab: Vocab) -> None:
    if not given[ORTH].all():
        raise ValueError("it has a word without letters")
    for attribute, column in given.items():
        found = set(column.tolist()) if attribute in (*STRINGS, *_CHOICES) else set()
        allowed = _CHOICES.get(attribute, vocab.strings)
        for value in found:
            if value not in allowed:
                raise ValueError(f"{value} is no {_NAMES[attribute]} it could have")


def _check_trees(offsets: NDArray[np.int64], lengths: NDArray[Any], ends: NDArray[Any]) -> None:
    end = np.repeat(ends, lengths)
    start = end - np.repeat(lengths, lengths)
    head = np.arange(len(offsets)) + offsets
    if ((head < start) | (head >= end)).any():
        raise ValueError("a word's head lies outside its Doc")
    for _ in range(int(lengths.max(initial=1)).bit_length()):
        head = head[head]  # the head of the head: twice as far towards the root each time
    if offsets[head].any():
        raise ValueError("the heads of a Doc lead round in a circle")


def _check_entities(iob: Column, types: Column, lengths: NDArray[Any], ends: NDArray[Any]) -> None:
    open_after = (iob == _INSIDE) | ((iob == _BEGIN) & (types != 0))
    open_before = np.roll(open_after, 1)
    open_before[(ends - lengths)[lengths > 0]] = False
    if ((iob == _INSIDE) & ~open_before).any():
        raise ValueError("an entity goes on that never began")


def _analyses(column: Column, vocab: Vocab) -> Column:
    """Feature sets as the vocabulary numbers them, which parses each once."""
    known, where = np.unique(column, return_inverse=True)
    texts = [vocab.strings[key] for key in known.tolist()]
    try:
        keys = [vocab.morphology.add(text) if text else 0 for text in texts]
    except ValueError:
        raise ValueError("its features are not Name=Value pairs") from None
    return np.array(keys, dtype=np.uint64)[where]
