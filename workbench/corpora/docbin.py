"""spaCy's own `.spacy` files: every layer of every Doc, in the form that is quickest to read.

A file may come from anywhere, and spaCy's own reader trusts it: a span past the end or a number
without a string would surface later, or crash. So all is checked before a Doc is handed out. User
data and extension values that Workbench does not know are kept as they are.

The format is one compressed block, so reading takes as much memory as the block, and then makes one
Doc at a time. Costs about 0.5 s for 10,000 sentences.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from spacy.attrs import SENT_START
from spacy.tokens import Doc, Span, SpanGroup
from spacy.vocab import Vocab
from srsly import msgpack, msgpack_decoders  # type: ignore[import-untyped]

from workbench.corpora.corpus import Options, Reading
from workbench.corpora.docbin_columns import SPAN, Columns, read_columns
from workbench.corpora.docbin_writer import write
from workbench.corpora.layers import checked_text
from workbench.corpora.values import WRONG, restored
from workbench.corpora.vocabulary import vocabulary
from workbench.errors import WorkbenchError
from workbench.files import read_regular
from workbench.lines import unreadable

__all__ = ["reader", "write"]

_DECODE_NUMPY = msgpack_decoders.get("numpy")
_MALFORMED = (*WRONG, KeyError, IndexError, struct.error)


class _Rest(NamedTuple):
    """What a Doc has besides its words."""

    cats: Mapping[str, float]
    flags: Mapping[str, bool]
    spans: bytes
    user_data: bytes | None


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """Make ready to read .spacy files, with one vocabulary; a Doc is whatever it was written as."""
    return Reading(partial(_docs, vocabulary(options.language)))


def _docs(vocab: Vocab, path: Path) -> Iterator[Doc]:
    try:
        content = read_regular(path)
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        packed = _unpacked(zlib.decompress(content))
        columns = read_columns(packed, vocab)
        rests = _rests(packed, len(columns.ends))
    except (*_MALFORMED, zlib.error, MemoryError) as error:
        raise _damaged(path, error) from None
    starts = [0, *columns.ends[:-1]]
    for number, rest in enumerate(rests):
        try:
            doc = _doc(vocab, columns, slice(starts[number], columns.ends[number]), rest)
        except _MALFORMED as error:
            raise _damaged(path, error, f"in Doc {number + 1}, ") from None
        yield doc


def _damaged(path: Path, error: Exception, which: str = "") -> WorkbenchError:
    kind = "" if isinstance(error, ValueError | zlib.error) else f"{type(error).__name__}: "
    return WorkbenchError(
        f"not a sound .spacy file: {which}{kind}{str(error).rstrip('.')}.",
        where=str(path),
        remedy="Check that it was copied whole, or write it anew.",
    )


def _unpacked(content: bytes, use_list: bool = True) -> Any:
    """A msgpack message; whatever is wrong with it is a ValueError."""
    try:
        return msgpack.loads(
            content,
            raw=False,
            use_list=use_list,
            object_hook=_DECODE_NUMPY,
            object_pairs_hook=None,  # else its plug-ins are looked up again, which takes 1 ms
        )
    except Exception as error:  # msgpack's documentation says that it may be any
        raise ValueError(f"cannot be unpacked: {str(error) or type(error).__name__}") from None


def _rests(packed: Mapping[str, Any], count: int) -> list[_Rest]:
    """Each Doc's other parts, of which older files lack some."""
    parts = (
        packed["cats"],
        packed.get("flags", [{}] * count),
        packed.get("span_groups", [b""] * count),
        packed.get("user_data", [None] * count),
    )
    if any(len(part) != count for part in parts):
        raise ValueError("its parts are of different lengths")
    return [_Rest(*rest) for rest in zip(*parts, strict=True)]


def _doc(vocab: Vocab, columns: Columns, part: slice, rest: _Rest) -> Doc:
    """One Doc; spaces that were unknown stay unknown."""
    known = not rest.flags.get("has_unknown_spaces")
    spaces = columns.spaces[part].tolist() if known else None
    doc = Doc(vocab, words=columns.words[part].tolist(), spaces=spaces)
    if columns.attributes:
        doc.from_array(columns.attributes, columns.values[part])  # type: ignore[arg-type]
    if columns.sentence_starts is not None:  # set last: heads make spaCy set its own
        doc.from_array([SENT_START], columns.sentence_starts[part])  # type: ignore[arg-type]
    doc.cats = dict(rest.cats)
    _add_spans(doc, rest.spans)
    if rest.user_data is not None:
        for key, value in _unpacked(rest.user_data, use_list=False).items():
            doc.user_data[key] = restored(doc, key, value)
    return doc


def _add_spans(doc: Doc, packed: bytes) -> None:
    """Span groups: a mapping from each to its names or, in older files, a list of them."""
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
    """A span whose id or knowledge base entry may be a bare number, which then is its name."""
    strings = doc.vocab.strings
    span_id, kb_id = (strings[i] if i in strings else str(i) for i in (name, entry))  # type: ignore[operator]
    return Span(doc, start, end, label=strings[label], kb_id=kb_id, span_id=span_id)
