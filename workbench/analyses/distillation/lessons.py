"""What a student learns from, and how its predictions are scored: a text, or labelled texts.

A model of pieces teaches on plain text, corrupted as in its own training (the general stage of
TinyBERT, and DistilBERT); a classifier on texts with labels (the task stage). Both give the
training loop its micro-batches, and score any model on the same held-out ones, with counts per text
that can be resampled. Costs: tokenising the text once; a pass over the held-out texts per model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from workbench.analyses.distillation.experiments import Distil, LossName
from workbench.analyses.distillation.losses import pair_losses, read, real_pieces
from workbench.analyses.training import objectives
from workbench.analyses.training.batches import piece_task
from workbench.analyses.training.packing import Sentences, sentences_of
from workbench.analyses.training.task import Micro, Plan, Task
from workbench.analyses.training.token_store import Store, tokenize_text
from workbench.analyses.training.training_run import text_of
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.core import machine
from workbench.core.arrays import Floats
from workbench.core.stats import share
from workbench.corpora.splits import DEV, TEST, TRAIN, SplitSizes
from workbench.corpora.task_gold import FIRST, task_on
from workbench.corpora.tasks import majority, metrics_of, split_of
from workbench.experiment.definition import Inputs
from workbench.models.huggingface import HuggingFace

SHARE = 0.1  # of a text without a held-out split that is held out, at most
COUNTED = 50  # steps whose targets are counted for the baseline
OBJECTIVES = {"masked": "masked", "causal": "causal"}  # by what the teacher predicts

Draw = Callable[[Plan], Callable[[int, int], Micro]]


@dataclass(frozen=True)
class Scored:
    """What one model predicts of the held-out texts."""

    counts: Floats  # [texts, numbers]
    guesses: list[Any]  # a prediction per target or text


@dataclass(frozen=True)
class Lesson:
    """What is learnt and scored.

    Args:
        task: The task of a training with these losses.
        held_out: Micro-batches that are scored.
        score: The score of a model.
        baseline: The score without a model, for the plan of a training.
        measure: The metric of summed counts.
        metric: Its name.
        sign: 1, or -1 where less is better.
        text_of_guesses: The text of each prediction.
        notes: On how the texts were chosen.
    """

    task: Callable[[Sequence[LossName], Plan], Task]
    held_out: Sequence[Micro]
    score: Callable[[HuggingFace], Scored]
    baseline: Callable[[Plan], Scored]
    measure: Callable[[Floats], Floats]
    metric: str
    sign: int
    text_of_guesses: Any  # [guesses], the text of each
    notes: tuple[str, ...] = ()


def lesson_of(inputs: Inputs, settings: Distil, teacher: HuggingFace) -> Lesson:
    """The lesson that fits what the teacher predicts."""
    if teacher.task_head is None:
        return _of_text(inputs, settings, teacher)
    return _of_labels(inputs, settings, teacher)


# --- a text ---------------------------------------------------------------------------------------


def _of_text(inputs: Inputs, settings: Distil, teacher: HuggingFace) -> Lesson:
    """Pieces of a text, as the teacher was trained on them."""
    length = min(settings.sequence_length, teacher.max_pieces or settings.sequence_length)
    train, held, index = _texts(inputs, settings, teacher, length)
    row = objectives.known()[_objective(teacher)]

    def task(losses: Sequence[LossName], plan: Plan) -> Task:
        objective = replace(
            row,
            losses=lambda vocabulary: pair_losses,
            terms=tuple(losses),
            weights=tuple(settings.weight_of.get(name, 1.0) for name in losses),
            complete=partial(_counts, losses),
            mapped=len({"soft", "hard"} & {*losses}),
        )
        return piece_task(objective, teacher.net, train, np.arange(0), plan, 1)

    plan = Plan(batch_size=settings.batch_size, seed=inputs.seed)
    scored_task = piece_task(row, teacher.net, held, index, plan, 1)
    assert scored_task.held_out is not None, "some texts are held out"
    micros = [micro.to(teacher.device) for micro in scored_task.held_out()]
    texts, first = [], 0
    for micro in micros:
        length_of_row = micro.inputs.get("decoder_input_ids", micro.inputs["input_ids"]).shape[1]
        texts.append(first + (micro.inputs["at"] // length_of_row).cpu().numpy())
        first += len(micro.inputs["input_ids"])
    text = np.concatenate(texts)

    def counted(nats: Tensor) -> Floats:
        sums = (np.bincount(text, weights, first) for weights in (nats.numpy(), np.ones(len(text))))
        return np.stack(list(sums), 1)  # [texts, 2]

    def score(model: HuggingFace) -> Scored:
        nats, best = [], []
        with torch.no_grad():
            for micro in micros:
                logits = read(model, micro.inputs, states=False).logits.float()
                loss = functional.cross_entropy(logits, micro.inputs["gold"], reduction="none")
                nats.append(loss.double().cpu())
                best += logits.argmax(-1).tolist()
        return Scored(counted(torch.cat(nats)), best)

    def baseline(plan: Plan) -> Scored:
        """Pieces by their frequency among the targets of the first steps, plus one."""
        draw = task(("hard",), plan).draw
        gold = torch.cat([draw(step, 0).inputs["gold"] for step in range(COUNTED)])
        known = torch.cat([micro.inputs["gold"] for micro in micros]).cpu()
        size = int(teacher.net.config.vocab_size)
        counts = torch.bincount(gold, minlength=size).double() + 1
        return Scored(
            counted(-(counts / counts.sum()).log()[known]), [int(counts.argmax())] * len(text)
        )

    return Lesson(task, micros, score, baseline, share, "loss", -1, text)


def _objective(teacher: HuggingFace) -> str:
    """The objective of training with which the teacher is distilled."""
    if teacher.objective != "seq2seq":
        return OBJECTIVES[teacher.objective]
    return "random-spans" if teacher.symbols.sentinels else "infilling"


def _counts(
    losses: Sequence[LossName], inputs: dict[str, Tensor], labels: Tensor
) -> tuple[int, ...]:
    """Numbers of targets of each term after the first: predicted pieces, or all real ones."""
    predicted = len(inputs["at"])
    pieces = int(real_pieces(inputs, "encoder").sum())
    if "decoder_input_ids" in inputs:
        pieces += int(real_pieces(inputs, "decoder").sum())
    return tuple(predicted if name in ("soft", "hard") else pieces for name in losses[1:])


def _texts(
    inputs: Inputs, settings: Distil, teacher: HuggingFace, length: int
) -> tuple[Sentences, Sentences, Any]:
    """The texts to train on, those to score, and which of them; the end, if there is no split."""
    vocabulary, splits = vocabulary_of(teacher.tokenizer), inputs.corpus.splits
    trained_on = TRAIN if TRAIN in splits else None
    others = [name for name in (inputs.split, TEST, DEV) if name in splits and name != TRAIN]

    def store(split: str | None, limit: int | None) -> Store:
        text = text_of(replace(inputs, split=split, limit=limit))
        return tokenize_text(text, teacher.tokenizer, machine.home() / "tokens")

    train = store(trained_on, settings.max_train or inputs.limit)
    if trained_on and others:
        held = store(others[0], settings.max_test)
        number = min(settings.max_test, held.manifest.sentences)
        first, second = (Sentences(each, vocabulary, length, inputs.seed) for each in (train, held))
        return first, second, np.arange(number)
    fraction = min(SHARE, settings.max_test / train.manifest.sentences)
    part, index = sentences_of(train, vocabulary, length, inputs.seed, fraction)
    return part, part, index


# --- labelled texts -------------------------------------------------------------------------------


def _of_labels(inputs: Inputs, settings: Distil, teacher: HuggingFace) -> Lesson:
    """The classes or the score of texts, as the teacher predicts them."""
    corpus, head = inputs.corpus, teacher.task_head
    assert head is not None, "a teacher of labels has a head"
    docs = [doc for split in corpus.splits for doc in corpus.docs(split, FIRST)]
    of_corpus = task_on(head.task, docs, settings.label, teacher.name, corpus.name)
    sizes = SplitSizes(settings.max_train or inputs.limit, 2, settings.max_test)
    split = split_of(corpus, of_corpus, inputs.split, inputs.seed, sizes)
    train, test = (_Encoded(teacher, part) for part in (split.train, split.test))

    def task(losses: Sequence[LossName], plan: Plan) -> Task:
        def draw(step: int, index: int) -> Micro:
            position = step * plan.batch_size
            rows = [train.at(position + n, plan.seed) for n in range(plan.batch_size)]
            return train.micro(rows, losses)

        weights = tuple(settings.weight_of.get(name, 1.0) for name in losses)
        return Task(draw, pair_losses, tuple(losses), weights)

    size = settings.batch_size
    micros = [
        test.micro(range(len(split.test))[first : first + size], ("hard",)).to(teacher.device)
        for first in range(0, len(split.test), size)
    ]
    is_score = of_corpus.kind == "score"

    def counted(guesses: list[Any]) -> Scored:
        return Scored(metrics_of(of_corpus, split.test, guesses)[of_corpus.metric].counts, guesses)

    def score(model: HuggingFace) -> Scored:
        guesses: list[Any] = []
        with torch.no_grad():
            for micro in micros:
                logits = read(model, micro.inputs, states=False).logits.float()
                guesses += (logits[:, 0] if is_score else logits.argmax(-1)).tolist()
        return counted(guesses)

    measure = metrics_of(of_corpus, split.test, list(split.test.gold))[of_corpus.metric].measure
    constant = counted(majority(of_corpus, split.train, split.test))
    return Lesson(
        task, micros, score, lambda plan: constant, lambda sums: np.nan_to_num(measure(sums)),
        of_corpus.metric, of_corpus.sign, np.arange(len(split.test)), split.notes,
    )  # fmt: skip


class _Encoded:
    """Labelled texts in pieces, and micro-batches of them."""

    def __init__(self, model: HuggingFace, examples: Any) -> None:
        self.model = model
        self.pieces = model.encode(examples.batch)
        self.gold = torch.tensor(examples.gold)
        if self.gold.is_floating_point():
            self.gold = self.gold.float()
        self._orders: dict[tuple[int, int], Any] = {}

    def at(self, position: int, seed: int) -> int:
        """The text at a position of an endless order, shuffled in each epoch."""
        epoch, place = divmod(position, len(self.gold))
        if (seed, epoch) not in self._orders:
            self._orders = {
                (seed, epoch): np.random.default_rng([seed, epoch]).permutation(len(self.gold))
            }
        return int(self._orders[seed, epoch][place])

    def micro(self, rows: Sequence[int], losses: Sequence[LossName]) -> Micro:
        """Some texts, with the number of targets of each term."""
        some = self.pieces.take(list(rows)).narrowed()
        inputs: dict[str, Any] = self.model.net_inputs(some, cache=False)
        tokens = int(some.mask.sum())
        counts = [len(rows) if name in ("soft", "hard") else tokens for name in losses]
        return Micro({**inputs, "gold": self.gold[list(rows)]}, torch.tensor(counts), tokens)
