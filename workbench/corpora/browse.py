"""Bounded views of a corpus of any length: counts, passages, and word search.

A corpus is a stream, so a sentence is reached by reading all sentences before it. Costs: about one
second per 10,000 sentences; callers cache the passages they have read.
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

COUNTED = 20_000  # sentences of a split that are counted by default
PASSAGE = 200  # sentences per passage
REACH = 20_000  # sentences per step of a search
HITS = 200  # maximum number of sentences found per step


@dataclass(frozen=True)
class Size:
    """The size of a split; a lower bound if the split was not read to its end (`whole` false)."""

    split: str
    docs: int
    words: int
    whole: bool


@dataclass(frozen=True)
class Found:
    """The sentences with a word, and the number of sentences searched."""

    numbers: tuple[int, ...]  # indices of the sentences
    texts: tuple[str, ...]
    looked: int  # number of sentences searched
    whole: bool  # whether the whole split was searched


def stamp(ref: str) -> str:
    """A key that changes when the files of a corpus change; "" for a corpus without files."""
    try:
        files = [path for paths in resolve(Path(ref)).splits.values() for path in paths]
        states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    except (WorkbenchError, OSError, ValueError):
        return ""
    return repr(states)


def sizes(corpus: Corpus, most: int | None = COUNTED) -> tuple[Size, ...]:
    """Sentences and words of each split; at most `most` sentences per split are read."""
    counts = []
    for split in corpus.splits:
        docs = words = 0
        whole = True
        for doc in corpus.docs(split):
            if most is not None and docs == most:
                whole = False
                break
            docs += 1
            words += sum(not token.is_space for token in doc)
        counts.append(Size(split, docs, words, whole))
    return tuple(counts)


def counted(ref: str, most: int | None) -> list[tuple[str, int, int, bool]]:
    """The sizes of the splits of a corpus, as JSON can hold them."""
    from workbench.corpora import read
    from workbench.corpora.primer import HELD_OUT, SIZE, WORDS

    corpus = read(ref)
    is_generated = corpus.origin is not None and bool(corpus.origin.recipe)
    if is_generated and ref in WORDS and (most is None or most >= SIZE):
        docs = {"train": SIZE, "dev": HELD_OUT, "test": HELD_OUT}
        return [(name, docs[name], n, True) for name, n in zip(docs, WORDS[ref], strict=True)]
    return [(s.split, s.docs, s.words, s.whole) for s in sizes(corpus, most)]


def layer_names(ref: str) -> list[str]:
    """The annotation layers of the first Docs of every split of a corpus, sorted."""
    from workbench.corpora import read

    return sorted(read(ref).layers())


def label_names(ref: str) -> list[str]:
    """The labels of whole texts of a corpus that can be learnt. Imports torch."""
    from workbench.corpora import read
    from workbench.corpora.tasks import learnable_labels

    return learnable_labels(read(ref))


def passage(corpus: Corpus, split: str, index: int) -> "list[Doc]":
    """The sentences of the passage with this index; fewer, or none, at the end of the split."""
    start = index * PASSAGE
    return list(islice(corpus.docs(split), start, start + PASSAGE))


def find(corpus: Corpus, split: str, words: str, reach: int = REACH) -> Found:
    """The sentences with these words, in any case, among the first `reach` sentences of a split."""
    most = HITS * max(1, reach // REACH)
    query = " ".join(words.casefold().split())
    single = " " not in query
    indices: list[int] = []
    texts: list[str] = []
    n_searched = 0
    for index, doc in enumerate(corpus.docs(split)):
        if index >= reach or len(indices) >= most:
            return Found(tuple(indices), tuple(texts), n_searched, whole=False)
        n_searched = index + 1
        text = doc.text.casefold()
        if query not in text:
            continue
        if not single or any(token.text.casefold() == query for token in doc):
            indices.append(index)
            texts.append(doc.text[:300])
    return Found(tuple(indices), tuple(texts), n_searched, whole=True)
