"""Minimal pairs: how often a model finds the right sentence likelier than the wrong one.

Causal models score a sentence by its likelihood, from their start token where they have one; ELMo
by the mean log-likelihood of its two directions; models that see both sides at once by
pseudo-likelihood: each piece hidden in turn, by default with the later pieces of its word (Kauf and
Ivanova 2023), or alone (Salazar et al. 2020).

Pairs that exchange the same words ("is" for "are") are not independent: a model with random weights
that prefers "is" gets all of them right, or none. So the p-value flips the sign of each exchange,
not of each pair, and it is of the gain over chance or over the sentence of fewer pieces, whichever
is better. Costs a forward pass over both sentences, or one for each of their pieces.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.basics.experiments import MinimalPairs
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.stats import SIGNIFICANT, holm, sign_flip_p_value, wilson_interval
from workbench.corpora.encode import encode
from workbench.corpora.tables import Pair, minimal_pairs
from workbench.engine.batch import NO_WORD
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.models.lm_scoring import KNOWN_BY, PSEUDO, score, start_of
from workbench.models.references import Pseudo

CHUNK = 200  # pairs between two progress callbacks
MANY = 4  # pieces, from which on a word counts as foreign to the vocabulary
FOREIGN = 0.05  # share of such words that is worth a caveat

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Scored:
    """What a model made of the pairs; each field is [pairs]."""

    gap: Floats  # nats of the wrong sentence minus those of the right one
    fewer: Floats  # 1 where the right sentence has fewer pieces, 0.5 where as many, else 0
    unscored: Ints  # sentences of the pair whose first piece has no context


class _Words(NamedTuple):
    """How the vocabulary fits the words of the pairs."""

    words: int
    unknown: int  # words with a piece, or as a whole, that the vocabulary does not have
    many: int  # words of MANY pieces or more
    alike: int  # pairs whose sentences are the same pieces


def run(inputs: Inputs, settings: MinimalPairs, progress: Progress) -> Result:
    """Score both sentences of every pair, and test each phenomenon, field and paradigm."""
    model = inputs.model
    every = list(minimal_pairs(inputs.docs()))
    pairs = [pair for pair in every if not pair.identical]
    begun = [pair.good for pair in pairs[:KNOWN_BY]]
    start = start_of(model, encode(begun)) if settings.start == "auto" and begun else None
    scored = _scored(inputs, pairs, settings.pseudo, start, progress)
    vocabulary = _vocabulary(model, pairs)
    tests = _Tests(pairs, scored, inputs.seed)
    tables = {"pairs": tests.table("phenomenon", [pair.phenomenon for pair in pairs], whole=True)}
    if any(pair.field for pair in pairs):
        tables["fields"] = tests.table("field", [pair.field for pair in pairs])
    if any(pair.paradigm not in ("", pair.phenomenon) for pair in pairs):
        tables["paradigms"] = tests.table("paradigm", [pair.paradigm for pair in pairs])
    dropped = len(every) - len(pairs)
    how = {
        "score": _score_of(model, settings.pseudo),
        "start": "none" if start is None else model.piece_texts([start])[0],
        "pairs": len(pairs),
        "identical": dropped,
        "unscored_first_pieces": int(scored.unscored.sum()),
        **vocabulary._asdict(),
    }
    tables["scoring"] = pd.DataFrame(
        [(fact, str(value)) for fact, value in how.items()], columns=["fact", "value"]
    )
    texts = [*_caveats(model, settings.pseudo, start), *_left_out(dropped, scored, vocabulary)]
    texts += _too_few(tables["pairs"])
    return Result(tables, caveats=tuple(Caveat(text, ("pairs",)) for text in texts))


# --- scores ---------------------------------------------------------------------------------------


def _scored(
    inputs: Inputs, pairs: Sequence[Pair], pseudo: Pseudo, start: int | None, progress: Progress
) -> _Scored:
    model = inputs.model
    hides = pseudo if model.objective in PSEUDO else None
    nats: list[list[float]] = [[], []]  # of right sentences and wrong ones
    pieces: list[list[int]] = [[], []]
    unscored: list[list[int]] = [[], []]
    for part in chunks(pairs, CHUNK):
        for side, docs in enumerate(([p.good for p in part], [p.bad for p in part])):
            found = score(model, encode(docs), pseudo=hides, seed=inputs.seed, start_token=start)
            nats[side] += found.nats.tolist()
            pieces[side] += found.pieces.tolist()
            unscored[side] += found.bare.tolist()
        progress(len(nats[0]), len(pairs), "pairs")
    longer = np.sign(np.array(pieces[1]) - np.array(pieces[0]))  # [pairs], of the wrong sentence
    return _Scored(
        np.array(nats[1]) - np.array(nats[0]),
        (longer + 1) / 2,
        np.array(unscored[0], dtype=np.int64) + np.array(unscored[1], dtype=np.int64),
    )


def _vocabulary(model: Model, pairs: Sequence[Pair]) -> _Words:
    """How many words the model's vocabulary does not have, or has in many pieces only."""
    words = unknown = many = alike = 0
    for part in chunks(pairs, CHUNK):
        read: list[list[list[int]]] = []
        for docs in ([p.good for p in part], [p.bad for p in part]):
            batch = encode(docs)
            words += len(batch.words)
            text = model.encode(batch)
            strange = model.unknown_pieces(text)  # [batch, pieces]
            for row, each in zip(text.words.tolist(), strange.tolist(), strict=True):
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
    """Rows of the tables: the same numbers of any group of the pairs."""

    def __init__(self, pairs: Sequence[Pair], scored: _Scored, seed: int) -> None:
        self.scored, self.seed = scored, seed
        self.exchanges = np.unique(exchanges(pairs), return_inverse=True)[1]  # [pairs]

    def table(self, key: str, groups: Sequence[str], whole: bool = False) -> pd.DataFrame:
        """A row a group, with p-values corrected over them (Holm), then one of all pairs."""
        names, of = np.unique(np.array(groups, dtype=object), return_inverse=True)
        rows = [self._row(str(name), of == place) for place, name in enumerate(names)]
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
        exchanges = np.unique(self.exchanges[chosen], return_inverse=True)[1]
        sums: Floats = np.bincount(exchanges, gain).astype(np.float64)  # [exchanges]
        return {
            "group": name,
            "accuracy": float(right.mean()),
            "lower": lower,
            "upper": upper,
            "n": len(gap),
            "gap": float(gap.mean()),
            "fewer_pieces": float(fewer.mean()),
            "exchanges": len(sums),
            "p": sign_flip_p_value(sums, self.seed),
        }


def exchanges(pairs: Sequence[Pair]) -> list[str]:
    """The name of the preference that each pair needs: pairs of one name are not independent.

    It is the words that the two sentences do not share, whichever of them is right: "is" for "are"
    is the same exchange as "are" for "is". Where the same words stand in another order, it is the
    most frequent of them: "the dog" for "dog the" needs the same preference as "the cat" for "cat
    the".
    """
    found = [_exchanged(pair) for pair in pairs]
    often = Counter(word for parts in found for word in {word for part in parts for word in part})
    names = []
    for parts in found:
        if sorted(parts[0]) == sorted(parts[1]):
            names.append(f"order of {max(parts[0], key=lambda word: (often[word], word))}")
        else:
            names.append(" / ".join(sorted(" ".join(part) for part in parts)))
    return names


def _exchanged(pair: Pair) -> tuple[list[str], list[str]]:
    """The words of two sentences without their common beginning and end."""
    good, bad = ([token.lower_ for token in doc] for doc in (pair.good, pair.bad))
    shorter = min(len(good), len(bad))
    begin = next((i for i in range(shorter) if good[i] != bad[i]), shorter)
    most = shorter - begin
    end = next((i for i in range(most) if good[-1 - i] != bad[-1 - i]), most)
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
            "Sentences are scored by pseudo-likelihood, within-word: each piece is hidden in turn "
            "with the later pieces of its word (Kauf and Ivanova 2023)."
        )
    elif model.objective in PSEUDO:
        yield (
            "Sentences are scored by pseudo-likelihood, original: each piece is hidden alone "
            "(Salazar et al. 2020), which favours rare words of many pieces."
        )
    elif model.objective == "bidirectional":
        yield (
            "Sentences are scored by the mean of both directions' log-likelihoods; words that the "
            "model's softmax does not have count as one word, <UNK>, where they are predicted."
        )
    elif start is not None:
        yield (
            f"Each sentence is read behind {model.piece_texts([start])[0]}, which the tokenizer "
            "does not put there and behind which the model predicts better: its first piece is "
            "scored too."
        )


def _left_out(dropped: int, scored: _Scored, vocabulary: _Words) -> Iterator[str]:
    """What the accuracies do not count, or count for another reason."""
    words, unknown, many, alike = vocabulary
    if dropped:
        said = "1 pair of identical sentences is" if dropped == 1 else (
            f"{dropped:,} pairs of identical sentences are"
        )  # fmt: skip
        yield f"{said} left out."
    if number := int(scored.unscored.sum()):
        yield (
            "The model has no start token that it knows, so nothing predicts the first piece of a "
            f"sentence: it is not scored in {number:,} of {2 * len(scored.gap):,} sentences."
        )
    if unknown:
        yield (
            f"{unknown:,} of {words:,} words ({unknown / max(words, 1):.1%}) are not in the "
            "model's vocabulary: it cannot tell them apart from one another."
        )
    if many >= FOREIGN * words and many:
        yield (
            f"{many:,} of {words:,} words ({many / words:.1%}) are {MANY} or more pieces: they are "
            "foreign to the vocabulary, and accuracies say little of what the model knows."
        )
    if alike:
        yield (
            f"{alike:,} of {len(scored.gap):,} pairs are the same pieces to this model; they "
            "count as misses."
        )


def _too_few(table: pd.DataFrame) -> Iterator[str]:
    """Phenomena whose interval is above chance, and which are not claimed all the same."""
    open_ = table[(table["lower"] > 0.5) & ~table["above_chance"] & (table["phenomenon"] != "all")]
    if len(open_):
        names = ", ".join(open_["phenomenon"])
        yield (
            f"Not above chance although the interval is over 50 %: {names}. Too few different "
            "words are exchanged there, or the right sentence mostly has fewer pieces, so a "
            "preference for single words or for length does as well."
        )
