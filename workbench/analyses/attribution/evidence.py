"""Which words carry the predictions over a corpus: by tag, relation, position and word.

The evidence of a word is its absolute score over the mean of the words of its text, so that each
text counts alike: 1 is what a word has if all have the same. The predicted word itself is left out.
Random weights have favourite words too, so a tag or a relation is only tested by exchanging or
flipping distinct words (types): a preference for *the* is no preference for determiners. Near words
have higher scores in many models, and so do words of several pieces, whose scores are added: tags
and relations are compared with words at the same distance and of as many pieces. Costs:
milliseconds per method, and some for the shuffles of each tree.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from workbench.core.arrays import Bools, Floats, Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.core.stats import holm, ratio, word_permutations

if TYPE_CHECKING:
    from spacy.tokens import Doc

FARTHEST = 10  # offsets beyond count as this one
FEWEST_AT_DISTANCE = 5  # words; a distance with fewer is compared with all distances
MOST_PIECES = 4  # of a word; more count as this many
FEWEST_RELATED = 3  # words of a relation in the tables
FEWEST_TEXTS = 3  # in which a top word occurs
TOP_WORDS = 20
DEPENDENT_TO_HEAD, HEAD_TO_DEPENDENT = DIRECTIONS = ("dependent-to-head", "head-to-dependent")
ALL = "all"  # the row of all relations together
LEFT_OUT = ("root", "punct", "")  # relations

Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Text:
    """The words of one text as evidence for its prediction."""

    doc: "Doc"
    document: int  # texts of one document are resampled together
    word: int | None  # the predicted word; the number of words for the next one; None: no word
    scores: Mapping[str, Floats]  # of each method [words], absolute; NaN: the word is not read
    pieces: Ints  # that the model reads of each word [words]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The scored words of all texts by one method; every array is [words]."""

    texts: Sequence[Text]
    documents: int
    text: Ints
    document: Ints
    word: Ints  # position in its text
    offset: Ints  # from the predicted word, or from the start of the text
    pieces: Ints  # of the word
    own: Bools  # it is the predicted word itself
    type_: Ints  # distinct word
    types: tuple[str, ...]
    score: Floats  # absolute score over the mean of the text
    lift: Floats  # over the mean of the words other than the predicted one; NaN for that one

    @property
    def from_start(self) -> bool:
        """Whether no word is predicted, so that offsets are counted from the start."""
        return all(text.word is None for text in self.texts)


def evidence_of(texts: Sequence[Text], method: str) -> Evidence:
    """The scored words of the texts that the method gives scores."""
    rows: list[tuple[int, int, int, int, int, bool, str, float, float]] = []
    used = [text for text in texts if method in text.scores]
    for index, text in enumerate(used):
        scores = text.scores[method]
        is_own = np.arange(len(scores)) == (-1 if text.word is None else text.word)
        whole = np.nanmean(scores) if np.isfinite(scores).any() else 0.0
        others = scores[~is_own & np.isfinite(scores)]
        mean = others.mean() if len(others) else 0.0
        for word in np.flatnonzero(np.isfinite(scores)).tolist():
            if whole > 0:
                offset = word - (0 if text.word is None else text.word)
                rows.append(
                    (
                        index, text.document, word, int(np.clip(offset, -FARTHEST, FARTHEST)),
                        int(text.pieces[word]), bool(is_own[word]), text.doc[word].lower_,
                        scores[word] / whole,
                        scores[word] / mean if mean > 0 and not is_own[word] else np.nan,
                    )
                )  # fmt: skip
    columns = list(zip(*rows, strict=True)) if rows else [()] * 9
    types, type_ = np.unique(np.array(columns[6], dtype=object).astype(str), return_inverse=True)
    return Evidence(
        texts=used,
        documents=1 + max((text.document for text in texts), default=0),
        text=np.array(columns[0], dtype=np.int64),
        document=np.array(columns[1], dtype=np.int64),
        word=np.array(columns[2], dtype=np.int64),
        offset=np.array(columns[3], dtype=np.int64),
        pieces=np.array(columns[4], dtype=np.int64),
        own=np.array(columns[5], dtype=np.bool_),
        type_=type_.astype(np.int64),
        types=tuple(types.tolist()),
        score=np.array(columns[7], dtype=np.float64),
        lift=np.array(columns[8], dtype=np.float64),
    )


def _sums(index: Ints, values: Floats, number: int) -> Floats:
    """Sums of values by index.  # [words], [words] -> [number]"""
    return np.bincount(index, values, minlength=number).astype(np.float64)


def _interval(evidence: Evidence, values: Floats, mask: Bools, seed: int) -> tuple[Floats, Floats]:
    """Bootstrap interval over documents of the mean value of some words."""
    sample = ClusterSample(evidence.document[mask], seed, evidence.documents)
    return sample.mean_interval(values[mask])


def _expected(evidence: Evidence, mask: Bools) -> Floats:
    """For each word, the mean lift of the words in the mask at its offset, times what those of as
    many pieces have of what their offsets let expect.  # [words]

    Distinct words count alike: *the* and the full stop would decide what a short word has.
    """
    repeated = _sums(evidence.type_[mask], np.ones(int(mask.sum())), len(evidence.types))
    weight = 1 / np.maximum(repeated, 1)[evidence.type_]
    lift = np.where(mask, evidence.lift, 0.0)
    shifted = evidence.offset + FARTHEST

    def sums(index: Ints, values: Floats, number: int) -> Floats:
        return _sums(index[mask], (weight * values)[mask], number)

    offsets = 2 * FARTHEST + 1
    number, one = _sums(shifted[mask], np.ones(int(mask.sum())), offsets), np.ones_like(lift)
    whole = float(np.average(lift[mask], weights=weight[mask])) if mask.any() else 1.0
    means = ratio(sums(shifted, lift, offsets), sums(shifted, one, offsets))
    at_distance = np.where(number >= FEWEST_AT_DISTANCE, means, whole)[shifted]
    pieces = np.clip(evidence.pieces, 1, MOST_PIECES)
    had, foreseen = (sums(pieces, values, MOST_PIECES + 1) for values in (lift, at_distance))
    return at_distance * ratio(had, foreseen, 1.0)[pieces]


# --- tags -----------------------------------------------------------------------------------------


def tags(evidence: Evidence, method: str, n_shuffles: int, seed: int) -> Rows:
    """Rows of the table `tags`; none for texts without tags."""
    names = np.array(
        [
            tag_of(evidence.texts[text].doc, word)
            for text, word in zip(evidence.text, evidence.word, strict=True)
        ],
        dtype=object,
    )
    known = np.isfinite(evidence.lift) & (names != "")
    present = sorted(set(names[known].tolist()))
    if len(present) < 2:
        return []
    expected = _expected(evidence, known)
    tag = np.searchsorted(present, names[known].astype(str))
    # [types, tags]: scores, expected scores, and words
    shape = len(evidence.types), len(present)
    counts = np.zeros(shape)
    np.add.at(counts, (evidence.type_[known], tag), 1.0)
    scores, near = (
        _sums(evidence.type_[known], values[known], shape[0])
        for values in (evidence.lift, expected)
    )
    p_values = holm(_exchanged(counts, scores, near, n_shuffles, seed))
    rows: Rows = []
    for index, name in enumerate(present):
        mask = known.copy()
        mask[known] = tag == index
        lower, upper = _interval(evidence, evidence.lift, mask, seed)
        rows.append(
            {
                "method": method,
                "tag": name,
                "n": int(mask.sum()),
                "types": int((counts[:, index] > 0).sum()),
                "attribution": float(evidence.lift[mask].sum() / evidence.lift[known].sum()),
                "words": float(mask.sum() / known.sum()),
                "lift": float(evidence.lift[mask].mean()),
                "lower": lower,
                "upper": upper,
                "expected": float(expected[mask].mean()),
                "p": float(p_values[index]),
            }
        )
    return sorted(rows, key=lambda row: -float(row["lift"]))


def tag_of(doc: "Doc", word: int) -> str:
    """The universal part of speech of a word, else its tag; "" without either."""
    return doc[word].pos_ or doc[word].tag_


def _exchanged(
    counts: Floats, scores: Floats, expected: Floats, n_shuffles: int, seed: int
) -> Floats:
    """Two-sided p-values of each tag, by exchanging the tags of distinct words, which count alike.

    A word that has several tags keeps its share of each.  # [types, tags], [types] -> [tags]
    """
    words = counts.sum(1)  # [types]
    present = words > 0
    shares = counts[present] / words[present, None]  # [types, tags]
    random = np.random.default_rng([seed, len(shares)])
    orders = np.concatenate(
        [np.arange(len(shares))[None], random.random((n_shuffles, len(shares))).argsort(1)]
    )
    lifts = ratio(scores[present], expected[present], 1.0)  # [types]
    means = np.stack([lifts @ shares[order] for order in orders]) / shares.sum(0)
    # [1 + shuffles, tags]
    above = (means[1:] >= means[0] - 1e-12).sum(0)
    below = (means[1:] <= means[0] + 1e-12).sum(0)
    p_values: Floats = np.minimum(1.0, 2 * (1 + np.minimum(above, below)) / (1 + n_shuffles))
    return p_values


# --- relations ------------------------------------------------------------------------------------


def relations(evidence: Evidence, method: str, n_shuffles: int, seed: int) -> Rows:
    """Rows of the table `relations`; none for texts without trees or without a predicted word."""
    arcs = [_arcs(text) for text in evidence.texts]
    names = sorted({name for arcs_of_text in arcs for *_, name in arcs_of_text})
    index = {name: i for i, name in enumerate(names)}
    at = {
        (text, word): row
        for row, (text, word) in enumerate(zip(evidence.text, evidence.word, strict=True))
        if np.isfinite(evidence.lift[row])
    }
    related: dict[tuple[int, int], set[int]] = defaultdict(set)  # rows, by direction and relation
    for text, arcs_of_text in enumerate(arcs):
        for dependent, head, name in arcs_of_text:
            own = evidence.texts[text].word
            for direction, (one, other) in enumerate(((dependent, head), (head, dependent))):
                if one == own and (text, other) in at:
                    related[direction, index[name]].add(at[text, other])
                    related[direction, len(names)].add(at[text, other])
    found = {key: np.array(sorted(rows)) for key, rows in related.items()}
    found = {key: rows for key, rows in found.items() if len(rows) >= FEWEST_RELATED}
    if not found:
        return []
    unrelated = np.isfinite(evidence.lift)
    unrelated[np.concatenate(list(found.values()))] = False
    has_word = np.array([text.word is not None for text in evidence.texts])
    expected = _expected(evidence, unrelated & has_word[evidence.text])
    residual = evidence.lift - expected
    null = _shuffled(evidence, arcs, index, residual, at, n_shuffles, seed)
    keys = sorted(found, key=lambda key: (key[0], key[1] != len(names), -len(found[key])))
    by_shuffles, by_types = [], []
    for key in keys:
        rows = found[key]
        mean = residual[rows].mean()
        means = null[:, key[0], key[1]]
        by_shuffles.append((1 + (means >= mean - 1e-12).sum()) / (1 + n_shuffles))
        types = ClusterSample.of(evidence.type_[rows], seed)
        by_types.append(types.p_above_zero(residual[rows]))
    table: Rows = []
    corrected = zip(keys, holm(by_shuffles), holm(by_types), strict=True)
    for key, p_shuffled, p_types in corrected:
        rows = found[key]
        mask = np.zeros(len(residual), dtype=np.bool_)
        mask[rows] = True
        lower, upper = _interval(evidence, np.nan_to_num(residual), mask, seed)
        table.append(
            {
                "method": method,
                "direction": DIRECTIONS[key[0]],
                "relation": [*names, ALL][key[1]],
                "n": len(rows),
                "types": len(np.unique(evidence.type_[rows])),
                "attribution": float(evidence.lift[rows].mean()),
                "expected": float(expected[rows].mean()),
                "difference": float(residual[rows].mean()),
                "lower": lower,
                "upper": upper,
                "p_shuffled": float(p_shuffled),
                "p_types": float(p_types),
                "p": float(max(p_shuffled, p_types)),
            }
        )
    return table


def _arcs(text: Text) -> list[tuple[int, int, str]]:
    """Dependent, head and main type of the relations of a text; none if no word is predicted."""
    if text.word is None or text.word >= len(text.doc) or not text.doc.has_annotation("DEP"):
        return []
    named = [(t.i, t.head.i, t.dep_.lower().split(":")[0]) for t in text.doc if t.head.i != t.i]
    return [arc for arc in named if arc[2] not in LEFT_OUT]


def _shuffled(
    evidence: Evidence,
    arcs: Sequence[Sequence[tuple[int, int, str]]],
    index: Mapping[str, int],
    residual: Floats,
    at: Mapping[tuple[int, int], int],
    n_shuffles: int,
    seed: int,
) -> Floats:
    """Mean residual of each relation in shuffled trees.  # [shuffles, directions, relations + 1]

    A shuffle moves the words of a text with their arcs; scores stay where they are.
    """
    sums = np.zeros((n_shuffles, 2, len(index) + 1))
    counts = np.zeros_like(sums)
    for number, (text, arcs_of_text) in enumerate(zip(evidence.texts, arcs, strict=True)):
        if not arcs_of_text:
            continue
        values = np.full(len(text.doc), np.nan)
        for word in range(len(text.doc)):
            if (number, word) in at:
                values[word] = residual[at[number, word]]
        every = np.ones(len(text.doc), dtype=np.bool_)
        moved = word_permutations([every], [number], n_shuffles, seed)[:, 0]  # [shuffles, words]
        ends = np.array([arc[:2] for arc in arcs_of_text])
        kind = np.array([index[name] for *_, name in arcs_of_text])
        places = moved[:, ends].astype(np.int64)  # [shuffles, arcs, dependent and head]
        for direction in (0, 1):
            shuffle, arc = np.nonzero(places[:, :, direction] == text.word)
            value = values[places[shuffle, arc, 1 - direction]]
            read = np.isfinite(value)
            for relation in (kind[arc], np.full(len(arc), len(index))):
                where = shuffle[read], np.full(read.sum(), direction), relation[read]
                np.add.at(sums, where, value[read])
                np.add.at(counts, where, 1.0)
    return ratio(sums, counts)


# --- positions and words --------------------------------------------------------------------------


def positions(evidence: Evidence, method: str, seed: int) -> Rows:
    """Rows of the table `positions`."""
    rows: Rows = []
    sample = ClusterSample(evidence.document, seed, evidence.documents)
    whole = sample.sums(evidence.score)
    for offset in np.unique(evidence.offset).tolist():
        mask = evidence.offset == offset
        part = np.where(mask, evidence.score, 0.0)
        lower, upper = sample.mean_interval(part, evidence.score)
        rows.append(
            {
                "method": method,
                "origin": "text start" if evidence.from_start else "predicted word",
                "offset": offset,
                "n": int(mask.sum()),
                "attribution": float(sample.sums(part).sum() / whole.sum()),
                "lower": lower,
                "upper": upper,
                "words": float(mask.mean()),
            }
        )
    return rows


def top_words(evidence: Evidence, method: str) -> Rows:
    """Rows of the table `top_words`."""
    known = np.isfinite(evidence.lift)
    found = pd.DataFrame(
        {
            "word": np.array(evidence.types, dtype=object)[evidence.type_[known]],
            "text": evidence.text[known],
            "lift": evidence.lift[known],
        }
    )
    groups = found.groupby("word").agg(
        n=("lift", "size"), texts=("text", "nunique"), lift=("lift", "mean")
    )
    groups = groups[groups["texts"] >= FEWEST_TEXTS]
    best = groups.sort_values(["lift", "n"], ascending=False, kind="stable").head(TOP_WORDS)
    return [
        {"method": method, "word": str(word), "n": int(n), "lift": float(lift)}
        for word, n, lift in zip(best.index, best["n"], best["lift"], strict=True)
    ]
