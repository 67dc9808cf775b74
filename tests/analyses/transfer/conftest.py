"""Corpora with tasks whose answers are known, and models to adapt to them."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from spacy.tokens import Doc
from spacy.vocab import Vocab

from tests.models.conftest import zoo_folder
from workbench import Corpus
from workbench.corpora.layers import Mention, set_spans
from workbench.models.word_models import Vectors, WordModel, open_vectors

__all__ = ["zoo_folder"]

VOCAB = Vocab()
NAMES = ["ada", "bob", "cat", "dan", "eve", "fay", "gus", "hal", "ida", "jon", "kim", "leo"]
GOOD, BAD = ["fine", "nice", "good"], ["poor", "nasty", "bad"]
WIDTH = 24


def doc_of(words: Sequence[str], middle: int | None = None, **labels: str | float) -> Doc:
    """A text, or a pair that is parted at a word, and what is said of it."""
    doc = Doc(VOCAB, words=list(words))
    doc._.labels = dict(labels)
    if middle is not None:
        set_spans(doc, "segments", [Mention(0, middle, "1"), Mention(middle, len(doc), "2")])
    return doc


def corpus_of(name: str, **parts: Sequence[Doc]) -> Corpus:
    """Docs as a corpus."""
    return Corpus(name, {split: (lambda docs=docs: iter(docs)) for split, docs in parts.items()})


def of_words(number: int, seed: int) -> list[Doc]:
    """What a text is follows from one word of it."""
    drawn = random.Random(seed)
    found = []
    for _ in range(number):
        kind = drawn.choice(["good", "bad"])
        words = drawn.sample(NAMES, 4)
        words.insert(drawn.randrange(5), drawn.choice(GOOD if kind == "good" else BAD))
        found.append(doc_of(words, kind=kind))
    return found


def of_order(number: int, seed: int) -> list[Doc]:
    """Two words stand in every text; what it is follows from which of them comes first."""
    drawn = random.Random(seed)
    found = []
    for _ in range(number):
        kind = drawn.choice(["first", "second"])
        words = [*drawn.sample(NAMES, 3), "fine", "poor"]
        drawn.shuffle(words)
        is_first = words.index("fine") < words.index("poor")
        if is_first != (kind == "first"):
            one, two = words.index("fine"), words.index("poor")
            words[one], words[two] = words[two], words[one]
        found.append(doc_of(words, kind=kind))
    return found


def parted(make: Callable[[int, int], list[Doc]], train: int = 300, held_out: int = 100) -> Corpus:
    """Train, dev and test of a made task."""
    sizes = {"train": train, "dev": held_out, "test": held_out}
    return corpus_of(
        make.__name__, **{split: make(size, n) for n, (split, size) in enumerate(sizes.items())}
    )


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> WordModel:
    """Drawn vectors of the words above."""
    folder: Path = tmp_path_factory.mktemp("vectors")
    words = [*NAMES, *GOOD, *BAD]
    table = torch.randn(len(words), WIDTH, generator=torch.Generator().manual_seed(0))
    Vectors(words, table).save(folder)
    return open_vectors(str(folder), torch.device("cpu"), torch.float32, 0)
