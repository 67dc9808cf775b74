"""Edge files: one JSON object per line with a text and labelled spans, or labelled pairs of spans.

    {"text": "Ann sees Bo", "info": {"id": "s1"},
     "targets": [{"span1": [1, 2], "span2": [0, 1], "label": "ARG0"}]}

This format was introduced by jiant. Words are separated by single spaces; spans are half-open
ranges of words; a label is a string or a list of strings. Entities and constituents that are single
labelled spans become `doc.spans`, all other edges `doc._.edges`. A file written here stores in
`info` what joined words cannot: `words` if a word contains a space, `spaces` if the raw text has
other spaces than one after every word. Sentence starts are not stored.

Costs: about 1 s for 10,000 sentences of fifteen edges each; one line is in memory at a time.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench.core.errors import WorkbenchError, listed
from workbench.core.files import atomic_write, stem
from workbench.corpora.corpus import Options, Reading
from workbench.corpora.formats import layer_of
from workbench.corpora.layers import Edge, Mention, Range, edges, layers, set_spans, vocabulary
from workbench.corpora.readers.json_objects import numbered_objects

_SPANS = ("entities", "constituents")  # layers stored in doc.spans
_FORM = (
    'Write edges as {"span1": [0, 1], "span2": [2, 4], "label": "X"}, half-open ranges of words.'
)


def edges_reader(paths: Sequence[Path], options: Options) -> Reading:
    """A reader of edge files: one Doc per line; layer from `options.layer` or the file name."""
    layer = options.layer or layer_of(paths[0])
    return Reading(partial(_docs, layer=layer, vocab=vocabulary(options.language)))


def write(docs: Iterable[Doc], path: Path, layer: str | None) -> int:
    """Write one layer of Docs as an edge file, completely or not at all; return their number."""
    count = 0
    with atomic_write(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for doc in docs:
            if layer is None:
                raise _no_layer(path, _readable(doc))
            count += 1
            try:
                record = _record(doc, layer)
            except ValueError as error:
                raise WorkbenchError(
                    f"Doc {count}: {error}.",
                    code="edge-invalid",
                    where=str(path),
                    remedy="Correct this edge in the Doc, or write another layer.",
                ) from None
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if layer is None:
            raise _no_layer(path, [])
    return count


def _docs(path: Path, layer: str, vocab: Vocab) -> Iterator[Doc]:
    for number, entry in numbered_objects(path):
        where = f"{path}:{number}"
        info = entry.get("info")
        if not isinstance(info, dict):
            info = {}
        words = _words(entry.get("text"), info, where)
        doc = Doc(vocab, words=words, spaces=_spaces(info, len(words), where))
        doc._.document = _name(info.get("document")) or stem(path)
        doc._.sent_ids = (_name(info.get("id")),)
        _store(doc, layer, _targets(entry, len(words), where))
        yield doc


def _store(doc: Doc, layer: str, edges: list[Edge]) -> None:
    if layer in _SPANS and all(e.span2 is None and len(e.labels) == 1 for e in edges):
        set_spans(doc, layer, (Mention(*e.span1, e.labels[0]) for e in edges))
    else:
        doc._.edges = {layer: tuple(edges)}


def _words(text: object, info: Mapping[str, Any], where: str) -> list[str]:
    """The words between single spaces, or the list of words in `info`."""
    if not isinstance(text, str):
        raise WorkbenchError(
            '"text" is missing, or not a string.', code="file-format", where=where, remedy=_FORM
        )
    if "words" not in info:
        words = text.split(" ")
    elif _strings(info["words"]) and " ".join(info["words"]) == text:
        words = info["words"]
    else:
        raise WorkbenchError(
            '"words" in "info" are not the words of "text".',
            code="file-format",
            where=where,
            remedy='Write "words" as a list of strings that, joined by single spaces, equal '
            '"text". Without "words", "text" is split at its spaces.',
        )
    if "" in words:
        raise WorkbenchError(
            f"word {words.index('')} is empty.",
            code="file-format",
            where=where,
            remedy="Separate words by single spaces, without a space at the start or the end.",
        )
    return words


def _spaces(info: Mapping[str, Any], words: int, where: str) -> list[bool]:
    if "spaces" not in info:
        return [i + 1 < words for i in range(words)]
    spaces = info["spaces"]
    if not isinstance(spaces, str) or len(spaces) != words or set(spaces) - set("01"):
        raise WorkbenchError(
            f'"spaces" in "info" is {spaces!r:.60}.',
            code="file-format",
            where=where,
            remedy=f"Write one digit for each of the {words} words: 1 if a space follows, else 0.",
        )
    return [space == "1" for space in spaces]


def _targets(entry: Mapping[str, Any], words: int, where: str) -> list[Edge]:
    targets = entry.get("targets")
    if not isinstance(targets, list):
        raise WorkbenchError(
            '"targets" is missing, or not a list.', code="file-format", where=where, remedy=_FORM
        )
    edges = []
    for number, target in enumerate(targets, start=1):
        try:
            edges.append(_edge(target, words))
        except ValueError as error:
            raise WorkbenchError(
                f"edge {number}: {error}.", code="edge-invalid", where=where, remedy=_FORM
            ) from None
    return edges


def _edge(target: object, words: int) -> Edge:
    if not isinstance(target, dict):
        raise ValueError("not an object")
    label = target.get("label")
    labels = [label] if isinstance(label, str) else label
    if not _strings(labels):
        raise ValueError('"label" is missing, or neither a string nor a list of strings')
    first = _range(target, "span1", words)
    second = None if target.get("span2") is None else _range(target, "span2", words)
    return Edge(first, second, tuple(labels))


def _range(target: Mapping[str, Any], key: str, words: int) -> Range:
    span = target.get(key)
    if not isinstance(span, list) or [type(bound) for bound in span] != [int, int]:
        raise ValueError(f'"{key}" is missing, or not a pair of whole numbers')
    start, end = span
    if not 0 <= start < end <= words:
        raise ValueError(f'"{key}" is [{start}, {end}], but there are {words} words')
    return start, end


def _strings(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _name(value: object) -> str:
    """The name of a text or a sentence; some files write a number."""
    return str(value) if type(value) in (str, int) else ""


def _record(doc: Doc, layer: str) -> dict[str, object]:
    words = [token.text for token in doc]
    text = " ".join(words)
    spaces = "".join("1" if token.whitespace_ else "0" for token in doc)
    ids = doc._.sent_ids
    info: dict[str, object] = {}
    if len(ids) == 1 and ids[0]:
        info["id"] = ids[0]
    if doc._.document:
        info["document"] = doc._.document
    if text.split(" ") != words:
        info["words"] = words
    if spaces != ("1" * len(words))[:-1] + "0" * bool(words):
        info["spaces"] = spaces
    return {"text": text, "info": info, "targets": [_target(e) for e in edges(doc, layer)]}


def _target(edge: Edge) -> dict[str, object]:
    for start, end in filter(None, (edge.span1, edge.span2)):
        if start == end:
            raise ValueError(f"an edge at word {start} has no words")
    label = edge.labels[0] if len(edge.labels) == 1 else list(edge.labels)
    if edge.span2 is None:
        return {"span1": list(edge.span1), "label": label}
    return {"span1": list(edge.span1), "span2": list(edge.span2), "label": label}


def _readable(doc: Doc) -> list[str]:
    """The layers of a Doc that can be read as edges."""
    readable = []
    for layer in sorted(layers(doc)):
        try:
            edges(doc, layer)
        except WorkbenchError:
            continue
        readable.append(layer)
    return readable


def _no_layer(path: Path, known: list[str]) -> WorkbenchError:
    return WorkbenchError(
        "an edge file holds one layer, but no layer was named.",
        code="layer-missing",
        where=str(path),
        remedy=f"Name it with layer= (--layer), one of: {listed(known)}."
        if known
        else "Name it with layer= (--layer).",
    )
