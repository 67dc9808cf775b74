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

from workbench.engine.statistics import FARTHEST, OFFSETS
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
    group: Tensor  # [arcs], arcs that are one question: a word, a relation, any of its partners
    groups: int


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
    pieces: Tensor  # [batch, words], how many each word owns
    baselines: Tensor  # [batch, numbers], see BASELINES


def baselines_of(relations: int) -> int:
    """So many numbers: questions, those a fixed offset or the first word answers, antecedents."""
    return 2 * relations * (len(OFFSETS) + 2) + 3


def asked_of(gold: Gold, order: Sequence[int], sides: Sides, shuffled: Tensor) -> Asked:
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
    numbers = _baselines(gold, len(order), arcs, questions)
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
            on(arcs[:, 4]),
            int(arcs[:, 4].max(initial=-1)) + 1,
        ),
        on(ranks),
        on(sentences),
        on([each[0] for each in questions]),
        on([each[1] for each in questions]),
        on(laid),
        on(right, np.bool_),
        shuffled.to(device),
        sides.targets[..., : sides.words].sum(1),
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
    """Both directions of the arcs that can be seen, end to end.  # [arcs, 5]"""
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
    found = np.concatenate(rows) if rows else np.zeros((0, 4), dtype=np.int64)
    _, group = np.unique(found[:, [0, 1, 3]], axis=0, return_inverse=True)
    return np.concatenate([found, group.reshape(-1, 1)], 1)


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
    gold: Gold, batch: int, arcs: np.ndarray, questions: Sequence[_Question]
) -> np.ndarray:
    """Of each document; for each question: how many, and how many each simple rule answers."""
    asked = 2 * len(gold.relations)
    table = np.zeros((batch, asked, len(OFFSETS) + 2))
    _, first = np.unique(arcs[:, 4], return_index=True)  # one arc of each question
    np.add.at(table, (arcs[first, 0], arcs[first, 3], 0), 1)
    offset = arcs[:, 2] - arcs[:, 1]
    near = np.abs(offset) <= FARTHEST
    np.add.at(table, (arcs[near, 0], arcs[near, 3], 2 + FARTHEST + offset[near]), 1)
    begins = arcs[:, 2] == 0
    np.add.at(table, (arcs[begins, 0], arcs[begins, 3], 1), 1)
    chains = np.zeros((batch, 3))
    for row, _, _, right, guess in questions:
        chains[row] += (1, right[0], right[guess])
    return np.concatenate([table.reshape(batch, -1), chains], 1)
