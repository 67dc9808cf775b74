"""Docs as CoNLL-U: words, lemmas, tags, features, trees, sentence and document names, brackets.

Each Doc opens a `# newdoc`, unless it bears the name of the Doc before it. The mentions of
`coreference` become brackets, and so do those of `entities` (or spaCy's own) that are not among
them; where the two differ, fields of our own tell them apart (see
`workbench.corpora.gum_entities`). A mention without a chain gets one of its own: e1, e2, and so on;
or name1, where the chain is dropped on reading. What CoNLL-U cannot hold is refused, and what it
has no place for (edges, labels, the space after a Doc's end) is left out. `_` means nothing: a tag
of that name is read back as none, and the word `_` as having the lemma `_`.

Costs 2 s for 10,000 sentences; one Doc is held at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from spacy.tokens import Doc, Span, Token

from workbench.core.errors import WorkbenchError
from workbench.core.files import written_whole
from workbench.corpora.gum_entities import LAYERS, WRITTEN_FIELDS, brackets
from workbench.corpora.layers import Mention, mentions

_NOTHING = "_"
_FRESH = {"yes": "e", "no": "name"}  # chains, by whether coreference has the mention
_ALIKE = ("same", "yes")  # said of a mention that is the same in both layers


def write(docs: Iterable[Doc], path: Path, layer: str | None = None) -> int:
    """Write Docs to one file, whole or not at all; say how many. CoNLL-U takes no `layer`."""
    document = _Document("")
    written = 0
    with written_whole(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for written, doc in enumerate(docs, start=1):
            opens = not doc._.document or doc._.document != document.name
            if opens:
                document = _Document(doc._.document)
            try:
                file.writelines(f"{line}\n" for line in _lines(doc, document, opens))
            except ValueError as error:
                raise WorkbenchError(
                    f"CoNLL-U cannot hold Doc {written}, {doc.text[:40]!r}: {error}.",
                    where=str(path),
                    remedy="Write a .spacy file, which holds everything.",
                ) from None
    return written


_Told = tuple[Mention, tuple[str, str]]  # and what is said of it in each of LAYERS


class _Document:
    """What must be known from Doc to Doc of one document: its chains, and the brackets' fields."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: tuple[str, ...] = ()
        self._chains: dict[str, str] = {}
        self._taken: set[str] = set()
        self._numbers = count(1)

    def chain(self, name: str, prefix: str = "e") -> str:
        """What to write for a chain: its name, or a fresh one if it has none or that is taken."""
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
    """The words written as one, by each of their words."""
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
    found = _told_apart(doc)
    for mention, _ in found:
        if mention.start >= mention.end:
            raise ValueError(f"a mention at word {mention.start} has no words")
    alike = len(present) == len(LAYERS) and all(said == _ALIKE for _, said in found)
    full = (*WRITTEN_FIELDS, *present)
    fields = WRITTEN_FIELDS if alike and document.fields != full else full
    named = _with_chains(found, document)
    more = [
        "".join(f"-{word}" for layer, word in zip(LAYERS, said, strict=True) if layer in fields)
        for _, said in found
    ]
    return fields, brackets(named, more)


def _told_apart(doc: Doc) -> list[_Told]:
    """Every mention, with what each layer says of it; one that both have is there once."""
    entities = Counter(mentions(doc, "entities"))
    found = []
    for mention in mentions(doc, "coreference"):
        nameless = mention._replace(id="")
        entity = mention if entities[mention] else nameless
        said = "no" if not entities[entity] else "same" if entity.id else "yes"
        entities[entity] -= said != "no"
        found.append((mention, (said, "yes")))
    rest = [(m, ("same" if m.id else "yes", "no")) for m in entities.elements()]
    return sorted(found + rest, key=lambda told: (told[0].start, -told[0].end))


def _with_chains(found: list[_Told], document: _Document) -> list[Mention]:
    """The mentions with the chains to write: first those that have one, lest theirs be taken."""
    chains = {m.id: document.chain(m.id) for m, _ in found if m.id}
    return [
        m._replace(id=chains[m.id] if m.id else document.chain("", _FRESH[said]))
        for m, (_, said) in found
    ]


def _rows(
    token: Token, sentence: Span, ranges: dict[int, tuple[int, int]], marks: dict[int, str]
) -> Iterator[str]:
    """The line of a word, after that of the range it begins."""
    doc, number = token.doc, token.i - sentence.start + 1
    start, end = ranges.get(token.i, (token.i, token.i + 1))
    glued = not doc[end - 1].whitespace_ and end < len(doc)
    space = "SpaceAfter=No" if glued else _NOTHING
    if start == token.i and token.i in ranges:
        yield _row(f"{number}-{number + end - start - 1}", doc[start:end].text, *"_______", space)
    form = token._.form if token.i in ranges and token._.form else token.text
    entity = [f"Entity={marks[token.i]}"] if token.i in marks else []
    notes = [*entity, *([space] if glued and token.i not in ranges else [])]
    yield _row(
        str(number),
        form,
        token.lemma_ or _NOTHING,
        token.pos_ or _NOTHING,
        token.tag_ or _NOTHING,
        str(token.morph) or _NOTHING,
        *_head_and_relation(token, sentence),
        _NOTHING,
        "|".join(notes) or _NOTHING,
    )


def _head_and_relation(token: Token, sentence: Span) -> tuple[str, str]:
    relation, head = token.dep_, token.head.i
    if relation in ("", _NOTHING):
        return _NOTHING, _NOTHING
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
