"""Docs as a `.spacy` file, with every layer: spaCy's own reader takes it too.

The parts are packed here rather than by `DocBin.add`, which looks up msgpack's plug-ins for each of
them and takes several milliseconds a Doc. Costs 1 s for 10,000 sentences; every Doc's numbers are
held until the end, since the format is one compressed block.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from spacy.attrs import ORTH, SPACY
from spacy.tokens import Doc, DocBin, SpanGroup
from srsly import msgpack  # type: ignore[import-untyped]

from workbench.corpora.docbin_columns import SPAN, STRINGS
from workbench.corpora.values import WRONG, restored
from workbench.errors import WorkbenchError
from workbench.files import written_whole


def write(docs: Iterable[Doc], path: Path, layer: str | None = None) -> int:
    """Write Docs to one file, whole or not at all; say how many. It takes no `layer`: all go in."""
    packed = DocBin(store_user_data=True)
    pack = msgpack.Packer(use_bin_type=True).pack
    for number, doc in enumerate(docs, start=1):
        try:
            _check(doc)
            _add(packed, doc, pack)
        except (*WRONG, OverflowError) as error:
            raise WorkbenchError(
                f"Doc {number} cannot be stored: {str(error).rstrip('.')}.",
                where=str(path),
                remedy="Keep only text, numbers, lists and dictionaries in its extension values, "
                "and edges between words that it has.",
            ) from None
    with written_whole(path) as draft:
        draft.write_bytes(packed.to_bytes())
    return len(packed)


def _check(doc: Doc) -> None:
    """Refuse what the reader would not take back."""
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
