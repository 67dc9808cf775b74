"""CoNLL's columns of words and BIO tags of entities, as in CoNLL-2003, WNUT and MultiCoNER.

There is one word per line, with its tag last, and an empty line between sentences. Columns are
separated by tabs, or by spaces in a line without tabs. The first is the word, the last its tag
(BIO, BIOES or BILOU). With four columns or more, the second is a part of speech, unless it is `_`
or `-X-`. `-DOCSTART-` begins a document. A line that starts with `# ` before a sentence's first
word, and does not end in a tag, is a comment. The format does not store white space: a space
follows every word. Trees are another format (`.conllu`).

Costs: about 0.5 s for 10,000 sentences, and the memory of one Doc.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench.core.bio import KNOWN, is_tag, spans_of
from workbench.core.errors import WorkbenchError
from workbench.core.files import numbered_lines, stem
from workbench.corpora.corpus import Options, Reading, Unit
from workbench.corpora.layers import Mention, set_spans, vocabulary

READS = (".conll", ".bio")
PLACE = 2  # in lists of formats

DOCUMENT = "-DOCSTART-"
NO_TAG = ("", "_", "-X-")
TAGGED = 4  # minimum number of columns for the second to be a part of speech
_GAP = re.compile(r"[ \t]+")


@dataclass
class _Sentence:
    """Words with their parts of speech and tags; `document` counts from 1."""

    document: int
    words: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # of speech
    tags: list[str] = field(default_factory=list)


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """Read every sentence, or document, as one Doc."""
    return Reading(partial(_docs, unit=options.unit, vocab=vocabulary(options.language)))


def _docs(path: Path, unit: Unit, vocab: Vocab) -> Iterator[Doc]:
    document: list[_Sentence] = []
    for sentence in _sentences(path):
        if document and (unit == "sentence" or sentence.document != document[0].document):
            yield _doc(document, stem(path), vocab)
            document = []
        document.append(sentence)
    if document:
        yield _doc(document, stem(path), vocab)


def _sentences(path: Path) -> Iterator[_Sentence]:
    sentence, has_words = _Sentence(1), False  # whether its document has words yet
    for line_number, line in numbered_lines(path):
        columns = _columns(line)
        if columns[0] == DOCUMENT or not any(columns):
            if sentence.words:
                yield sentence
                has_words = True
            begins = has_words and columns[0] == DOCUMENT
            sentence = _Sentence(sentence.document + begins)
            has_words = has_words and not begins
        elif sentence.words or not line.startswith("# ") or is_tag(columns[-1]):
            _add_word(sentence, columns, f"{path}:{line_number}")
    if sentence.words:
        yield sentence


def _columns(line: str) -> list[str]:
    if "\t" in line:
        return [column.strip(" ") for column in line.rstrip(" \t").split("\t")]
    return _GAP.split(line.strip(" "))


def _add_word(sentence: _Sentence, columns: list[str], where: str) -> None:
    word, tag = columns[0], columns[-1]
    if len(columns) < 2 or not word:
        raise WorkbenchError(
            f"the line has {'no word' if len(columns) > 1 else 'one column'}.",
            code="file-format",
            where=where,
            remedy="Write the word first and its tag last, separated by tabs or spaces.",
        )
    if not is_tag(tag):
        trees = len(columns) == 10 and columns[0].isdecimal()
        raise WorkbenchError(
            f"{tag!r:.60} is not a BIO tag.",
            code="file-format",
            where=where,
            remedy="The file seems to contain trees: rename it to .conllu."
            if trees
            else f"The last column must be the tag of the word. {KNOWN}",
        )
    sentence.words.append(word)
    sentence.parts.append(columns[1] if len(columns) >= TAGGED else "")
    sentence.tags.append(tag)


def _doc(sentences: Sequence[_Sentence], name: str, vocab: Vocab) -> Doc:
    words = [word for each in sentences for word in each.words]
    starts: list[bool | int | None] = [i == 0 for each in sentences for i in range(len(each.words))]
    parts = [part for each in sentences for part in each.parts]
    spaces = [i + 1 < len(words) for i in range(len(words))]
    tags = ["" if part in NO_TAG else part for part in parts]
    doc_tags = tags if any(tags) else None
    doc = Doc(vocab, words=words, spaces=spaces, sent_starts=starts, tags=doc_tags)
    spans: list[Mention] = []
    before = 0
    for each in sentences:
        shifted = (Mention(s + before, e + before, label) for s, e, label in spans_of(each.tags))
        spans += sorted(shifted)
        before += len(each.words)
    set_spans(doc, "entities", spans)
    document = sentences[0].document
    doc._.document = name if document == 1 else f"{name}-{document}"
    doc._.sent_ids = ("",) * len(sentences)
    return doc
