"""One sentence of CoNLL-U: from its lines to words, spaces and columns of spaCy's numbers.

Works on whole columns, and since a treebank repeats itself, each distinct tag, lemma or feature set
is looked up once and remembered. Costs two microseconds a word.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spacy.attrs import DEP, HEAD, LEMMA, MORPH, POS, TAG
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.symbols import IDS as SYMBOLS
from spacy.vocab import Vocab

from workbench.errors import did_you_mean

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
