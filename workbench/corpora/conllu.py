"""CoNLL-U, the treebanks' format: words, lemmas, tags, features, trees, and GUM's entity brackets.

A Doc is a sentence, or with `unit="document"` everything from one `# newdoc` to the next (a file
without any is one document). `doc.text` is the raw text, less the space that may follow its end. Of
words written as one it shows each one's part, and `token._.form` is the real form where that
differs. `_` stands for nothing; enhanced dependencies and empty nodes are left out.

If a file has entity brackets, each of its Docs has the layers `entities` and `coreference`, both
with every mention, unless they are told apart (see `workbench.corpora.gum_entities`). A Doc of one
sentence leaves out mentions that go on into the next.

Reading costs about 1 s for 10,000 sentences, 2 s with entities, and the memory of one Doc; a file
is looked through for brackets first, until both layers are found.
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
from workbench.corpora.conllu_writer import write
from workbench.corpora.corpus import Options, Reading, Unit
from workbench.corpora.gum_entities import GUM_FIELDS, LAYERS, Brackets, Found, layers_of
from workbench.corpora.layers import Mention, set_spans, vocabulary

# --- one sentence of CoNLL-U: from its lines to words, spaces and columns of spaCy's numbers ------
#
# Works on whole columns, and since a treebank repeats itself, each distinct tag, lemma or feature
# set is looked up once and remembered. Costs two microseconds a word.

ATTRIBUTES = [LEMMA, POS, TAG, MORPH, HEAD, DEP]  # in the order of CoNLL-U's columns

_UPOS = {name: int(code) for name, code in PARTS_OF_SPEECH.items() if name}
_UNDERSCORE: int = SYMBOLS["_"]
_IDS = [str(number) for number in range(1, 1001)]  # longer sentences are numbered word by word
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_EMPTY_NODE = re.compile(r"([0-9]{1,9})\.[0-9]{1,9}")
_NO_HEAD = -1
_UNSIGNED = 2**64 - 1  # spaCy's arrays hold a negative number as its two's complement


class LineError(Exception):
    """What is wrong on which line; the reader adds the file's name."""

    def __init__(self, line: int, what: str, remedy: str) -> None:
        self.line, self.what, self.remedy = line, what, remedy
        super().__init__(what)


class Entity(NamedTuple):
    """The brackets of one word: they open before the word `start` and close before `end`."""

    start: int
    end: int
    brackets: str
    line: int


@dataclass(slots=True)
class Sentence:
    """A sentence as it enters a Doc; positions count its own words from 0."""

    words: list[str]  # as the text shows them
    spaces: list[bool]
    columns: list[list[int]]  # one for each of ATTRIBUTES
    entities: list[Entity]
    forms: dict[int, str]  # of words of which the text shows something else
    multiword: list[tuple[int, int]]


class _Range(NamedTuple):
    """Words written as one: from `start` to before `end`."""

    start: int
    end: int
    form: str
    space: bool
    line: int


class _CellError(ValueError):
    """What is wrong in a cell, whatever its line, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


class Codes(dict[str, int]):
    """spaCy's number for each string of a column, remembered; _CellError for one without any."""

    def __init__(self, code: Callable[[str], int], nothing: int = 0) -> None:
        super().__init__({"_": nothing})
        self._code = code

    def __missing__(self, text: str) -> int:
        number = self[text] = self._code(text)
        return number


def column_codes(vocab: Vocab) -> list[Codes]:
    """How to read the columns of ATTRIBUTES with this vocabulary."""
    name = vocab.strings.add

    def features(text: str) -> int:
        try:
            key: int = vocab.morphology.add(text)
            whole = vocab.strings[key].count("=") == text.count("=")
        except ValueError:
            whole = False
        if not whole:
            raise _CellError(
                f"the features {text!r} are not Name=Value pairs, each name once.",
                "Write features like Case=Nom|Number=Sing, or _ for none.",
            )
        return key

    heads = Codes(_head, nothing=_NO_HEAD)
    return [Codes(name), Codes(_upos), Codes(name), Codes(features), heads, Codes(name)]


def _upos(text: str) -> int:
    if text not in _UPOS:
        raise _CellError(f"{text!r} is no universal part of speech.", did_you_mean(text, _UPOS))
    return _UPOS[text]


def _head(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _CellError(
            f"the head {text[:40]!r} is not the number of a word.",
            "Write the number of a word of this sentence, 0 for the root, or _.",
        )
    return int(text)


def parse(lines: Sequence[str], first: int, codes: Sequence[Codes]) -> Sentence:
    """Read the word lines of one sentence, the first of which has the line number `first`."""
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows, first):
        if len(row) != 10:
            raise LineError(
                number,
                f"it has {len(row)} of 10 columns.",
                "Separate columns by single tabs, and sentences by empty lines.",
            )
    numbers: Sequence[int] = range(first, first + len(rows))
    ranges: list[_Range] = []
    empty_nodes: list[Entity] = []
    if [row[0] for row in rows] != _IDS[: len(rows)]:
        rows, numbers, ranges, empty_nodes = _words_only(rows, first)
    _, forms, *texts, _, notes = zip(*rows, strict=True)
    if "" in forms:
        raise LineError(
            numbers[forms.index("")],
            "the word is empty.",
            "Write the word in the second column, or _ where it is not known.",
        )
    columns = [_coded(code, text, numbers) for code, text in zip(codes, texts, strict=True)]
    if "_" in forms:
        both = [form == lemma == "_" for form, lemma in zip(forms, texts[0], strict=True)]
        columns[0] = [_UNDERSCORE if b else code for b, code in zip(both, columns[0], strict=True)]
    columns[4] = _offsets(columns[4], columns[5], numbers)
    spaces = [not ("SpaceAfter=No" in note and _glued(note)) for note in notes]
    entities = [e for i, note in enumerate(notes) for e in _entities(note, i, i + 1, numbers[i])]
    if empty_nodes:
        entities = sorted(entities + empty_nodes, key=lambda entity: entity.line)
    sentence = Sentence(list(forms), spaces, columns, entities, {}, [])
    for found in ranges:
        _write_as_one(sentence, found)
    return sentence


def _words_only(
    rows: list[list[str]], first: int
) -> tuple[list[list[str]], list[int], list[_Range], list[Entity]]:
    """Part the words, with their line numbers, from ranges of words and from empty nodes."""
    words: list[list[str]] = []
    numbers: list[int] = []
    ranges: list[_Range] = []
    entities: list[Entity] = []
    for number, row in enumerate(rows, first):
        here = len(words)
        if row[0] == str(here + 1):
            words.append(row)
            numbers.append(number)
        elif match := _RANGE.fullmatch(row[0]):
            start, end = int(match[1]) - 1, int(match[2])
            if start != here or end <= start or (ranges and start < ranges[-1].end) or not row[1]:
                raise LineError(
                    number,
                    f"{row[0]} is no range of words that can begin here.",
                    f"A range stands before its first word, here {here + 1}, ends after it, and "
                    "overlaps no other.",
                )
            ranges.append(_Range(start, end, row[1], not _glued(row[9]), number))
        elif (match := _EMPTY_NODE.fullmatch(row[0])) and int(match[1]) == here:
            entities += _entities(row[9], here, here, number)
        else:
            raise LineError(
                number,
                f"the number is {row[0][:40]!r} where word {here + 1} is due.",
                "Number the words of a sentence from 1, and end sentences with an empty line.",
            )
    if ranges and ranges[-1].end > len(words):
        raise LineError(
            ranges[-1].line,
            f"the range goes past the last word, {len(words)}.",
            "Correct where the range ends, or add the words that are missing.",
        )
    if not words:
        raise LineError(
            first, "the sentence has no words.", "Add its words, numbered from 1, or remove it."
        )
    return words, numbers, ranges, entities


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
    """How far each word's head is, as spaCy counts, once every word is seen to have a root."""
    if _NO_HEAD in heads or 0 in relations:
        for head, relation, line in zip(heads, relations, lines, strict=True):
            if (head == _NO_HEAD) != (relation == 0):
                raise LineError(
                    line,
                    "the word has a head or a relation, but not both.",
                    "Write _ for both, or name the relation; `dep` is UD's for an unknown one.",
                )
    if max(heads) > len(heads):
        far = next(i for i, head in enumerate(heads) if head > len(heads))
        raise LineError(
            lines[far],
            f"the head {heads[far]} is past the last word, {len(heads)}.",
            "Write the number of a word of this sentence, 0 for the root, or _.",
        )
    met_from = [0] * len(heads)  # the word from whose walk to the root each was first met
    for word in range(1, len(heads) + 1):
        at = word
        while at > 0 and not met_from[at - 1]:
            met_from[at - 1] = word
            at = heads[at - 1]
        if at > 0 and met_from[at - 1] == word:
            raise LineError(
                lines[at - 1],
                f"from word {at}, the heads lead round in a circle.",
                "Correct one of these heads: from every word they must lead to a root, 0.",
            )
    return [head - word & _UNSIGNED if head > 0 else 0 for word, head in enumerate(heads, 1)]


def _write_as_one(sentence: Sentence, found: _Range) -> None:
    """Show the words of a range as slices of the one word they are written as."""
    start, end = found.start, found.end
    forms = sentence.words[start:end]
    parts = _parts(found.form, forms)
    sentence.words[start:end] = parts
    sentence.spaces[start:end] = [False] * (end - start - 1) + [found.space]
    sentence.multiword.append((start, end))
    for i, (form, part) in enumerate(zip(forms, parts, strict=True), start):
        if form != part:
            sentence.forms[i] = form


def _parts(surface: str, forms: list[str]) -> list[str]:
    """Cut a surface into as many parts as there are forms, each what it shares with its form.

    im, [in, dem] -> i, m. A surface with fewer letters than words is given up for the forms.
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
