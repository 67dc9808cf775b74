"""The experiment `tokenization`: into how many pieces tokenizers split the words of a corpus.

No weights are used: texts are split, and pieces counted by word. Distinct words are what varies in
a tokenizer, so groups of words are compared by permuting the piece counts of distinct words. Costs:
the tokenizers' time, some 10 microseconds per word, and a second for the intervals.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from spacy.tokens import Doc

from workbench.analyses.words.experiments import TokenizationSettings
from workbench.core.arrays import Floats, Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.stats import (
    DRAWS,
    SIGNIFICANT,
    bootstrap_weights,
    holm,
    interval_around,
    ratio,
)
from workbench.corpora.encode import encode
from workbench.corpora.layers import document_numbers
from workbench.corpora.splits import few_sentences_caveat
from workbench.corpora.word_groups import (
    CONTENT,
    FREQUENT,
    FUNCTION,
    RANKS,
    Group,
    frequency_ranks,
    word_groups,
)
from workbench.engine.batch import NO_WORD, Batch
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

AT_ONCE = 512  # documents tokenised at a time
MEASURES = ("fertility", "whole", "unknown", "pieces_per_character")
AT_A_TIME = 100  # samples and permutations in memory


@dataclass(frozen=True, eq=False)
class _Words:
    """The words of the texts, white space left out."""

    rows: Ints  # [words], index in the batch
    forms: list[str]
    tags: list[str]
    ranks: Ints  # [words]
    lengths: Ints  # [words], characters
    documents: Ints  # [words]

    @property
    def n_documents(self) -> int:
        return int(self.documents.max(initial=-1)) + 1

    @cached_property
    def types(self) -> Ints:
        """The distinct word of each word, as written.  # [words]"""
        index = {form: number for number, form in enumerate(dict.fromkeys(self.forms))}
        return np.array([index[form] for form in self.forms], dtype=np.int64)

    def take(self, chosen: NDArray[np.bool_]) -> "_Words":
        """Some of the words.  # [words]"""
        at = np.flatnonzero(chosen)
        return _Words(
            self.rows[at], [self.forms[n] for n in at], [self.tags[n] for n in at],
            self.ranks[at], self.lengths[at], self.documents[at],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Split:
    """How one model splits the words."""

    model: str
    counts: Ints  # [all words of the batch], pieces; 0: cut off, or without a piece
    unknown: NDArray[np.bool_]  # [all words of the batch]


def run(inputs: Inputs, settings: TokenizationSettings, progress: Progress) -> Result:
    """Compute the tables of `tokenization`."""
    docs = list(inputs.docs())
    batch = encode(docs)
    total = len(docs) * len(inputs.models)
    splits: list[_Split] = []
    for model, name in zip(inputs.models, _names(inputs.models), strict=True):

        def on_progress(now: int) -> None:
            progress(len(splits) * len(docs) + now, total, "splitting sentences")

        splits.append(_split(model, name, batch, on_progress))
    words = _words(docs)
    has_pieces = np.all([split.counts > 0 for split in splits], axis=0)
    known = words.take(has_pieces[words.rows])
    if not len(known.rows):
        raise WorkbenchError(
            "the texts have no word that has a piece in every model.",
            code="too-few-words",
            where=inputs.corpus.name,
            remedy="Name a corpus or a split with words.",
        )
    sample = ClusterSample(known.documents, inputs.seed, known.n_documents)
    compared = [_Compared(known, split, sample) for split in splits]
    tables = {
        "groups": pd.concat([each.groups() for each in compared], ignore_index=True),
        "pieces": pd.concat([each.pieces() for each in compared], ignore_index=True),
        "words": _longest(compared, inputs.models, docs, batch, settings.max_words),
        "tests": _tests(compared, settings.n_permutations, inputs.seed),
    }
    return Result(tables, caveats=tuple(map(Caveat, _notes(words, known, splits, docs))))


def _names(models: Sequence[Model]) -> list[str]:
    """A name for each model; equal ones are numbered."""
    seen: Counter[str] = Counter()
    names = []
    for model in models:
        seen[model.name] += 1
        again = seen[model.name]
        names.append(model.name if again == 1 else f"{model.name} ({again})")
    return names


def _notes(
    words: _Words, known: _Words, splits: Sequence[_Split], docs: Sequence[Doc]
) -> Iterator[str]:
    if len(known.rows) < len(words.rows):
        yield (
            f"{len(words.rows) - len(known.rows):,} of {len(words.rows):,} words are left out: a "
            "model has no piece for them, or they lie beyond its maximum length."
        )
    if not any(known.tags):
        yield "The corpus has no parts of speech, so words are not grouped by them."
    yield from few_sentences_caveat(len(docs))


def _words(docs: Sequence[Doc]) -> _Words:
    numbers = document_numbers(docs)
    rank = frequency_ranks(docs)
    tokens = [(token, number) for doc, number in zip(docs, numbers, strict=True) for token in doc]
    kept = [(row, *each) for row, each in enumerate(tokens) if not each[0].is_space]
    return _Words(
        np.array([row for row, _, _ in kept], dtype=np.int64),
        [token.text for _, token, _ in kept],
        [token.pos_ for _, token, _ in kept],
        np.array([rank[token.lower_] for _, token, _ in kept], dtype=np.int64),
        np.array([len(token) for _, token, _ in kept], dtype=np.int64),
        np.array([document for _, _, document in kept], dtype=np.int64),
    )


def _split(model: Model, name: str, batch: Batch, on_progress: Callable[[int], object]) -> _Split:
    counts = np.zeros(len(batch.words), dtype=np.int64)
    unknown = np.zeros(len(batch.words), dtype=bool)
    done = 0
    for documents in chunks(range(len(batch)), AT_ONCE):
        text = model.encode(batch, documents)
        has_word = text.words.numpy() != NO_WORD  # [documents, pieces]
        first = batch.word_offsets[list(documents)]
        owned = (text.words.numpy() + first[:, None])[has_word]  # [pieces of words]
        counts += np.bincount(owned, minlength=len(counts))
        unknown[owned[model.unknown_pieces(text).numpy()[has_word]]] = True
        done += len(documents)
        on_progress(done)
    return _Split(name, counts, unknown)


# --- one model ------------------------------------------------------------------------------------


class _Compared:
    """The words of the texts and their pieces in one model."""

    def __init__(self, words: _Words, split: _Split, sample: ClusterSample) -> None:
        self.words, self.name, self.sample = words, split.model, sample
        self.counts = split.counts[words.rows]  # [words]
        self.unknown = split.unknown[words.rows]

    @cached_property
    def all_groups(self) -> list[Group]:
        return word_groups(self.words.tags, self.words.ranks)

    @cached_property
    def sums(self) -> Floats:
        """Of each word: pieces, whether it is known and whole, unknown, characters, and 1.

        An unknown piece may stand for any number of characters: such a word is not whole.
        # [words, 5]
        """
        return np.array(
            [self.counts, (self.counts == 1) & ~self.unknown, self.unknown, self.words.lengths,
             np.ones(len(self.counts))], dtype=np.float64
        ).T  # fmt: skip

    def groups(self) -> pd.DataFrame:
        """The table of this model."""
        rows = []
        for group in self.all_groups:
            sums = self.sample.sums(self.sums * group.members[:, None])  # [documents, 5]
            values, draws = _measures(sums.sum(0)), _measures(self.sample.weights @ sums)
            row: dict[str, object] = {"model": self.name, "by": group.by, "group": group.name}
            for name, value, drawn in zip(MEASURES, values, np.moveaxis(draws, -1, 0), strict=True):
                row[name] = float(value)
                row[f"{name}_lower"], row[f"{name}_upper"] = interval_around(value, drawn)
            rows.append({**row, "n": int(group.members.sum())})
        return pd.DataFrame(rows)

    def pieces(self) -> pd.DataFrame:
        """The shares of known words by number of pieces; empty if all words are unknown."""
        numbers, n = np.unique(self.counts[~self.unknown], return_counts=True)
        share = n / max(1, n.sum())
        return pd.DataFrame({"model": self.name, "pieces": numbers, "share": share, "n": n})


def _measures(sums: Floats) -> Floats:
    """The measures, in the order of MEASURES.  # [..., 5] -> [..., 4]"""
    pieces, whole, unknown, characters, n = np.moveaxis(sums, -1, 0)
    parts = [(pieces, n), (whole, n - unknown), (unknown, n), (pieces, characters)]
    return np.stack([ratio(part, of, np.nan) for part, of in parts], -1)


def _longest(
    compared: Sequence["_Compared"],
    models: Sequence[Model],
    docs: Sequence[Doc],
    batch: Batch,
    most: int,
) -> pd.DataFrame:
    """The words of each model that are split into most pieces."""
    rows = []
    for of, model in zip(compared, models, strict=True):
        words = of.words
        first: dict[str, int] = {}  # where a word has most pieces
        for place, form in enumerate(words.forms):
            if form not in first or of.counts[place] > of.counts[first[form]]:
                first[form] = place
        n = Counter(words.forms)
        order = sorted(first, key=lambda form: (-of.counts[first[form]], -n[form], form))
        for form in order[:most]:
            own = [tag for word, tag in zip(words.forms, words.tags, strict=True) if word == form]
            pieces = _pieces_of(model, batch, int(words.rows[first[form]]))
            rows.append(
                (of.name, form, pieces, int(of.counts[first[form]]), len(form),
                 Counter(own).most_common(1)[0][0], n[form])
            )  # fmt: skip
    columns = ["model", "word", "split", "pieces", "characters", "tag", "count"]
    return pd.DataFrame(rows, columns=columns)


def _pieces_of(model: Model, batch: Batch, row: int) -> str:
    document = int(np.searchsorted(batch.word_offsets, row, side="right")) - 1
    text = model.encode(batch, [document])
    is_own = text.words[0] == row - int(batch.word_offsets[document])
    return " ".join(model.piece_texts(text.ids[0][is_own].tolist()))


# --- tests ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Test:
    model: str
    comparison: str
    first: float
    second: float
    draws: Floats  # bootstrap samples of the ratio
    p: float
    sizes: tuple[int, int]


def _tests(compared: Sequence[_Compared], n_permutations: int, seed: int) -> pd.DataFrame:
    tests = [test for each in compared for test in _of_groups(each, n_permutations, seed)]
    tests += [test for each in compared[1:] for test in _of_models(compared[0], each)]
    p_values = holm([test.p for test in tests])
    rows = []
    for test, p in zip(tests, p_values, strict=True):
        low, high = interval_around(test.first / test.second, test.draws)
        holds = (low > 1 or high < 1) and p < SIGNIFICANT
        rows.append(
            (test.model, test.comparison, test.first, test.second, test.first / test.second, low,
             high, float(p), bool(holds), *test.sizes)
        )  # fmt: skip
    columns = [
        "model", "comparison", "first", "second", "ratio", "lower", "upper", "p", "holds",
        "n_first", "n_second",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _of_groups(of: _Compared, n_permutations: int, seed: int) -> Iterator[_Test]:
    words = of.words
    tags = np.array(words.tags)
    rare = RANKS[-1] if (words.ranks > RANKS[-1]).any() else FREQUENT
    content = np.isin(tags, [*CONTENT])
    known = ~of.unknown  # one unknown piece may stand for any number of characters
    pairs: Mapping[str, tuple[NDArray[np.bool_], NDArray[np.bool_], bool]] = {
        "rare words": (words.ranks > rare, words.ranks <= FREQUENT, False),
        "proper nouns": (tags == "PROPN", content & (tags != "PROPN"), True),
        "function words": (np.isin(tags, [*FUNCTION]), content, False),
    }
    for name, (first, second, within) in pairs.items():
        first, second = first & known, second & known
        if first.any() and second.any():
            yield _of_two(of, name, _Distinct.of(of, first, second, within), n_permutations, seed)


@dataclass(frozen=True, eq=False)
class _Distinct:
    """Distinct words of two groups; a form with words in both is one of each."""

    pieces: Floats  # [distinct], mean number of pieces
    is_first: NDArray[np.bool_]  # [distinct]
    bands: Ints  # [distinct], within which piece counts are permuted

    @classmethod
    def of(
        cls, of: _Compared, first: NDArray[np.bool_], second: NDArray[np.bool_], within: bool
    ) -> "_Distinct":
        inside = first | second
        keys = 2 * of.words.types[inside] + first[inside]
        _, index, n = np.unique(keys, return_inverse=True, return_counts=True)
        ranks = np.bincount(index, of.words.ranks[inside]) / n
        decades = np.floor(np.log10(ranks)).astype(np.int64)
        return cls(
            np.bincount(index, of.counts[inside]) / n,
            np.bincount(index, first[inside]) > 0,
            decades if within else np.zeros_like(decades),
        )

    def means(self, weights: Floats) -> tuple[Floats, Floats]:
        """The mean number of pieces of each group.  # [..., distinct] -> [...], [...]"""
        parts = [
            ratio((weights * own) @ self.pieces, weights @ own.astype(np.float64), np.nan)
            for own in (self.is_first, ~self.is_first)
        ]
        return parts[0], parts[1]

    def permuted(self, random: np.random.Generator, n: int) -> Floats:
        """Differences of the means where pieces are permuted within bands.  # -> [n]"""
        shuffled = np.empty((n, len(self.pieces)))
        for band in np.unique(self.bands):
            members = np.flatnonzero(self.bands == band)
            orders = random.random((n, len(members))).argsort(1)
            shuffled[:, members] = self.pieces[members][orders]
        found: Floats = shuffled[:, self.is_first].mean(1) - shuffled[:, ~self.is_first].mean(1)
        return found


def _of_two(of: _Compared, name: str, distinct: _Distinct, n_permutations: int, seed: int) -> _Test:
    """The ratio of means over distinct words, which are drawn again and permuted."""
    n = len(distinct.pieces)
    first, second = map(float, distinct.means(np.ones(n)))
    random = np.random.default_rng([seed, n])
    draws = []
    for begin in range(0, DRAWS, AT_A_TIME):
        size = min(AT_A_TIME, DRAWS - begin)
        a, b = distinct.means(bootstrap_weights(n, random, size))
        draws.append(ratio(a, b, np.nan))
    null = [
        distinct.permuted(random, min(AT_A_TIME, n_permutations - begin))
        for begin in range(0, n_permutations, AT_A_TIME)
    ]
    differences = np.concatenate(null)
    # within bands, frequency alone makes a difference
    centre = differences.mean() if len({*distinct.bands.tolist()}) > 1 else 0.0
    beyond = np.abs(differences - centre) >= abs(first - second - centre) - 1e-9
    p = float((1 + beyond.sum()) / (1 + n_permutations))
    n_first = int(distinct.is_first.sum())
    return _Test(of.name, name, first, second, np.concatenate(draws), p, (n_first, n - n_first))


def _of_models(first: _Compared, other: _Compared) -> Iterator[_Test]:
    """This model's fertility over that of the first model, on the words that both know."""
    known = ~(first.unknown | other.unknown)  # an unknown word is one piece, however long
    n = int(known.sum())
    if not n:
        return
    sample, pieces = other.sample, np.stack([other.counts, first.counts], 1) * known[:, None]
    drawn = sample.weights @ sample.sums(pieces)  # [draws, 2]
    draws = ratio(drawn[:, 0], drawn[:, 1], np.nan)
    (p,) = sample.p_values(pieces[:, :1] - pieces[:, 1:])
    a, b = (float(each) for each in pieces.sum(0) / n)
    yield _Test(other.name, first.name, a, b, draws, float(p), (n, n))
