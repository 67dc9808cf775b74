"""CoNLL-U, the treebanks' format: words, lemmas, tags, features, trees, and GUM's entity brackets.

A Doc is a sentence, or with `unit="document"` everything from one `# newdoc` to the next (a file
without any is one document). `doc.text` is the raw text, less the space that may follow its end. Of
words written as one it shows each one's part, and `token._.form` is the real form where that
differs. `_` stands for nothing; enhanced dependencies and empty nodes are left out.

If a file has entity brackets, each of its Docs has the layers `entities` and `coreference`, both
with every mention, unless they are told apart (see `workbench.corpora.entities`). A Doc of one
sentence leaves out mentions that go on into the next.

Reading costs about 1 s for 10,000 sentences, 2 s with entities, and the memory of one Doc; a file
is looked through for brackets first, until both layers are found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from spacy.attrs import SENT_START
from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench.corpora.conllu_sentence import (
    ATTRIBUTES,
    Codes,
    LineError,
    Sentence,
    column_codes,
    parse,
)
from workbench.corpora.conllu_writer import write
from workbench.corpora.corpus import Options, Reading, Unit
from workbench.corpora.entities import GUM_FIELDS, LAYERS, Brackets, Found, layers_of
from workbench.corpora.layers import Mention, set_spans
from workbench.corpora.vocabulary import vocabulary
from workbench.errors import WorkbenchError
from workbench.lines import COMPRESSED, numbered_lines

__all__ = ["reader", "write"]

_HEADER = "global.Entity"
_INSIDE = 2**64 - 1  # -1: a word that starts no sentence


@dataclass(slots=True)
class _Placed:
    """A sentence with its place in its document."""

    sentence: Sentence
    name: str
    document: str
    opens_document: bool
    start: int  # its first word, counted from the document's
    mentions: list[Found]  # that end here; their words are counted like `start`


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """Make ready to read CoNLL-U files, with one vocabulary for all their Docs."""
    vocab = vocabulary(options.language)
    return Reading(partial(_docs, options.unit, vocab, column_codes(vocab)))


def _docs(unit: Unit, vocab: Vocab, codes: Sequence[Codes], path: Path) -> Iterator[Doc]:
    with_layers = _mention_layers(path)
    held: list[_Placed] = []
    try:
        for placed in _placed(path, codes):
            if unit == "sentence":
                yield _doc(vocab, [placed], with_layers)
                continue
            if placed.opens_document and held:
                yield _doc(vocab, held, with_layers)
                held = []
            held.append(placed)
    except LineError as error:
        raise WorkbenchError(
            error.what, where=f"{path}:{error.line}", remedy=error.remedy
        ) from None
    if held:
        yield _doc(vocab, held, with_layers)


def _mention_layers(path: Path) -> frozenset[str]:
    """The layers that mentions are in, which must be known from the first Doc on."""
    found: frozenset[str] = frozenset()
    for _, line in numbered_lines(path):
        if line.startswith("#"):
            key, value = _comment(line)
            found |= layers_of(value.split("-")) if key == _HEADER else frozenset()
        elif not found and "Entity=" in line and ("\tEntity=" in line or "|Entity=" in line):
            return frozenset(LAYERS)  # without a header
        if len(found) == len(LAYERS):
            break
    return found


def _comment(line: str) -> tuple[str, str]:
    """The key of a comment, and its value."""
    key, _, value = line[1:].partition("=")
    return key.strip(), value.strip()


def _placed(path: Path, codes: Sequence[Codes]) -> Iterator[_Placed]:
    place = _Place(path)
    lines: list[str] = []
    first = 0
    for number, line in numbered_lines(path):
        if not line or not line.strip(" "):
            if lines:
                yield place.put(parse(lines, first, codes))
            place.sentence_name, lines = "", []
        elif line[0] == "#":
            if lines:
                raise LineError(
                    number,
                    "a comment inside a sentence.",
                    "End the sentence before it with an empty line.",
                )
            place.note(line, number)
        else:
            first = first if lines else number
            lines.append(line)
    if lines:
        yield place.put(parse(lines, first, codes))
    place.require_closed()


class _Place:
    """Where in a file reading has come to: the document, its open brackets, its words so far."""

    def __init__(self, path: Path) -> None:
        plain = path.with_suffix("") if path.suffix in COMPRESSED else path
        self.sentence_name = ""
        self._stem = self._document = plain.stem
        self._documents = 1
        self._words = 0
        self._brackets = Brackets(GUM_FIELDS)

    def note(self, comment: str, line: int) -> None:
        """Take in a comment, if it is one of those that matter."""
        key, value = _comment(comment)
        if key == "sent_id":
            self.sentence_name = value
        elif key in ("newdoc", "newdoc id"):
            self.require_closed()
            self._documents += self._words > 0
            self._words = 0
            number = f"-{self._documents}" if self._documents > 1 else ""
            self._document = value or f"{self._stem}{number}"
        elif key == _HEADER:
            self.require_closed()
            try:
                self._brackets = Brackets(value.split("-"))
            except ValueError as error:
                raise LineError(
                    line,
                    str(error),
                    "Name the fields of the mentions, such as global.Entity = eid-etype-head.",
                ) from None

    def put(self, sentence: Sentence) -> _Placed:
        """Place a sentence after those before it."""
        start = self._words
        self._words += len(sentence.words)
        for entity in sentence.entities:
            begin, end = start + entity.start, start + entity.end
            try:
                self._brackets.read(entity.brackets, begin, end, entity.line)
            except ValueError as error:
                raise LineError(
                    entity.line,
                    str(error),
                    "Correct the brackets of Entity=; each mention is opened once and closed once.",
                ) from None
        mentions = self._brackets.take() if sentence.entities else []
        return _Placed(sentence, self.sentence_name, self._document, start == 0, start, mentions)

    def require_closed(self) -> None:
        """No bracket may stay open where a document ends."""
        if unclosed := self._brackets.unclosed():
            name, line = unclosed
            raise LineError(
                line,
                f"the bracket ({name} is not closed before its document ends.",
                f"Add {name}) at the mention's last word, or remove the bracket.",
            )


def _doc(vocab: Vocab, placed: Sequence[_Placed], with_layers: frozenset[str]) -> Doc:
    sentences = [each.sentence for each in placed]
    words = [word for sentence in sentences for word in sentence.words]
    spaces = [space for sentence in sentences for space in sentence.spaces]
    spaces[-1] = False
    doc = Doc(vocab, words=words, spaces=spaces)
    columns = zip(*(sentence.columns for sentence in sentences), strict=True)
    table = np.array([list(chain.from_iterable(column)) for column in columns], dtype=np.uint64)
    doc.from_array(ATTRIBUTES, table.T)  # type: ignore[arg-type]  # [words, attributes]
    starts = [_INSIDE] * len(words)
    base = placed[0].start
    for each in placed:
        starts[each.start - base] = 1
    # set last: spaCy takes every root for a sentence, and may cut sentences with crossing arcs
    doc.from_array([SENT_START], np.array(starts, dtype=np.uint64))  # type: ignore[arg-type]
    doc._.document = placed[0].document
    doc._.sent_ids = tuple(each.name for each in placed)
    _add_multiword(doc, placed)
    if with_layers:
        found = [each for sentence in placed for each in sentence.mentions]
        _add_mentions(doc, base, found, with_layers)
    return doc


def _add_mentions(doc: Doc, base: int, found: list[Found], with_layers: frozenset[str]) -> None:
    found.sort(key=lambda each: (each.mention.start, -each.mention.end, each.number))
    for layer in LAYERS:
        if layer in with_layers:
            kept = [m for each in found if (m := each.within(layer)) and m.start >= base]
            moved = [Mention(m.start - base, m.end - base, m.label, m.id) for m in kept]
            set_spans(doc, layer, moved)


def _add_multiword(doc: Doc, placed: Sequence[_Placed]) -> None:
    ranges = []
    for each in placed:
        offset = each.start - placed[0].start
        ranges += [(offset + start, offset + end) for start, end in each.sentence.multiword]
        for word, form in each.sentence.forms.items():
            doc[offset + word]._.form = form
    if ranges:
        doc._.multiword = tuple(ranges)
