"""CoNLL's columns of words and entities: a word a line, its BIO tag last, an empty line between
sentences; as in CoNLL-2003, WNUT and MultiCoNER.

Columns stand between tabs, or between spaces where a line has none. The first is the word, the last
its tag (BIO, BIOES or BILOU); of four columns or more the second is a part of speech, unless it is
`_` or `-X-`. `-DOCSTART-` begins a document. A line that starts with `# ` before a sentence's first
word, and ends in no tag, is a comment. Where white space was is not known: one stands after every
word. Trees are another format (`.conllu`).

Costs some 0.5 s for 10,000 sentences, and the memory of one Doc.
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

DOCUMENT = "-DOCSTART-"
NO_TAG = ("", "_", "-X-")
TAGGED = 4  # columns, from which on the second is a part of speech
_GAP = re.compile(r"[ \t]+")


@dataclass
class _Sentence:
    """Words with what is said of each; `document` counts from 1."""

    document: int
    words: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # of speech
    tags: list[str] = field(default_factory=list)


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """Read every sentence, or document, as one Doc."""
    return Reading(partial(_docs, unit=options.unit, vocab=vocabulary(options.language)))


def _docs(path: Path, unit: Unit, vocab: Vocab) -> Iterator[Doc]:
    held: list[_Sentence] = []
    for sentence in _sentences(path):
        if held and (unit == "sentence" or sentence.document != held[0].document):
            yield _doc(held, stem(path), vocab)
            held = []
        held.append(sentence)
    if held:
        yield _doc(held, stem(path), vocab)


def _sentences(path: Path) -> Iterator[_Sentence]:
    found, filled = _Sentence(1), False  # whether its document has words yet
    for number, line in numbered_lines(path):
        columns = _columns(line)
        if columns[0] == DOCUMENT or not any(columns):
            if found.words:
                yield found
                filled = True
            begins = filled and columns[0] == DOCUMENT
            found = _Sentence(found.document + begins)
            filled = filled and not begins
        elif found.words or not line.startswith("# ") or is_tag(columns[-1]):
            _put(found, columns, f"{path}:{number}")
    if found.words:
        yield found


def _columns(line: str) -> list[str]:
    if "\t" in line:
        return [column.strip(" ") for column in line.rstrip(" \t").split("\t")]
    return _GAP.split(line.strip(" "))


def _put(found: _Sentence, columns: list[str], where: str) -> None:
    word, tag = columns[0], columns[-1]
    if len(columns) < 2 or not word:
        raise WorkbenchError(
            f"a line with {'no word' if len(columns) > 1 else 'one column'}.",
            where=where,
            remedy="Every line has a word first and its tag last, between tabs or spaces.",
        )
    if not is_tag(tag):
        trees = len(columns) == 10 and columns[0].isdecimal()
        raise WorkbenchError(
            f"{tag!r:.60} is not a BIO tag.",
            where=where,
            remedy="These look like trees: call the file .conllu."
            if trees
            else f"The last column holds a tag of each word. {KNOWN}",
        )
    found.words.append(word)
    found.parts.append(columns[1] if len(columns) >= TAGGED else "")
    found.tags.append(tag)


def _doc(sentences: Sequence[_Sentence], name: str, vocab: Vocab) -> Doc:
    words = [word for each in sentences for word in each.words]
    starts: list[bool | int | None] = [
        not place for each in sentences for place in range(len(each.words))
    ]
    parts = [part for each in sentences for part in each.parts]
    spaces = [place + 1 < len(words) for place in range(len(words))]
    tags = ["" if part in NO_TAG else part for part in parts]
    own = tags if any(tags) else None
    doc = Doc(vocab, words=words, spaces=spaces, sent_starts=starts, tags=own)
    spans: list[Mention] = []
    before = 0
    for each in sentences:
        moved = (Mention(s + before, e + before, label) for s, e, label in spans_of(each.tags))
        spans += sorted(moved)
        before += len(each.words)
    set_spans(doc, "entities", spans)
    number = sentences[0].document
    doc._.document = name if number == 1 else f"{name}-{number}"
    doc._.sent_ids = ("",) * len(sentences)
    return doc
