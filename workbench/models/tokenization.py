"""From raw text to pieces, and from each piece back to the word that owns it.

The tokenizer sees a text whole, as it would in production, with its special tokens and, for two
texts, as a pair: the second begins at the first word of segment 1, and white space between the two
is left out. Characters tie pieces to words. A text too long for the model loses whole words from
its end. No text raises. Costs what the tokenizer costs and half as much again.
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

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Batch, Flat, Pieces, Row, lay

# --- what a tokenizer makes of raw texts ----------------------------------------------------------
#
# Texts go in whole, with the special tokens of production. A tokenizer is called once for a batch
# and tells characters, as all those of the library tokenizers do; one written in Python does not,
# and is refused. Costs what the tokenizer costs, plus 8 µs a sentence to read its answer.

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Span = tuple[int, int]
BYTE = "<0x41>"  # how a vocabulary with a piece for each byte writes one


class Source(NamedTuple):
    """One document: its text or two, and its words as ranges of both together."""

    first: str
    second: str | None
    begins: int  # where the second begins, in characters of the document
    length: int  # characters
    words: NDArray[Any]  # [words, 2], integers
    in_first: int  # how many words are the first text's


class Encoded(NamedTuple):
    """One document in pieces."""

    ids: Sequence[int]
    offsets: Sequence[Span]  # characters of the text the piece is of
    special: Sequence[int]  # 1 where the tokenizer added it
    second: int  # the first piece of the second text; as many as there are where there is none
    types: Sequence[int]  # token type ids


def source(text: str, words: NDArray[Any], pair_from: int | None) -> Source:
    """A document as one text, or as the pair whose second begins at the word `pair_from`."""
    if pair_from is None:
        return Source(text, None, len(text), len(text), words, len(words))
    begins = int(words[pair_from, 0])
    return Source(text[:begins].rstrip(), text[begins:], begins, len(text), words, pair_from)


def encode(tokenizer: PreTrainedTokenizerBase, sources: Sequence[Source]) -> list[Encoded]:
    """Each document in pieces, however long."""
    require_fast(tokenizer)
    answers: dict[int, Encoded] = {}
    for paired in (False, True):
        places = [
            place for place, each in enumerate(sources) if (each.second is not None) == paired
        ]
        if places:
            chosen = [sources[place] for place in places]
            answers |= zip(places, _encoded(tokenizer, chosen, paired), strict=True)
    return [answers[place] for place in range(len(sources))]


def require_fast(tokenizer: PreTrainedTokenizerBase) -> None:
    """An error for a tokenizer that does not tell which characters a piece is of."""
    if not tokenizer.is_fast:
        raise WorkbenchError(
            f"{type(tokenizer).__name__} is written in Python and does not tell which characters "
            "its pieces are of.",
            where=str(tokenizer.name_or_path),
            remedy="It needs a tokenizer.json, which the class of its family writes; for BERT:\n"
            "  from transformers import BertTokenizer\n"
            "  BertTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)\n"
            "CANINE, ByT5 and CTRL have none.",
        )


def takes_segments(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the model was trained to be told which text of a pair a piece is from.

    Either the tokenizer says so or, having tokens to begin and to part texts, numbers them apart:
    ALBERT's and XLNet's do the second and, in transformers 5, no longer the first.
    """
    if "token_type_ids" in tokenizer.model_input_names:
        return True
    if tokenizer.cls_token is None or tokenizer.sep_token is None:
        return False
    return any(tokenizer(["a"], ["b"], return_token_type_ids=True)["token_type_ids"][0])


def pad_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """What fills a row up; a model that knows no padding gets an id it does know."""
    known = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    return next((int(found) for found in known if found is not None), 0)


def _encoded(
    tokenizer: PreTrainedTokenizerBase, sources: Sequence[Source], paired: bool
) -> list[Encoded]:
    found = tokenizer(
        [each.first for each in sources],
        [each.second for each in sources] if paired else None,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    in_runs = _bytes_in_runs(tokenizer)
    answers = []
    for encoding in found.encodings:
        ids = encoding.ids
        texts = encoding.sequence_ids if paired else ()
        second = texts.index(1) if 1 in texts else len(ids)
        mask, types = encoding.special_tokens_mask, encoding.type_ids
        offsets = encoding.offsets
        tokens = encoding.tokens if in_runs else ()
        if any(token.startswith("<0x") for token in tokens):
            offsets = _shared_out(tokens, offsets)
        answers.append(Encoded(ids, offsets, mask, second, types))
    return answers


def _bytes_in_runs(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether bytes stand for what is unknown and each tells the characters of its whole run."""
    number = tokenizer.convert_tokens_to_ids(BYTE)
    known = number is not None and tokenizer.convert_ids_to_tokens(number) == BYTE
    return known and type(tokenizer.backend_tokenizer.model).__name__ == "Unigram"


def _shared_out(tokens: Sequence[str], offsets: Sequence[Span]) -> list[Span]:
    """The same, but of a run of byte pieces each has its own character."""
    spans: list[Span] = []
    for ((first, last), _), run in groupby(
        zip(offsets, tokens, strict=True), key=lambda piece: (piece[0], piece[1].startswith("<0x"))
    ):
        made = list(characters([token for _, token in run]))
        ends = accumulate(len(text) for text, _ in made)
        length, width = sum(len(text) for text, _ in made), last - first
        for (text, count), end in zip(made, ends, strict=True):
            low, high = (end - len(text)) * width // length, -(-end * width // length)
            spans += [(first + low, first + high)] * count
    return spans


# --- alignment of words and pieces ----------------------------------------------------------------

MARKS = ("▁", "Ġ")
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character: no tokenizer takes it


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


# --- which word owns each piece: plain arithmetic on character ranges -----------------------------
#
# A piece belongs to the word it shares most characters with, the first of equals. Two kinds of
# piece share none and are placed by rule: one of no width belongs where the character before it
# does (a tokenizer that trims a space which was not there leaves "b" so); a lone word mark, `▁`
# or `Ġ`, belongs to the word that its next piece begins. All other pieces (spaces, line ends) are
# unowned. Costs a binary search a piece, for the whole batch at once.


def owners(starts: Ints, ends: Ints, marks: Bools, special: Bools, words: Ints) -> Ints:
    """The word of each piece, or NO_WORD.  # [pieces]

    `words` are ranges, ascending and apart.  # [words, 2]
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
    """For each range the word with the largest overlap, the first of equals."""
    first = np.searchsorted(words[:, 1], starts, side="right")
    last = np.searchsorted(words[:, 0], ends, side="left") - 1
    owned = np.full(len(starts), NO_WORD, dtype=np.int64)
    most = np.zeros(len(starts), dtype=np.int64)
    open_ = np.flatnonzero(first <= last)
    candidate = first[open_]
    while len(open_):
        low = np.maximum(starts[open_], words[candidate, 0])
        shared = np.minimum(ends[open_], words[candidate, 1]) - low
        better = shared > most[open_]
        most[open_[better]] = shared[better]
        owned[open_[better]] = candidate[better]
        more = candidate < last[open_]
        open_, candidate = open_[more], candidate[more] + 1
    return owned


# --- which words stay when a text is too long for the model: whole ones, and from its beginning ---
#
# A word is kept with all its pieces or not at all, and the tokenizer's own pieces stay. Of a
# pair, as long as there are too many pieces, the last word of the text that then has more of them
# goes; of equals, the second text's. Pieces after the last kept word go with the rest. Costs a
# pass over the pieces of those texts only.


class Cut(NamedTuple):
    """What stays of one document, and what is lost."""

    stays: Bools  # [pieces]
    lost: list[Span]  # ranges of words, one for each text that was cut
    too_long: list[int]  # words that alone have more pieces than the model


def cut(owned: Ints, special: Bools, second: int, words: tuple[int, int, int], room: int) -> Cut:
    """Cut one document to as many pieces as there is room for.

    The second text begins at piece `second`; `words` are where the first text's begin, where the
    second's do, and where they end.
    """
    own = int(np.count_nonzero(special))
    if own > room:
        raise WorkbenchError(
            f"a model of {room} pieces has no room for the {own} that its tokenizer adds.",
            remedy="Allow more pieces.",
        )
    content, room = np.flatnonzero(~special), room - own
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
    """How many of a text's pieces its words need, by how many of them are kept.  # [words + 1]"""
    ends = np.zeros(last - first + 1, dtype=np.int64)
    mine = np.flatnonzero((owned >= first) & (owned < last))
    np.maximum.at(ends, owned[mine] - first + 1, mine + 1)
    return np.maximum.accumulate(ends)


def _fitting(one: Ints, two: Ints, room: int) -> tuple[int, int]:
    """How many words of each text fit in so many pieces, from what either needs."""
    first, second = len(one) - 1, len(two) - 1
    while one[first] + two[second] > room:
        if one[first] > two[second]:
            first -= 1
        else:
            second -= 1
    return first, second


# --- pieces as people read them: a tokenizer's signs for bytes and spaces made plain --------------
#
# WordPiece keeps its ## before what goes on, SentencePiece its ▁ before what begins; byte-level
# pieces show their characters, with the same ▁ for the space before them. Half a character shows
# as its bytes, <E2>. Costs a lookup a piece.

_BEGINS = "▁"


def written(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[str, ...]:
    """Each piece by itself."""
    tokens: Sequence[str | None] = tokenizer.convert_ids_to_tokens(list(ids))
    in_bytes = speaks_bytes(tokenizer)
    special = set(tokenizer.all_special_ids)
    return tuple(
        f"<{number}>"
        if token is None
        else _plain(token)
        if in_bytes and number not in special
        else token
        for number, token in zip(ids, tokens, strict=True)
    )


def _plain(token: str) -> str:
    """A byte-level token as its characters."""
    raw = as_bytes(token).encode("latin-1", "replace")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<{byte:02X}>" for byte in raw)
    return f"{_BEGINS}{text[1:]}" if text.startswith(" ") else text


# --- how tokenizers spell bytes -------------------------------------------------------------------

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def characters(tokens: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Tokens, each alone, but `<0xE2>` and its like together as the character they make up."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pending = 0
    for token in (*tokens, None):
        byte = _BYTE.fullmatch(token or "")
        pending += byte is not None
        made = decoder.decode(bytes.fromhex(byte[1]) if byte else b"", final=not byte)
        if made:
            yield made, pending
            pending = 0
        if not byte and token is not None:
            yield token, 1


def speaks_bytes(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether tokens are spelled in bytes: tried on a letter of two."""
    return "".join(map(as_bytes, tokenizer.tokenize("é"))).strip() == "é".encode().decode("latin-1")


def as_bytes(token: str) -> str:
    """GPT-2's printable stand-ins for bytes, undone."""
    return "".join(_stand_ins().get(sign, sign) for sign in token)


@cache
def _stand_ins() -> dict[str, str]:
    """GPT-2 writes the bytes that do not print as the characters from 256 on."""
    prints = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in prints]
    return {chr(256 + place): chr(byte) for place, byte in enumerate(hidden)}
