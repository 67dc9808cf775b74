"""From raw text to pieces, and from each piece back to its word.

The tokenizer gets the whole text, as in production, with its special tokens. Two texts are encoded
as a pair: the second begins at the first word of segment 1, and white space between them is
dropped. Pieces are aligned to words by characters. A text too long for the model loses whole words
at its end. No text raises an error. Costs: the tokenizer's time and half as much again.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate, chain, groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from workbench.core.arrays import Bools, Ints
from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Batch, Flat, Pieces, Row, lay

# --- encoding raw texts ---------------------------------------------------------------------------
#
# Whole texts are encoded, with their special tokens. The tokenizer is called once per batch and
# must give character offsets, as all tokenizers of the tokenizers library do; a tokenizer written
# in Python does not, and is rejected. Costs: the tokenizer's time, plus 8 µs per sentence.

Span = tuple[int, int]
BYTE = "<0x41>"  # an example of a byte piece, in a vocabulary with one piece per byte


class Source(NamedTuple):
    """One document: one text or two, and its words as character ranges over both."""

    first: str
    second: str | None
    begins: int  # where the second text begins, in characters of the document
    length: int  # number of characters
    words: NDArray[Any]  # [words, 2], integers
    in_first: int  # number of words in the first text


class Encoded(NamedTuple):
    """One document in pieces."""

    ids: Sequence[int]
    offsets: Sequence[Span]  # character range of the piece in its text
    special: Sequence[int]  # 1 if the tokenizer added the piece
    second: (
        int  # index of the second text's first piece; the number of pieces without a second text
    )
    types: Sequence[int]  # token type ids


def source(text: str, words: NDArray[Any], pair_from: int | None) -> Source:
    """A document as one text, or as a pair whose second text begins at the word `pair_from`."""
    if pair_from is None:
        return Source(text, None, len(text), len(text), words, len(words))
    begins = int(words[pair_from, 0])
    return Source(text[:begins].rstrip(), text[begins:], begins, len(text), words, pair_from)


def encode(tokenizer: PreTrainedTokenizerBase, sources: Sequence[Source]) -> list[Encoded]:
    """Each document in pieces, without truncation."""
    require_fast(tokenizer)
    results: dict[int, Encoded] = {}
    for paired in (False, True):
        indices = [
            index for index, each in enumerate(sources) if (each.second is not None) == paired
        ]
        if indices:
            chosen = [sources[index] for index in indices]
            results |= zip(indices, _encoded(tokenizer, chosen, paired), strict=True)
    return [results[index] for index in range(len(sources))]


def require_fast(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise for a tokenizer that gives no character offsets."""
    if not tokenizer.is_fast:
        raise WorkbenchError(
            f"{type(tokenizer).__name__} is written in Python and gives no character offsets.",
            code="model-unsupported",
            where=str(tokenizer.name_or_path),
            remedy="The model needs a tokenizer.json. Its tokenizer class writes one; for BERT:\n"
            "  from transformers import BertTokenizer\n"
            "  BertTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)\n"
            "CANINE, ByT5 and CTRL have none.",
        )


def takes_segments(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the model was trained with segment ids of text pairs.

    Either the tokenizer lists token_type_ids as an input, or it has CLS and SEP tokens and gives
    the two texts different ids. In transformers 5, ALBERT and XLNet do only the latter.
    """
    if "token_type_ids" in tokenizer.model_input_names:
        return True
    if tokenizer.cls_token is None or tokenizer.sep_token is None:
        return False
    return any(tokenizer(["a"], ["b"], return_token_type_ids=True)["token_type_ids"][0])


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The padding id; a tokenizer without one gets its end id, or 0."""
    candidates = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((int(id_) for id_ in candidates if id_ is not None), 0)


def _encoded(
    tokenizer: PreTrainedTokenizerBase, sources: Sequence[Source], paired: bool
) -> list[Encoded]:
    encodings = tokenizer(
        [each.first for each in sources],
        [each.second for each in sources] if paired else None,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    byte_runs = _bytes_in_runs(tokenizer)
    results = []
    for encoding in encodings.encodings:
        ids = encoding.ids
        texts = encoding.sequence_ids if paired else ()
        second = texts.index(1) if 1 in texts else len(ids)
        mask, types = encoding.special_tokens_mask, encoding.type_ids
        offsets = encoding.offsets
        tokens = encoding.tokens if byte_runs else ()
        if any(token.startswith("<0x") for token in tokens):
            offsets = _shared_out(tokens, offsets)
        results.append(Encoded(ids, offsets, mask, second, types))
    return results


def _bytes_in_runs(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether byte pieces replace unknown characters and report the offsets of their whole run."""
    id_ = tokenizer.convert_tokens_to_ids(BYTE)
    has_bytes = id_ is not None and tokenizer.convert_ids_to_tokens(id_) == BYTE
    return has_bytes and type(tokenizer.backend_tokenizer.model).__name__ == "Unigram"


def _shared_out(tokens: Sequence[str], offsets: Sequence[Span]) -> list[Span]:
    """Offsets in which each piece of a run of byte pieces has its own character."""
    spans: list[Span] = []
    for ((first, last), _), run in groupby(
        zip(offsets, tokens, strict=True), key=lambda piece: (piece[0], piece[1].startswith("<0x"))
    ):
        decoded = list(characters([token for _, token in run]))
        ends = accumulate(len(text) for text, _ in decoded)
        length, width = sum(len(text) for text, _ in decoded), last - first
        for (text, count), end in zip(decoded, ends, strict=True):
            low, high = (end - len(text)) * width // length, -(-end * width // length)
            spans += [(first + low, first + high)] * count
    return spans


# --- alignment of words and pieces ----------------------------------------------------------------

MARKS = ("▁", "Ġ")
_SURROGATE = re.compile("[\ud800-\udfff]")  # an unpaired surrogate: no tokenizer accepts it


def without_surrogates(text: str) -> str:
    """The text with the replacement character in the place of unpaired surrogates."""
    return _SURROGATE.sub("\ufffd", text)


def tokenize(
    tokenizer: PreTrainedTokenizerBase,
    text: str,
    words: NDArray[Any],
    max_pieces: int,
    pair_from: int | None = None,
) -> Row:
    """One document in pieces.

    `words` are character ranges, ascending and disjoint; `pair_from` is the index of the second
    text's first word.
    """
    ranges = np.asarray(words, dtype=np.int64).reshape(-1, 2)
    document = source(without_surrogates(text), ranges, pair_from)
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


def word_of_pieces(tokenizer: PreTrainedTokenizerBase, encoded: Encoded, words: Ints) -> Ints:
    """The word of each piece of one text, or NO_WORD; `words` are [words, 2].  # [pieces]"""
    starts, ends = np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2).T
    marks = _marks(tokenizer, np.array(encoded.ids, dtype=np.int64))
    return owners(starts, ends, marks, np.array(encoded.special, dtype=np.bool_), words)


def tokenize_batch(
    tokenizer: PreTrainedTokenizerBase, batch: Batch, documents: Sequence[int], max_pieces: int
) -> Pieces:
    """These documents of a batch, in this order, in pieces."""
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
    """All documents in pieces, concatenated, each cut to the model's maximum length."""
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
    """The documents cut to the maximum length, and the words that alone are longer than it."""
    keep = np.ones(len(flat.ids), dtype=np.bool_)
    lengths = flat.lengths.copy()
    cut_ranges: list[tuple[int, int, int]] = []
    too_long: list[tuple[int, int]] = []
    ends = np.cumsum(lengths)
    for index in np.flatnonzero(lengths > max_pieces).tolist():
        here = slice(ends[index] - lengths[index], ends[index])
        bounds = 0, sources[index].in_first, len(sources[index].words)
        result = cut(
            flat.words[here], flat.special[here], encoded[index].second, bounds, max_pieces
        )
        keep[here] = result.stays
        lengths[index] = np.count_nonzero(result.stays)
        cut_ranges += [(index, *span) for span in result.lost]
        too_long += [(index, word) for word in result.too_long]
    if keep.all():
        return flat, []
    segments = None if flat.segments is None else flat.segments[keep]
    shortened = replace(
        flat, ids=flat.ids[keep], words=flat.words[keep], special=flat.special[keep]
    )
    return replace(shortened, segments=segments, lengths=lengths, cut=tuple(cut_ranges)), too_long


def _reported(flat: Flat, too_long: Sequence[tuple[int, int]]) -> Flat:
    """Add the unaligned words: those that have no piece and were not cut off."""
    offsets = np.cumsum(flat.word_counts) - flat.word_counts  # [documents]
    no_piece = np.ones(flat.word_counts.sum(), dtype=np.bool_)  # [all words]
    owned = flat.words + np.repeat(offsets, flat.lengths)
    no_piece[owned[flat.words != NO_WORD]] = False
    for index, first, last in flat.cut:
        no_piece[offsets[index] + first : offsets[index] + last] = False
    for index, word in too_long:
        no_piece[offsets[index] + word] = True
    missing = np.flatnonzero(no_piece)
    rows = np.repeat(np.arange(len(offsets)), flat.word_counts)[missing]
    unaligned = zip(rows.tolist(), (missing - offsets[rows]).tolist(), strict=True)
    return replace(flat, unaligned=tuple(unaligned))


def _joined(lists: Iterable[Sequence[int]]) -> Ints:
    return np.fromiter(chain.from_iterable(lists), dtype=np.int64)


def _on_one_line(
    sources: Sequence[Source], encoded: Sequence[Encoded], lengths: Ints
) -> tuple[Ints, Ints, Ints]:
    """Character ranges of pieces and words with one offset per document, for a single search.

    One unused character separates two documents.
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
    """The mask of pieces that consist only of a word-start mark."""
    ids_of = [(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in MARKS]
    known = [
        id_
        for mark, id_ in ids_of
        if id_ is not None and tokenizer.convert_ids_to_tokens(id_) == mark
    ]
    return np.isin(ids, known)


# --- the word of each piece, by arithmetic on character ranges ------------------------------------
#
# A piece belongs to the word with which it shares most characters; ties go to the first word. Two
# kinds of pieces share no characters. A piece of zero width belongs to the word of the character
# before it (some tokenizers trim a missing space and leave "b" so). A lone word mark, `▁` or `Ġ`,
# belongs to the word that the next piece begins. All other pieces (spaces, line ends) have no word.
# Costs: one binary search per piece, for the whole batch at once.


def owners(starts: Ints, ends: Ints, marks: Bools, special: Bools, words: Ints) -> Ints:
    """The word of each piece, or NO_WORD.  # [pieces]

    `words` are ranges, ascending and disjoint.  # [words, 2]
    """
    narrow = (starts == ends) & ~marks
    owned = _most_shared(starts - narrow, ends, words)
    owned[special] = NO_WORD
    lone = np.flatnonzero(marks[:-1] & ~special[:-1] & (owned[:-1] == NO_WORD))
    following = owned[lone + 1]
    lone, following = lone[following != NO_WORD], following[following != NO_WORD]
    touching = words[following, 0] <= ends[lone]
    owned[lone[touching]] = following[touching]
    return owned


def _most_shared(starts: Ints, ends: Ints, words: Ints) -> Ints:
    """For each range the word with the largest overlap; ties go to the first."""
    first = np.searchsorted(words[:, 1], starts, side="right")
    last = np.searchsorted(words[:, 0], ends, side="left") - 1
    owned = np.full(len(starts), NO_WORD, dtype=np.int64)
    largest = np.zeros(len(starts), dtype=np.int64)
    remaining = np.flatnonzero(first <= last)
    candidate = first[remaining]
    while len(remaining):
        low = np.maximum(starts[remaining], words[candidate, 0])
        shared = np.minimum(ends[remaining], words[candidate, 1]) - low
        is_larger = shared > largest[remaining]
        largest[remaining[is_larger]] = shared[is_larger]
        owned[remaining[is_larger]] = candidate[is_larger]
        continues = candidate < last[remaining]
        remaining, candidate = remaining[continues], candidate[continues] + 1
    return owned


# --- truncation: whole words from the beginning of a text that is too long for the model ----------
#
# A word is kept with all its pieces or not at all, and special pieces are kept. In a pair, the last
# word of the text with more pieces is dropped until the pair fits; in a tie, that of the second
# text. Pieces after the last kept word are dropped too. Costs: a pass over the pieces of these
# texts only.


class Cut(NamedTuple):
    """The kept pieces of one document, and its cut words."""

    stays: Bools  # [pieces]
    lost: list[Span]  # ranges of words, one for each text that was cut
    too_long: list[int]  # words that alone are longer than the maximum


def cut(
    owned: Ints, special: Bools, second: int, words: tuple[int, int, int], max_pieces: int
) -> Cut:
    """Cut one document to at most `max_pieces` pieces.

    The second text begins at piece `second`. `words` are the index of the first text's first word,
    of the second text's first word, and the number of words.
    """
    n_special = int(np.count_nonzero(special))
    if n_special > max_pieces:
        raise WorkbenchError(
            f"the maximum length of {max_pieces} pieces is too short for the {n_special} special "
            "pieces that the tokenizer adds.",
            code="setting-invalid",
            remedy="Allow more pieces.",
        )
    content, room = np.flatnonzero(~special), max_pieces - n_special
    parts = content[content < second], content[content >= second]
    bounds = words[:2], words[1:]
    needs = [_reach(owned[part], *bound) for part, bound in zip(parts, bounds, strict=True)]
    stays, lost = special.copy(), []
    for part, need, kept, (first, last) in zip(
        parts, needs, _fitting(needs[0], needs[1], room), bounds, strict=True
    ):
        stays[part[: need[kept]]] = True
        if first + kept < last:
            lost.append((first + kept, last))
    too_long = [first for first, _ in lost if np.count_nonzero(owned == first) > room]
    return Cut(stays, lost, too_long)


def _reach(owned: Ints, first: int, last: int) -> Ints:
    """How many pieces the first n words of a text need, for each n.  # [words + 1]"""
    ends = np.zeros(last - first + 1, dtype=np.int64)
    of_text = np.flatnonzero((owned >= first) & (owned < last))
    np.maximum.at(ends, owned[of_text] - first + 1, of_text + 1)
    return np.maximum.accumulate(ends)


def _fitting(one: Ints, two: Ints, room: int) -> tuple[int, int]:
    """How many words of each text fit into `room` pieces."""
    first, second = len(one) - 1, len(two) - 1
    while one[first] + two[second] > room:
        if one[first] > two[second]:
            first -= 1
        else:
            second -= 1
    return first, second


# --- readable pieces: a tokenizer's symbols for bytes and spaces, decoded -------------------------
#
# WordPiece keeps its ## before a continuation, SentencePiece its ▁ before a word start. Byte-level
# pieces show their characters, with ▁ for the space before them. A partial character shows as its
# bytes, <E2>. Costs: one lookup per piece.

_BEGINS = "▁"


def written(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[str, ...]:
    """Each piece in readable form."""
    tokens: Sequence[str | None] = tokenizer.convert_ids_to_tokens(list(ids))
    in_bytes = is_byte_level(tokenizer)
    special = set(tokenizer.all_special_ids)
    return tuple(
        f"<{id_}>" if token is None else _plain(token) if in_bytes and id_ not in special else token
        for id_, token in zip(ids, tokens, strict=True)
    )


def _plain(token: str) -> str:
    """A byte-level token decoded to characters."""
    raw = as_bytes(token).encode("latin-1", "replace")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<{byte:02X}>" for byte in raw)
    return f"{_BEGINS}{text[1:]}" if text.startswith(" ") else text


# --- how tokenizers write bytes -------------------------------------------------------------------

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def characters(tokens: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Each token with a count of 1; byte tokens (`<0xE2>`) joined into one character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = 0
    for token in (*tokens, None):
        byte = _BYTE.fullmatch(token or "")
        pending += byte is not None
        decoded = decoder.decode(bytes.fromhex(byte[1]) if byte else b"", final=not byte)
        if decoded:
            yield decoded, pending
            pending = 0
        if not byte and token is not None:
            yield token, 1


def is_byte_level(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether tokens are byte-level, tested on a two-byte letter."""
    return "".join(map(as_bytes, tokenizer.tokenize("é"))).strip() == "é".encode().decode("latin-1")


def as_bytes(token: str) -> str:
    """A token with GPT-2's printable byte symbols decoded to bytes."""
    return "".join(_stand_ins().get(sign, sign) for sign in token)


@cache
def _stand_ins() -> dict[str, str]:
    """GPT-2's symbols of non-printable bytes: the characters from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in printable]
    return {chr(256 + index): chr(byte) for index, byte in enumerate(hidden)}
