"""A corpus looked at in parts, with bounds, however long it is: counts, passages, and finding.

A corpus is a stream, so the sentence with a number is reached by reading those before it: about a
second for 10,000. Whoever shows them keeps the passages that were reached.
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError
from workbench.corpora.corpus import Corpus
from workbench.corpora.formats import resolve

if TYPE_CHECKING:
    from spacy.tokens import Doc

COUNTED = 20_000  # sentences of a split that are counted unasked
PASSAGE = 200  # sentences that are read together
REACH = 20_000  # sentences searched at a time
HITS = 200  # sentences found in that reach, at most


@dataclass(frozen=True)
class Size:
    """How much there is of a split; at least that much where it was not read to its end."""

    split: str
    docs: int
    words: int
    whole: bool


@dataclass(frozen=True)
class Found:
    """Where a word was found, and up to which sentence was looked."""

    numbers: tuple[int, ...]
    texts: tuple[str, ...]
    looked: int
    whole: bool


def stamp(ref: str) -> str:
    """What changes when the files of a corpus do; "" of one that has none."""
    try:
        files = [path for paths in resolve(Path(ref)).splits.values() for path in paths]
        known = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    except (WorkbenchError, OSError, ValueError):
        return ""
    return repr(known)


def sizes(corpus: Corpus, most: int | None = COUNTED) -> tuple[Size, ...]:
    """Sentences and words of each split, of which so many sentences are read."""
    found = []
    for split in corpus.splits:
        docs = words = 0
        whole = True
        for doc in corpus.docs(split):
            if most is not None and docs == most:
                whole = False
                break
            docs += 1
            words += sum(not token.is_space for token in doc)
        found.append(Size(split, docs, words, whole))
    return tuple(found)


def passage(corpus: Corpus, split: str, number: int) -> "list[Doc]":
    """The sentences of the `number`-th passage; fewer, or none, at the end of the split."""
    start = number * PASSAGE
    return list(islice(corpus.docs(split), start, start + PASSAGE))


def find(corpus: Corpus, split: str, wanted: str, reach: int = REACH) -> Found:
    """Sentences with these words in them, whatever their case, among the first so many."""
    most = HITS * max(1, reach // REACH)
    sought = " ".join(wanted.casefold().split())
    single = " " not in sought
    numbers: list[int] = []
    texts: list[str] = []
    looked = 0
    for number, doc in enumerate(corpus.docs(split)):
        if number >= reach or len(numbers) >= most:
            return Found(tuple(numbers), tuple(texts), looked, whole=False)
        looked = number + 1
        text = doc.text.casefold()
        if sought not in text:
            continue
        if not single or any(token.text.casefold() == sought for token in doc):
            numbers.append(number)
            texts.append(doc.text[:300])
    return Found(tuple(numbers), tuple(texts), looked, whole=True)
