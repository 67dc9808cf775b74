"""Some texts with all heads and without some: losses, guesses that change, and what is written.

For a page on which heads are taken away by a slider. Costs two forward passes over the texts, a
copy of the weights, and a generation of some pieces a text where the model writes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.model import Model
from workbench.models.eval_tasks import Question
from workbench.models.head_removal import without
from workbench.models.huggingface import HuggingFace
from workbench.models.tokenization import written
from workbench.pruning.evaluation import METRICS, Asking, asking_of
from workbench.pruning.head_masks import Head

if TYPE_CHECKING:
    from spacy.tokens import Doc

LONGEST = 24  # pieces that are written
GIVEN = 6  # pieces that a decoder goes on from


@dataclass(frozen=True)
class Guess:
    """One place of a text: what stands there, and what was thought likeliest."""

    gold: str
    before: str
    after: str


@dataclass(frozen=True)
class Text:
    """One text with all heads and without some."""

    text: str
    before: float  # loss
    after: float
    guesses: tuple[Guess, ...]  # that changed
    asked: int  # places that were asked for
    wrote: tuple[str, str] | None  # by a model that writes


@dataclass(frozen=True)
class Live:
    """All texts."""

    texts: tuple[Text, ...]
    values: dict[str, tuple[float, float]]  # by metric
    parameters: tuple[int, int]
    unit: str  # that a loss is of


def live(model: Model, docs: "Sequence[Doc]", gone: Sequence[Head]) -> Live:
    """Take these heads out, and look at every text both ways."""
    whole = asking_of(model, docs, "", 0)
    smaller = without(whole.model, gone) if gone else whole.model
    before, after = (whole.scored(net) for net in (whole.model, smaller))
    found: dict[int, Text] = {}
    place = 0
    with torch.no_grad():
        for question in whole.questions:
            told = _guesses(whole, smaller, question)
            for row, order in enumerate(question.order):
                number = max(float(before.number[place]), 1.0)
                found[order] = Text(
                    docs[order].text,
                    float(before.nats[place]) / number,
                    float(after.nats[place]) / number,
                    *told[row],
                    _wrote(whole.model, smaller, question, row),
                )
                place += 1
    return Live(
        tuple(found[order] for order in sorted(found)),
        {metric: (before.value(metric), after.value(metric)) for metric in METRICS},
        (whole.model.parameters, smaller.parameters),
        whole.aim.unit,
    )


def _guesses(
    asking: Asking, smaller: HuggingFace, question: Question
) -> list[tuple[tuple[Guess, ...], int]]:
    """Of each text the guesses that change, and of how many."""
    aim, model = asking.aim, asking.model
    places, gold = aim.gold(question)
    three = (gold, aim.guesses(model, question), aim.guesses(smaller, question))
    if aim.kind == "classes":
        told = [[model.classes[int(n)] for n in each] for each in three]
    else:
        told = [list(written(model.tokenizer, each.tolist())) for each in three]
    found, first = [], 0
    for number in places.sum(1).tolist():
        last = first + number
        own = [Guess(*each) for each in zip(*(part[first:last] for part in told), strict=True)]
        found.append((tuple(each for each in own if each.before != each.after), number))
        first = last
    return found


def _wrote(
    model: HuggingFace, smaller: HuggingFace, question: Question, row: int
) -> tuple[str, str] | None:
    """What both write: of a text's beginning, or of a text with gaps."""
    text = question.text
    real = text.mask[row]
    ids = text.ids[row][real][None]
    if model.objective == "causal":
        ids = ids[:, : min(GIVEN, max(1, ids.shape[1] - 1))]
    elif model.objective != "seq2seq":
        return None
    return _generated(model, ids), _generated(smaller, ids)


def _generated(model: HuggingFace, ids: torch.Tensor) -> str:
    net: Any = model.net
    room = LONGEST if model.max_pieces is None else min(LONGEST, model.max_pieces - ids.shape[1])
    out = net.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=max(1, room),
        do_sample=False,
        num_beams=1,
        pad_token_id=model.tokenizer.pad_token_id or 0,
    )
    return str(model.tokenizer.decode(out[0], skip_special_tokens=model.objective == "causal"))
