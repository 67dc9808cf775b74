"""How well ELMo predicts whole texts, word by word, in both directions.

Forward, each word and the end of the text is predicted from what is before it; backward, each word
and its beginning from what is after it. So each direction alone gives a text a likelihood. Words
that the softmax does not have are one word, `<UNK>`, where they are predicted, and are spelt in
full where they are read. Costs one pass over the words, and logits over the softmax for each of
them, twice.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.engine.halving import Limit, Places, in_halves
from workbench.models.bilm import BiLM, Scored


class WordScores(NamedTuple):
    """Sums over each text, [texts]; one without words has none."""

    nats: NDArray[np.float64]  # the mean of both directions' sums
    predictions: NDArray[np.int64]  # of one direction: the words, and the boundary
    right: NDArray[np.int64]  # of both directions: no other word was thought likelier
    unknown: NDArray[np.int64]  # words that the softmax does not have


def score_words(net: BiLM, texts: Sequence[Sequence[str]], limit: int) -> WordScores:
    """Score texts, of at most about `limit` words in a batch."""
    numbers = {word: number for number, word in enumerate(net.predicted)}
    unknown = net.words.unknown
    golds = [[numbers.get(word, unknown) for word in text] for text in texts]
    lengths = np.array([len(text) for text in texts], dtype=np.int64)  # [texts]
    found = WordScores(
        nats=np.zeros(len(texts)),
        predictions=np.where(lengths > 0, lengths + 1, 0),
        right=np.zeros(len(texts), dtype=np.int64),
        unknown=np.array([gold.count(unknown) for gold in golds], dtype=np.int64),
    )

    @torch.no_grad()
    def scored(some: Places) -> tuple[Scored, Scored]:
        return net.scored([texts[p] for p in some.places], [golds[p] for p in some.places])

    room = Limit()
    for batch in _batches(lengths, limit):
        for some, (nats, right) in in_halves(scored, batch, room):
            for direction, hits in zip(nats, right, strict=True):
                found.nats[list(some.places)] += direction.double().sum(1).cpu().numpy() / 2
                found.right[list(some.places)] += hits.sum(1).cpu().numpy()
    return found


def _batches(lengths: NDArray[np.int64], limit: int) -> Iterator[Places]:
    """Texts of like length together, the longest first; those without words are left out."""
    order = [place for place in np.argsort(-lengths, kind="stable").tolist() if lengths[place]]
    start = 0
    while start < len(order):
        width = int(lengths[order[start]]) + 2
        places = order[start : start + max(1, limit // width)]
        yield Places(places, width)
        start += len(places)
