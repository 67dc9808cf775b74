"""CoNLL-U, the treebanks' format: words, lemmas, tags, features, trees, and GUM's entity brackets.

A Doc is a sentence, or with `unit="document"` everything from one `# newdoc` to the next (a file
without any is one document). `doc.text` is the raw text without the space after its end. The words
of a multiword token show one part of it each; `token._.form` is the real form if it differs. `_`
means no value; enhanced dependencies and empty nodes are left out.

If a file has entity brackets, each of its Docs has the layers `entities` and `coreference`. Both
have every mention, unless fields distinguish them (see `gum_entities`). A Doc of one sentence
leaves out mentions that continue into the next.

Costs: about 1 s for 10,000 sentences, 2 s with entities, and the memory of one Doc. A first pass
searches the file for brackets, until both layers are found.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from spacy.attrs import DEP, HEAD, LEMMA, MORPH, POS, SENT_START, TAG
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.symbols import IDS as SYMBOLS
from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import COMPRESSED, numbered_lines
from workbench.corpora.corpus import Options, Reading, Unit
from workbench.corpora.layers import Mention, set_spans, vocabulary
from workbench.corpora.readers.conllu_writer import write
from workbench.corpora.readers.gum_entities import (
    GUM_FIELDS,
    LAYERS,
    Brackets,
    LayeredMention,
    layers_of,
)

READS = (".conllu",)
WRITES = (".conllu",)
PLACE = 1  # in lists of formats

# --- one sentence of CoNLL-U: from its lines to words, spaces and columns of spaCy's codes --------
#
# Works on whole columns. Each distinct tag, lemma or feature set is looked up once and cached,
# because a treebank repeats them often. Costs: two microseconds per word.

ATTRIBUTES = [LEMMA, POS, TAG, MORPH, HEAD, DEP]  # in the order of CoNLL-U's columns

_UPOS = {name: int(code) for name, code in PARTS_OF_SPEECH.items() if name}
_UNDERSCORE: int = SYMBOLS["_"]
_IDS = [str(word_id) for word_id in range(1, 1001)]  # longer sentences are checked word by word
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_EMPTY_NODE = re.compile(r"([0-9]{1,9})\.[0-9]{1,9}")
_NO_HEAD = -1
_UNSIGNED = 2**64 - 1  # spaCy's arrays store a negative number as its two's complement


class LineError(Exception):
    """An error on a line; the reader adds the file name."""

    def __init__(self, line: int, what: str, remedy: str) -> None:
        self.line, self.what, self.remedy = line, what, remedy
        super().__init__(what)


class Entity(NamedTuple):
    """The brackets of one word: they open before word `start` and close before word `end`."""

    start: int
    end: int
    brackets: str
    line: int


@dataclass(slots=True)
class Sentence:
    """A sentence, ready for a Doc; positions count its words from 0."""

    words: list[str]  # as in the text
    spaces: list[bool]
    columns: list[list[int]]  # one per item of ATTRIBUTES
    entities: list[Entity]
    forms: dict[int, str]  # the real forms of words that differ from the text
    multiword: list[tuple[int, int]]


class _Range(NamedTuple):
    """A multiword token: its words from `start` to before `end`."""

    start: int
    end: int
    form: str
    space: bool
    line: int


class _CellError(ValueError):
    """An error in a cell, without its line, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


class Codes(dict[str, int]):
    """spaCy's code for each string of a column, cached; a _CellError if there is none."""

    def __init__(self, code: Callable[[str], int], missing: int = 0) -> None:
        super().__init__({"_": missing})
        self._code = code

    def __missing__(self, text: str) -> int:
        code = self[text] = self._code(text)
        return code


def column_codes(vocab: Vocab) -> list[Codes]:
    """The code of each column of ATTRIBUTES in this vocabulary."""
    name = vocab.strings.add

    def features(text: str) -> int:
        try:
            key: int = vocab.morphology.add(text)
            whole = vocab.strings[key].count("=") == text.count("=")
        except ValueError:
            whole = False
        if not whole:
            raise _CellError(
                f"the features {text!r} are not Name=Value pairs with unique names.",
                "Write features like Case=Nom|Number=Sing, or _ for none.",
            )
        return key

    heads = Codes(_head, missing=_NO_HEAD)
    return [Codes(name), Codes(_upos), Codes(name), Codes(features), heads, Codes(name)]


def _upos(text: str) -> int:
    if text not in _UPOS:
        raise _CellError(f"{text!r} is not a universal part of speech.", did_you_mean(text, _UPOS))
    return _UPOS[text]


def _head(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _CellError(
            f"the head {text[:40]!r} is not a word number.",
            "Write the number of a word of this sentence, 0 for the root, or _.",
        )
    return int(text)


def parse(lines: Sequence[str], first: int, codes: Sequence[Codes]) -> Sentence:
    """Read the word lines of one sentence, the first of which has the line number `first`."""
    rows = [line.split("\t") for line in lines]
    for line_number, row in enumerate(rows, first):
        if len(row) != 10:
            raise LineError(
                line_number,
                f"the line has {len(row)} of 10 columns.",
                "Separate columns by single tabs, and sentences by empty lines.",
            )
    line_numbers: Sequence[int] = range(first, first + len(rows))
    ranges: list[_Range] = []
    empty_nodes: list[Entity] = []
    if [row[0] for row in rows] != _IDS[: len(rows)]:
        rows, line_numbers, ranges, empty_nodes = _words_only(rows, first)
    _, forms, *texts, _, notes = zip(*rows, strict=True)
    if "" in forms:
        raise LineError(
            line_numbers[forms.index("")],
            "the word is empty.",
            "Write the word in the second column, or _ if it is unknown.",
        )
    columns = [_coded(code, text, line_numbers) for code, text in zip(codes, texts, strict=True)]
    if "_" in forms:
        both = [form == lemma == "_" for form, lemma in zip(forms, texts[0], strict=True)]
        columns[0] = [_UNDERSCORE if b else code for b, code in zip(both, columns[0], strict=True)]
    columns[4] = _offsets(columns[4], columns[5], line_numbers)
    spaces = [not ("SpaceAfter=No" in note and _glued(note)) for note in notes]
    entities = [
        entity
        for i, note in enumerate(notes)
        for entity in _entities(note, i, i + 1, line_numbers[i])
    ]
    if empty_nodes:
        entities = sorted(entities + empty_nodes, key=lambda entity: entity.line)
    sentence = Sentence(list(forms), spaces, columns, entities, {}, [])
    for word_range in ranges:
        _add_range(sentence, word_range)
    return sentence


def _words_only(
    rows: list[list[str]], first: int
) -> tuple[list[list[str]], list[int], list[_Range], list[Entity]]:
    """Separate the words, with their line numbers, from multiword ranges and from empty nodes."""
    words: list[list[str]] = []
    line_numbers: list[int] = []
    ranges: list[_Range] = []
    entities: list[Entity] = []
    for line_number, row in enumerate(rows, first):
        here = len(words)
        if row[0] == str(here + 1):
            words.append(row)
            line_numbers.append(line_number)
        elif match := _RANGE.fullmatch(row[0]):
            start, end = int(match[1]) - 1, int(match[2])
            if start != here or end <= start or (ranges and start < ranges[-1].end) or not row[1]:
                raise LineError(
                    line_number,
                    f"the range of words {row[0]} cannot begin here.",
                    f"Put a range before its first word, here {here + 1}. It must end after that "
                    "word, and must not overlap another range.",
                )
            ranges.append(_Range(start, end, row[1], not _glued(row[9]), line_number))
        elif (match := _EMPTY_NODE.fullmatch(row[0])) and int(match[1]) == here:
            entities += _entities(row[9], here, here, line_number)
        else:
            raise LineError(
                line_number,
                f"the number is {row[0][:40]!r}, but word {here + 1} is expected.",
                "Number the words of a sentence from 1, and end sentences with an empty line.",
            )
    if ranges and ranges[-1].end > len(words):
        raise LineError(
            ranges[-1].line,
            f"the range ends after the last word, {len(words)}.",
            "Correct the end of the range, or add the missing words.",
        )
    if not words:
        raise LineError(
            first, "the sentence has no words.", "Add its words, numbered from 1, or remove it."
        )
    return words, line_numbers, ranges, entities


def _coded(codes: Codes, texts: Sequence[str], lines: Sequence[int]) -> list[int]:
    try:
        return [codes[text] for text in texts]
    except _CellError as error:
        unknown = next(i for i, text in enumerate(texts) if text not in codes)
        raise LineError(lines[unknown], str(error), error.remedy) from None


def _glued(note: str) -> bool:
    return "SpaceAfter=No" in note.split("|")


def _entities(note: str, start: int, end: int, line: int) -> list[Entity]:
    if "Entity=" not in note:
        return []
    values = [item for item in note.split("|") if item.startswith("Entity=")]
    return [Entity(start, end, value.removeprefix("Entity="), line) for value in values]


def _offsets(heads: list[int], relations: list[int], lines: Sequence[int]) -> list[int]:
    """The offset of each word's head, as in spaCy, after checking that every word has a root."""
    if _NO_HEAD in heads or 0 in relations:
        for head, relation, line in zip(heads, relations, lines, strict=True):
            if (head == _NO_HEAD) != (relation == 0):
                raise LineError(
                    line,
                    "the word has only one of head and relation.",
                    "Write both, or _ for both; UD's name for an unknown relation is `dep`.",
                )
    if max(heads) > len(heads):
        far = next(i for i, head in enumerate(heads) if head > len(heads))
        raise LineError(
            lines[far],
            f"the head {heads[far]} is after the last word, {len(heads)}.",
            "Write the number of a word of this sentence, 0 for the root, or _.",
        )
    visited_from = [0] * len(heads)  # the word whose path to the root visited each word first
    for word in range(1, len(heads) + 1):
        at = word
        while at > 0 and not visited_from[at - 1]:
            visited_from[at - 1] = word
            at = heads[at - 1]
        if at > 0 and visited_from[at - 1] == word:
            raise LineError(
                lines[at - 1],
                f"the heads from word {at} on form a cycle.",
                "Correct one of these heads: from every word they must lead to a root, 0.",
            )
    return [head - word & _UNSIGNED if head > 0 else 0 for word, head in enumerate(heads, 1)]


def _add_range(sentence: Sentence, word_range: _Range) -> None:
    """Replace the words of a multiword range by slices of its surface form."""
    start, end = word_range.start, word_range.end
    forms = sentence.words[start:end]
    parts = _parts(word_range.form, forms)
    sentence.words[start:end] = parts
    sentence.spaces[start:end] = [False] * (end - start - 1) + [word_range.space]
    sentence.multiword.append((start, end))
    for i, (form, part) in enumerate(zip(forms, parts, strict=True), start):
        if form != part:
            sentence.forms[i] = form


def _parts(surface: str, forms: list[str]) -> list[str]:
    """Cut a surface form into one part per word form; each part is the prefix the two share.

    im, [in, dem] -> i, m. If the surface form has fewer letters than words, the forms are used.
    """
    if len(surface) < len(forms):
        return forms
    parts = []
    for following, form in zip(range(len(forms) - 1, 0, -1), forms, strict=False):
        pairs = enumerate(zip(form, surface, strict=False))
        shared = next((i for i, (one, two) in pairs if one != two), len(form))
        length = max(1, min(shared, len(surface) - following))
        parts.append(surface[:length])
        surface = surface[length:]
    return [*parts, surface]


# --- reading --------------------------------------------------------------------------------------

__all__ = ["reader", "write"]

_HEADER = "global.Entity"
_INSIDE = 2**64 - 1  # -1: a word that does not start a sentence


@dataclass(slots=True)
class _Placed:
    """A sentence with its position in its document."""

    sentence: Sentence
    name: str
    document: str
    opens_document: bool
    start: int  # index of its first word in the document
    mentions: list[LayeredMention]  # those that end in this sentence; indices as in `start`


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """A reader of CoNLL-U files, with one vocabulary for all their Docs."""
    vocab = vocabulary(options.language)
    return Reading(partial(_docs, options.unit, vocab, column_codes(vocab)))


def _docs(unit: Unit, vocab: Vocab, codes: Sequence[Codes], path: Path) -> Iterator[Doc]:
    with_layers = _mention_layers(path)
    document: list[_Placed] = []
    try:
        for placed in _placed(path, codes):
            if unit == "sentence":
                yield _doc(vocab, [placed], with_layers)
                continue
            if placed.opens_document and document:
                yield _doc(vocab, document, with_layers)
                document = []
            document.append(placed)
    except LineError as error:
        raise WorkbenchError(
            error.what, code="file-format", where=f"{path}:{error.line}", remedy=error.remedy
        ) from None
    if document:
        yield _doc(vocab, document, with_layers)


def _mention_layers(path: Path) -> frozenset[str]:
    """The layers of the mentions; the first Doc already needs all of them."""
    layers: frozenset[str] = frozenset()
    for _, line in numbered_lines(path):
        if line.startswith("#"):
            key, value = _comment(line)
            layers |= layers_of(value.split("-")) if key == _HEADER else frozenset()
        elif not layers and "Entity=" in line and ("\tEntity=" in line or "|Entity=" in line):
            return frozenset(LAYERS)  # without a header
        if len(layers) == len(LAYERS):
            break
    return layers


def _comment(line: str) -> tuple[str, str]:
    """The key of a comment, and its value."""
    key, _, value = line[1:].partition("=")
    return key.strip(), value.strip()


def _placed(path: Path, codes: Sequence[Codes]) -> Iterator[_Placed]:
    position = _Position(path)
    lines: list[str] = []
    first = 0
    for line_number, line in numbered_lines(path):
        if not line or not line.strip(" "):
            if lines:
                yield position.place(parse(lines, first, codes))
            position.sentence_name, lines = "", []
        elif line[0] == "#":
            if lines:
                raise LineError(
                    line_number,
                    "a comment is inside a sentence.",
                    "End the sentence before the comment with an empty line.",
                )
            position.read_comment(line, line_number)
        else:
            first = first if lines else line_number
            lines.append(line)
    if lines:
        yield position.place(parse(lines, first, codes))
    position.require_closed()


class _Position:
    """The position in a file: the document, its open brackets, its words so far."""

    def __init__(self, path: Path) -> None:
        plain = path.with_suffix("") if path.suffix in COMPRESSED else path
        self.sentence_name = ""
        self._stem = self._document = plain.stem
        self._documents = 1
        self._words = 0
        self._brackets = Brackets(GUM_FIELDS)

    def read_comment(self, comment: str, line: int) -> None:
        """Read a comment if its key is known: sent_id, newdoc, newdoc id or global.Entity."""
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
                    "Name the fields of the mentions, for example global.Entity = eid-etype-head.",
                ) from None

    def place(self, sentence: Sentence) -> _Placed:
        """The sentence, positioned after those before it."""
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
                    "Correct the brackets of Entity=: open and close each mention once.",
                ) from None
        mentions = self._brackets.take() if sentence.entities else []
        return _Placed(sentence, self.sentence_name, self._document, start == 0, start, mentions)

    def require_closed(self) -> None:
        """Raise an error if a bracket is still open at the end of a document."""
        if unclosed := self._brackets.unclosed():
            name, line = unclosed
            raise LineError(
                line,
                f"the bracket ({name} is not closed before the document ends.",
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
    # set last: spaCy starts a sentence at every root, and may split sentences with crossing arcs
    doc.from_array([SENT_START], np.array(starts, dtype=np.uint64))  # type: ignore[arg-type]
    doc._.document = placed[0].document
    doc._.sent_ids = tuple(each.name for each in placed)
    _add_multiword(doc, placed)
    if with_layers:
        mentions = [each for sentence in placed for each in sentence.mentions]
        _add_mentions(doc, base, mentions, with_layers)
    return doc


def _add_mentions(
    doc: Doc, base: int, mentions: list[LayeredMention], with_layers: frozenset[str]
) -> None:
    mentions.sort(key=lambda each: (each.mention.start, -each.mention.end, each.order))
    for layer in LAYERS:
        if layer in with_layers:
            inside = [m for each in mentions if (m := each.in_layer(layer)) and m.start >= base]
            shifted = [Mention(m.start - base, m.end - base, m.label, m.id) for m in inside]
            set_spans(doc, layer, shifted)


def _add_multiword(doc: Doc, placed: Sequence[_Placed]) -> None:
    ranges = []
    for each in placed:
        offset = each.start - placed[0].start
        ranges += [(offset + start, offset + end) for start, end in each.sentence.multiword]
        for word, form in each.sentence.forms.items():
            doc[offset + word]._.form = form
    if ranges:
        doc._.multiword = tuple(ranges)
