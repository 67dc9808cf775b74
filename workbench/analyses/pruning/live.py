"""Texts scored with all heads and without some: losses, changed predictions, generated text.

For the page on which a slider removes heads. Costs: two forward passes over the texts, a copy of
the weights, and the generation of some pieces for each text if the model generates text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.analyses.pruning.evaluation import Evaluation, build_head_evaluation
from workbench.analyses.pruning.head_masks import Head
from workbench.engine.batch import text_of_span
from workbench.engine.model import Model
from workbench.models.head_removal import without
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import Question
from workbench.models.tokenization import written

if TYPE_CHECKING:
    from spacy.tokens import Doc

NO_ANSWER = "(no answer)"
MAX_NEW_PIECES = 24  # generated for each text
PROMPT_PIECES = 6  # from which a decoder continues


@dataclass(frozen=True)
class Guess:
    """One position of a text: the gold piece or class, and the predictions before and after."""

    gold: str
    before: str
    after: str


@dataclass(frozen=True)
class Text:
    """One text with all heads and without some."""

    text: str
    before: float  # loss with all heads
    after: float  # loss without some
    guesses: tuple[Guess, ...]  # predictions that changed
    n_predictions: int
    wrote: tuple[str, str] | None  # text generated before and after, by a model that generates


@dataclass(frozen=True)
class Live:
    """All texts, and the scores over all of them."""

    texts: tuple[Text, ...]
    values: dict[str, tuple[float, float]]  # by metric
    parameters: tuple[int, int]
    unit: str  # of the loss: per what
    measured: str  # the task, or the pieces that are predicted


def live(model: Model, docs: "Sequence[Doc]", removed: Sequence[Head]) -> Live:
    """Every text scored by the whole model and without the removed heads."""
    whole = build_head_evaluation(model, docs, "", 0)
    smaller = without(whole.model, removed) if removed else whole.model
    before, after = (whole.scored(net) for net in (whole.model, smaller))
    texts: dict[int, Text] = {}
    index = 0
    with torch.no_grad():
        for question in whole.questions:
            guesses = _guesses(whole, smaller, question)
            for row, order in enumerate(question.order):
                number = max(float(before.number[index]), 1.0)
                texts[order] = Text(
                    docs[order].text,
                    float(before.nats[index]) / number,
                    float(after.nats[index]) / number,
                    *guesses[row],
                    _wrote(whole.model, smaller, question, row),
                )
                index += 1
    return Live(
        tuple(texts[order] for order in sorted(texts)),
        {metric: (before.value(metric), after.value(metric)) for metric in before.metrics},
        (whole.model.parameters, smaller.parameters),
        whole.aim.task.unit,
        whole.aim.task.name,
    )


def _guesses(
    evaluation: Evaluation, smaller: HuggingFace, question: Question
) -> list[tuple[tuple[Guess, ...], int]]:
    """For each text, the predictions that change, and the number of predictions."""
    aim, model = evaluation.aim, evaluation.model
    if aim.task.kind in ("score", "answers", "text"):
        return _guesses_of_texts(evaluation, smaller, question)
    predicted, gold = aim.targets(question)
    three = (gold, aim.guesses(model, question), aim.guesses(smaller, question))
    if aim.task.is_language_model:
        named = [list(written(model.tokenizer, each.tolist())) for each in three]
    else:
        named = [[aim.task.names[int(n)] for n in each] for each in three]
    changed, first = [], 0
    for number in predicted.sum(1).tolist():
        last = first + number
        guesses = [Guess(*each) for each in zip(*(part[first:last] for part in named), strict=True)]
        changed.append((tuple(each for each in guesses if each.before != each.after), number))
        first = last
    return changed


def _guesses_of_texts(
    evaluation: Evaluation, smaller: HuggingFace, question: Question
) -> list[tuple[tuple[Guess, ...], int]]:
    """The score, the answer, or the written label of each text."""
    assert question.segments is not None, "a task head reads words"
    texts = evaluation.batch
    sides: list[Sequence[Any]] = [question.gold]
    for model in (evaluation.model, smaller):
        head = model.task_head
        read = head.read(model, question.text, question.segments)
        sides.append(head.guesses(head(read), read, []))

    def shown(value: Any, order: int) -> str:
        if isinstance(value, str):
            return value or NO_ANSWER
        if not isinstance(value, list):
            return f"{value:.2f}"
        return text_of_span(texts, order, value[0]) if value else NO_ANSWER

    changed: list[tuple[tuple[Guess, ...], int]] = []
    for order, *three in zip(question.order, *sides, strict=True):
        guess = Guess(*(shown(value, order) for value in three))
        changed.append(((guess,) if guess.before != guess.after else (), 1))
    return changed


def _wrote(
    model: HuggingFace, smaller: HuggingFace, question: Question, row: int
) -> tuple[str, str] | None:
    """Texts that both models generate, from the beginning of a text or a text with gaps."""
    text = question.text
    real = text.mask[row]
    ids = text.ids[row][real][None]
    if model.objective == "causal":
        ids = ids[:, : min(PROMPT_PIECES, max(1, ids.shape[1] - 1))]
    elif model.objective != "seq2seq":
        return None
    return _generated(model, ids), _generated(smaller, ids)


def _generated(model: HuggingFace, ids: torch.Tensor) -> str:
    net: Any = model.net
    room = MAX_NEW_PIECES
    if model.max_pieces is not None:
        room = min(room, model.max_pieces - ids.shape[1])
    out = net.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=max(1, room),
        do_sample=False,
        num_beams=1,
        pad_token_id=model.tokenizer.pad_token_id or 0,
    )
    return str(model.tokenizer.decode(out[0], skip_special_tokens=model.objective == "causal"))
