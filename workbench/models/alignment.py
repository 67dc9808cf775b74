"""From raw text to pieces, and from each piece back to the word that owns it.

The tokenizer sees a text whole, as it would in production, with its special tokens and, for two
texts, as a pair: the second begins at the first word of segment 1, and white space between the two
is left out. Characters tie pieces to words (`ownership`). A text too long for the model loses whole
words from its end (`truncation`). No text raises. Costs what the tokenizer costs and half as much
again.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from workbench.engine.batch import Batch
from workbench.engine.pieces import NO_WORD, Flat, Pieces, Row, lay
from workbench.models.encodings import Encoded, Source, encode, pad_id, source, takes_segments
from workbench.models.ownership import owners
from workbench.models.truncation import cut

MARKS = ("▁", "Ġ")
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: no tokenizer takes it

Ints = NDArray[np.int64]


def tokenize(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    words: NDArray[Any],
    max_pieces: int,
    pair_from: int | None = None,
) -> Row:
    """One document in pieces.

    `words` are character ranges, ascending and apart; `pair_from` is the first of the second text.
    """
    ranges = np.asarray(words, dtype=np.int64).reshape(-1, 2)
    document = source(_SURROGATE.sub("\ufffd", text), ranges, pair_from)
    flat = _flat(tokenizer, [document], max_pieces)
    return Row(
        ids=flat.ids,
        words=flat.words,
        special=flat.special,
        segments=flat.segments,
        word_count=len(ranges),
        unaligned=tuple(word for _, word in flat.unaligned),
        cut=tuple((first, last) for _, first, last in flat.cut),
    )


def tokenize_batch(
    tokenizer: PreTrainedTokenizerBase, batch: Batch, documents: Sequence[int], max_pieces: int
) -> Pieces:
    """These documents of an encoded batch, in this order, in pieces."""
    sources = []
    for document in documents:
        first, last = batch.word_offsets[document : document + 2].tolist()
        words, pair_from = batch.words[first:last], None
        if first < last:
            second = int(batch.segments[first:last].argmax())
            pair_from = second if batch.segments[first + second] else None
        sources.append(source(batch.text_of(document), words, pair_from))
    flat = _flat(tokenizer, sources, max_pieces)
    return lay(flat, batch.order[list(documents)], pad_id(tokenizer))


def _flat(tokenizer: PreTrainedTokenizerBase, sources: Sequence[Source], max_pieces: int) -> Flat:
    """All documents in pieces, one after the other, each cut to what the model takes."""
    encoded = encode(tokenizer, sources)
    lengths = np.array([len(each.ids) for each in encoded], dtype=np.int64)  # [documents]
    counts = np.array([len(each.words) for each in sources], dtype=np.int64)  # [documents]
    ids = _joined(each.ids for each in encoded)  # [all pieces]
    special = _joined(each.special for each in encoded).astype(np.bool_)
    starts, ends, ranges = _on_one_line(sources, encoded, lengths)
    owned = owners(starts, ends, _marks(tokenizer, ids), special, ranges)
    owned -= np.where(owned == NO_WORD, 0, np.repeat(np.cumsum(counts) - counts, lengths))
    segments = _joined(each.types for each in encoded) if takes_segments(tokenizer) else None
    flat = Flat(ids, owned, special, segments, lengths, counts, unaligned=(), cut=())
    return _reported(*_shortened(flat, sources, encoded, max_pieces))


def _shortened(
    flat: Flat, sources: Sequence[Source], encoded: Sequence[Encoded], max_pieces: int
) -> tuple[Flat, list[tuple[int, int]]]:
    """Every document no longer than the model takes, and the words that are so by themselves."""
    stays = np.ones(len(flat.ids), dtype=np.bool_)
    lengths = flat.lengths.copy()
    lost: list[tuple[int, int, int]] = []
    too_long: list[tuple[int, int]] = []
    ends = np.cumsum(lengths)
    for place in np.flatnonzero(lengths > max_pieces).tolist():
        here = slice(ends[place] - lengths[place], ends[place])
        bounds = 0, sources[place].in_first, len(sources[place].words)
        found = cut(flat.words[here], flat.special[here], encoded[place].second, bounds, max_pieces)
        stays[here] = found.stays
        lengths[place] = np.count_nonzero(found.stays)
        lost += [(place, *span) for span in found.lost]
        too_long += [(place, word) for word in found.too_long]
    if stays.all():
        return flat, []
    segments = None if flat.segments is None else flat.segments[stays]
    rest = replace(flat, ids=flat.ids[stays], words=flat.words[stays], special=flat.special[stays])
    return replace(rest, segments=segments, lengths=lengths, cut=tuple(lost)), too_long


def _reported(flat: Flat, too_long: Sequence[tuple[int, int]]) -> Flat:
    """The same, with the words that own no piece: neither cut off nor in any piece."""
    before = np.cumsum(flat.word_counts) - flat.word_counts  # [documents]
    silent = np.ones(flat.word_counts.sum(), dtype=np.bool_)  # [all words]
    owned = flat.words + np.repeat(before, flat.lengths)
    silent[owned[flat.words != NO_WORD]] = False
    for place, first, last in flat.cut:
        silent[before[place] + first : before[place] + last] = False
    for place, word in too_long:
        silent[before[place] + word] = True
    missing = np.flatnonzero(silent)
    rows = np.repeat(np.arange(len(before)), flat.word_counts)[missing]
    unaligned = zip(rows.tolist(), (missing - before[rows]).tolist(), strict=True)
    return replace(flat, unaligned=tuple(unaligned))


def _joined(lists: Iterable[Sequence[int]]) -> Ints:
    return np.fromiter(chain.from_iterable(lists), dtype=np.int64)


def _on_one_line(
    sources: Sequence[Source], encoded: Sequence[Encoded], lengths: Ints
) -> tuple[Ints, Ints, Ints]:
    """Pieces' and words' characters, all documents on one line, so that one search serves all.

    Between two documents there is a character that is nobody's.
    """
    ends = accumulate((each.length + 1 for each in sources), initial=0)
    bases = np.array([*ends][:-1], dtype=np.int64)  # [documents]
    shift = np.repeat(bases, lengths)  # [all pieces]
    begin = 0
    for document, each in zip(sources, encoded, strict=True):
        shift[begin + each.second : begin + len(each.ids)] += document.begins
        begin += len(each.ids)
    numbers = chain.from_iterable(chain.from_iterable(each.offsets for each in encoded))
    offsets = np.fromiter(numbers, dtype=np.int64, count=2 * begin).reshape(-1, 2)
    offsets += shift[:, None]  # [all pieces, 2]
    none = np.empty((0, 2), dtype=np.int64)
    ranges = np.concatenate([none, *(each.words for each in sources)])  # [all words, 2]
    ranges += np.repeat(bases, [len(each.words) for each in sources])[:, None]
    return offsets[:, 0], offsets[:, 1], ranges


def _marks(tokenizer: PreTrainedTokenizerBase, ids: Ints) -> NDArray[np.bool_]:
    """Where a piece is nothing but the mark of a word's beginning."""
    found = [(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in MARKS]
    known = [
        number
        for mark, number in found
        if number is not None and tokenizer.convert_ids_to_tokens(number) == mark
    ]
    return np.isin(ids, known)
