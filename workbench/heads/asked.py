"""What is asked of one batch, the same for every head: gold of words that were read, and shuffles.

Words that were cut off or that the tokenizer made nothing of take their arcs and questions with
them. Shuffled trees are the same trees over the same words in another order, drawn for each
document from the run's seed, so an answer does not depend on how documents are batched. Costs so
many shuffles of each document, and some 10 bytes an arc.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from workbench.engine.statistics import OFFSETS
from workbench.heads.gold import Gold
from workbench.heads.sides import Sides

UNKNOWN = -1


@dataclass(frozen=True)
class Arcs:
    """Arcs of a batch in one direction: from the word that is asked to its partner."""

    document: Tensor  # [arcs], row of the batch
    word: Tensor  # [arcs]
    partner: Tensor  # [arcs]
    question: Tensor  # [arcs], relation, or relations + relation from heads to dependents
    cell: Tensor  # [arcs], the arcs of one sentence and question are a cell
    cells: Tensor  # [cells], the question of each
    simple: Tensor  # [cells, rules], arcs that each simple rule hits, see `simple_hits`


@dataclass(frozen=True)
class Asked:
    """The gold of a batch as the words of one kind of map have it."""

    relations: int
    arcs: Arcs
    ranks: Tensor  # [batch, words], how rare; UNKNOWN where no word was read
    sentences: Tensor  # [batch, words]
    own: Tensor  # [questions], row of the batch
    mention: Tensor  # [questions], word
    candidates: Tensor  # [questions, most], words; UNKNOWN beyond their number
    right: Tensor  # [questions, most]
    shuffles: Tensor  # [shuffles, batch, words], where each word goes
    longest: Tensor  # [batch, words], the word in sight with most pieces, itself included
    baselines: Tensor  # [batch, numbers], see BASELINES


# Simple rules: the first word; the longest in pieces, which is where uniform attention and random
# weights have their maximum, ties in random order; each fixed offset.
FIRST, LONGEST, FIXED = 0, 1, 2  # where each stands; fixed offsets from the last on
RULES = FIXED + len(OFFSETS)


def baselines_of(relations: int) -> int:
    """Numbers of a document: of each question arcs, words, and the hits of each simple rule; then
    mentions, and those that the nearest mention and the same head word get right."""
    return 2 * relations * (2 + RULES) + 3


def asked_of(gold: Gold, order: Sequence[int], sides: Sides, shuffled: Tensor, seed: int) -> Asked:
    """The gold of these documents for these maps; `shuffled` [shuffles, batch, words]."""
    device = sides.rows.device
    words = sides.rows.shape[1]
    known = sides.both.cpu().numpy()
    pairs = sides.pairs.cpu().numpy()
    arcs = _arcs(gold, order, known, pairs)
    questions = _questions(gold, order, known)
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
    numbers = _baselines(gold, len(order), arcs, by_rule, questions)
    most = max((len(each[2]) for each in questions), default=1)
    laid = np.full((len(questions), most), UNKNOWN, dtype=np.int64)
    right = np.zeros((len(questions), most), dtype=bool)
    for place, (_, _, candidates, answers, _) in enumerate(questions):
        laid[place, : len(candidates)] = candidates
        right[place, : len(candidates)] = answers

    def on(values: object, kind: type = np.int64) -> Tensor:
        return torch.from_numpy(np.asarray(values, dtype=kind)).to(device)

    return Asked(
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
        on([each[0] for each in questions]),
        on([each[1] for each in questions]),
        on(laid),
        on(right, np.bool_),
        shuffled.to(device),
        on(_largest(size, pairs)),
        on(numbers, np.float64),
    )


def shuffled(sizes: Sequence[np.ndarray], order: Sequence[int], number: int, seed: int) -> Tensor:
    """So many orders of the words that are there, each document's from its own seed.

    `sizes` are the words of each, by place.  # -> [shuffles, batch, words], int16
    """
    longest = max((len(each) for each in sizes), default=0)
    found = np.tile(np.arange(longest, dtype=np.int16), (number, len(sizes), 1))
    for row, (there, document) in enumerate(zip(sizes, order, strict=True)):
        random = np.random.default_rng([seed, document, 1])
        places = np.flatnonzero(there)
        drawn = random.random((number, len(places))).argsort(1)
        found[:, row, places] = places[drawn]
    return torch.from_numpy(found)


def _arcs(gold: Gold, order: Sequence[int], known: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Arcs that can be seen, in both directions: document, word, partner, question.

    [arcs, 4]
    """
    rows = []
    for row, document in enumerate(order):
        arcs = gold.arcs[document]
        arcs = arcs[(arcs[:, :2] < known.shape[1]).all(1)]
        arcs = arcs[known[row, arcs[:, 0]] & known[row, arcs[:, 1]]]
        document_rows = np.full(len(arcs), row)
        there = np.stack([document_rows, arcs[:, 0], arcs[:, 1], arcs[:, 2]], 1)
        back = np.stack(
            [document_rows, arcs[:, 1], arcs[:, 0], arcs[:, 2] + len(gold.relations)], 1
        )
        both = np.concatenate([there, back])
        rows.append(both[pairs[row, both[:, 1], both[:, 2]]])
    return np.concatenate(rows) if rows else np.zeros((0, 4), dtype=np.int64)


def simple_hits(arcs: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """Which arcs each simple rule hits; `longest` [batch, words].  # -> [arcs, rules], 1 or 0"""
    offset = arcs[:, 2] - arcs[:, 1]
    first = arcs[:, 2] == 0
    fixed = offset[:, None] == np.array(OFFSETS)
    long = arcs[:, 2] == longest[arcs[:, 0], arcs[:, 1]]
    return np.concatenate([first[:, None], long[:, None], fixed], 1).astype(np.float64)


def _tie_breaks(gold: Gold, order: Sequence[int], words: int, seed: int) -> np.ndarray:
    """Less than a piece for each word, at random, from each document's own seed.

    [batch, words]
    """
    found = np.zeros((len(order), words))
    for row, document in enumerate(order):
        drawn = np.random.default_rng([seed, document, 2]).random(len(gold.ranks[document]))
        found[row, : len(drawn)] = 0.5 * drawn[:words]
    return found


def _largest(size: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Of each row the largest column that is there.  # [batch, n], [batch, m, n] -> [batch, m]"""
    found: np.ndarray = np.where(there, size[:, None], -1.0).argmax(-1)
    return found


def _cells(arcs: np.ndarray, sentences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sentences and questions that occur together: the question of each, and each arc's.

    -> [cells], [arcs]
    """
    keys = np.stack([arcs[:, 0], sentences[arcs[:, 0], arcs[:, 1]], arcs[:, 3]], 1)
    found, cell = np.unique(keys, axis=0, return_inverse=True)
    return found[:, 2], cell.reshape(-1)


_Question = tuple[int, int, list[int], list[bool], int]  # row, word, candidates, right, guess


def _questions(gold: Gold, order: Sequence[int], known: np.ndarray) -> list[_Question]:
    found = []
    for row, document in enumerate(order):
        for question in gold.questions[document]:
            if question.word >= known.shape[1] or not known[row, question.word]:
                continue
            kept = [
                place
                for place, word in enumerate(question.candidates)
                if word < known.shape[1] and known[row, word]
            ]
            right = [question.right[place] for place in kept]
            if any(right):
                words = [question.candidates[place] for place in kept]
                guess = kept.index(question.guess) if question.guess in kept else 0
                found.append((row, question.word, words, right, guess))
    return found


def _baselines(
    gold: Gold,
    batch: int,
    arcs: np.ndarray,
    by_rule: np.ndarray,
    questions: Sequence[_Question],
) -> np.ndarray:
    """Of each document the numbers that `baselines_of` counts.  # [batch, numbers]"""
    table = np.zeros((batch, 2 * len(gold.relations), 2 + RULES))
    document, question = arcs[:, 0], arcs[:, 3]
    words = np.unique(arcs[:, [0, 1, 3]], axis=0)
    np.add.at(table[:, :, 0], (document, question), 1)
    np.add.at(table[:, :, 1], (words[:, 0], words[:, 2]), 1)
    np.add.at(table[:, :, 2:], (document, question), by_rule)
    chains = np.zeros((batch, 3))
    for row, _, _, right, guess in questions:
        chains[row] += (1, right[0], right[guess])
    return np.concatenate([table.reshape(batch, -1), chains], 1)
