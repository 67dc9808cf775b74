"""Tables of sentence and sentence-pair tasks: TSV, CSV, and JSON objects, one example per row.

The first row of a TSV or CSV names the columns. A TSV has no quoting: a quotation mark is an
ordinary character, as in MRPC, and a text cannot contain tabs or line ends. A CSV is quoted as in
RFC 4180, including line ends within quotes; it is separated by commas, or by the semicolons or tabs
of which its first row has more. Blank lines are skipped.

Whether a column holds classes or scores is decided over all files together. Costs: opening a table
reads it once completely; then one row is in memory at a time.
"""

import csv
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from workbench.core.errors import WorkbenchError, require_one_of
from workbench.core.files import COMPRESSED, numbered_lines, stem
from workbench.corpora.corpus import Options, Reading
from workbench.corpora.counterfactuals import (
    COLUMNS as COUNTERFACTUAL,
)
from workbench.corpora.counterfactuals import (
    alone,
    check_row,
    filled,
    mark_predicted,
    phenomenon_of,
)
from workbench.corpora.layers import Mention, mentions, set_spans
from workbench.corpora.readers import gaps
from workbench.corpora.readers.json_objects import numbered_objects
from workbench.corpora.readers.text import tokenizer

READS = (".tsv", ".csv")
PLACE = 6  # in lists of formats

# --- columns of a table ---------------------------------------------------------------------------
#
# The column names of a table before it is read, and which of them are known text columns.
#
# Costs: reading the beginning of the file.

ENOUGH = 1 << 18  # bytes at the beginning of a table that are searched for column names
_LINES = 50  # maximum number of JSON objects read


class ColumnNames(NamedTuple):
    """A table's columns; `text` and `labels` are empty if the text columns are unknown."""

    names: tuple[str, ...]
    text: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def columns(name: str, beginning: bytes) -> ColumnNames:
    """The columns of a file with this name and beginning; none if it is not a table."""
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
        return ColumnNames(())
    try:
        known = columns_of(dict.fromkeys(unique, False), (), (), "")
    except WorkbenchError:
        return ColumnNames(unique)
    return ColumnNames(unique, known.text, tuple(known.scores))


def _of_csv(lines: list[str]) -> list[str]:
    try:
        rows = csv.reader((line + "\n" for line in lines), delimiter=_separator(lines))
        first = next((row for row in rows if any(cell.strip() for cell in row)), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in first]


def _separator(lines: Iterable[str]) -> str:
    """What the first row of a CSV has most of: commas, or semicolons, or tabs."""
    return max(",;\t", key=next(filter(str.strip, lines), "").count)


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
# Text columns are known by their names, or named by the user. Columns of row ids are skipped; the
# remaining columns are labels. A column is a score if every value is a number and at least one is
# not whole; nan, n/a and similar values are ignored and mean no value. Otherwise its values are
# class names. A pair becomes one Doc: its texts are joined by a space and marked in
# `doc.spans["segments"]`. White space within a text becomes single spaces. Each text is one
# sentence, unless a pipeline's parser splits it. SQuAD-like `answers` become `doc.spans["answers"]`
# over the words they overlap.
#
# Costs: the tokenizer or the pipeline. With rules only, 10,000 pairs take 1.5 to 3.5 s, depending
# on their length.

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
    ("source", "target"),
    ("document", "summary"),
    ("article", "highlights"),
    ("s1", "s2"),
    ("#1 string", "#2 string"),
)
_TEXTS = {name for pair in _PAIRS for name in pair} | {"sentence", "text"}
_IDS = {"", "id", "idx", "index", "pair_id", "pairid", "guid", "#1 id", "#2 id"}
_MISSING = {"nan", "n/a", "na", "none", "null", "inf", "+inf", "-inf", "-", "?", "."}  # no number
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class Row(NamedTuple):
    """One example of a table, with its line, and its row in a spreadsheet if that is another."""

    where: str  # file:line
    values: Mapping[str, object]
    number: int = 0


@dataclass(frozen=True)
class Columns:
    """The columns of a table by their use: texts, labels and row ids."""

    text: tuple[str, ...]  # one or two
    scores: Mapping[str, bool]  # label -> whether it is a score (else a class)
    id: str | None
    predicted: tuple[str, ...] = ()  # the two words of a counterfactual pair
    leaves_out_blank: bool = False  # rows without a text

    def describe(self) -> str:
        """The use of each column, for the user to check."""
        labels = (f"{name} ({'score' if s else 'class'})" for name, s in self.scores.items())
        words = f" Predicted words: {', '.join(self.predicted)}." if self.predicted else ""
        return f"Text: {', '.join(self.text)}.{words} Labels: {', '.join(labels) or 'none'}."


class Survey(NamedTuple):
    """What one pass over the rows of a table finds in every column with plain values."""

    scores: Mapping[str, bool]  # whether it is a score
    blank: Mapping[str, tuple[int, str]]  # number of rows without a value, and the first of them
    n_rows: int


def survey(rows: Iterable[Row]) -> Survey:
    """Which columns of a table are scores, and in which rows they lack a value; in one pass."""
    numeric: dict[str, bool] = {}
    fractions: set[str] = set()
    blank: dict[str, tuple[int, str]] = {}
    n_rows = 0
    for row in rows:
        n_rows += 1
        for name, value in row.values.items():
            text = _plain(value)
            if text is None:
                continue
            if _is_blank(value):
                where = f"{row.where} (row {row.number:,})" if row.number else row.where
                n_blank, first = blank.get(name, (0, where))
                blank[name] = n_blank + 1, first
            if numeric.setdefault(name, True) and text and text.lower() not in _MISSING:
                numeric[name] = _is_number(text)
                if numeric[name] and not float(text).is_integer():
                    fractions.add(name)
    scores = {name: is_number and name in fractions for name, is_number in numeric.items()}
    return Survey(scores, blank, n_rows)


def columns_of(
    scores: Mapping[str, bool], text: Sequence[str], labels: Sequence[str], where: str
) -> Columns:
    """Texts, labels and row ids, from the user's options or from the column names."""
    for name in (*text, *labels):
        require_one_of(
            name, scores, f"there is no column {name!r}.", code="column-not-found", where=where
        )
    if len(text) > 2 or len(set(text)) < len(text):
        raise WorkbenchError(
            f"the text columns are {', '.join(text)}.",
            code="setting-invalid",
            where=where,
            remedy="Name one column, or the two columns of a pair.",
        )
    counterfactual = () if text else _named_so(scores, COUNTERFACTUAL)
    texts = tuple(text) or counterfactual[:2] or _texts(scores, where)
    label_names = labels or [
        name
        for name in scores
        if name not in (*texts, *counterfactual) and name.lower() not in _TEXTS | _IDS | {"split"}
    ]
    id_column = next((name for name in scores if name.lower() in _IDS and name not in texts), None)
    of_label = {name: scores[name] for name in label_names}
    return Columns(texts, of_label, id_column, counterfactual[2:])


def _named_so(names: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """The columns with these names in lower case; nothing unless there are all."""
    by_lower: dict[str, str] = {}
    for name in names:
        by_lower.setdefault(name.lower(), name)
    return tuple(by_lower[name] for name in known) if set(known) <= by_lower.keys() else ()


def _require_no_column_missing(names: Iterable[str], where: str) -> None:
    """An error for a table of counterfactual pairs that lacks some of its columns."""
    given = {name.lower() for name in names}
    if {"clean", "corrupt", "against"} & given:
        missing = [repr(name) for name in COUNTERFACTUAL if name not in given]
        raise WorkbenchError(
            f"there is no column {' or '.join(missing)}, and a table of pairs has all four.",
            code="column-not-found",
            where=where,
            remedy=f"Its columns are {', '.join(COUNTERFACTUAL)}: target is right in clean, "
            "against in corrupt. For other uses name the text columns with text= (--text).",
        )


def _texts(names: Collection[str], where: str) -> tuple[str, ...]:
    for known in (*_PAIRS, ("sentence",), ("text",)):
        if found := _named_so(names, known):
            return found
    _require_no_column_missing(names, where)
    lower = {name.lower() for name in names}
    for pair in _PAIRS:
        if len(missing := [name for name in pair if name not in lower]) == 1:
            (other,) = set(pair) - set(missing)
            raise WorkbenchError(
                f"there is a column {other!r}, and no column {missing[0]!r}.",
                code="column-not-found",
                where=where,
                remedy=f"Name the columns {pair[0]} and {pair[1]} in the first row, or name the "
                "text columns with text= (--text).",
            )
    listed = [repr(f"{name:.40}") for name in names]
    shown = ", ".join(listed[:20]) + (", …" if len(listed) > 20 else "")
    raise WorkbenchError(
        f"none of the columns has the name of a known text column: {shown}.",
        code="column-not-found",
        where=where,
        remedy="The first row must name the columns. Name the text column with text= (--text), "
        "or choose it on the page Corpora of the app.",
    )


def task_docs(rows: Iterable[Row], columns: Columns, document: str, nlp: Language) -> Iterator[Doc]:
    """One Doc per row."""
    if columns.leaves_out_blank:  # a row without the column is a mistake
        rows = (row for row in rows if not _is_blank(row.values.get(columns.text[0], columns)))
    texts = ((text, row) for row in rows for text, _ in _texts_of(row, columns))
    parsed = nlp.pipe(_within_limit(texts, nlp.max_length), as_tuples=True)
    for parts in zip(*[parsed] * len(columns.text), strict=True):
        doc, row = _joined([part for part, _ in parts]), parts[0][1]
        if columns.predicted:
            starts = [start for _, start in _texts_of(row, columns)]
            words = [_plain(row.values.get(name)) or "" for name in columns.predicted]
            mark_predicted(doc, starts, words, row.where)
        if not doc.has_annotation("DEP"):
            _mark_sentences(doc, [len(part) for part, _ in parts])
        doc._.document = document
        name = _plain(row.values.get(columns.id)) if columns.id is not None else ""
        doc._.sent_ids = tuple(name or "" for _ in doc.sents)
        doc._.labels = dict(_labels(row, columns))
        if (answers := _answers(row, columns, doc)) is not None:
            set_spans(doc, "answers", answers)
        yield doc


def _texts_of(row: Row, columns: Columns) -> list[tuple[str, int]]:
    """The texts of a row; in a counterfactual pair with the predicted words, and their starts."""
    if not columns.predicted:
        return [(_text(row, name), 0) for name in columns.text]
    words = [_plain(row.values.get(name)) or "" for name in columns.predicted]
    texts = [_text(row, name) for name in columns.text]
    check_row(dict(zip(COUNTERFACTUAL, [*texts, *words], strict=True)), row.where)
    parts = zip(texts, words, columns.text, strict=True)
    return [filled(text, word, column, row.where) for text, word, column in parts]


def _text(row: Row, column: str) -> str:
    if column not in row.values:  # another file of the corpus, or another object, has it
        listed = [f"{name:.40}" for name in row.values]
        shown = ", ".join(listed[:20]) + (", …" if len(listed) > 20 else "")
        raise WorkbenchError(
            f"there is no column {column!r}.",
            code="column-not-found",
            where=row.where,
            remedy=f"The columns here are {shown or 'none'}. Name the text column alike in all "
            "files and rows of a corpus.",
        )
    value = row.values[column]
    if not isinstance(value, str) or not value.strip():
        raise WorkbenchError(
            f"there is no text in column {column!r}.",
            code="file-format",
            where=row.where,
            remedy="Write a text in every row; in a pair, both texts.",
        )
    return " ".join(value.split())


def _within_limit(texts: Iterable[tuple[str, Row]], longest: int) -> Iterator[tuple[str, Row]]:
    for text, row in texts:
        if len(text) > longest:
            raise WorkbenchError(
                f"the text has {len(text):,} characters; the pipeline's maximum is {longest:,}.",
                code="text-too-long",
                where=row.where,
                remedy="Read the table without a pipeline.",
            )
        yield text, row


def _joined(parts: list[Doc]) -> Doc:
    """One Doc of one text, or of two texts that are marked as segments."""
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
        if text and not (score and text.lower() in _MISSING):
            yield name, float(text) if score else text


def _plain(value: object) -> str | None:
    """A value as text, empty for a missing value; None for a list or an object."""
    if value is None:
        return ""
    return str(value).strip() if isinstance(value, str | int | float) else None


def _is_blank(value: object) -> bool:
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or not str(value).strip()


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _answers(row: Row, columns: Columns, doc: Doc) -> list[Mention] | None:
    """The words that SQuAD-like character ranges overlap; None without such a value."""
    value = row.values.get("answers")
    if not isinstance(value, Mapping) or not {"text", "answer_start"} <= value.keys():
        return None
    segment = next((i for i, n in enumerate(columns.text) if n.lower() == "context"), -1)
    context = str(row.values[columns.text[segment]])
    segments = doc.spans["segments"] if len(columns.text) == 2 else [doc[:]]
    words = segments[segment]
    answers = []
    for start, end in _ranges(value, len(context), row.where):
        first, last = (words.start_char + _cleaned_length(context, at) for at in (start, end))
        overlapping = [
            token.i for token in words if token.idx < last and first < token.idx + len(token)
        ]
        if not overlapping:
            raise WorkbenchError(
                "an answer contains no word.",
                code="file-format",
                where=row.where,
                remedy="Correct its answer_start and text so that it overlaps a word of the "
                "context, or remove the answer.",
            )
        answers.append(Mention(overlapping[0], overlapping[-1] + 1, "answer"))
    return list(dict.fromkeys(answers))


def _ranges(value: Mapping[str, object], longest: int, where: str) -> list[tuple[int, int]]:
    """The character ranges of the answers, within a context of `longest` characters."""
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
        code="file-format",
        where=where,
        remedy='Write {"text": ["..."], "answer_start": [0]}, counted in characters.',
    )


def _cleaned_length(text: str, end: int) -> int:
    """The length of `text[:end]` after white space has become single spaces."""
    return len(_SPACE.sub(" ", text[:end].lstrip()))


# --- reading --------------------------------------------------------------------------------------

_LONGEST = 1 << 24  # maximum characters in one CSV field; an unclosed quotation mark ends there

QUOTED_LINES = "quoted-lines"  # the code of an error whose cause is that of all others

_Fields = Iterator[tuple[int, int, list[str]]]  # line number, row number and fields of each row


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """A reader of tables: every row is one Doc with its labels."""
    nlp = tokenizer(options.pipeline, options.language)
    first = next((row for path in paths for row in _rows(path)), None)
    if first is None:
        return Reading(lambda path: iter(()))
    if not options.text and (gap_of := gaps.gap_of(first.values)) is not None:
        return Reading(
            lambda path: gaps.docs(
                ((row.where, gap_of(row.values, row.where)) for row in _rows(path)), stem(path), nlp
            ),
            (gaps.READ,),
        )
    found = survey(row for path in paths for row in _rows(path))
    columns = columns_of(found.scores, options.text, options.labels, str(paths[0]))
    columns, notes = without_blank(columns, found)
    return Reading(
        lambda path: task_docs(_rows(path), columns, stem(path), nlp),
        (columns.describe(), *notes),
    )


def without_blank(columns: Columns, found: Survey) -> tuple[Columns, tuple[str, ...]]:
    """The columns, without the rows that lack a text where others have one, and a note on them."""
    n_blank, first = found.blank.get(columns.text[0], (0, ""))
    if len(columns.text) > 1 or n_blank in (0, found.n_rows):  # half a pair is a mistake
        return columns, ()
    number = "1 row has" if n_blank == 1 else f"{n_blank:,} rows have"
    return replace(columns, leaves_out_blank=True), (
        f"{number} no text in column {columns.text[0]!r}, and {'is' if n_blank == 1 else 'are'} "
        f"left out; the first is {Path(first).name}.",
    )


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
            yield number, number, line.split("\t")


def _comma_separated(path: Path) -> _Fields:
    csv.field_size_limit(max(_LONGEST, csv.field_size_limit()))
    rows = csv.reader(
        (f"{line}\n" for _, line in numbered_lines(path)),
        delimiter=_separator(line for _, line in numbered_lines(path)),
        strict=True,
    )
    for row in count(1):
        number = rows.line_num + 1
        try:
            fields = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise WorkbenchError(
                f"this is not valid CSV: {error}.",
                code="file-format",
                where=f"{path}:{number}",
                remedy='Put a field that contains a comma, a quotation mark or a line end in "…", '
                'and double each quotation mark within it: "".',
            ) from None
        if len(fields) > 1 or any(field.strip() for field in fields):
            yield number, row, fields


def _named(path: Path, rows: _Fields) -> Iterator[Row]:
    first, _, header = next(rows, (0, 0, []))
    names = [name.strip() for name in header]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise WorkbenchError(
            f"the first row repeats {', '.join(repr(f'{name:.40}') for name in repeated)}.",
            code="file-format",
            where=f"{path}:{first}",
            remedy="Name each column once in the first row.",
        )
    before = header
    for number, row, fields in rows:
        if len(fields) != len(names):
            if ".tsv" in path.suffixes and (_is_open(before[-1]) or _is_open(fields[-1])):
                raise WorkbenchError(
                    "a quoted text goes on in the next line, which a TSV cannot have.",
                    code=QUOTED_LINES,
                    where=f"{path}:{number}",
                    remedy="Save the table as CSV.",
                )
            raise WorkbenchError(
                f"this row has {len(fields)} fields, the first row {len(names)}.",
                code="file-format",
                where=f"{path}:{number}",
                remedy="Write a field for each column in every row, even if it is empty. A text "
                "with tabs or line ends is quoted in a CSV, and cannot be in a TSV.",
            )
        before = fields
        values = dict(zip(names, fields, strict=True))
        yield Row(f"{path}:{number}", values, row if row != number else 0)


def _is_open(field: str) -> bool:
    """Whether a field begins with a quotation mark that does not end in it."""
    return field.startswith('"') and field.count('"') % 2 == 1


# --- minimal pairs: two sentences that differ in one thing, of which the first is acceptable ------
#
# They are rows with both sentences (BLiMP's JSONL with its columns `sentence_good` and
# `sentence_bad`; a folder of its files is one corpus), or consecutive Docs that share a label
# `pair` (`primer/acceptability`). Costs: only the reading of the stream.

ACCEPTABLE = "acceptable"


class Pair(NamedTuple):
    """An acceptable sentence, its unacceptable variant, and the phenomenon that differs."""

    good: Doc
    bad: Doc
    phenomenon: str  # BLiMP's `linguistics_term`; if missing, the paradigm or the field
    paradigm: str = ""  # BLiMP's `UID`
    field: str = ""  # BLiMP's: morphology, syntax, semantics, syntax_semantics

    @property
    def identical(self) -> bool:
        """Whether the two texts are equal, as some of BLiMP's are."""
        return self.good.text == self.bad.text


def minimal_pairs(docs: Iterable[Doc]) -> Iterator[Pair]:
    """The minimal pairs of these Docs, in order."""
    before: Doc | None = None
    any_pair = False
    for doc in docs:
        segments = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
        if len(segments) == 2:
            good, bad = (alone(doc[part.start : part.end]) for part in segments)
            any_pair = True
            yield Pair(good, bad, *_about(doc))
        elif before is not None and _are_pair(before, doc):
            any_pair = True
            first = before._.labels.get("acceptability") == ACCEPTABLE
            yield Pair(*((before, doc) if first else (doc, before)), *_about(doc))
            before = None
            continue
        before = doc
    if not any_pair:
        raise WorkbenchError(
            "there are no minimal pairs in this corpus.",
            code="no-minimal-pairs",
            remedy="Read primer/acceptability, or BLiMP: one of its JSONL files, or their folder.",
        )


def _are_pair(first: Doc, second: Doc) -> bool:
    one, other = first._.labels, second._.labels
    labels = {one.get("acceptability"), other.get("acceptability")}
    same_pair = "pair" in one and one["pair"] == other.get("pair")
    return same_pair and ACCEPTABLE in labels and len(labels) == 2


def _about(doc: Doc) -> tuple[str, str, str]:
    """Phenomenon, paradigm and field, from the labels of the text."""
    known = {name: str(value) for name, value in doc._.labels.items()}
    return phenomenon_of(known), known.get("UID", ""), known.get("field", "")
