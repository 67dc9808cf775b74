"""A corpus of what is in memory: texts, lists of words, Docs, a table, a dataset, an open file.

    corpus(["The dog saw Mary."], options, open_file)           one Doc per text
    corpus([["The", "dog"], ["A", "cat"]], options, open_file)  words are taken as they are
    corpus({"train": frame, "test": other}, options, open_file) a split each

Texts go through a spaCy pipeline as those of a text file do; a table's columns are used as those of
a file are. What is read from an open file is a file again, of its name. The Docs are then those of
memory: a corpus has no source that it could be read from again, and its hash is of all its Docs.
Costs: Docs of texts are made once and kept; rows of a table one at a time, at each reading.
"""

import re
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from spacy.tokens import Doc

from workbench.core.errors import WorkbenchError
from workbench.corpora.corpus import Corpus, Options
from workbench.corpora.formats import SPLIT_NAMES, WHOLE, formats
from workbench.corpora.hub import of_splits
from workbench.corpora.readers.tables import Row, columns_of, survey, task_docs, without_blank
from workbench.corpora.readers.text import load_pipeline, tokenizer

OpenFile = Callable[[Path, Options], Corpus]
_NAMED = 40  # characters of the first text in the name of a corpus


def corpus(source: Any, options: Options, open_file: OpenFile) -> Corpus:
    """The corpus of some objects."""
    if isinstance(source, Corpus):
        return source
    if isinstance(source, Doc):
        source = [source]
    if isinstance(source, str):
        return _of_file(source.encode("utf-8", "surrogatepass"), ".txt", options, open_file, source)
    if callable(read := getattr(source, "read", None)):
        content = read()
        content = content.encode("utf-8") if isinstance(content, str) else content
        name = getattr(source, "name", "")
        name = Path(name).name if isinstance(name, str) else ""
        return _of_file(content, name, options, open_file, name or "an open file")
    if isinstance(source, Mapping):
        return _of_splits(source, options, open_file)
    if hasattr(source, "column_names") and hasattr(source, "features"):  # of the package datasets
        split = str(getattr(source, "split", None) or WHOLE)
        return of_splits("the dataset", {split: source}, options, _of_dataset(source))
    if hasattr(source, "to_dict") and hasattr(source, "iloc"):  # of pandas
        if not hasattr(source, "columns"):  # a series
            return corpus(source.tolist(), options, open_file)
        return _of_frame(source, options)
    if not isinstance(source, Iterable):
        raise _unreadable(source)
    return _of_items(list(source), options)


def _of_dataset(dataset: Any) -> str:
    name = getattr(getattr(dataset, "info", None), "dataset_name", None)
    return str(name or f"dataset of {len(dataset):,} rows")


def _of_splits(source: Mapping[Any, Any], options: Options, open_file: OpenFile) -> Corpus:
    """The corpus of a mapping from names of splits to what each has."""
    each = {str(name): corpus(part, options, open_file) for name, part in source.items()}
    if not each:
        raise _empty()
    splits = {SPLIT_NAMES.get(name, name): part.docs for name, part in each.items()}
    notes = dict.fromkeys(note for part in each.values() for note in part.notes)
    name = next(iter(each.values())).name
    return Corpus(name, splits, tuple(notes))


def _of_file(
    content: bytes, name: str, options: Options, open_file: OpenFile, shown: str
) -> Corpus:
    """The corpus of a file's content; its name says which format it has (default: text)."""
    ending = "".join(Path(f"a{name}").suffixes[-2:])
    if not any(ending.lower().endswith((known, f"{known}.gz")) for known in formats()):
        ending = ".txt"
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"{Path(name).name.removesuffix(ending) or 'text'}{ending}"
        draft.write_bytes(content)
        opened = open_file(draft, options)
        docs = {split: list(opened.docs(split)) for split in opened.splits}
    return _of_docs(_short(shown), docs, opened.notes)


def _of_frame(frame: Any, options: Options) -> Corpus:
    """The corpus of a data frame: a Doc per row."""
    name = f"data frame of {len(frame):,} rows"
    if not len(frame):
        raise _empty()
    records = frame.rename(columns=str).to_dict("records")
    rows = [Row(f"row {index} of the data frame", each) for index, each in enumerate(records)]
    try:
        found = survey(rows)
        columns = columns_of(found.scores, options.text, options.labels, name)
    except WorkbenchError as error:
        remedy = "Name it: wb.read(frame, text='COLUMN')." if not options.text else error.remedy
        raise WorkbenchError(error.what, code=error.code, where=name, remedy=remedy) from None
    nlp = tokenizer(options.pipeline, options.language)
    columns, notes = without_blank(columns, found)
    docs = partial(task_docs, rows, columns, "data frame", nlp)
    return Corpus(name, {WHOLE: docs}, (columns.describe(), *notes))


def _of_items(items: Sequence[Any], options: Options) -> Corpus:
    """The corpus of texts, of lists of words, or of Docs."""
    if not items:
        raise _empty()
    if all(isinstance(item, Doc) for item in items):
        return _of_docs(f"{len(items):,} Docs", {WHOLE: items})
    nlp, notes = load_pipeline(options.pipeline, options.language)
    if all(isinstance(item, str) for item in items):
        texts = [" ".join(item.split()) for item in items]
        _require_full(texts)
        docs = list(nlp.pipe(texts))
    elif all(_is_words(item) for item in items):
        _require_full(items)
        docs = [_of_words(nlp.vocab, item) for item in items]
        if nlp.pipe_names != ["sentencizer"]:  # of rules, which would look for ends of sentences
            docs = list(nlp.pipe(docs))
        texts = [" ".join(item) for item in items]
    else:
        wrong = next((each for each in items if not isinstance(each, str | Doc | list)), items[0])
        raise _unreadable(wrong)
    for index, doc in enumerate(docs, start=1):
        doc._.document = f"text {index}"
    more = f" and {len(items) - 1:,} more" if len(items) > 1 else ""
    return _of_docs(f"{_short(texts[0])}{more}", {WHOLE: docs}, notes)


def _is_words(item: object) -> bool:
    return isinstance(item, list | tuple) and all(isinstance(word, str) for word in item)


def _of_words(vocab: Any, words: Sequence[str]) -> Doc:
    """A sentence of these words, with a space between each two."""
    for word in words:
        if not word or re.search(r"\s", word):
            raise WorkbenchError(
                f"{word!r:.60} is no word: it is empty or has white space.",
                code="file-format",
                remedy="Write each word alone: [['The', 'dog', 'barks', '.']].",
            )
    spaces = [*[True] * (len(words) - 1), False]
    return Doc(vocab, list(words), spaces, sent_starts=[True, *[False] * (len(words) - 1)])


def _require_full(items: Sequence[Sequence[str]]) -> None:
    empty = next((index for index, item in enumerate(items) if not item), None)
    if empty is not None:
        raise WorkbenchError(
            f"text {empty + 1} of {len(items):,} is empty.",
            code="text-empty",
            remedy="Leave it out, or write a text.",
        )


def _of_docs(name: str, docs: Mapping[str, Sequence[Doc]], notes: tuple[str, ...] = ()) -> Corpus:
    if not any(map(len, docs.values())):
        raise _empty()
    splits = {split: partial(_each, made) for split, made in docs.items()}
    return Corpus(name, splits, notes)


def _each(docs: Sequence[Doc]) -> Iterator[Doc]:
    return iter(docs)


def _short(text: str) -> str:
    return textwrap.shorten(text, _NAMED, placeholder=" …") or f"{text.strip()[:_NAMED]} …"


def _empty() -> WorkbenchError:
    return WorkbenchError(
        "the corpus is empty.",
        code="corpus-empty",
        remedy="Pass at least one text, list of words, Doc or row.",
    )


def _unreadable(source: object) -> WorkbenchError:
    return WorkbenchError(
        f"this cannot be read as a corpus: {source!r:.60} ({type(source).__name__}).",
        code="wrong-type",
        remedy="Pass a file or name, a text, a list of texts, of lists of words or of Docs, a data "
        "frame, a dataset, an open file, or a mapping from splits to these.",
    )
