"""The words that mark a domain, and into how many pieces two vocabularies split words.

Costs: reading the first texts of both corpora, and one pass of each tokenizer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench.core.stats import mean_interval
from workbench.corpora.encode import encode
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model

if TYPE_CHECKING:
    from workbench.engine.batch import Batch

COUNTED = 20_000  # first texts whose words are counted
MIN_COUNT = 5  # of a word in the domain
MOST_WORDS = 200
SMOOTHING = 0.5  # added to each count
AT_ONCE = 500  # texts
COLUMNS = ["word", "domain", "general", "log_odds"]


def words_of_domain(domain: Iterable[Doc], general: Iterable[Doc]) -> pd.DataFrame:
    """The words whose odds in the domain are highest against the general text, with counts."""
    own, other = _counted(domain), _counted(general)
    totals = own.total(), other.total()
    rows = []
    for word, count in own.items():
        odds = _log_odds(count, totals[0]) - _log_odds(other[word], totals[1])
        if count >= MIN_COUNT and odds > 0:
            rows.append((word, count, other[word], odds))
    rows.sort(key=lambda row: (-row[3], -row[1], row[0]))
    return pd.DataFrame(rows[:MOST_WORDS], columns=COLUMNS)


def _counted(docs: Iterable[Doc]) -> Counter[str]:
    return Counter(token.text for doc in docs for token in doc if token.is_alpha)


def _log_odds(count: int, total: int) -> float:
    return float(np.log((count + SMOOTHING) / (total - count + SMOOTHING)))


def n_pieces(model: Model, words: Sequence[str]) -> NDArray[np.int64]:
    """The number of pieces of each word, as in the middle of a text.  # [words]"""
    vocab = Vocab()
    docs = [Doc(vocab, [".", word], [True, False]) for word in words]
    return pieces_of_words(model, encode(docs))[1::2]


def pieces_of_words(model: Model, batch: "Batch") -> NDArray[np.int64]:
    """The number of pieces of each word of some texts, one after another.  # [words]"""
    counts = np.zeros(len(batch.words), dtype=np.int64)
    for part in chunks(range(len(batch)), AT_ONCE):
        text = model.encode(batch, part)
        for words, order in zip(text.words.tolist(), text.order.tolist(), strict=True):
            first = int(batch.word_offsets[order])
            for word, number in Counter(words).items():
                if word >= 0:
                    counts[first + word] = number
    return counts


def fertility(
    general: Model, own: Model, words: Sequence[str], texts: "dict[str, Batch]"
) -> Iterator[dict[str, float | int | str]]:
    """Pieces per word by both vocabularies: of the domain's words, and of all words of texts."""
    if len(words):
        yield _row("of the domain", n_pieces(general, words), n_pieces(own, words))
    for name, batch in texts.items():
        yield _row(f"all of {name} text", *(pieces_of_words(m, batch) for m in (general, own)))


def _row(
    words: str, general: NDArray[np.int64], own: NDArray[np.int64]
) -> dict[str, float | int | str]:
    gaps = (own - general).astype(np.float64)
    lower, upper = mean_interval(gaps)
    return {
        "words": words, "general": float(general.mean()), "own": float(own.mean()),
        "difference": float(gaps.mean()), "lower": lower, "upper": upper, "n": len(gaps),
    }  # fmt: skip
