"""Invented corpora, and the experiment `heads` on them."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench import Result
from workbench.analyses.heads.experiments import Heads
from workbench.analyses.heads.head_analysis import run
from workbench.experiment import Inputs

VOCAB = Vocab()
RELATIONS = ("nsubj", "obj", "nmod:poss", "punct", "det")


class Made:
    """A corpus of given Docs."""

    name = "made"
    splits = ()
    notes = ()

    def __init__(self, docs: Sequence[Doc]) -> None:
        self._docs = list(docs)

    def docs(self, split: str | None = None, limit: int | None = None) -> Any:
        return iter(self._docs[:limit])


class Silent:
    """Progress without output."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None: ...
    def log(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


def doc_of(words: Sequence[str], heads: Sequence[int] | None = None, deps: Any = None) -> Doc:
    """A sentence; without heads, one without a tree."""
    return Doc(VOCAB, list(words), heads=heads, deps=deps)


def random_docs(seed: int, number: int = 12) -> list[Doc]:
    """Sentences of random words with random trees."""
    draw = random.Random(seed)
    lexicon = ["".join(draw.choices("abcd", k=draw.randint(1, 10))) for _ in range(40)]
    docs = []
    for _ in range(number):
        size = draw.randint(1, 12)
        words = draw.choices(lexicon, k=size)
        heads = [draw.randrange(max(1, place)) for place in range(size)]
        deps = ["ROOT" if h == i else draw.choice(RELATIONS) for i, h in enumerate(heads)]
        docs.append(doc_of(words, heads, deps))
    return docs


@pytest.fixture
def run_heads() -> Callable[..., Result]:
    """The experiment on some Docs, with quick settings by default."""

    def run_on(
        model: Any, docs: Sequence[Doc], *others: Any, seed: int = 0, **settings: Any
    ) -> Result:
        corpus: Any = Made(docs)
        quick = {
            "n_shuffles": 120,
            "n_bootstrap": 20,
            "max_examples": 5,
            "min_count": 1,
            "n_frequent_words": 0,
        }
        inputs = Inputs(models=(model, *others), corpora=(corpus,), seed=seed)
        return run(inputs, Heads(**{**quick, **settings}), Silent())

    return run_on
