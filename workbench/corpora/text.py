"""Plain text through a spaCy pipeline: a line is a paragraph, a blank line ends a document.

Runs of white space become one space before anything else looks at the text, so that no word is
made of space. Every paragraph goes through the pipeline by itself, whatever a Doc then is: a
sentence (without the space after it), or all paragraphs of a document joined by single spaces. A
sentence is named after its line and its place in it, `12.3`; a document after its file and its
place in that.

Held at a time: 32 paragraphs, or one document. With rules alone 10,000 sentences take about 1 s;
otherwise it is the pipeline that costs.
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

_ATTRIBUTES = [
    IDS[name]
    for name in "SPACY LEMMA NORM POS TAG MORPH HEAD DEP SENT_START "
    "ENT_IOB ENT_TYPE ENT_ID ENT_KB_ID".split()
]  # what a sentence takes over from its paragraph


class _Place(NamedTuple):
    """Where a paragraph stands."""

    document: int  # counted from 1
    line: int


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """Read sentences, or whole documents, by the pipeline that `options` name or that there is."""
    nlp, notes = load_pipeline(options.pipeline, options.language)
    docs = _sentences if options.unit == "sentence" else _documents
    return Reading(partial(docs, nlp=nlp), notes)


def _sentences(path: Path, nlp: Language) -> Iterator[Doc]:
    ruled = nlp.pipe_names == ["sentencizer"]
    cut: Callable[[Doc], Iterator[Doc]] = _cut_words if ruled else _cut_annotated
    for paragraph, place in _read(path, nlp):
        for number, doc in enumerate(cut(paragraph), start=1):
            doc._.document = f"{stem(path)}-{place.document}"
            doc._.sent_ids = (f"{place.line}.{number}",)
            yield doc


def _documents(path: Path, nlp: Language) -> Iterator[Doc]:
    for document, read in groupby(_read(path, nlp), key=lambda pair: pair[1].document):
        paragraphs = list(read)
        docs = [doc for doc, _ in paragraphs]
        whole = docs[0] if len(docs) == 1 else _joined(docs)
        whole._.document = f"{stem(path)}-{document}"
        whole._.sent_ids = tuple(
            f"{place.line}.{number}"
            for doc, place in paragraphs
            for number, _ in enumerate(doc.sents, start=1)
        )
        yield whole


def _joined(docs: list[Doc]) -> Doc:
    return Doc.from_docs(docs, exclude=["user_data"])  # type: ignore[call-arg]


def _read(path: Path, nlp: Language) -> Iterator[tuple[Doc, _Place]]:
    return nlp.pipe(_paragraphs(path, nlp.max_length), as_tuples=True)


def _paragraphs(path: Path, longest: int) -> Iterator[tuple[str, _Place]]:
    document, between = 0, True
    for line, raw in numbered_lines(path):
        text = " ".join(raw.split())
        if not text:
            between = True
            continue
        if len(text) > longest:
            raise WorkbenchError(
                f"a paragraph of {len(text):,} characters is more than the pipeline takes "
                f"at once ({longest:,}).",
                where=f"{path}:{line}",
                remedy="A line is a paragraph: break it into shorter lines.",
            )
        document += between
        between = False
        yield text, _Place(document, line)


def _cut_words(paragraph: Doc) -> Iterator[Doc]:
    """The sentences of a Doc that has nothing but words and sentence starts."""
    for sentence in paragraph.sents:
        yield Doc(
            paragraph.vocab,
            words=[token.text for token in sentence],
            spaces=[*(bool(token.whitespace_) for token in sentence[:-1]), False],
            sent_starts=[True, *[False] * (len(sentence) - 1)],
        )


def _cut_annotated(paragraph: Doc) -> Iterator[Doc]:
    """The sentences of a Doc with all that is known of them."""
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
# The spaCy pipelines that turn raw text into words, sentences and whatever else they predict.
#
# Nothing is ever downloaded here. Loading a pipeline takes a second or so and the memory of its
# model; one that only knows rules is made once, in 0.1 s, and keeps the words it has seen.

READ_WITH = "Read with the spaCy pipeline {}."  # which predicted whatever else than text there is
_BATCH = 32  # texts a pipeline holds at once
LONGEST = 300  # characters without a space that spaCy tokenizes at once: it takes time by n²
PART = 60  # characters of a longer piece that are tokenized at once, where it can be cut
_TOO_LONG = re.compile(rf"\S{{{LONGEST + 1},}}")
_UNCUT = re.compile(r"[^\W_]+|[\W_]")
_JOINING = ("Mn", "Me", "Mc", "Cf", "Sk")  # categories of what belongs to the character before


@cache
def blank(language: str) -> Language:
    """A language's tokenizer and nothing else, for texts of any length; one for all who ask."""
    return _rules(language)


@cache
def _rules_and_sentences(language: str) -> Language:
    nlp = _rules(language)
    nlp.add_pipe("sentencizer")
    return nlp


def _rules(language: str) -> Language:
    vocabulary(language)  # which knows the languages there are
    try:
        nlp = spacy.blank(language)
    except ImportError as error:
        raise WorkbenchError(
            f"the tokenizer for {language!r} needs a package: {_first_line(error)}",
            remedy="See https://spacy.io/usage/models#languages for what to install.",
        ) from None
    nlp.max_length = sys.maxsize
    return _bounded(nlp)


def load_pipeline(name: str | None, language: str) -> tuple[Language, tuple[str, ...]]:
    """The named pipeline, else an installed one of that language, else rules; with notes."""
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
        f"No spaCy pipeline for {language!r} is installed, so words and sentences come from rules, "
        "and there are no tags, lemmas, trees or entities. "
        f"For those {how} (or name a folder that holds a pipeline with pipeline= or --pipeline)."
    )
    return _rules_and_sentences(language), (note,)


def tokenizer(name: str | None, language: str) -> Language:
    """What tables need: the named pipeline, else words alone."""
    return blank(language) if name is None else _load(name)[0]


def _load(name: str) -> tuple[Language, tuple[str, ...]]:
    if (Path(name) / "meta.json").exists():
        for path in Path(name).rglob("*"):
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise WorkbenchError(
                    "this is a pipe, socket or device, not a file.",
                    where=str(path),
                    remedy="Put the pipeline's own files into the folder, and nothing else.",
                )
    try:
        nlp = spacy.load(name)
    except Exception as error:  # whatever a package or folder that is no pipeline leads to
        installed = ", ".join(sorted(get_installed_models())) or "none"
        raise WorkbenchError(
            f"the spaCy pipeline {name!r} cannot be loaded: {_first_line(error)}",
            remedy=f"To install it run: python -m spacy download {name}\n"
            f"  Or name a folder that holds a pipeline. Installed: {installed}.",
        ) from None
    _bounded(nlp).batch_size = _BATCH
    if any("token.is_sent_start" in nlp.get_pipe_meta(pipe).assigns for pipe in nlp.pipe_names):
        return nlp, ()
    nlp.add_pipe("sentencizer", first=True)
    return nlp, (f"The pipeline {name} finds no sentences; they end at full stops and their like.",)


def _bounded(nlp: Language) -> Language:
    """The same pipeline with a tokenizer whose time grows with the length of a text, not faster."""
    if isinstance(nlp.tokenizer, Tokenizer):
        nlp.tokenizer = partial(_tokenized, nlp.tokenizer)
    return nlp


def _tokenized(inner: Callable[[str], Doc], text: str) -> Doc:
    """spaCy's own words, but where more than LONGEST characters come without a space.

    Its tokenizer takes a sign off such a piece at a time and looks at all that is left: 8,000 "("
    take 10 s. Such pieces are tokenized part by part.
    """
    if not _TOO_LONG.search(text):
        return inner(text)
    starts = [0]
    for piece in _TOO_LONG.finditer(text):
        starts += _cuts(text, piece.start(), piece.end())
    parts = [inner(text[start:end]) for start, end in pairwise([*starts, len(text)])]
    whole = Doc.from_docs(parts, ensure_whitespace=False)
    assert isinstance(whole, Doc)
    return whole


def _cuts(text: str, start: int, end: int) -> list[int]:
    """Where parts begin: never inside a word, nor between a sign and marks that belong to it."""
    found, begun = [], start
    for unit in _UNCUT.finditer(text, start, end):
        at = unit.start()
        joins = category(text[at]) in _JOINING or text[at - 1] == "\u200d"
        if unit.end() - begun > PART and at > begun and not (joins and at - begun < 4 * PART):
            found.append(at)
            begun = at
    return found


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
