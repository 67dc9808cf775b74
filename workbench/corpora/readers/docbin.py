"""spaCy's own `.spacy` files: every layer of every Doc, in the format that is fastest to read.

A file may come from anywhere, but spaCy's own reader trusts it: a span past the end or a code
without a string would cause an error later, or a crash. So everything is checked before a Doc is
returned. User data and extension values that Workbench does not know are kept unchanged.

Costs: about 0.5 s for 10,000 sentences. The format is one compressed block, so reading needs the
memory of the whole block; then one Doc is made at a time.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from operator import index
from pathlib import Path
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
    SPACY,
    TAG,
)
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.tokens import Doc, DocBin, Span, SpanGroup
from spacy.vocab import Vocab
from srsly import msgpack, msgpack_decoders  # type: ignore[import-untyped]

from workbench.core.errors import WorkbenchError
from workbench.core.files import read_regular, unreadable, write_atomically
from workbench.corpora.corpus import Options, Reading
from workbench.corpora.layers import checked_edge, checked_range, checked_text, vocabulary

READS = (".spacy",)
WRITES = (".spacy",)
PLACE = 5  # in lists of formats

# --- the words of a `.spacy` file as columns of numbers, checked before spaCy reads them ----------
#
# Every string code must have a string, every head must be in its Doc and lead to a root, and an
# entity must begin before it continues. Costs: 50 ms per million numbers; whole columns at a time.

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
    """The words of all Docs, one after another, and the end of each Doc."""

    ends: list[int]
    words: Column
    spaces: NDArray[np.bool_]
    attributes: list[int]
    values: Column  # [words, attributes]
    sentence_starts: Column | None


def read_columns(packed: Mapping[str, Any], vocab: Vocab) -> Columns:
    """The columns of an unpacked file; ValueError or TypeError if they are invalid."""
    attributes = [index(attribute) for attribute in packed["attrs"]]
    lengths = np.frombuffer(packed["lengths"], dtype=np.int32).astype(np.int64)
    spaces = np.frombuffer(packed["spaces"], dtype=np.uint8) != 0
    table = np.frombuffer(packed["tokens"], dtype=np.uint64).reshape(-1, len(attributes))
    if lengths.min(initial=0) < 0 or not lengths.sum() == len(table) == len(spaces):
        raise ValueError("its parts have different lengths")
    by_attribute = {attribute: table[:, i] for i, attribute in enumerate(attributes)}
    if ORTH not in by_attribute:
        raise ValueError("it has no words")
    for string in packed["strings"]:
        if not isinstance(string, str):
            raise ValueError(f"{string!r:.80} is not text")
        vocab.strings.add(string)
    _check_values(by_attribute, vocab)
    ends = lengths.cumsum()
    if HEAD in by_attribute:
        _check_trees(by_attribute[HEAD].astype(np.int64), lengths, ends)
    if ENT_IOB in by_attribute:
        types = by_attribute.get(ENT_TYPE, np.zeros(len(table), dtype=np.uint64))
        _check_entities(by_attribute[ENT_IOB], types, lengths, ends)
    if MORPH in by_attribute:
        by_attribute[MORPH] = _analyses(by_attribute[MORPH], vocab)
    known = [attribute for attribute in _ATTRIBUTES if attribute in by_attribute]
    values = np.stack([by_attribute[a] for a in known], axis=1) if known else table[:, :0]
    starts = by_attribute.get(SENT_START)
    return Columns(ends.tolist(), by_attribute[ORTH], spaces, known, values, starts)


def _check_values(by_attribute: Mapping[int, Column], vocab: Vocab) -> None:
    if not by_attribute[ORTH].all():
        raise ValueError("it has a word without letters")
    for attribute, column in by_attribute.items():
        values = set(column.tolist()) if attribute in (*STRINGS, *_CHOICES) else set()
        allowed = _CHOICES.get(attribute, vocab.strings)
        for value in values:
            if value not in allowed:
                raise ValueError(f"{value} is not a valid {_NAMES[attribute]}")


def _check_trees(offsets: NDArray[np.int64], lengths: NDArray[Any], ends: NDArray[Any]) -> None:
    end = np.repeat(ends, lengths)
    start = end - np.repeat(lengths, lengths)
    head = np.arange(len(offsets)) + offsets
    if ((head < start) | (head >= end)).any():
        raise ValueError("a word's head is outside its Doc")
    for _ in range(int(lengths.max(initial=1)).bit_length()):
        head = head[head]  # the head of the head: twice as far towards the root each time
    if offsets[head].any():
        raise ValueError("the heads of a Doc form a cycle")


def _check_entities(iob: Column, types: Column, lengths: NDArray[Any], ends: NDArray[Any]) -> None:
    open_after = (iob == _INSIDE) | ((iob == _BEGIN) & (types != 0))
    open_before = np.roll(open_after, 1)
    open_before[(ends - lengths)[lengths > 0]] = False
    if ((iob == _INSIDE) & ~open_before).any():
        raise ValueError("an entity continues that never began")


def _analyses(column: Column, vocab: Vocab) -> Column:
    """The vocabulary's codes of feature sets; each distinct set is parsed once."""
    known, where = np.unique(column, return_inverse=True)
    texts = [vocab.strings[key] for key in known.tolist()]
    try:
        keys = [vocab.morphology.add(text) if text else 0 for text in texts]
    except ValueError:
        raise ValueError("its features are not Name=Value pairs") from None
    return np.array(keys, dtype=np.uint64)[where]


# --- Docs as a `.spacy` file, with every layer; spaCy's own reader reads it too -------------------
#
# The parts are packed here and not by `DocBin.add`, which looks up msgpack's plug-ins for each part
# and takes several milliseconds per Doc. Costs: 1 s for 10,000 sentences; the numbers of all Docs
# stay in memory until the end, because the format is one compressed block.


def write(docs: Iterable[Doc], path: Path, layer: str | None = None) -> int:
    """Write Docs with all layers to one file, completely or not at all; return their number."""
    packed = DocBin(store_user_data=True)
    pack = msgpack.Packer(use_bin_type=True).pack
    for number, doc in enumerate(docs, start=1):
        try:
            _check(doc)
            _add(packed, doc, pack)
        except (*INVALID, OverflowError) as error:
            raise WorkbenchError(
                f"Doc {number} cannot be stored: {str(error).rstrip('.')}.",
                code="doc-invalid",
                where=str(path),
                remedy="Use only text, numbers, lists and dictionaries in its extension values, "
                "and edges between existing words.",
            ) from None
    write_atomically(path, packed.to_bytes())
    return len(packed)


def _check(doc: Doc) -> None:
    """Raise an error for a Doc that the reader would reject."""
    for key, value in doc.user_data.items():
        restored(doc, key, value)
    if not doc.to_array(ORTH).all():
        raise ValueError("it has a word without letters")


def _add(packed: DocBin, doc: Doc, pack: Callable[[object], bytes]) -> None:
    attributes: list[Any] = packed.attrs
    table = np.asarray(doc.to_array(attributes), dtype=np.uint64)  # [words, attributes]
    texts = table[:, [attributes.index(attribute) for attribute in STRINGS]]
    packed.tokens.append(table)
    packed.spaces.append(doc.to_array(SPACY).astype(bool).reshape(-1, 1))
    packed.strings.update(doc.vocab.strings[code] for code in set(texts.ravel().tolist()))
    packed.flags.append({"has_unknown_spaces": doc.has_unknown_spaces})
    packed.cats.append(doc.cats)
    packed.user_data.append(pack(doc.user_data))
    groups: dict[bytes, list[str]] = {}
    for key, group in doc.spans.items():
        groups.setdefault(pack(_group(packed, group)), []).append(key)
    packed.span_groups.append(pack(groups or []))


def _group(packed: DocBin, group: SpanGroup) -> dict[str, object]:
    rows = []
    strings = group.doc.vocab.strings
    for span in group:
        for code in (span.id, span.kb_id, span.label):
            if code in strings:  # type: ignore[operator]  # an id may be a bare number
                packed.strings.add(strings[code])
        characters = (span.start_char, span.end_char)
        rows.append(SPAN.pack(span.id, span.kb_id, span.label, span.start, span.end, *characters))
    return {"name": group.name, "attrs": group.attrs, "spans": rows}


# --- values of layers -----------------------------------------------------------------------------
#
# The values of Workbench's extension attributes, checked, because they may come from any source.
# An invalid value raises one of the errors in `INVALID`. Costs: a microsecond per edge.

INVALID = (ValueError, TypeError, AttributeError)


def restored(doc: Doc, key: Any, value: Any) -> Any:
    """An extension value in Workbench's types, because msgpack restores only its own types."""
    match key:
        case ("._.", "edges", None, None):
            return {
                checked_text(name): [checked_edge(doc, edge) for edge in edges]
                for name, edges in value.items()
            }
        case ("._.", "labels", None, None):
            return {checked_text(name): _label(label) for name, label in value.items()}
        case ("._.", "multiword", None, None):
            return tuple(checked_range(doc, words) for words in value)
        case ("._.", "sent_ids", None, None):
            return tuple(map(checked_text, value))
        case ("._.", "document", None, None) | ("._.", "form", int(), None):
            return checked_text(value)
    return value


def _label(value: Any) -> str | Real | None:
    if not isinstance(value, str | Real | None):
        raise ValueError(f"{value!r:.80} is neither text nor a number")
    return value


# --- reading --------------------------------------------------------------------------------------

__all__ = ["reader", "write"]

_DECODE_NUMPY = msgpack_decoders.get("numpy")
_MALFORMED = (*INVALID, KeyError, IndexError, struct.error)


class _Extras(NamedTuple):
    """The parts of a Doc besides its words."""

    cats: Mapping[str, float]
    flags: Mapping[str, bool]
    spans: bytes
    user_data: bytes | None


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """A reader of .spacy files, with one vocabulary; Docs come back as they were written."""
    return Reading(partial(_docs, vocabulary(options.language)))


def _docs(vocab: Vocab, path: Path) -> Iterator[Doc]:
    try:
        content = read_regular(path)
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        packed = _unpacked(zlib.decompress(content))
        columns = read_columns(packed, vocab)
        extras = _extras(packed, len(columns.ends))
    except (*_MALFORMED, zlib.error, MemoryError) as error:
        raise _damaged(path, error) from None
    starts = [0, *columns.ends[:-1]]
    for i, extra in enumerate(extras):
        try:
            doc = _doc(vocab, columns, slice(starts[i], columns.ends[i]), extra)
        except _MALFORMED as error:
            raise _damaged(path, error, f"in Doc {i + 1}, ") from None
        yield doc


def _damaged(path: Path, error: Exception, which: str = "") -> WorkbenchError:
    kind = "" if isinstance(error, ValueError | zlib.error) else f"{type(error).__name__}: "
    return WorkbenchError(
        f"this is not a valid .spacy file: {which}{kind}{str(error).rstrip('.')}.",
        code="file-format",
        where=str(path),
        remedy="Check that the file was copied completely, or write it again.",
    )


def _unpacked(content: bytes, use_list: bool = True) -> Any:
    """A msgpack message; ValueError if it cannot be unpacked."""
    try:
        return msgpack.loads(
            content,
            raw=False,
            use_list=use_list,
            object_hook=_DECODE_NUMPY,
            object_pairs_hook=None,  # otherwise plug-ins are looked up again, which takes 1 ms
        )
    except Exception as error:  # msgpack's documentation allows any exception
        raise ValueError(f"cannot be unpacked: {str(error) or type(error).__name__}") from None


def _extras(packed: Mapping[str, Any], count: int) -> list[_Extras]:
    """The other parts of each Doc; older files lack some of them."""
    parts = (
        packed["cats"],
        packed.get("flags", [{}] * count),
        packed.get("span_groups", [b""] * count),
        packed.get("user_data", [None] * count),
    )
    if any(len(part) != count for part in parts):
        raise ValueError("its parts have different lengths")
    return [_Extras(*values) for values in zip(*parts, strict=True)]


def _doc(vocab: Vocab, columns: Columns, part: slice, extra: _Extras) -> Doc:
    """One Doc; unknown spaces stay unknown."""
    known = not extra.flags.get("has_unknown_spaces")
    spaces = columns.spaces[part].tolist() if known else None
    doc = Doc(vocab, words=columns.words[part].tolist(), spaces=spaces)
    if columns.attributes:
        doc.from_array(columns.attributes, columns.values[part])  # type: ignore[arg-type]
    if columns.sentence_starts is not None:  # set last: spaCy sets its own when it reads heads
        doc.from_array([SENT_START], columns.sentence_starts[part])  # type: ignore[arg-type]
    doc.cats = dict(extra.cats)
    _add_spans(doc, extra.spans)
    if extra.user_data is not None:
        for key, value in _unpacked(extra.user_data, use_list=False).items():
            doc.user_data[key] = restored(doc, key, value)
    return doc


def _add_spans(doc: Doc, packed: bytes) -> None:
    """Add the span groups: a mapping from groups to names or, in older files, a list of groups."""
    groups = _unpacked(packed) if packed else []
    if isinstance(groups, dict):
        named = [(name, _unpacked(group)) for group, names in groups.items() for name in names]
    else:
        named = [(group["name"], group) for group in map(_unpacked, groups)]
    for name, group in named:
        spans = [_span(doc, *SPAN.unpack(span)) for span in group["spans"]]
        doc.spans[checked_text(name)] = SpanGroup(
            doc, name=checked_text(group["name"]), attrs=dict(group["attrs"]), spans=spans
        )


def _span(doc: Doc, name: int, entry: int, label: int, start: int, end: int, *_: int) -> Span:
    """A span; an id or knowledge base entry without a string keeps its number as its name."""
    strings = doc.vocab.strings
    span_id, kb_id = (strings[i] if i in strings else str(i) for i in (name, entry))  # type: ignore[operator]
    return Span(doc, start, end, label=strings[label], kb_id=kb_id, span_id=span_id)
