"""SQuAD as published, 1.1 and 2.0: one JSON object with articles, paragraphs and questions.

Each question is a row with its context, and is read as such a row of a table: a Doc of two texts
whose answers are spans, none if the question has no answer. Costs: the file in memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.files import numbered_lines, parse_json, stem
from workbench.corpora.corpus import Options, Reading
from workbench.corpora.readers.tables import Columns, Row, task_docs
from workbench.corpora.readers.text import tokenizer

BEGINNING = 1 << 16  # characters in which a file shows what it is
READ = "SQuAD: a question and its context in each text. The layer answers has the answers."


def is_squad(path: Path) -> bool:
    """Whether a JSON file begins as SQuAD's do."""
    start, length = [], 0
    for _, line in numbered_lines(path):
        start.append(line[:BEGINNING])
        length += len(line)
        if length > BEGINNING:
            break
    text = "".join(start)
    return text.lstrip().startswith("{") and '"data"' in text and '"paragraphs"' in text


def squad_reader(options: Options) -> Reading:
    """A reader of SQuAD: one Doc for each question."""
    nlp = tokenizer(options.pipeline, options.language)
    columns = Columns(("question", "context"), {}, "id")
    return Reading(
        lambda path: task_docs(_rows(path), columns, stem(path), nlp),
        (READ,),
    )


def _rows(path: Path) -> Iterator[Row]:
    try:
        content = parse_json("\n".join(line for _, line in numbered_lines(path)))
    except ValueError as error:
        raise _wrong(f"not JSON: {error}", str(path)) from None
    for number, article in enumerate(_list(content, "data", str(path)), 1):
        for place, paragraph in enumerate(
            _list(article, "paragraphs", f"{path}: article {number}")
        ):
            where = f"{path}: article {number}, paragraph {place + 1}"
            for asked in _list(paragraph, "qas", where):
                yield _row(paragraph, asked, where)


def _row(paragraph: Mapping[str, Any], asked: Any, where: str) -> Row:
    """A question with its context and answers, as a row of a table."""
    answers = _list(asked, "answers", where) if not _flag(asked) else []
    try:
        found = {
            "text": [answer["text"] for answer in answers],
            "answer_start": [answer["answer_start"] for answer in answers],
        }
        values = {"id": str(asked.get("id", "")), "question": asked["question"]}
        return Row(where, {**values, "context": paragraph["context"], "answers": found})
    except (KeyError, TypeError) as error:
        raise _wrong(f"{error} is missing in a question", where) from None


def _flag(asked: Any) -> bool:
    return isinstance(asked, Mapping) and bool(asked.get("is_impossible"))


def _list(content: Any, name: str, where: str) -> Sequence[Any]:
    value = content.get(name) if isinstance(content, Mapping) else None
    if not isinstance(value, list):
        raise _wrong(f"there is no list {name!r}", where)
    return value


def _wrong(what: str, where: str) -> WorkbenchError:
    return WorkbenchError(
        f"this is not a file of SQuAD: {what}.",
        code="file-format",
        where=where,
        remedy="Download it again, or write one question per line: "
        '{"question": "…", "context": "…", "answers": {"text": ["…"], "answer_start": [0]}}',
    )
