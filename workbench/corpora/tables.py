"""Tables of sentence and sentence-pair tasks: TSV, CSV, and JSON objects, one example a row.

The first row of a TSV or CSV names the columns; `workbench.corpora.tasks` says what is made of
them. A TSV knows no quoting: a quotation mark is itself, as in MRPC, and neither tabs nor line ends
can stand within a text. A CSV is quoted as in RFC 4180, line ends within quotes included. Blank
lines are passed over.

Whether a column holds classes or scores is settled over all files together, so opening a table
reads it once through; then one row is held at a time.
"""

import csv
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from workbench.corpora.corpus import Options, Reading
from workbench.corpora.objects import numbered_objects
from workbench.corpora.pipelines import tokenizer
from workbench.corpora.tasks import Columns, Row, columns_of, survey, task_docs
from workbench.errors import WorkbenchError
from workbench.lines import COMPRESSED, numbered_lines, stem

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
