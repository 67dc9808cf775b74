"""Gold annotation of the texts: arcs, rare words, antecedents, and sentences.

Read from Docs once, as arrays for each document, so that the forward pass needs no spaCy. Relations
are the main types of UD, or with their subtypes; `root` and `punct` are left out. The rank of a
word is its position in the frequency list of the corpus; ties are in alphabetical order. Costs: a
pass over the Docs, and about 40 bytes for each word.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.heads.word_maps import Sides
from workbench.engine.map_statistics import OFFSETS

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.layers import Mention

LEFT_OUT = ("root", "punct", "")
DIRECTIONS = ("dependent-to-head", "head-to-dependent")
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Anaphor:
    """A mention that has an antecedent: the earlier mentions, and which are of its chain."""

    word: int  # the head word of the mention
    candidates: tuple[int, ...]  # head words of the mentions before it, nearest first
    right: tuple[bool, ...]
    guess: int  # index of the candidate that the same-head-word rule chooses


@dataclass(frozen=True)
class Gold:
    """Gold annotation of the words of every document."""

    relations: tuple[str, ...]  # names, sorted
    arcs: tuple[Numbers, ...]  # for each document [arcs, 3]: dependent, head, relation
    ranks: tuple[Numbers, ...]  # for each document: frequency rank of each word, 0: most frequent
    sentences: tuple[Numbers, ...]  # for each document: the sentence of each word
    anaphors: tuple[tuple[Anaphor, ...], ...]  # for each document
    frequent: int  # words of a lower rank are not rare

    def __len__(self) -> int:
        return len(self.arcs)

    @property
    def has_arcs(self) -> bool:
        return any(len(arcs) for arcs in self.arcs)

    @property
    def has_coreference(self) -> bool:
        return any(self.anaphors)


def gold_of(docs: "Sequence[Doc]", subtypes: bool = False, frequent: int = 500) -> Gold:
    """Gold annotation of all documents."""
    counts = Counter(token.text for doc in docs for token in doc)
    by_rank = sorted(counts, key=lambda word: (-counts[word], word))
    rank = {word: index for index, word in enumerate(by_rank)}
    names = sorted({name for doc in docs for *_, name in _arcs(doc, subtypes)})
    index = {name: i for i, name in enumerate(names)}
    return Gold(
        tuple(names),
        tuple(
            _array([(a, b, index[name]) for a, b, name in _arcs(doc, subtypes)], 3) for doc in docs
        ),
        tuple(_array([rank[token.text] for token in doc]) for doc in docs),
        tuple(_array(_sentences(doc)) for doc in docs),
        tuple(tuple(_anaphors(doc)) for doc in docs),
        frequent,
    )


def relation_of(label: str, subtypes: bool) -> str:
    """The name of a relation in the tables; "" if it is left out."""
    name = label.lower() if subtypes else label.lower().split(":")[0]
    return "" if name.split(":")[0] in LEFT_OUT else name


def _arcs(doc: "Doc", subtypes: bool) -> Iterator[tuple[int, int, str]]:
    for token in doc:
        if token.head.i != token.i and (name := relation_of(token.dep_, subtypes)):
            yield token.i, token.head.i, name


def _array(rows: object, columns: int = 0) -> Numbers:
    array: Numbers = np.array(rows, dtype=np.int64)
    return array.reshape(-1, columns) if columns else array


def _sentences(doc: "Doc") -> list[int]:
    if not doc.has_annotation("SENT_START"):
        return [0] * len(doc)
    return [index for index, sentence in enumerate(doc.sents) for _ in sentence]


def _anaphors(doc: "Doc") -> Iterator[Anaphor]:
    """Every mention with an earlier one of its chain, and all mentions that begin before it."""
    from workbench.corpora.layers import chains

    mentions = sorted(
        ((mention, name) for name, chain in chains(doc).items() for mention in chain),
        key=lambda each: (each[0].start, each[0].end),
    )
    heads = [head_word(doc, mention) for mention, _ in mentions]
    for index, (_, chain) in enumerate(mentions):
        before: dict[int, bool] = {}  # head words, nearest first
        for other in range(index - 1, -1, -1):
            if heads[other] != heads[index] and heads[other] < heads[index]:
                right = mentions[other][1] == chain
                before[heads[other]] = before.get(heads[other], False) or right
        if not any(before.values()):
            continue
        words = sorted(before, reverse=True)
        head = doc[heads[index]].text.lower()
        same = [i for i, word in enumerate(words) if doc[word].text.lower() == head]
        yield Anaphor(
            heads[index], tuple(words), tuple(before[word] for word in words), (same or [0])[0]
        )


def head_word(doc: "Doc", mention: "Mention") -> int:
    """The word of a mention whose head lies outside of it; without a tree, its last word."""
    if doc.has_annotation("DEP"):
        for token in doc[mention.start : mention.end]:
            if token.head.i == token.i or not mention.start <= token.head.i < mention.end:
                return token.i
    return mention.end - 1


# --- the gold of one batch, with shuffles ---------------------------------------------------------
#
# The same for every head: the gold of the words that the model reads, and shuffles of them.
#
# Arcs and mentions of words that were cut off or have no piece are left out. Shuffled trees are the
# same trees over the same words in another order, drawn for each document from the seed of the run,
# so results do not depend on batches. Costs: the shuffles of each document, and about 10 bytes for
# each arc.

UNKNOWN = -1


@dataclass(frozen=True)
class Arcs:
    """Arcs of a batch in both directions, each from a word to its partner."""

    document: Tensor  # [arcs], row of the batch
    word: Tensor  # [arcs]
    partner: Tensor  # [arcs]
    arc_type: Tensor  # [arcs], relation, or relations + relation from heads to dependents
    cell: Tensor  # [arcs], a cell holds the arcs of one sentence and type
    cells: Tensor  # [cells], the type of each
    simple: Tensor  # [cells, rules], arcs that each simple rule hits, see `simple_hits`


@dataclass(frozen=True)
class BatchGold:
    """The gold of a batch, for the words of one kind of map."""

    relations: int
    arcs: Arcs
    ranks: Tensor  # [batch, words], frequency rank; UNKNOWN if no word was read
    sentences: Tensor  # [batch, words]
    anaphor_row: Tensor  # [anaphors], row of the batch
    mention: Tensor  # [anaphors], word
    candidates: Tensor  # [anaphors, longest], words; padded with UNKNOWN
    right: Tensor  # [anaphors, longest]
    shuffles: Tensor  # [shuffles, batch, words], new position of each word
    longest: Tensor  # [batch, words], the visible word with most pieces, including itself
    baselines: Tensor  # [batch, numbers], see `baselines_of`


# Simple rules: the first word; the word with most pieces, where uniform attention and random
# weights have their maximum (ties in random order); each fixed offset.
FIRST, LONGEST, FIXED = 0, 1, 2  # index of each rule; fixed offsets start at the last one
RULES = FIXED + len(OFFSETS)


def baselines_of(relations: int) -> int:
    """Count of numbers for a document: arcs, words and hits of each rule, for each arc type; then
    mentions, and hits of the nearest mention and of the same head word."""
    return 2 * relations * (2 + RULES) + 3


def batch_gold(
    gold: Gold, order: Sequence[int], sides: Sides, shuffled: Tensor, seed: int
) -> BatchGold:
    """The gold of these documents for these maps; `shuffled` [shuffles, batch, words]."""
    device = sides.rows.device
    words = sides.rows.shape[1]
    known = sides.both.cpu().numpy()
    pairs = sides.pairs.cpu().numpy()
    arcs = _arc_rows(gold, order, known, pairs)
    anaphors = _anaphor_rows(gold, order, known, pairs)
    ranks = np.full(known.shape, UNKNOWN, dtype=np.int64)
    sentences = np.zeros(known.shape, dtype=np.int64)
    for row, document in enumerate(order):
        size = min(words, len(gold.ranks[document]))
        ranks[row, :size] = gold.ranks[document][:size]
        sentences[row, :size] = gold.sentences[document][:size]
    ranks[~known] = UNKNOWN
    pieces = sides.looked_at.count[:, : sides.words].cpu().numpy()  # [batch, words]
    size = pieces + _tie_breaks(gold, order, pieces.shape[1], seed)
    others = pairs & (np.eye(*pairs.shape[1:]) == 0)
    by_rule = simple_hits(arcs, _largest(size, others))
    cells, cell = _cells(arcs, sentences)
    simple = np.zeros((len(cells), RULES))
    np.add.at(simple, cell, by_rule)
    numbers = _baselines(gold, len(order), arcs, by_rule, anaphors)
    longest = max((len(each[2]) for each in anaphors), default=1)
    padded = np.full((len(anaphors), longest), UNKNOWN, dtype=np.int64)
    right = np.zeros((len(anaphors), longest), dtype=bool)
    for index, (_, _, candidates, in_chain, _) in enumerate(anaphors):
        padded[index, : len(candidates)] = candidates
        right[index, : len(candidates)] = in_chain

    def on(values: object, kind: type = np.int64) -> Tensor:
        return torch.from_numpy(np.asarray(values, dtype=kind)).to(device)

    return BatchGold(
        len(gold.relations),
        Arcs(
            on(arcs[:, 0]),
            on(arcs[:, 1]),
            on(arcs[:, 2]),
            on(arcs[:, 3]),
            on(cell),
            on(cells),
            on(simple, np.float32),
        ),
        on(ranks),
        on(sentences),
        on([each[0] for each in anaphors]),
        on([each[1] for each in anaphors]),
        on(padded),
        on(right, np.bool_),
        shuffled.to(device),
        on(_largest(size, pairs)),
        on(numbers, np.float64),
    )


def _arc_rows(gold: Gold, order: Sequence[int], known: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Visible arcs in both directions: document, word, partner, arc type.

    [arcs, 4]
    """
    rows = []
    for row, document in enumerate(order):
        arcs = gold.arcs[document]
        arcs = arcs[(arcs[:, :2] < known.shape[1]).all(1)]
        arcs = arcs[known[row, arcs[:, 0]] & known[row, arcs[:, 1]]]
        document_rows = np.full(len(arcs), row)
        forward = np.stack([document_rows, arcs[:, 0], arcs[:, 1], arcs[:, 2]], 1)
        backward = np.stack(
            [document_rows, arcs[:, 1], arcs[:, 0], arcs[:, 2] + len(gold.relations)], 1
        )
        both = np.concatenate([forward, backward])
        rows.append(both[pairs[row, both[:, 1], both[:, 2]]])
    return np.concatenate(rows) if rows else np.zeros((0, 4), dtype=np.int64)


def simple_hits(arcs: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """Arcs that each simple rule hits; `longest` [batch, words].  # -> [arcs, rules], 1 or 0"""
    offset = arcs[:, 2] - arcs[:, 1]
    first = arcs[:, 2] == 0
    fixed = offset[:, None] == np.array(OFFSETS)
    long = arcs[:, 2] == longest[arcs[:, 0], arcs[:, 1]]
    return np.concatenate([first[:, None], long[:, None], fixed], 1).astype(np.float64)


def _tie_breaks(gold: Gold, order: Sequence[int], words: int, seed: int) -> np.ndarray:
    """A random number below 0.5 for each word, from the seed of its document.

    [batch, words]
    """
    breaks = np.zeros((len(order), words))
    for row, document in enumerate(order):
        drawn = np.random.default_rng([seed, document, 2]).random(len(gold.ranks[document]))
        breaks[row, : len(drawn)] = 0.5 * drawn[:words]
    return breaks


def _largest(size: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """The largest visible column of each row.  # [batch, n], [batch, m, n] -> [batch, m]"""
    largest: np.ndarray = np.where(visible, size[:, None], -1.0).argmax(-1)
    return largest


def _cells(arcs: np.ndarray, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a sentence and an arc type: the type of each pair, and the pair of each arc.

    -> [cells], [arcs]
    """
    keys = np.stack([arcs[:, 0], sentences[arcs[:, 0], arcs[:, 1]], arcs[:, 3]], 1)
    cells, cell = np.unique(keys, axis=0, return_inverse=True)
    return cells[:, 2], cell.reshape(-1)


_AnaphorRow = tuple[int, int, list[int], list[bool], int]  # row, word, candidates, right, guess


def _anaphor_rows(
    gold: Gold, order: Sequence[int], known: np.ndarray, pairs: np.ndarray
) -> list[_AnaphorRow]:
    """Anaphors whose word and at least one antecedent are visible."""
    rows = []
    for row, document in enumerate(order):
        for anaphor in gold.anaphors[document]:
            if anaphor.word >= known.shape[1] or not known[row, anaphor.word]:
                continue
            visible = [
                index
                for index, word in enumerate(anaphor.candidates)
                if word < known.shape[1] and known[row, word] and pairs[row, anaphor.word, word]
            ]
            right = [anaphor.right[index] for index in visible]
            if any(right):
                words = [anaphor.candidates[index] for index in visible]
                guess = visible.index(anaphor.guess) if anaphor.guess in visible else 0
                rows.append((row, anaphor.word, words, right, guess))
    return rows


def _baselines(
    gold: Gold,
    batch: int,
    arcs: np.ndarray,
    by_rule: np.ndarray,
    anaphors: Sequence[_AnaphorRow],
) -> np.ndarray:
    """The numbers of `baselines_of` for each document.  # [batch, numbers]"""
    table = np.zeros((batch, 2 * len(gold.relations), 2 + RULES))
    document, arc_type = arcs[:, 0], arcs[:, 3]
    words = np.unique(arcs[:, [0, 1, 3]], axis=0)
    np.add.at(table[:, :, 0], (document, arc_type), 1)
    np.add.at(table[:, :, 1], (words[:, 0], words[:, 2]), 1)
    np.add.at(table[:, :, 2:], (document, arc_type), by_rule)
    chains = np.zeros((batch, 3))
    for row, _, _, right, guess in anaphors:
        chains[row] += (1, right[0], right[guess])
    return np.concatenate([table.reshape(batch, -1), chains], 1)
