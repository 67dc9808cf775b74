"""Minimal pairs: how often the right sentence is more probable for a model than the wrong one.

The score of a sentence is its likelihood in causal models, from the start token if there is one;
the mean log-likelihood of both directions in ELMo; the pseudo-likelihood in models that see both
sides: each piece is masked in turn, by default with the later pieces of its word (Kauf and Ivanova
2023), or alone (Salazar et al. 2020).

Pairs that exchange the same words ("is" for "are") are not independent: random weights that prefer
"is" get all of them right, or none. So the permutation null flips the sign of each exchange, not of
each pair. It tests the gain over chance or over choosing the sentence with fewer pieces, whichever
is better. Costs: a forward pass over both sentences, or one for each of their pieces.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analyses.basics.experiments import MinimalPairs
from workbench.analyses.basics.permuted import AS_TRAINED, ORDERS, by_orders, over_orders
from workbench.core.arrays import Floats, Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.core.findings import percent
from workbench.core.stats import SIGNIFICANT, holm, wilson_interval
from workbench.corpora.corpus import Corpus
from workbench.corpora.encode import encode
from workbench.corpora.readers.tables import Pair, minimal_pairs
from workbench.engine.batch import NO_WORD
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.references import Pseudo
from workbench.models.scoring.lm_scoring import PSEUDO, START_TOKEN_TEXTS, score, start_of

CHUNK = 200  # pairs between two progress callbacks
MANY = 4  # minimum number of pieces of a word that is foreign to the vocabulary
FOREIGN = 0.05  # share of foreign words from which there is a caveat

OnProgress = Callable[[int, int, str], object]


@dataclass(frozen=True)
class _Scored:
    """Scores of the pairs; each field is [pairs]."""

    gaps: Floats  # nats of the wrong sentence minus those of the right one, [orders, pairs]
    fewer: Floats  # 1 if the right sentence has fewer pieces, 0.5 if equally many, else 0
    unscored: Ints  # sentences of the pair whose first piece has no context

    @property
    def gap(self) -> Floats:
        """The mean over orders; models other than XLNet have one."""
        return self.gaps.mean(0)  # type: ignore[no-any-return]


class _Words(NamedTuple):
    """How the vocabulary covers the words of the pairs."""

    words: int
    unknown: int  # words that are unknown, as a whole or in one piece
    many: int  # words with at least MANY pieces
    alike: int  # pairs whose two sentences have the same pieces


def fits(corpus: Corpus, settings: MinimalPairs) -> None:
    """Raise an error if the corpus has no minimal pair; only then it is read to its end."""
    next(minimal_pairs(corpus.docs()))


def run(inputs: Inputs, settings: MinimalPairs, progress: Progress) -> Result:
    """Compute the tables of `minimal-pairs`: scores and tests of each phenomenon."""
    model = inputs.model
    all_pairs = list(minimal_pairs(inputs.docs()))
    pairs = [pair for pair in all_pairs if not pair.identical]
    first = [pair.good for pair in pairs[:START_TOKEN_TEXTS]]
    use_start = settings.start_token == "auto" and first
    start = start_of(model, encode(first)) if use_start else None
    pseudo = settings.pseudo_likelihood
    scored = _scored(model, pairs, pseudo, start, inputs.seed, progress)
    vocabulary = _vocabulary(model, pairs)
    tests = _Tests(pairs, scored, inputs.seed)
    tables = {"pairs": tests.table("phenomenon", [pair.phenomenon for pair in pairs], whole=True)}
    if any(pair.field for pair in pairs):
        tables["fields"] = tests.table("field", [pair.field for pair in pairs])
    if any(pair.paradigm not in ("", pair.phenomenon) for pair in pairs):
        tables["paradigms"] = tests.table("paradigm", [pair.paradigm for pair in pairs])
    dropped = len(all_pairs) - len(pairs)
    scoring = {
        "score": _score_of(model, settings.pseudo_likelihood),
        "start": "none" if start is None else model.piece_texts([start])[0],
        "pairs": len(pairs),
        "identical": dropped,
        "unscored_first_pieces": int(scored.unscored.sum()),
        **vocabulary._asdict(),
        **_of_orders(scored.gaps),
    }
    tables["scoring"] = pd.DataFrame(
        [(fact, str(value)) for fact, value in scoring.items()], columns=["fact", "value"]
    )
    texts = [
        *_caveats(model, settings.pseudo_likelihood, start),
        *_left_out(dropped, scored, vocabulary),
    ]
    texts += _too_few(tables["pairs"])
    return Result(tables, caveats=tuple(Caveat(text, ("pairs",)) for text in texts))


# --- scores ---------------------------------------------------------------------------------------


def _scored(
    model: Model,
    pairs: Sequence[Pair],
    pseudo: Pseudo,
    start: int | None,
    seed: int,
    on_progress: OnProgress,
) -> _Scored:
    pseudo_score = pseudo if model.objective in PSEUDO else None
    nats: list[list[Floats]] = [[], []]  # of right sentences and wrong ones, [orders, pairs] each
    pieces: list[list[int]] = [[], []]
    unscored: list[list[int]] = [[], []]
    for part in chunks(pairs, CHUNK):
        for side, docs in enumerate(([p.good for p in part], [p.bad for p in part])):
            batch = encode(docs)
            if pseudo_score == "permuted":
                orders = by_orders(model, batch, seed=seed)
            else:
                orders = [score(model, batch, pseudo=pseudo_score, seed=seed, start_token=start)]
            nats[side].append(np.array([scores.nats for scores in orders]))
            pieces[side] += orders[0].pieces.tolist()
            unscored[side] += orders[0].bare.tolist()
        on_progress(len(pieces[0]), len(pairs), "scoring pairs")
    longer = np.sign(
        np.array(pieces[1]) - np.array(pieces[0])
    )  # [pairs], 1 if the wrong sentence is longer
    good, bad = (np.concatenate(of_side, 1) if of_side else np.zeros((1, 0)) for of_side in nats)
    return _Scored(
        bad - good,
        (longer + 1) / 2,
        np.array(unscored[0], dtype=np.int64) + np.array(unscored[1], dtype=np.int64),
    )


def _of_orders(gaps: Floats) -> dict[str, Any]:
    """The accuracy of single orders, with a 95 % interval over orders.  # [orders, pairs]"""
    if len(gaps) < 2:
        return {}
    accuracy, lower, upper = over_orders((gaps > 0).mean(1))
    return {
        "orders": len(gaps),
        "accuracy of an order": f"{accuracy:.4f} ({lower:.4f} to {upper:.4f})",
    }


def score_pairs(
    model: Model, pairs: Sequence[Pair], pseudo: Pseudo = "within-word", seed: int = 0
) -> Floats:
    """Nats of the wrong sentence minus those of the right one, of each pair.  # [pairs]"""
    return _scored(model, pairs, pseudo, None, seed, lambda done, total, doing: None).gap


def _vocabulary(model: Model, pairs: Sequence[Pair]) -> _Words:
    """Number of words that are unknown to the vocabulary or have many pieces."""
    words = unknown = many = alike = 0
    for part in chunks(pairs, CHUNK):
        read: list[list[list[int]]] = []
        for docs in ([p.good for p in part], [p.bad for p in part]):
            batch = encode(docs)
            words += len(batch.words)
            text = model.encode(batch)
            unknown_pieces = model.unknown_pieces(text)  # [batch, pieces]
            for row, each in zip(text.words.tolist(), unknown_pieces.tolist(), strict=True):
                sizes: defaultdict[int, int] = defaultdict(int)
                for word in row:
                    sizes[word] += word != NO_WORD
                many += sum(size >= MANY for size in sizes.values())
                unknown += len({w for w, here in zip(row, each, strict=True) if here} - {NO_WORD})
            real = zip(text.ids, text.mask, strict=True)
            read.append([ids[mask].tolist() for ids, mask in real])
        alike += sum(good == bad for good, bad in zip(*read, strict=True))
    return _Words(words, unknown, many, alike)


# --- tables ---------------------------------------------------------------------------------------

COLUMNS = (
    "accuracy",
    "lower",
    "upper",
    "n",
    "gap",
    "fewer_pieces",
    "exchanges",
    "p",
    "above_chance",
)


class _Tests:
    """Rows of the tables: accuracy and tests of any group of pairs."""

    def __init__(self, pairs: Sequence[Pair], scored: _Scored, seed: int) -> None:
        self.scored, self.sample = scored, ClusterSample.of(exchanges(pairs), seed)

    def table(self, key: str, groups: Sequence[str], whole: bool = False) -> pd.DataFrame:
        """One row per group, with p-values corrected over them (Holm), then one for all pairs."""
        names, of = np.unique(np.array(groups, dtype=object), return_inverse=True)
        rows = [self._row(str(name), of == index) for index, name in enumerate(names)]
        corrected = holm([row["p"] for row in rows])
        for row, p in zip(rows, corrected, strict=True):
            row["p"] = p
        if whole and len(rows) > 1:
            rows.append(self._row("all", np.full(len(of), True)))
        for row in rows:
            row["above_chance"] = bool(row["p"] < SIGNIFICANT)
        table = pd.DataFrame(rows, columns=["group", *COLUMNS])
        return table.rename(columns={"group": key})

    def _row(self, name: str, chosen: NDArray[np.bool_]) -> dict[str, Any]:
        gap, fewer = self.scored.gap[chosen], self.scored.fewer[chosen]
        right = gap > 0
        lower, upper = wilson_interval(int(right.sum()), len(gap))
        gain = right - (fewer if fewer.mean() > 0.5 else np.full(len(gap), 0.5))  # [pairs]
        sample = self.sample.take(chosen)
        return {
            "group": name,
            "accuracy": float(right.mean()),
            "lower": lower,
            "upper": upper,
            "n": len(gap),
            "gap": float(gap.mean()),
            "fewer_pieces": float(fewer.mean()),
            "exchanges": sample.n_clusters,
            "p": sample.p_above_zero(gain),
        }


def exchanges(pairs: Sequence[Pair]) -> list[str]:
    """The name of the exchange in each pair: pairs with the same name are not independent.

    It is the words that the two sentences do not share, whichever sentence is right: "is" for "are"
    is the same exchange as "are" for "is". If the same words are in another order, it is the most
    frequent of them: "the dog" for "dog the" needs the same preference as "the cat" for "cat the".
    """
    exchanged = [_exchanged(pair) for pair in pairs]
    counts = Counter(
        word for parts in exchanged for word in {word for part in parts for word in part}
    )
    names = []
    for parts in exchanged:
        if sorted(parts[0]) == sorted(parts[1]):
            names.append(f"order of {max(parts[0], key=lambda word: (counts[word], word))}")
        else:
            names.append(" / ".join(sorted(" ".join(part) for part in parts)))
    return names


def _exchanged(pair: Pair) -> tuple[list[str], list[str]]:
    """The words of both sentences without their common beginning and end."""
    good, bad = ([token.lower_ for token in doc] for doc in (pair.good, pair.bad))
    shorter = min(len(good), len(bad))
    begin = next((i for i in range(shorter) if good[i] != bad[i]), shorter)
    longest_end = shorter - begin
    end = next((i for i in range(longest_end) if good[-1 - i] != bad[-1 - i]), longest_end)
    return good[begin : len(good) - end], bad[begin : len(bad) - end]


# --- caveats --------------------------------------------------------------------------------------


def _score_of(model: Model, pseudo: Pseudo) -> str:
    if model.objective in PSEUDO:
        return f"pseudo-likelihood, {pseudo}"
    return "mean of both directions" if model.objective == "bidirectional" else "likelihood"


def _caveats(model: Model, pseudo: Pseudo, start: int | None) -> Iterator[str]:
    """How sentences were scored."""
    if model.objective in PSEUDO and pseudo == "within-word":
        yield (
            "Sentences are scored by pseudo-likelihood, within-word: each piece is masked in turn, "
            "with the later pieces of its word (Kauf and Ivanova 2023)."
        )
    elif model.objective in PSEUDO and pseudo == "permuted":
        yield (f"A sentence's score is its mean over {ORDERS} random orders. {AS_TRAINED}.")
    elif model.objective in PSEUDO:
        yield (
            "Sentences are scored by pseudo-likelihood, original: each piece is masked alone "
            "(Salazar et al. 2020). This favours rare words with many pieces."
        )
    elif model.objective == "bidirectional":
        yield (
            "Sentences are scored by the mean log-likelihood of both directions. Words that are "
            "not in the model's softmax are predicted as one word, <UNK>."
        )
    elif start is not None:
        yield (
            f"Each sentence is read after the start token {model.piece_texts([start])[0]}. The "
            "tokenizer does not add it, but the model predicts better after it, and the first "
            "piece can be scored."
        )


def _left_out(dropped: int, scored: _Scored, vocabulary: _Words) -> Iterator[str]:
    """Pairs and words that are left out or unreliable."""
    words, unknown, many, alike = vocabulary
    if dropped:
        subject = "1 pair of identical sentences is" if dropped == 1 else (
            f"{dropped:,} pairs of identical sentences are"
        )  # fmt: skip
        yield f"{subject} left out."
    if unscored := int(scored.unscored.sum()):
        every = 2 * len(scored.gap)
        where = f"{unscored:,} of {every:,} sentences" if unscored < every else "any sentence"
        yield (
            "The model has no start token that it was trained with, so nothing predicts the first "
            f"piece of a sentence. It is not scored in {where}."
        )
    if unknown:
        yield (
            f"{unknown:,} of {words:,} words ({percent(unknown / max(words, 1), 1)}) are not in "
            "the model's vocabulary, and the model cannot distinguish them."
        )
    if many >= FOREIGN * words and many:
        yield (
            f"{many:,} of {words:,} words ({percent(many / words, 1)}) have {MANY} or more pieces: "
            "they are foreign to the vocabulary, and accuracies say little about what the "
            "model knows."
        )
    if alike:
        yield (
            f"{alike:,} of {len(scored.gap):,} pairs have two sentences with the same pieces in "
            "this model. They count as misses."
        )


def _too_few(table: pd.DataFrame) -> Iterator[str]:
    """Phenomena whose interval is above chance, but which are not significant."""
    open_ = table[(table["lower"] > 0.5) & ~table["above_chance"] & (table["phenomenon"] != "all")]
    if len(open_):
        names = ", ".join(open_["phenomenon"])
        yield (
            f"Not above chance, although the interval is above 50 %: {names}. Too few different "
            "words are exchanged, or the right sentence mostly has fewer pieces. So a preference "
            "for single words or for short sentences may explain the accuracy."
        )
