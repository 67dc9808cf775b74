"""Docs as CoNLL-U: words, lemmas, tags, features, trees, sentence and document names, brackets.

Each Doc opens a `# newdoc`, unless it has the document name of the Doc before it. The mentions of
`coreference` become brackets, and so do mentions that only `entities` (or spaCy's `doc.ents`) has;
where the two layers differ, extra fields distinguish them (see `gum_entities`). A
mention without a chain gets a new one: e1, e2, and so on; or name1, if the chain is dropped on
reading. Values that CoNLL-U cannot hold are errors; layers it cannot hold (edges, labels, the space
after a Doc's end) are left out. `_` means no value: a tag `_` is read back as none, and the word
`_` gets the lemma `_`.

Costs: 2 s for 10,000 sentences; one Doc is in memory at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from spacy.tokens import Doc, Span, Token

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write
from workbench.corpora.layers import Mention, mentions
from workbench.corpora.readers.gum_entities import LAYERS, WRITTEN_FIELDS, brackets

_MISSING = "_"
_NEW_CHAIN = {"yes": "e", "no": "name"}  # prefix, by whether coreference has the mention
_IDENTICAL = ("same", "yes")  # the values of a mention that is the same in both layers


def write(docs: Iterable[Doc], path: Path, layer: str | None = None) -> int:
    """Write Docs to one file, completely or not at all; return their number. `layer` is unused."""
    document = _Document("")
    written = 0
    with atomic_write(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for written, doc in enumerate(docs, start=1):
            opens = not doc._.document or doc._.document != document.name
            if opens:
                document = _Document(doc._.document)
            try:
                file.writelines(f"{line}\n" for line in _lines(doc, document, opens))
            except ValueError as error:
                raise WorkbenchError(
                    f"CoNLL-U cannot hold Doc {written}, {doc.text[:40]!r}: {error}.",
                    code="file-format",
                    where=str(path),
                    remedy="Write a .spacy file, which holds every layer.",
                ) from None
    return written


_WithLayers = tuple[Mention, tuple[str, str]]  # a mention, and its value in each of LAYERS


class _Document:
    """The state shared by the Docs of one document: its chains, and the fields of the brackets."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: tuple[str, ...] = ()
        self._chains: dict[str, str] = {}
        self._taken: set[str] = set()
        self._numbers = count(1)

    def chain(self, name: str, prefix: str = "e") -> str:
        """The name to write for a chain: its own, or a new one if it has none or it is taken."""
        written = self._chains.get(name, name)
        while not written or (name not in self._chains and written in self._taken):
            written = f"{prefix}{next(self._numbers)}"
        self._taken.add(written)
        if name:
            self._chains[name] = written
        return written


def _lines(doc: Doc, document: _Document, opens: bool) -> Iterator[str]:
    if not len(doc):
        raise ValueError("it has no words")
    sentences = list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]
    names = doc._.sent_ids
    if len(names) != len(sentences):
        names = [""] * len(sentences)
    ranges = _ranges(doc, sentences)
    fields, marks = _marks(doc, document)
    if opens:
        yield _comment("newdoc id", document.name) if document.name else "# newdoc"
    if fields != document.fields:
        yield _comment("global.Entity", "-".join(fields))
        document.fields = fields
    for name, sentence in zip(names, sentences, strict=True):
        if name:
            yield _comment("sent_id", name)
        rows = [row for token in sentence for row in _rows(token, sentence, ranges, marks)]
        yield f"# text = {sentence.text}"
        yield from rows
        yield ""


def _comment(key: str, value: str) -> str:
    if value != value.strip() or not _fits(value):
        raise ValueError(f"the {key} {value!r} has a space around it or a line break in it")
    return f"# {key} = {value}"


def _ranges(doc: Doc, sentences: list[Span]) -> dict[int, tuple[int, int]]:
    """The multiword ranges, by each of their words."""
    ranges: dict[int, tuple[int, int]] = {}
    for start, end in doc._.multiword:
        inside = any(s.start <= start < end <= s.end for s in sentences)
        words = range(start, end)
        if not inside or any(i in ranges for i in words):
            raise ValueError(f"words {start} to {end} cannot be written as one word")
        if any(doc[i].whitespace_ for i in words[:-1]):
            raise ValueError(f"the word written as one, {doc[start:end].text!r}, has a space in it")
        ranges.update(dict.fromkeys(words, (start, end)))
    return ranges


def _marks(doc: Doc, document: _Document) -> tuple[tuple[str, ...], dict[int, str]]:
    """The fields of the brackets from here on, and the brackets by word."""
    present = [layer for layer in LAYERS if layer in doc.spans]
    if doc.has_annotation("ENT_IOB") and "entities" not in present:
        present.insert(0, "entities")
    if not present:
        return document.fields, {}
    with_layers = _with_layers(doc)
    for mention, _ in with_layers:
        if mention.start >= mention.end:
            raise ValueError(f"a mention at word {mention.start} has no words")
    identical = len(present) == len(LAYERS) and all(v == _IDENTICAL for _, v in with_layers)
    full = (*WRITTEN_FIELDS, *present)
    fields = WRITTEN_FIELDS if identical and document.fields != full else full
    named = _with_chains(with_layers, document)
    more = [
        "".join(f"-{value}" for layer, value in zip(LAYERS, values, strict=True) if layer in fields)
        for _, values in with_layers
    ]
    return fields, brackets(named, more)


def _with_layers(doc: Doc) -> list[_WithLayers]:
    """Every mention with its value in each layer; a mention of both layers comes once."""
    entities = Counter(mentions(doc, "entities"))
    coreferent = []
    for mention in mentions(doc, "coreference"):
        without_id = mention._replace(id="")
        entity = mention if entities[mention] else without_id
        value = "no" if not entities[entity] else "same" if entity.id else "yes"
        entities[entity] -= value != "no"
        coreferent.append((mention, (value, "yes")))
    entities_only = [(m, ("same" if m.id else "yes", "no")) for m in entities.elements()]
    return sorted(coreferent + entities_only, key=lambda pair: (pair[0].start, -pair[0].end))


def _with_chains(with_layers: list[_WithLayers], document: _Document) -> list[Mention]:
    """The mentions with the chains to write; chains that have names come first and keep them."""
    chains = {m.id: document.chain(m.id) for m, _ in with_layers if m.id}
    return [
        m._replace(id=chains[m.id] if m.id else document.chain("", _NEW_CHAIN[coreferent]))
        for m, (_, coreferent) in with_layers
    ]


def _rows(
    token: Token, sentence: Span, ranges: dict[int, tuple[int, int]], marks: dict[int, str]
) -> Iterator[str]:
    """The line of a word, after the line of the range that it begins."""
    doc, word_id = token.doc, token.i - sentence.start + 1
    start, end = ranges.get(token.i, (token.i, token.i + 1))
    glued = not doc[end - 1].whitespace_ and end < len(doc)
    space = "SpaceAfter=No" if glued else _MISSING
    if start == token.i and token.i in ranges:
        last = word_id + end - start - 1
        yield _row(f"{word_id}-{last}", doc[start:end].text, *"_______", space)
    form = token._.form if token.i in ranges and token._.form else token.text
    entity = [f"Entity={marks[token.i]}"] if token.i in marks else []
    notes = [*entity, *([space] if glued and token.i not in ranges else [])]
    yield _row(
        str(word_id),
        form,
        token.lemma_ or _MISSING,
        token.pos_ or _MISSING,
        token.tag_ or _MISSING,
        str(token.morph) or _MISSING,
        *_head_and_relation(token, sentence),
        _MISSING,
        "|".join(notes) or _MISSING,
    )


def _head_and_relation(token: Token, sentence: Span) -> tuple[str, str]:
    relation, head = token.dep_, token.head.i
    if relation in ("", _MISSING):
        return _MISSING, _MISSING
    if not sentence.start <= head < sentence.end:
        raise ValueError(f"the head of {token.text!r} is in another sentence")
    return str(0 if head == token.i else head - sentence.start + 1), relation


def _row(*columns: str) -> str:
    for column in columns:
        if not _fits(column) or "\t" in column:
            raise ValueError(f"{column!r} has a tab or a line break in it")
    return "\t".join(columns)


def _fits(text: str) -> bool:
    return "\n" not in text and "\r" not in text
