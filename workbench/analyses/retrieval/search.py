"""The passages of a corpus that are nearest to a query.

    for found in find_passages("Who walks to the hill?", wb.read("primer/questions"), k=3):
        print(found.score, found.text)

By BM25, or by the mean states of a model. Costs: reading the corpus and indexing it the first time;
then milliseconds, while this process lasts or its index is in the cache.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from workbench.analyses.retrieval.index import (
    Bm25,
    Index,
    bm25_index,
    probabilities,
    vector_index,
)
from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.corpora.corpus import Corpus
from workbench.corpora.passages import passages_of
from workbench.engine.model import Model

WORDS = 100  # default maximum number of words of a passage, as in Karpukhin et al. 2020


class FoundPassage(NamedTuple):
    """A passage with its score, and its probability among the passages found."""

    text: str
    document: str
    score: float
    probability: float


@public
def find_passages(
    query: str,
    corpus: Corpus,
    k: int = 5,
    *,
    model: Model | None = None,
    layer: int | None = None,
    split: str | None = None,
    words: int = WORDS,
) -> list[FoundPassage]:
    """Return the k passages of a corpus that are nearest to a query, the nearest first.

    Args:
        query: A question, or any text.
        corpus: The corpus; of a corpus of questions, the texts that have the answers.
        k: Number of passages (default 5; fewer if the corpus has fewer).
        model: A model whose mean states are compared (default: none, BM25).
        layer: Its layer (default: the middle one).
        split: Split of the corpus (default: all).
        words: Maximum number of words of a passage (default 100).

    Returns:
        Passages, each with `text`, `document`, `score` and `probability`.

    Raises:
        WorkbenchError: The query is empty, the corpus has no passages, or a setting is invalid.

    Example:
        >>> from workbench.analyses.retrieval.search import find_passages
        >>> find_passages("Who walks to the hill?", wb.read("primer:size=40"), 1)[0].text
        'Ben walks to the hill. …'
    """
    if not query.strip():
        raise WorkbenchError("The query is empty.", code="text-empty", remedy="Type a few words.")
    for name, value in (("k", k), ("words", words)):
        if value < 1:
            raise WorkbenchError(
                f"{name} is {value}.", code="setting-invalid", remedy="Use 1 or more."
            )
    texts, documents = _texts(corpus, split, words)
    index: Index = _bm25(texts)
    if model is not None:
        index = vector_index(model, texts, layer_of(model, layer))
    indices, scores = index.top([query], min(k, len(texts)))
    return [
        FoundPassage(texts[passage], documents[passage], float(score), float(share))
        for passage, score, share in zip(
            indices[0], scores[0], probabilities(scores[0]), strict=True
        )
    ]


@lru_cache(4)
def _texts(
    corpus: Corpus, split: str | None, words: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The passages of a corpus and their documents."""
    found = passages_of(corpus.docs(split), words)
    require_passages(found.texts, corpus.name)
    return tuple(found.texts), tuple(found.documents)


@lru_cache(4)
def _bm25(texts: tuple[str, ...]) -> Bm25:
    return bm25_index(texts)


def layer_of(model: Model, layer: int | None) -> int:
    """The layer of the stack that reads the text, the middle one if none is given."""
    last = model.stacks[0].layers
    chosen = (last + 1) // 2 if layer is None else layer
    if not 0 <= chosen <= last:
        raise WorkbenchError(
            f"there is no layer {chosen}.",
            code="layer-missing",
            where=model.name,
            remedy=f"Choose a layer from 0 (the embeddings) to {last}.",
        )
    return chosen


def require_passages(texts: Sequence[str], corpus: str) -> None:
    """An error if there are no passages."""
    if not texts:
        raise WorkbenchError(
            "the corpus has no passages.",
            code="corpus-empty",
            where=corpus,
            remedy="Name a corpus or a split with texts.",
        )
