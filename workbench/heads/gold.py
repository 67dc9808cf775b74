"""What heads are asked about each text: arcs, rare words, antecedents, and where sentences begin.

Taken from Docs once, as flat arrays with offsets by document, so that the pass itself needs no
spaCy. Relations are UD's main types, or with their subtypes; `root` and `punct` are left out. How
rare a word is, is its place in the corpus' own list of frequencies, equal ones by the alphabet.
Costs a pass over the Docs, and some 40 bytes a word.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.engine.map_statistics import OFFSETS
from workbench.heads.word_maps import Sides

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.layers import Mention

LEFT_OUT = ("root", "punct", "")
DIRECTIONS = ("dependent-to-head", "head-to-dependent")
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """A mention that has an antecedent: which earlier mentions there are, and which are right."""

    word: int  # the head word of the mention
    candidates: tuple[int, ...]  # head words of the mentions before it, nearest first
    right: tuple[bool, ...]
    guess: int  # the place, among candidates, that the same head word would choose


@dataclass(frozen=True)
class Gold:
    """What is known of every document's words."""

    relations: tuple[str, ...]  # names, sorted
    arcs: tuple[Numbers, ...]  # of each document: [arcs, 3], dependent, head, relation
    ranks: tuple[Numbers, ...]  # of each document: how rare each word is, 0 the most frequent
    sentences: tuple[Numbers, ...]  # of each document: the sentence of each word
    questions: tuple[tuple[Question, ...], ...]  # of each document
    frequent: int  # words of a lower rank are no rare ones

    def __len__(self) -> int:
        return len(self.arcs)

    @property
    def has_arcs(self) -> bool:
        return any(len(arcs) for arcs in self.arcs)

    @property
    def has_questions(self) -> bool:
        return any(self.questions)


def gold_of(docs: "Sequence[Doc]", subtypes: bool = False, frequent: int = 500) -> Gold:
    """Everything the heads are asked, of all documents."""
    counts = Counter(token.text for doc in docs for token in doc)
    by_rank = sorted(counts, key=lambda word: (-counts[word], word))
    rank = {word: place for place, word in enumerate(by_rank)}
    names = sorted({name for doc in docs for *_, name in _arcs(doc, subtypes)})
    number = {name: place for place, name in enumerate(names)}
    return Gold(
        tuple(names),
        tuple(
            _array([(a, b, number[name]) for a, b, name in _arcs(doc, subtypes)], 3) for doc in docs
        ),
        tuple(_array([rank[token.text] for token in doc]) for doc in docs),
        tuple(_array(_sentences(doc)) for doc in docs),
        tuple(tuple(_questions(doc)) for doc in docs),
        frequent,
    )


def relation_of(label: str, subtypes: bool) -> str:
    """The name under which a relation counts; "" where it is left out."""
    name = label.lower() if subtypes else label.lower().split(":")[0]
    return "" if name.split(":")[0] in LEFT_OUT else name


def _arcs(doc: "Doc", subtypes: bool) -> Iterator[tuple[int, int, str]]:
    for token in doc:
        if token.head.i != token.i and (name := relation_of(token.dep_, subtypes)):
            yield token.i, token.head.i, name


def _array(rows: object, columns: int = 0) -> Numbers:
    found: Numbers = np.array(rows, dtype=np.int64)
    return found.reshape(-1, columns) if columns else found


def _sentences(doc: "Doc") -> list[int]:
    if not doc.has_annotation("SENT_START"):
        return [0] * len(doc)
    return [place for place, sentence in enumerate(doc.sents) for _ in sentence]


def _questions(doc: "Doc") -> Iterator[Question]:
    """Every mention with an earlier one of its chain, and all mentions that began before it."""
    from workbench.corpora.layers import chains

    mentions = sorted(
        ((mention, name) for name, chain in chains(doc).items() for mention in chain),
        key=lambda each: (each[0].start, each[0].end),
    )
    heads = [head_word(doc, mention) for mention, _ in mentions]
    for place, (_, chain) in enumerate(mentions):
        before: dict[int, bool] = {}  # head words, nearest first
        for other in range(place - 1, -1, -1):
            if heads[other] != heads[place] and heads[other] < heads[place]:
                right = mentions[other][1] == chain
                before[heads[other]] = before.get(heads[other], False) or right
        if not any(before.values()):
            continue
        words = sorted(before, reverse=True)
        own = doc[heads[place]].text.lower()
        same = [at for at, word in enumerate(words) if doc[word].text.lower() == own]
        yield Question(
            heads[place], tuple(words), tuple(before[word] for word in words), (same or [0])[0]
        )


def head_word(doc: "Doc", mention: "Mention") -> int:
    """The word of a mention whose own head lies outside of it; without a tree, its last word."""
    if doc.has_annotation("DEP"):
        for token in doc[mention.start : mention.end]:
            if token.head.i == token.i or not mention.start <= token.head.i < mention.end:
                return token.i
    return mention.end - 1


# --- the gold of one batch, with shuffles ---------------------------------------------------------
#
# What is asked of one batch, the same for every head: gold of words that were read, and shuffles.
#
# Words that were cut off or that the tokenizer made nothing of take their arcs and questions with
# them. Shuffled trees are the same trees over the same words in another order, drawn for each
# document from the run's seed, so an answer does not depend on how documents are batched. Costs
# so many shuffles of each document, and some 10 bytes an arc.

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
    arcs = _arc_rows(gold, order, known, pairs)
    questions = _question_rows(gold, order, known)
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


def _arc_rows(gold: Gold, order: Sequence[int], known: np.ndarray, pairs: np.ndarray) -> np.ndarray:
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


def _question_rows(gold: Gold, order: Sequence[int], known: np.ndarray) -> list[_Question]:
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
