"""Scores of a model on texts, for the pruning experiments: by its own loss or by classes of texts.

Weights are trained and heads are chosen on train texts; scores are on other texts
(`workbench.corpora.splits`). Costs: reading the corpus.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from workbench.analyses.pruning.experiments import Aimed
from workbench.analyses.pruning.head_masks import require_heads
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.stats import ratio_intervals
from workbench.corpora.encode import encode
from workbench.corpora.splits import Parts, few_sentences_caveat
from workbench.corpora.task_gold import gold_of, no_task_head, task_on
from workbench.engine.batch import Batch
from workbench.engine.halving import Limit, in_halves
from workbench.engine.model import Model
from workbench.engine.taps import Tap
from workbench.engine.task import Task
from workbench.engine.words import owners
from workbench.experiment.definition import Caveat, Inputs, unread_caveat
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.output_heads.standard_heads import with_standard_head
from workbench.models.output_heads.task_heads import BatchScores
from workbench.models.scoring.eval_tasks import (
    EvalTask,
    Learnt,
    Question,
    eval_task_of,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc


@dataclass(frozen=True)
class Evaluation:
    """A model, texts, and the loss to score them with."""

    model: HuggingFace
    batch: Batch
    aim: EvalTask

    @cached_property
    def questions(self) -> list[Question]:
        """Batches of all texts, encoded once and reused."""
        return list(self.aim.questions(self.model, self.batch))

    def scored(self, model: HuggingFace | None = None) -> "TextScores":
        """Scores of each text, by this model or by another one."""
        return score_texts(model or self.model, self.aim, self.questions)


def evaluation_of(inputs: Inputs, settings: Aimed) -> Evaluation:
    """The evaluation of a run's model on its texts."""
    return build_head_evaluation(
        inputs.model, list(inputs.docs()), settings.label, inputs.seed, inputs.corpus.name
    )


def build_head_evaluation(
    model: Model, docs: "Sequence[Doc]", label: str, seed: int, where: str = ""
) -> Evaluation:
    """An evaluation on any texts of a model that has attention heads."""
    evaluation = build_evaluation(model, docs, label, seed, where)
    require_heads(evaluation.model)
    return evaluation


def build_evaluation(
    model: Model, docs: "Sequence[Doc]", label: str, seed: int, where: str
) -> Evaluation:
    """An evaluation on any texts of a model whose heads may all have been removed."""
    if not docs:
        raise WorkbenchError(
            "the corpus or split has no text.",
            code="too-few-sentences",
            where=where,
            remedy="Choose a corpus or a split with at least one sentence.",
        )
    net, task = with_heads(model), model.predicts
    if task is None or task.is_language_model:
        if label:
            raise no_task_head(model.name, label)
        return Evaluation(net, encode(docs), eval_task_of(net, seed=seed))
    task = task_on(task, docs, label, model.name, where)
    gold = [gold_of(doc, task) for doc in docs]
    aim = eval_task_of(net, gold, seed)
    return Evaluation(net, encode(docs), replace(aim, task=task))


def with_heads(model: Model) -> HuggingFace:
    """The model as a transformer whose heads can be gated and removed, or an error."""
    return require_transformer(
        model,
        "has no attention heads that can be gated or removed",
        "Choose a transformer, such as mini:bert.",
    )


def caveats(evaluation: Evaluation, texts: int, notes: Iterable[str] = ()) -> tuple[Caveat, ...]:
    """Caveats of all scores of an evaluation; `notes` are those of the splits."""
    lines = dict.fromkeys([*notes, *few_sentences_caveat(texts)])
    if evaluation.aim.task.kind == "masked":
        lines[
            "15 % of pieces are masked, and only these are scored. They are the same pieces "
            "whatever is removed."
        ] = None
    if n_removed := evaluation.model.n_removed_heads:
        lines[
            f"{n_removed} heads were removed from this model before. The other heads have new "
            f"numbers: {_numbers(evaluation.model)}."
        ] = None
    n_unread = sum(question.n_unread for question in evaluation.questions)
    return (*map(Caveat, lines), *unread_caveat(n_unread))


def learnt_texts_caveat(inputs: Inputs, evaluation: Evaluation) -> tuple[Caveat, ...]:
    """That all texts of a corpus without splits are scored, also those that a model was trained on;
    none of a language model."""
    if inputs.split is not None or evaluation.aim.task.is_language_model:
        return ()
    return (
        Caveat(
            "The corpus has no splits, and all of it is scored: of a model that was trained on a "
            "part of it, scores are too high. For such a model name a file of other texts."
        ),
    )


def _numbers(model: HuggingFace) -> str:
    """The former numbers of the heads of each layer that lost some."""
    sites = {site.index: site for site in model.sites}
    cut = [index for index, kept in model.kept.items() if len(kept) < model.whole[index]]
    parts = (
        f"{sites[index].name} keeps {', '.join(map(str, model.kept[index])) or 'none'}"
        for index in cut
    )
    return "; ".join(parts)


# --- scores of each text, so that two models can be compared text by text -------------------------
#
# Sums of nats, of correct predictions and of predictions. A loss is a sum divided by a sum, so that
# long texts count more. Costs: a forward pass; memory is a few numbers for each text.

OnProgress = Callable[[int], object]  # receives the number of texts done


@dataclass(frozen=True)
class TextScores:
    """Sums for each text, in the order of scoring."""

    nats: Floats  # [texts]
    right: Floats  # [texts], correct predictions
    number: Floats  # [texts], predictions
    metrics: tuple[str, str] = ("loss", "accuracy")

    def part(self, metric: str) -> Floats:
        """The sums of a metric.  # [texts]"""
        return self.nats if metric == "loss" else self.right

    def value(self, metric: str) -> float:
        """Mean loss per prediction, or accuracy (of scores: r2); 0 without predictions."""
        total = self.number.sum()
        return float(self.part(metric).sum() / total) if total else 0.0


def numbers_of(answer: BatchScores) -> Floats:
    """Nats, correct predictions and predictions of each text, on the CPU.  # [3, texts]"""
    both = torch.stack([answer.nats.detach().double(), answer.right.double(), answer.number])
    return both.cpu().numpy()


def score_texts(
    model: HuggingFace,
    aim: EvalTask,
    questions: Iterable[Question],
    taps: Sequence[Tap] = (),
) -> TextScores:
    """Score every text once."""
    parts, room = [np.zeros((3, 0))], Limit()

    @torch.no_grad()
    def score(question: Question) -> Floats:
        return numbers_of(aim.answer(model, question, taps))

    for question in questions:
        parts += [numbers for _, numbers in in_halves(score, question, room)]
    nats, right, number = np.concatenate(parts, 1)
    return TextScores(nats, right, number, aim.metrics)


# --- the trivial baseline -------------------------------------------------------------------------
#
# Is the whole model better than its trivial baseline? If not, no head matters.
#
# For the accuracy, the baseline always predicts the most frequent piece, class or tag. For a loss,
# it predicts each with its frequency in the other texts (Witten-Bell smoothing, so unseen ones have
# some probability). Of scores it is their mean in the other texts; of answers any of the words (or
# no answer) with the same probability, and no answer or the first word. Costs: reading the gold; no
# forward pass.


def trivial(evaluation: Evaluation) -> TextScores:
    """Scores of the trivial baseline on each text, in the order of `evaluation.questions`."""
    kind = evaluation.aim.task.kind
    if kind == "score":
        return _mean_score(evaluation)
    if kind == "answers":
        return _any_answer(evaluation)
    targets, n_choices = _gold_choices(evaluation)
    all_targets = np.concatenate([np.zeros(0, int), *targets])
    size = max(n_choices, int(all_targets.max(initial=0)) + 1)
    counts = np.bincount(all_targets, minlength=size)
    types, most_frequent = int((counts > 0).sum()), int(counts.argmax())
    nats: list[float] = []
    right: list[int] = []
    for text in targets:
        types_here, inverse, counts_here = np.unique(text, return_inverse=True, return_counts=True)
        elsewhere = (counts[types_here] - counts_here)[inverse]
        share = (elsewhere + types / size) / max(len(all_targets) - len(text) + types, 1)
        nats.append(float(-np.log(share).sum()))
        right.append(int((text == most_frequent).sum()))
    number = np.array([len(text) for text in targets], float)
    return TextScores(np.array(nats), np.array(right, float), number)


def _gold_choices(evaluation: Evaluation) -> tuple[list[NDArray[Any]], int]:
    """The indices of each text's gold pieces, classes, tags or written label, and all choices."""
    aim = evaluation.aim
    if aim.task.kind == "text":
        labels = [label for question in evaluation.questions for label in question.gold]
        different = list(dict.fromkeys(labels))
        return [np.array([different.index(label)]) for label in labels], len(aim.task.names)
    targets = []
    for question in evaluation.questions:
        predicted, gold = aim.targets(question)
        targets += np.split(gold.cpu().numpy(), np.cumsum(predicted.sum(1).cpu().numpy())[:-1])
    return targets, len(aim.task.names) or len(evaluation.model.tokenizer)


def _mean_score(evaluation: Evaluation) -> TextScores:
    """The error of the mean of the other texts' scores, on the scale of the task head."""
    gold = [value for question in evaluation.questions for value in question.gold]
    scores = np.array(gold, float) / evaluation.model.task_head.scale.spread
    n = len(scores)
    elsewhere = (scores.sum() - scores) / max(n - 1, 1)
    error = np.square(scores - elsewhere)
    return TextScores(error / 2, 1 - error, np.ones(n), evaluation.aim.metrics)


def _any_answer(evaluation: Evaluation) -> TextScores:
    """The loss of all words alike, and right answers of the more frequent constant one."""
    nats, constant = [], []
    for question in evaluation.questions:
        there = owners(question.text).any(-1).cpu()  # [batch, words]
        if evaluation.aim.task.pairs and question.segments is not None:
            there &= question.segments[:, : there.shape[1]]
        nats += np.log(1 + there.sum(1).numpy()).tolist()
        first = there.int().argmax(1).tolist()
        for begin, spans in zip(first, question.gold, strict=True):
            assert isinstance(spans, list), "answers are spans"
            constant.append((not spans, (begin, begin + 1) in spans))
    right = np.array(constant, float).reshape(-1, 2)  # [texts, no answer or first word]
    best = right[:, int(right.sum(0).argmax())]
    return TextScores(np.array(nats), best, np.ones(len(best)))


def baseline(evaluation: Evaluation, texts: TextScores, seed: int) -> pd.DataFrame:
    """One row per metric: the value of the model and of the trivial baseline."""
    trivial_texts = trivial(evaluation)
    rows = []
    for metric in evaluation.aim.metrics:
        difference = (texts.part(metric) - trivial_texts.part(metric))[:, None]  # [texts, 1]
        lower, upper = (float(end[0]) for end in ratio_intervals(difference, texts.number, seed))
        value, trivial_value = texts.value(metric), trivial_texts.value(metric)
        rows.append(
            {
                "metric": metric,
                "value": value,
                "baseline": trivial_value,
                "difference": value - trivial_value,
                "lower": lower,
                "upper": upper,
                "better": upper < 0 if metric == "loss" else lower > 0,
                "n": len(texts.number),
            }
        )
    return pd.DataFrame(rows)


def better(table: pd.DataFrame, metric: str) -> bool:
    """Whether the model is better than the baseline by this metric."""
    return bool(table.set_index("metric").loc[metric, "better"])


def not_better_caveat(table: pd.DataFrame) -> tuple[Caveat, ...]:
    """A caveat if the model is not better than its trivial baseline."""
    poor = table[~table["better"].astype(bool)]
    if poor.empty:
        return ()
    scores = ", ".join(
        f"{row.metric} {row.value:.3f}, baseline {row.baseline:.3f}" for row in poor.itertuples()
    )
    return (
        Caveat(
            f"By {' and '.join(poor['metric'])}, the whole model is not better than its trivial "
            f"baseline ({scores}). Changes of this score without a head do not show what the model "
            "has learnt."
        ),
    )


# --- the classifier that is trained before its heads are pruned -----------------------------------
#
# Did it learn, did it converge, and were there enough texts?
#
# Softmax cross-entropy over the classes, all weights, early stopping on dev
# (`workbench.models.scoring.eval_tasks`). It is trained again on half of the train texts: if that
# loses over 2 points of accuracy, more texts would change the result. Costs: up to twice the
# training.

SHARES = (0.5, 1.0)  # of the train texts
MAX_HALF_DATA_LOSS = 0.02  # maximum loss of accuracy with half of the texts


Tune = Callable[[str, HuggingFace, int, float], Learnt]


@dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier, its training table, and its caveats."""

    model: HuggingFace
    table: pd.DataFrame
    caveats: tuple[Caveat, ...]


def train_classifier(
    inputs: Inputs, parts: Parts, label: str, steps: int, texts: int, tune: Tune
) -> TrainedClassifier:
    """A classifier trained from the model for a label of the corpus; `texts` is the batch size."""
    model = with_heads(inputs.model)
    values = [doc._.labels.get(label) for doc in parts.docs]
    names = sorted({name for name in values if isinstance(name, str)})
    if not names:
        labels = sorted({name for doc in parts.train for name in doc._.labels})
        raise WorkbenchError(
            f"no text has a class for the label {label!r}.",
            code="label-missing",
            where=inputs.corpus.name,
            remedy=f"Labels of the corpus: {', '.join(labels) or 'none'}. "
            "The corpus primer/sentiment has the label sentiment.",
        )
    tables = []
    for share in SHARES:
        task = Task(label, "class", label, tuple(names), None, "accuracy")
        made = with_standard_head(model, task, inputs.seed)
        learnt = tune("fitting" if share == 1 else "fitting on half", made, steps, share)
        test = build_evaluation(made, parts.test, label, inputs.seed, inputs.corpus.name)
        scores = baseline(test, test.scored(), inputs.seed)
        train = max(1, round(share * len(parts.train)))
        scores.insert(0, "share", share)
        tables.append(
            scores.assign(
                train=train,
                dev=len(parts.dev),
                steps=len(learnt.losses),
                best_step=learnt.best,
                best_epoch=learnt.best * texts / train,
                converged=learnt.converged,
            )
        )
    table = pd.concat(tables, ignore_index=True)
    return TrainedClassifier(made, table, _half_data_caveat(table))


def _half_data_caveat(table: pd.DataFrame) -> tuple[Caveat, ...]:
    """A caveat if training on half of the texts loses accuracy."""
    accuracy = table[table["metric"] == "accuracy"].set_index("share")
    half, whole = accuracy.loc[0.5], accuracy.loc[1.0]
    lost = whole["value"] - half["value"]
    if lost <= MAX_HALF_DATA_LOSS:
        return ()
    return (
        Caveat(
            f"With half of the {whole['train']:,} train texts, the accuracy of the classifier is "
            f"{100 * lost:.1f} points lower. More texts would change the results."
        ),
    )


def cut_off_caveat(learnt: Mapping[str, Learnt]) -> tuple[Caveat, ...]:
    """A caveat that names the training runs that ended before they converged."""
    names = [f"{name} ({len(each.losses)})" for name, each in learnt.items() if not each.converged]
    if not names:
        return ()
    return (
        Caveat(
            "Training reached its maximum number of steps before the dev loss stopped falling: "
            f"{', '.join(names)}. Raise --max-fit-steps or --recovery-steps."
        ),
    )
