"""Plain text through a spaCy pipeline: a line is a paragraph, a blank line ends a document.

Runs of white space become one space before anything else looks at the text, so that no word is
made of space. Every paragraph goes through the pipeline by itself, whatever a Doc then is: a
sentence (without the space after it), or all paragraphs of a document joined by single spaces. A
sentence is named after its line and its place in it, `12.3`; a document after its file and its
place in that.

Held at a time: 32 paragraphs, or one document. With rules alone 10,000 sentences take about 1 s;
otherwise it is the pipeline that costs.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
from spacy.attrs import IDS
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup

from workbench.corpora.corpus import Options, Reading
from workbench.corpora.pipelines import load_pipeline
from workbench.errors import WorkbenchError
from workbench.lines import numbered_lines, stem

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
