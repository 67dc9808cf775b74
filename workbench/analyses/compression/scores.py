"""All that is scored of one model: the objective on every text, words by their tags, minimal pairs.

Scores are kept item by item, so that two models can be compared on the same items. Costs: a forward
pass over the texts, and of language models one over the minimal pairs (of masked ones, a row for
each piece).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.analyses.basics.minimal_pairs import exchanges, score_pairs
from workbench.analyses.compression.lost import Items
from workbench.analyses.pruning.evaluation import Evaluation, TextScores, score_texts
from workbench.core.arrays import Floats
from workbench.core.stats import ratio, thirds
from workbench.corpora.readers.tables import Pair
from workbench.engine.forward_pass import CHUNK, chunks
from workbench.engine.halving import Limit, in_halves
from workbench.engine.task import Task
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import Question

if TYPE_CHECKING:
    from spacy.tokens import Doc

LENGTHS = ("short texts", "middle texts", "long texts")
VALUES = 10  # maximum number of values of a label whose texts are compared


@dataclass(frozen=True)
class Scored:
    """A model's scores: of each text, in the order of the corpus, and of items by kind."""

    texts: TextScores
    items: tuple[Items, ...]


def scored(evaluation: Evaluation, docs: "Sequence[Doc]", pairs: Sequence[Pair] = ()) -> Scored:
    """Score the model of an evaluation on its texts, and on minimal pairs if it predicts pieces."""
    model, aim = evaluation.model, evaluation.aim
    order = np.array([place for question in evaluation.questions for place in question.order])
    places = np.argsort(order, kind="stable")
    items: list[Items] = []
    if aim.task.is_language_model:
        texts, words = _pieces(evaluation, docs)
        items += words
    else:
        texts = score_texts(model, aim, evaluation.questions)
    texts = replace(
        texts, nats=texts.nats[places], right=texts.right[places], number=texts.number[places]
    )
    items += text_items(texts, [docs[place] for place in order[places]], aim.task)
    if pairs and aim.task.is_language_model:
        gap = score_pairs(model, pairs, seed=aim.seed)
        phenomena = np.array([pair.phenomenon for pair in pairs], dtype=object)
        units = np.array(exchanges(pairs), dtype=object)
        items.append(Items("minimal pairs", phenomena, units, (gap > 0).astype(np.float64)))
    return Scored(texts, tuple(items))


def _pieces(evaluation: Evaluation, docs: "Sequence[Doc]") -> tuple[TextScores, Iterator[Items]]:
    """Sums of each text, and the loss of each piece by the tag and the relation of its word."""
    model, aim, room = evaluation.model, evaluation.aim, Limit()
    sums: list[Floats] = [np.zeros((3, 0))]
    found: list[tuple[int, int, float]] = []  # document, word, nats

    @torch.no_grad()
    def of(question: Question) -> tuple[Floats, list[tuple[int, int, float]]]:
        losses = aim.losses(model, question)
        right = (losses.right & losses.scored).sum(1)
        own = torch.stack([losses.nats.double().sum(1), right.double(), losses.scored.sum(1)])
        rows, places = (losses.scored & (losses.text.words >= 0)).nonzero(as_tuple=True)
        words = losses.text.words[rows, places].tolist()
        documents = [question.order[row] for row in rows.tolist()]
        nats = losses.nats[rows, places].tolist()
        return own.cpu().numpy(), list(zip(documents, words, nats, strict=True))

    for question in evaluation.questions:
        for _, (own, pieces) in in_halves(of, question, room):
            sums.append(own)
            found += pieces
    nats, right, number = np.concatenate(sums, 1)
    return TextScores(nats, right, number, aim.metrics), _words(found, docs)


def _words(found: Sequence[tuple[int, int, float]], docs: "Sequence[Doc]") -> Iterator[Items]:
    texts = np.array([document for document, _, _ in found], dtype=object)
    scores = -np.array([nats for _, _, nats in found])
    for kind, attribute in (("part of speech", "pos_"), ("relation", "dep_")):
        tags = [getattr(docs[document][word], attribute) or "_" for document, word, _ in found]
        if len(set(tags)) > 1:
            yield Items(kind, np.array(tags, dtype=object), texts, scores)


def text_items(texts: TextScores, docs: "Sequence[Doc]", task: Task) -> Iterator[Items]:
    """The score of each text by its length, its class and its other labels."""
    part = -texts.nats if task.is_language_model else texts.right
    there = texts.number > 0
    scores = ratio(part, texts.number)[there]
    kept = [doc for doc, is_there in zip(docs, there, strict=True) if is_there]
    units = np.arange(len(kept)).astype(object)
    sizes = np.array([len(doc) for doc in kept], dtype=float)
    yield Items("length", np.array(LENGTHS, dtype=object)[thirds(sizes)], units, scores)
    names = {name for doc in kept for name in doc._.labels}
    for name in sorted(names):
        values = [str(doc._.labels.get(name, "none")) for doc in kept]
        if 1 < len(set(values)) <= VALUES:
            kind = "class" if name == task.label else f"label {name}"
            yield Items(kind, np.array(values, dtype=object), units, scores)


def same_pieces(one: Evaluation, other: Evaluation) -> bool:
    """Whether both models split every text alike: only then are losses of the same pieces."""
    batch = one.batch
    for documents in chunks(range(len(batch)), CHUNK):
        both = []
        for model in (one.model, other.model):
            pieces = model.encode(batch, documents)
            both.append([model.piece_texts(row[m].tolist()) for row, m in zip(
                pieces.ids, pieces.mask, strict=True)])  # fmt: skip
        if both[0] != both[1]:
            return False
    return True


def of_model(evaluation: Evaluation, model: HuggingFace, recut: bool) -> Evaluation:
    """The evaluation of another model; `recut` if it splits texts into other pieces."""
    other = Evaluation(model, evaluation.batch, evaluation.aim)
    if not recut:
        vars(other)["questions"] = evaluation.questions
    return other
