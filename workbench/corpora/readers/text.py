"""Plain text through a spaCy pipeline: a line is a paragraph, a blank line ends a document.

Runs of white space become one space first, so that no word consists of white space. Each paragraph
goes through the pipeline separately, whatever the unit of a Doc: a sentence (without the space
after it), or all paragraphs of a document joined by single spaces. A sentence is named by its line
and its position in it, `12.3`; a document by its file and its position in it.

Costs: about 1 s for 10,000 sentences with rules only, otherwise the time of the pipeline. 32
paragraphs, or one document, are in memory at a time.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple
from unicodedata import category

import numpy as np
import spacy
from spacy.attrs import IDS
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc, Span, SpanGroup
from spacy.util import get_installed_models

from workbench.core.errors import WorkbenchError
from workbench.core.files import numbered_lines, stem
from workbench.corpora.corpus import Options, Reading
from workbench.corpora.layers import vocabulary
from workbench.corpora.readers import gaps

READS = (".txt",)
PLACE = 7  # in lists of formats

_ATTRIBUTES = [
    IDS[name]
    for name in "SPACY LEMMA NORM POS TAG MORPH HEAD DEP SENT_START "
    "ENT_IOB ENT_TYPE ENT_ID ENT_KB_ID".split()
]  # the attributes that a sentence copies from its paragraph


class _Position(NamedTuple):
    """The position of a paragraph in its file."""

    document: int  # counted from 1
    line: int


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """A reader of sentences or documents, with the pipeline of `options` or an installed one."""
    if paths and gaps.is_childrens_book_test(paths[0]):
        nlp = tokenizer(options.pipeline, options.language)
        return Reading(partial(gaps.childrens_book_test, nlp=nlp), (gaps.READ,))
    nlp, notes = load_pipeline(options.pipeline, options.language)
    docs = _sentences if options.unit == "sentence" else _documents
    return Reading(partial(docs, nlp=nlp), notes)


def _sentences(path: Path, nlp: Language) -> Iterator[Doc]:
    rules_only = nlp.pipe_names == ["sentencizer"]
    split: Callable[[Doc], Iterator[Doc]] = _split_words if rules_only else _split_annotated
    for paragraph, position in _read(path, nlp):
        for index, doc in enumerate(split(paragraph), start=1):
            doc._.document = f"{stem(path)}-{position.document}"
            doc._.sent_ids = (f"{position.line}.{index}",)
            yield doc


def _documents(path: Path, nlp: Language) -> Iterator[Doc]:
    for document, read in groupby(_read(path, nlp), key=lambda pair: pair[1].document):
        paragraphs = list(read)
        docs = [doc for doc, _ in paragraphs]
        whole = docs[0] if len(docs) == 1 else _joined(docs)
        whole._.document = f"{stem(path)}-{document}"
        whole._.sent_ids = tuple(
            f"{position.line}.{index}"
            for doc, position in paragraphs
            for index, _ in enumerate(doc.sents, start=1)
        )
        yield whole


def _joined(docs: list[Doc]) -> Doc:
    return Doc.from_docs(docs, exclude=["user_data"])  # type: ignore[call-arg]


def _read(path: Path, nlp: Language) -> Iterator[tuple[Doc, _Position]]:
    return nlp.pipe(_paragraphs(path, nlp.max_length), as_tuples=True)


def _paragraphs(path: Path, longest: int) -> Iterator[tuple[str, _Position]]:
    document, between = 0, True
    for line, raw in numbered_lines(path):
        text = " ".join(raw.split())
        if not text:
            between = True
            continue
        if len(text) > longest:
            raise WorkbenchError(
                f"the paragraph has {len(text):,} characters; the pipeline's maximum is "
                f"{longest:,}.",
                code="text-too-long",
                where=f"{path}:{line}",
                remedy="One line is one paragraph: break it into shorter lines.",
            )
        document += between
        between = False
        yield text, _Position(document, line)


def _split_words(paragraph: Doc) -> Iterator[Doc]:
    """The sentences of a Doc that has only words and sentence starts."""
    for sentence in paragraph.sents:
        yield Doc(
            paragraph.vocab,
            words=[token.text for token in sentence],
            spaces=[*(bool(token.whitespace_) for token in sentence[:-1]), False],
            sent_starts=[True, *[False] * (len(sentence) - 1)],
        )


def _split_annotated(paragraph: Doc) -> Iterator[Doc]:
    """The sentences of a Doc with all their annotations."""
    values = paragraph.to_array(_ATTRIBUTES)  # [words, attributes]
    ends = np.array([sentence.end - 1 for sentence in paragraph.sents], dtype=np.int64)
    values[ends, _ATTRIBUTES.index(IDS["SPACY"])] = 0
    for sentence in paragraph.sents:
        doc = sentence.as_doc(array_head=_ATTRIBUTES, array=values)  # type: ignore[call-arg]
        for name, group in paragraph.spans.items():
            inside = [s for s in group if sentence.start <= s.start and s.end <= sentence.end]
            doc.spans[name] = SpanGroup(
                doc, name=name, spans=[_moved(s, doc, sentence) for s in inside]
            )
        yield doc


def _moved(span: Span, doc: Doc, sentence: Span) -> Span:
    first, last = span.start - sentence.start, span.end - sentence.start
    return Span(doc, first, last, label=span.label, span_id=span.id)


# --- spaCy pipelines ------------------------------------------------------------------------------
#
# The spaCy pipelines that turn raw text into words, sentences and other predicted layers. Nothing
# is downloaded here.
#
# Costs: about one second and the memory of the model to load a pipeline. A pipeline of rules only
# is made once, in 0.1 s, and keeps the words it has seen.

READ_WITH = "Read with the spaCy pipeline {}."  # it predicted every layer except the text
_BATCH = 32  # texts per batch of a pipeline
LONGEST = 300  # maximum characters without a space that spaCy tokenizes at once: its time is n²
PART = 60  # characters per part of a longer piece, if it can be split there
_TOO_LONG = re.compile(rf"\S{{{LONGEST + 1},}}")
_UNIT = re.compile(r"[^\W_]+|[\W_]")
_JOINING = ("Mn", "Me", "Mc", "Cf", "Sk")  # categories of characters that belong to the one before


@cache
def blank(language: str) -> Language:
    """A language's tokenizer without other components, for texts of any length; cached."""
    return _rules(language)


@cache
def _rules_and_sentences(language: str) -> Language:
    nlp = _rules(language)
    nlp.add_pipe("sentencizer")
    return nlp


def _rules(language: str) -> Language:
    vocabulary(language)  # raises an error for an unknown language
    try:
        nlp = spacy.blank(language)
    except ImportError as error:
        raise WorkbenchError(
            f"the tokenizer for {language!r} needs a package: {_first_line(error)}",
            code="package-missing",
            remedy="Install the package that https://spacy.io/usage/models#languages names, or use "
            "the language xx, which splits words at spaces and punctuation.",
        ) from None
    nlp.max_length = sys.maxsize
    return _bounded(nlp)


def load_pipeline(name: str | None, language: str) -> tuple[Language, tuple[str, ...]]:
    """The named pipeline, else an installed one of the language, else rules; with notes."""
    if name is not None:
        nlp, notes = _load(name)
        return nlp, (READ_WITH.format(name), *notes)
    installed = sorted(m for m in get_installed_models() if m.split("_")[0] == language)
    if installed:
        nlp, notes = _load(installed[0])
        return nlp, (READ_WITH.format(installed[0]), *notes)
    how = (
        "run: python -m spacy download en_core_web_sm"
        if language == "en"
        else "install one of those listed at https://spacy.io/models"
    )
    note = (
        f"No spaCy pipeline for {language!r} is installed. Words and sentences come from rules, "
        "and there are no tags, lemmas, trees or entities. "
        f"To get these, {how} (or name a pipeline folder with pipeline= or --pipeline)."
    )
    return _rules_and_sentences(language), (note,)


def tokenizer(name: str | None, language: str) -> Language:
    """The pipeline for texts of a table: the named one, else a tokenizer only."""
    return blank(language) if name is None else _load(name)[0]


def _load(name: str) -> tuple[Language, tuple[str, ...]]:
    if (Path(name) / "meta.json").exists():
        for path in Path(name).rglob("*"):
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise WorkbenchError(
                    "this is a pipe, socket or device, not a file.",
                    code="file-unreadable",
                    where=str(path),
                    remedy="Keep only the pipeline's own files in the folder.",
                )
    try:
        nlp = spacy.load(name)
    except Exception as error:  # a package or folder that is not a pipeline can raise anything
        installed = ", ".join(sorted(get_installed_models())) or "none"
        raise WorkbenchError(
            f"the spaCy pipeline {name!r} cannot be loaded: {_first_line(error)}",
            code="pipeline-not-found",
            remedy=f"To install it, run: python -m spacy download {name}\n"
            f"  Or name a folder that holds a pipeline. Installed: {installed}.",
        ) from None
    _bounded(nlp).batch_size = _BATCH
    if any("token.is_sent_start" in nlp.get_pipe_meta(pipe).assigns for pipe in nlp.pipe_names):
        return nlp, ()
    nlp.add_pipe("sentencizer", first=True)
    return nlp, (
        f"The pipeline {name} does not split sentences. They end at full stops and similar marks.",
    )


def _bounded(nlp: Language) -> Language:
    """The same pipeline, with a tokenizer whose time is linear in the length of a text."""
    if isinstance(nlp.tokenizer, Tokenizer):
        nlp.tokenizer = partial(_tokenized, nlp.tokenizer)
    return nlp


def _tokenized(inner: Callable[[str], Doc], text: str) -> Doc:
    """The words of spaCy's tokenizer; pieces longer than LONGEST characters are split first.

    spaCy removes one sign at a time from a piece without spaces and then searches the remainder:
    8,000 "(" take 10 s. So such pieces are tokenized part by part.
    """
    if not _TOO_LONG.search(text):
        return inner(text)
    starts = [0]
    for piece in _TOO_LONG.finditer(text):
        starts += _split_points(text, piece.start(), piece.end())
    parts = [inner(text[start:end]) for start, end in pairwise([*starts, len(text)])]
    whole = Doc.from_docs(parts, ensure_whitespace=False)
    assert isinstance(whole, Doc)
    return whole


def _split_points(text: str, start: int, end: int) -> list[int]:
    """The starts of parts: never inside a word, nor between a sign and its combining marks."""
    points, part_start = [], start
    for unit in _UNIT.finditer(text, start, end):
        at = unit.start()
        joins = category(text[at]) in _JOINING or text[at - 1] == "\u200d"
        too_long = unit.end() - part_start > PART and at > part_start
        if too_long and not (joins and at - part_start < 4 * PART):
            points.append(at)
            part_start = at
    return points


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
