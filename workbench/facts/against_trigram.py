"""How much better a model predicts than a trigram model of the same pieces, the least it must beat.

The trigrams are counted on the corpus' training split, in the model's own pieces (ELMo's words),
and asked the same questions: the next piece; each piece hidden in turn, with what stands on both
sides; or the pieces of hidden spans, one after another, with what has been written and what is
known behind. Costs a pass over the training split by the tokenizer alone, and of the model what
`workbench.models.scoring` says of its objective.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.bootstrap import interval, p_value, resampled
from workbench.corpora.encode import encode
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.engine.passes import PIECES
from workbench.errors import WorkbenchError
from workbench.experiment import (
    Caveat,
    Experiment,
    Inputs,
    Progress,
    Result,
    Settings,
    Table,
    few_sentences,
)
from workbench.facts.pairs import HEAD
from workbench.facts.trigram import Floats, Trigram, counted
from workbench.models.bilm import BiLM
from workbench.models.huggingface import HuggingFace
from workbench.models.masking import Pseudo, candidates, hidden_spans
from workbench.models.objectives import symbols
from workbench.models.scoring import PSEUDO, losses_of
from workbench.models.word_likelihood import score_words
from workbench.models.words import WordModel, words_of

CHUNK = 100  # documents between two progress callbacks
LEVEL = 0.05  # of a p-value
Ints = NDArray[np.int64]


class _Sums:
    """What one of the two made of the pieces of each document: nats, right guesses, pieces."""

    def __init__(self, documents: int) -> None:
        self.each = np.zeros((documents, 3))

    def add(self, document: int, nats: float, right: float, pieces: float) -> None:
        self.each[document] += nats, right, pieces

    def add_chances(self, document: int, log_chances: Floats, gold: int) -> None:
        """One piece more, by the log-chances of all.  # [vocabulary], up to a constant"""
        highest = float(log_chances.max())
        total = highest + math.log(float(np.exp(log_chances - highest).sum()))
        right = int(log_chances.argmax() == gold)
        self.add(document, total - float(log_chances[gold]), right, 1)


class _Both(NamedTuple):
    model: _Sums
    trigram: _Sums


def run(inputs: Inputs, settings: Settings, progress: Progress) -> Result:
    """Count, then ask both."""
    model = inputs.model
    if "train" not in inputs.corpus.splits:
        raise WorkbenchError(
            "trigrams are counted on a training split, and the corpus has none.",
            where=inputs.corpus.name,
            remedy="Name a corpus with train and test splits, such as primer.",
        )
    progress(0, None, "counting trigrams")
    trained = encode(inputs.corpus.docs("train"))
    batch = encode(inputs.docs())
    found = _Both(_Sums(len(batch)), _Sums(len(batch)))
    ask = _asking(model, trained, batch, inputs.seed)
    for start in range(0, len(batch), CHUNK):
        ask(range(start, min(start + CHUNK, len(batch))), found)
        progress(min(start + CHUNK, len(batch)), len(batch), "documents")
    if not found.model.each[:, 2].any():
        raise WorkbenchError("there is nothing to predict.", remedy="Give a text with words.")
    columns = ["measure", "model", "trigram", "n", "gain", "lower", "upper", "p", "better"]
    table = pd.DataFrame(_rows(found, inputs.seed), columns=columns)
    texts = (_HOW[model.objective], *few_sentences(len(batch)))
    return Result({"scores": table}, caveats=tuple(Caveat(text, ("scores",)) for text in texts))


def _rows(found: _Both, seed: int) -> Iterator[tuple[object, ...]]:
    nats, right = (
        tuple(float(own.each[:, column].sum()) for own in found) for column in (0, 1)
    )  # of the model, of the trigrams
    n = int(found.model.each[:, 2].sum())
    pieces = found.model.each[:, 2]
    gains = np.stack(
        [
            found.model.each[:, 1] - found.trigram.each[:, 1],
            found.trigram.each[:, 0] - found.model.each[:, 0],
        ]
    )  # [measures, documents]
    counts = np.stack([gains, np.broadcast_to(pieces, gains.shape)], axis=-1)[:, None]
    draws = resampled(counts, lambda sums: sums[..., 0] / np.maximum(sums[..., 1], 1), seed)
    lower, upper = interval(draws)  # [measures]
    p = np.minimum(1, 2 * p_value(draws))  # of two measures
    values = [side / n for side in right], [math.exp(min(side / n, 700)) for side in nats]
    for place, (measure, each) in enumerate(zip(("accuracy", "perplexity"), values, strict=True)):
        gain = float(gains[place].sum() / n)
        own = (gain, float(lower[place]), float(upper[place]), float(p[place]))
        yield measure, *each, n, *own, bool(gain > 0 and lower[place] > 0 and p[place] < LEVEL)


# --- one question after another -------------------------------------------------------------------

Ask = Callable[[Sequence[int], _Both], None]
Places = Iterator[tuple[int, int]]  # a piece of a text, and how many behind it are known


def _asking(model: Model, trained: Batch, batch: Batch, seed: int) -> Ask:
    """What asks both about some documents of a batch."""
    if isinstance(model, WordModel):
        assert model.bilm is not None, "a model of words with an objective has a softmax"
        return _of_words(model.bilm, trained, batch)
    seen, asked = _numbered(*(_pieces(model, each) for each in (trained, batch)))
    trigram = counted(seen, len(set(chain(*seen, *asked))))
    known = symbols(model.tokenizer) if isinstance(model, HuggingFace) else None
    in_spans = model.objective == "seq2seq" and known is not None and bool(known.sentinels)
    pseudo: Pseudo | None = "original" if model.objective in PSEUDO and not in_spans else None

    first = _unscored(model, trained)

    def ask(documents: Sequence[int], found: _Both) -> None:
        for losses in losses_of(model, batch, documents, pseudo=pseudo, seed=seed):
            scored = losses.scored & ~losses.text.special if in_spans else losses.scored
            sums = ((losses.nats * scored).double(), losses.right & scored, scored)
            rows = zip(
                losses.text.order.tolist(), *(each.sum(1).tolist() for each in sums), strict=True
            )
            for document, *own in rows:
                found.model.add(document, *own)
        for order in documents:
            row = asked[order]
            if in_spans and known is not None:
                places = _in_spans(*hidden_spans(len(row), order, known, seed))
            elif pseudo:
                places = ((at, 2) for at in range(len(row)))
            else:
                places = ((at, 0) for at in range(first, len(row)))
            _ask_trigram(trigram, row, places, found.trigram, order)

    return ask


def _ask_trigram(
    trigram: Trigram, row: Sequence[int], places: Places, sums: _Sums, document: int
) -> None:
    whole = [trigram.begin, trigram.begin, *row, trigram.end]
    for at, behind in places:
        known = whole[at + 3 : at + 3 + behind]
        sums.add_chances(document, trigram.filling(whole[at : at + 2], known), whole[at + 2])


def _in_spans(begins: Ints, ends: Ints) -> Places:
    """The pieces of hidden spans; only the last of a span knows what is behind it."""
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        for at in range(begin, end):
            yield at, 2 if at == end - 1 else 0


def _unscored(model: Model, batch: Batch) -> int:
    """Pieces at the beginning of a text that a causal model has no context for: none, or one."""
    return int(not model.encode(batch, [0]).special[0, 0])


def _numbered(*parts: list[list[int]]) -> list[list[list[int]]]:
    """The same with pieces counted from 0, those alone that occur: a large vocabulary is mostly
    of pieces that do not."""
    numbers = {
        piece: n for n, piece in enumerate(sorted({p for rows in parts for p in chain(*rows)}))
    }
    return [[[numbers[piece] for piece in row] for row in rows] for rows in parts]


def _pieces(model: Model, batch: Batch) -> list[list[int]]:
    """Each document's own pieces, without special ones."""
    rows: list[list[int]] = []
    for start in range(0, len(batch), CHUNK):
        text = model.encode(batch, range(start, min(start + CHUNK, len(batch))))
        own = candidates(text)
        rows += [ids[mask].tolist() for ids, mask in zip(text.ids, own, strict=True)]
    return rows


def _of_words(net: BiLM, trained: Batch, batch: Batch) -> Ask:
    """Both directions of whole words, each with the boundary that ends it."""
    numbers = {word: number for number, word in enumerate(net.words.words[: len(net.bias)])}

    def numbered(words: Sequence[str]) -> list[int]:
        return [numbers.get(word, net.words.unknown) for word in words]

    rows = [numbered(words_of(trained, document)) for document in range(len(trained))]
    trigrams = [counted(some, len(numbers)) for some in (rows, [row[::-1] for row in rows])]

    def ask(documents: Sequence[int], found: _Both) -> None:
        sentences = [words_of(batch, document) for document in documents]
        scored = score_words(net, sentences, PIECES["cpu"])
        for document, nats, right, number in zip(
            documents, scored.nats, scored.right, scored.predictions, strict=True
        ):
            found.model.add(document, 2 * nats, right, 2 * number)
        for document, row in zip(documents, map(numbered, sentences), strict=True):
            for trigram, ordered in zip(trigrams, (row, row[::-1]), strict=True):
                places = ((at, 0) for at in range(len(row) + 1))
                _ask_trigram(trigram, [*ordered, trigram.end], places, found.trigram, document)

    return ask


# --- what to know ---------------------------------------------------------------------------------

_HOW = {
    "causal": "Each piece is predicted from those before it.",
    "bidirectional": "Each word, and the end of a sentence, is predicted from those before it and, "
    "by a second model of trigrams, from those behind it; measures are of both together.",
    "masked": "Each piece is hidden alone in turn (pseudo-likelihood, original); the trigram model "
    "fills it from two on either side.",
    "seq2seq": "Pieces of hidden spans (without sentinels, each piece alone in turn); the trigram "
    "model sees what is written before, and two more behind a span's last.",
}

EXPERIMENT = Experiment(
    name="trigram",
    about="How much better a model predicts a corpus than trigrams of its training split.",
    settings=Settings,
    run=run,
    tables={
        "scores": Table(
            "What the model and a trigram model make of the same pieces; `n` is their number. "
            "`gain` is the model's over the trigrams': of accuracy the difference, of perplexity "
            "nats a piece, with a 95 % interval and p over documents drawn again, corrected for "
            "two measures; `better` where the interval is above 0 and p under 0.05.",
            ("measure",),
        )
    },
    version=2,
    needs=(HEAD,),
    split="held-out",
    figures="workbench.view.trigram:FIGURES",
)
