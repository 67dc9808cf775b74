"""Tables of sentence and sentence-pair tasks: TSV, CSV, and JSON objects, one example a row.

The first row of a TSV or CSV names the columns; `workbench.corpora.tables` says what is made of
them. A TSV knows no quoting: a quotation mark is itself, as in MRPC, and neither tabs nor line ends
can stand within a text. A CSV is quoted as in RFC 4180, line ends within quotes included. Blank
lines are passed over.

Whether a column holds classes or scores is settled over all files together, so opening a table
reads it once through; then one row is held at a time.
"""

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import COMPRESSED, numbered_lines, stem
from workbench.corpora.corpus import Options, Reading
from workbench.corpora.json_objects import numbered_objects
from workbench.corpora.layers import Mention, mentions, set_spans
from workbench.corpora.text import tokenizer

# --- columns of a table ---------------------------------------------------------------------------
#
# What the columns of a table are called, before it is read, and which of them are known as texts.
#
# Looks at the beginning of the file only; costs nothing to speak of.

ENOUGH = 1 << 18  # bytes of a table's beginning that tell its columns
_LINES = 50  # objects looked at


class Named(NamedTuple):
    """A table's columns; `text` and `labels` are empty where the names do not tell."""

    names: tuple[str, ...]
    text: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def columns(name: str, beginning: bytes) -> Named:
    """The columns of a file of this name that begins so; none where it is no table."""
    ending = name.lower().rpartition(".")[2]
    lines = beginning[:ENOUGH].decode("utf-8-sig", "replace").split("\n")
    if ending == "tsv":
        header = next((line.removesuffix("\r") for line in lines if line.strip()), "")
        names = [cell.strip() for cell in header.split("\t")] if header else []
    elif ending == "csv":
        names = _of_csv(lines)
    elif ending in ("jsonl", "json"):
        names = _of_objects(lines)
    else:
        names = []
    unique = tuple(dict.fromkeys(names))
    if not unique:
        return Named(())
    try:
        found = columns_of(dict.fromkeys(unique, False), (), (), "")
    except WorkbenchError:
        return Named(unique)
    return Named(unique, found.text, tuple(found.scores))


def _of_csv(lines: list[str]) -> list[str]:
    try:
        rows = csv.reader(line + "\n" for line in lines)
        first = next((row for row in rows if any(cell.strip() for cell in row)), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in first]


def _of_objects(lines: list[str]) -> list[str]:
    names: list[str] = []
    for line in lines[:_LINES]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict) or "targets" in entry:
            return []
        names += [key for key, value in entry.items() if isinstance(value, str | int | float)]
    return names


# --- sentence and sentence-pair tasks: from a row of named values to a Doc ------------------------
#
# Which columns are texts is known by their names, or told; columns that number the rows are
# passed over; what is left is what is said of the text. A column is a score where every value in
# it is a number and at least one is no whole number, not counting nan, n/a and the like, which
# then say nothing; otherwise its values are the names of classes. A pair becomes one Doc, its
# texts joined by a space and marked by `doc.spans["segments"]`. White space within a text becomes
# single spaces. Each text is one sentence, except where a pipeline's parser divides it. SQuAD-
# like `answers` become `doc.spans["answers"]`, over the words they touch.
#
# Costs the tokenizer, or the pipeline: with rules alone 10,000 pairs take 1.5 to 3.5 s, by
# length.

_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "context"),
    ("question", "passage"),
    ("question", "sentence"),
    ("question1", "question2"),
    ("context", "hypothesis"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("sentence_a", "sentence_b"),
    ("sentence_good", "sentence_bad"),
    ("s1", "s2"),
    ("#1 string", "#2 string"),
)
_TEXTS = {name for pair in _PAIRS for name in pair} | {"sentence", "text"}
_IDS = {"", "id", "idx", "index", "pair_id", "pairid", "guid", "#1 id", "#2 id"}
_NOTHING = {"nan", "n/a", "na", "none", "null", "inf", "+inf", "-inf", "-", "?", "."}  # no number
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class Row(NamedTuple):
    """One example as it was found."""

    where: str  # file:line
    values: Mapping[str, object]


@dataclass(frozen=True)
class Columns:
    """What the columns of a table are."""

    text: tuple[str, ...]  # one, or two
    scores: Mapping[str, bool]  # the labels, and whether each is a score or a class
    id: str | None

    def describe(self) -> str:
        """What was made of the columns, for the user to check."""
        labels = (f"{name} ({'score' if s else 'class'})" for name, s in self.scores.items())
        return f"Text: {', '.join(self.text)}. Labels: {', '.join(labels) or 'none'}."


def survey(rows: Iterable[Row]) -> dict[str, bool]:
    """Every column with plain values, and whether it is a score; costs one pass over the rows."""
    numbers: dict[str, bool] = {}
    fractions: set[str] = set()
    for row in rows:
        for name, value in row.values.items():
            text = _plain(value)
            if text is None:
                continue
            if numbers.setdefault(name, True) and text and text.lower() not in _NOTHING:
                numbers[name] = _is_number(text)
                if numbers[name] and not float(text).is_integer():
                    fractions.add(name)
    return {name: numeric and name in fractions for name, numeric in numbers.items()}


def columns_of(
    scores: Mapping[str, bool], text: Sequence[str], labels: Sequence[str], where: str
) -> Columns:
    """Tell texts, labels and rows' names apart, by what the user said or by the columns' names."""
    for name in (*text, *labels):
        if name not in scores:
            raise WorkbenchError(
                f"there is no column {name!r}.", where=where, remedy=did_you_mean(name, scores)
            )
    if len(text) > 2 or len(set(text)) < len(text):
        raise WorkbenchError(
            f"the text columns are {', '.join(text)}.",
            where=where,
            remedy="Name one column, or the two of a pair.",
        )
    chosen = tuple(text) or _texts(scores, where)
    named = labels or [
        name
        for name in scores
        if name not in chosen and name.lower() not in _TEXTS | _IDS | {"split"}
    ]
    number = next((name for name in scores if name.lower() in _IDS and name not in chosen), None)
    return Columns(chosen, {name: scores[name] for name in named}, number)


def _texts(names: Iterable[str], where: str) -> tuple[str, ...]:
    by_lower: dict[str, str] = {}
    for name in names:
        by_lower.setdefault(name.lower(), name)
    for known in (*_PAIRS, ("sentence",), ("text",)):
        if all(name in by_lower for name in known):
            return tuple(by_lower[name] for name in known)
    listed = [repr(f"{name:.40}") for name in by_lower.values()]
    shown = ", ".join(listed[:20]) + (", …" if len(listed) > 20 else "")
    raise WorkbenchError(
        f"none of the columns is known to be a text: {shown}.",
        where=where,
        remedy="The first row names the columns. Name those of the text with text= (--text).",
    )


def task_docs(rows: Iterable[Row], columns: Columns, document: str, nlp: Language) -> Iterator[Doc]:
    """One Doc a row."""
    texts = ((_text(row, name), row) for row in rows for name in columns.text)
    parsed = nlp.pipe(_within_limit(texts, nlp.max_length), as_tuples=True)
    for parts in zip(*[parsed] * len(columns.text), strict=True):
        doc, row = _joined([part for part, _ in parts]), parts[0][1]
        if not doc.has_annotation("DEP"):
            _mark_sentences(doc, [len(part) for part, _ in parts])
        doc._.document = document
        name = _plain(row.values.get(columns.id)) if columns.id is not None else ""
        doc._.sent_ids = tuple(name or "" for _ in doc.sents)
        doc._.labels = dict(_labels(row, columns))
        if (answers := _answers(row, columns, doc)) is not None:
            set_spans(doc, "answers", answers)
        yield doc


def _text(row: Row, column: str) -> str:
    value = row.values.get(column)
    if not isinstance(value, str) or not value.strip():
        raise WorkbenchError(
            f"there is no text in column {column!r}.",
            where=row.where,
            remedy="Every row needs its text; in a pair, both.",
        )
    return " ".join(value.split())


def _within_limit(texts: Iterable[tuple[str, Row]], longest: int) -> Iterator[tuple[str, Row]]:
    for text, row in texts:
        if len(text) > longest:
            raise WorkbenchError(
                f"a text of {len(text):,} characters is more than a pipeline takes: {longest:,}.",
                where=row.where,
                remedy="Read it without a pipeline.",
            )
        yield text, row


def _joined(parts: list[Doc]) -> Doc:
    """One Doc, with its two segments marked where there are two."""
    if len(parts) == 1:
        return parts[0]
    doc: Doc = Doc.from_docs(parts, exclude=["user_data"])  # type: ignore[call-arg]
    middle = len(parts[0])
    set_spans(doc, "segments", [Mention(0, middle, "1"), Mention(middle, len(doc), "2")])
    return doc


def _mark_sentences(doc: Doc, lengths: Sequence[int]) -> None:
    starts = np.full(len(doc), -1, dtype=np.int64)  # [words]
    starts[np.cumsum([0, *lengths[:-1]])] = 1
    doc.from_array(["SENT_START"], starts.astype(np.uint64))  # type: ignore[arg-type]


def _labels(row: Row, columns: Columns) -> Iterator[tuple[str, str | float]]:
    for name, score in columns.scores.items():
        text = _plain(row.values.get(name))
        if text and not (score and text.lower() in _NOTHING):
            yield name, float(text) if score else text


def _plain(value: object) -> str | None:
    """A value as text, empty where there is none; None for a list or an object."""
    if value is None:
        return ""
    return str(value).strip() if isinstance(value, str | int | float) else None


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _answers(row: Row, columns: Columns, doc: Doc) -> list[Mention] | None:
    """The words that a SQuAD-like value's ranges of characters touch; None without such a value."""
    value = row.values.get("answers")
    if not isinstance(value, Mapping) or not {"text", "answer_start"} <= value.keys():
        return None
    place = next((i for i, n in enumerate(columns.text) if n.lower() == "context"), -1)
    context = str(row.values[columns.text[place]])
    segments = doc.spans["segments"] if len(columns.text) == 2 else [doc[:]]
    words = segments[place]
    found = []
    for start, end in _ranges(value, len(context), row.where):
        first, last = (words.start_char + _cleaned_length(context, at) for at in (start, end))
        touched = [
            token.i for token in words if token.idx < last and first < token.idx + len(token)
        ]
        if not touched:
            raise WorkbenchError(
                "an answer holds no word.",
                where=row.where,
                remedy="Correct its answer_start and text, or remove the answer: it must reach "
                "into a word of the context.",
            )
        found.append(Mention(touched[0], touched[-1] + 1, "answer"))
    return list(dict.fromkeys(found))


def _ranges(value: Mapping[str, object], longest: int, where: str) -> list[tuple[int, int]]:
    """Ranges of characters within a context of this length."""
    texts, starts = value["text"], value["answer_start"]
    if (
        isinstance(texts, list)
        and isinstance(starts, list)
        and len(texts) == len(starts)
        and all(isinstance(text, str) for text in texts)
        and all(type(start) is int for start in starts)
    ):
        ranges = [(start, start + len(text)) for start, text in zip(starts, texts, strict=True)]
        if all(0 <= start < end <= longest for start, end in ranges):
            return ranges
    raise WorkbenchError(
        '"answers" do not lie within the context.',
        where=where,
        remedy='They look like {"text": ["..."], "answer_start": [0]}, counted in characters.',
    )


def _cleaned_length(text: str, end: int) -> int:
    """How much of `text[:end]` is left once white space has become single spaces."""
    return len(_SPACE.sub(" ", text[:end].lstrip()))


# --- reading --------------------------------------------------------------------------------------

_LONGEST = 1 << 24  # characters in one field of a CSV; an unclosed quotation mark ends there

_Fields = Iterator[tuple[int, list[str]]]  # line number and fields of every row


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """Read every row as one Doc with its labels."""
    nlp = tokenizer(options.pipeline, options.language)
    if not any(True for path in paths for _ in _rows(path)):
        return Reading(lambda path: iter(()))
    scores = survey(row for path in paths for row in _rows(path))
    chosen = columns_of(scores, options.text, options.labels, str(paths[0]))
    return Reading(partial(_docs, chosen=chosen, nlp=nlp), (chosen.describe(),))


def _docs(path: Path, chosen: Columns, nlp: Language) -> Iterator[Doc]:
    return task_docs(_rows(path), chosen, stem(path), nlp)


def _rows(path: Path) -> Iterator[Row]:
    ending = path.suffixes[-2 if path.suffix in COMPRESSED else -1].lower()
    if ending == ".tsv":
        return _named(path, _tab_separated(path))
    if ending == ".csv":
        return _named(path, _comma_separated(path))
    return (Row(f"{path}:{number}", entry) for number, entry in numbered_objects(path))


def _tab_separated(path: Path) -> _Fields:
    for number, line in numbered_lines(path):
        if line.strip() or "\t" in line:
            yield number, line.split("\t")


def _comma_separated(path: Path) -> _Fields:
    csv.field_size_limit(max(_LONGEST, csv.field_size_limit()))
    rows = csv.reader((f"{line}\n" for _, line in numbered_lines(path)), strict=True)
    while True:
        number = rows.line_num + 1
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise WorkbenchError(
                f"not CSV from here on: {error}.",
                where=f"{path}:{number}",
                remedy='A field with a comma, a quotation mark or a line end in it stands in "…", '
                'and a quotation mark within it is doubled: "".',
            ) from None
        if len(fields) > 1 or any(field.strip() for field in fields):
            yield number, fields


def _named(path: Path, rows: _Fields) -> Iterator[Row]:
    first, header = next(rows, (0, []))
    names = [name.strip() for name in header]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise WorkbenchError(
            f"the first row names {', '.join(repr(f'{name:.40}') for name in twice)} twice.",
            where=f"{path}:{first}",
            remedy="The first row names the columns, each once.",
        )
    for number, fields in rows:
        if len(fields) != len(names):
            raise WorkbenchError(
                f"this row has {len(fields)} fields, the first row {len(names)}.",
                where=f"{path}:{number}",
                remedy="Every row has a field for each column, even where it is empty.",
            )
        yield Row(f"{path}:{number}", dict(zip(names, fields, strict=True)))


# --- minimal pairs: two sentences that differ in one thing, of which the first is right -----------
#
# They come as rows with both sentences (BLiMP's JSONL, whose columns `sentence_good` and
# `sentence_bad` are known; a folder of its files is one corpus), or as Docs one after the other
# that share a label `pair` (`primer/acceptability`). A stream; costs nothing beside the reading.

RIGHT = "acceptable"


class Pair(NamedTuple):
    """A sentence, the same with a fault, and what the fault is about, from fine to coarse."""

    good: Doc
    bad: Doc
    phenomenon: str  # BLiMP's `linguistics_term`; where there is none, what is next to it
    paradigm: str = ""  # BLiMP's `UID`
    field: str = ""  # BLiMP's: morphology, syntax, semantics, syntax_semantics

    @property
    def identical(self) -> bool:
        """Whether the two are the same text: some of BLiMP's are."""
        return self.good.text == self.bad.text


def minimal_pairs(docs: Iterable[Doc]) -> Iterator[Pair]:
    """The pairs there are in these Docs, in their order."""
    before: Doc | None = None
    found = False
    for doc in docs:
        segments = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
        if len(segments) == 2:
            good, bad = (_alone(doc[part.start : part.end]) for part in segments)
            found = True
            yield Pair(good, bad, *_about(doc))
        elif before is not None and _are_twins(before, doc):
            found = True
            first = before._.labels.get("acceptability") == RIGHT
            yield Pair(*((before, doc) if first else (doc, before)), *_about(doc))
            before = None
            continue
        before = doc
    if not found:
        raise WorkbenchError(
            "there are no minimal pairs in this corpus.",
            remedy="Read primer/acceptability, or BLiMP's JSONL: a file or the folder of all.",
        )


def _alone(part: Span) -> Doc:
    """A sentence without the space that follows it where another does."""
    spaces = [bool(token.whitespace_) for token in part]
    return Doc(part.doc.vocab, [token.text for token in part], [*spaces[:-1], False])


def _are_twins(first: Doc, second: Doc) -> bool:
    one, other = first._.labels, second._.labels
    judged = {one.get("acceptability"), other.get("acceptability")}
    return (
        "pair" in one and one["pair"] == other.get("pair") and RIGHT in judged and len(judged) == 2
    )


def _about(doc: Doc) -> tuple[str, str, str]:
    """Phenomenon, paradigm and field, as the labels of the text say."""
    known = {name: str(value) for name, value in doc._.labels.items()}
    paradigm, field = known.get("UID", ""), known.get("field", "")
    phenomenon = known.get("phenomenon") or known.get("linguistics_term")
    return phenomenon or paradigm or field or "all", paradigm, field
