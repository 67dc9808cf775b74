"""What a model is asked about each text, and how well it answers: the numbers that heads are for.

A language model predicts what its own objective hides; a classifier names the class that the
corpus gives each text. An `Aim` cuts a corpus into batches that are ready to be asked again and
again, with taps and with repeated rows; what is hidden follows from the seed and a text's place
alone, so every question is put to the same pieces. Costs what `lm_losses` says.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForSequenceClassification

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.engine.batch import Batch, Pieces, sent
from workbench.engine.forward_pass import CHUNK, by_length, chunks
from workbench.engine.halving import Limit, Part, in_halves
from workbench.engine.taps import Tap
from workbench.models.fine_tuning import EarlyStopping, Learner, fine_tune
from workbench.models.huggingface import HuggingFace
from workbench.models.lm_heads import mask_of, placed, symbols
from workbench.models.lm_losses import (
    Losses,
    causal_losses,
    chosen,
    denoising,
    denoising_losses,
    logits_of,
    masked,
    masked_losses,
    with_context,
)
from workbench.models.lm_scoring import limit_of

Kind = Literal["causal", "masked", "seq2seq", "classes"]


@dataclass(frozen=True)
class Question:
    """One batch, on the model's device."""

    text: Pieces  # what is read
    target: Pieces | None = None  # what a decoder must write
    hidden: Tensor | None = None  # [batch, pieces], what a masked model must find
    gold: Tensor | None = None  # [batch], the class of each text

    def __len__(self) -> int:
        return len(self.text)

    def halves(self) -> tuple["Question", "Question"]:
        """The first rows and the last, as wide as they are."""
        rows = torch.arange(len(self))
        return self.take(rows[: len(self) // 2]), self.take(rows[len(self) // 2 :])

    @property
    def pieces(self) -> int:
        """In all rows, padding included."""
        both = (self.text, self.target)
        return sum(each.ids.numel() for each in both if each is not None)

    @property
    def order(self) -> list[int]:
        """The place of each text in the corpus."""
        return self.text.order.tolist()

    def take(self, rows: Tensor) -> "Question":
        """These rows, each as often as it is named; `rows` are on the host."""
        there = sent(rows, self.text.ids.device)
        return Question(
            self.text.take(rows),
            None if self.target is None else self.target.take(rows),
            None if self.hidden is None else self.hidden[there],
            None if self.gold is None else self.gold[there],
        )


@dataclass(frozen=True)
class Answer:
    """Of each text: nats, what was right, and of how many; nats are differentiable."""

    nats: Tensor  # [batch]
    right: Tensor  # [batch]
    number: Tensor  # [batch], pieces or classes that were asked for


@dataclass(frozen=True)
class Aim:
    """What is asked of one model over one corpus."""

    kind: Kind
    label: str = ""  # of the corpus, where texts have classes
    seed: int = 0

    @property
    def unit(self) -> str:
        """What a loss is of."""
        return "text" if self.kind == "classes" else "piece"

    def questions(
        self,
        model: HuggingFace,
        batch: Batch,
        documents: Sequence[int] | None = None,
        pieces: int | None = None,
    ) -> Iterator[Question]:
        """The corpus in batches, longest texts first; those without a class are left out."""
        wanted = list(range(len(batch))) if documents is None else list(documents)
        gold = _gold(model, batch, self.label) if self.kind == "classes" else None
        if gold is not None:
            wanted = [document for document in wanted if gold[document] >= 0]
        limit = limit_of(model) if pieces is None else pieces
        for part in chunks(wanted, CHUNK):
            text = model.encode(batch, part)
            place_of = dict(zip(text.order.tolist(), part, strict=True))
            for rows in by_length(replace(text, unaligned=(), cut=()), Limit(limit)):
                classes = None
                if gold is not None:
                    classes = torch.tensor([gold[place_of[order]] for order in rows.order.tolist()])
                yield self._question(model, rows, classes)

    def _question(self, model: HuggingFace, text: Pieces, gold: Tensor | None) -> Question:
        device = model.device
        if self.kind == "masked":
            return Question(text.to(device), hidden=sent(chosen(text, self.seed), device))
        if self.kind == "seq2seq":
            read, written = denoising(text, symbols(model.tokenizer), self.seed)
            return Question(read.to(device), target=written.to(device))
        return Question(text.to(device), gold=None if gold is None else sent(gold, device))

    def answer(self, model: HuggingFace, question: Question, taps: Iterable[Tap] = ()) -> Answer:
        """Ask once."""
        if self.kind == "classes":
            assert question.gold is not None, "a classifier is asked for classes"
            logits = model.forward(question.text, taps=taps, hidden=False, logits=True).logits
            assert logits is not None, "a classifier has logits"
            nats = functional.cross_entropy(logits.float(), question.gold, reduction="none")
            right = logits.argmax(-1) == question.gold
            return Answer(nats, right.long(), torch.ones_like(question.gold))
        losses = self._losses(_Tapped(model, list(taps)), model, question)
        right = (losses.right & losses.scored).sum(1)
        return Answer(losses.nats.sum(1), right, losses.scored.sum(1))

    def gold(self, question: Question) -> tuple[Tensor, Tensor]:
        """Where something is predicted, and what is right: pieces, or the class of each text.

        # [batch, pieces] bool, and the right ones row after row
        """
        if self.kind == "classes":
            assert question.gold is not None, "a classifier is asked for classes"
            return torch.ones_like(question.gold, dtype=torch.bool)[:, None], question.gold
        if self.kind == "causal":
            places, text = with_context(question.text), question.text
        elif self.kind == "seq2seq":
            assert question.target is not None, "a decoder has something to write"
            places, text = question.target.mask, question.target
        else:
            assert question.hidden is not None, "a masked model has something to find"
            places, text = question.hidden, question.text
        return places, text.ids[places]

    def guesses(self, model: HuggingFace, question: Question, taps: Iterable[Tap] = ()) -> Tensor:
        """What the model finds likeliest at each place of `gold`, row after row."""
        tapped: Any = _Tapped(model, list(taps))
        places, _ = self.gold(question)
        text = question.text
        if self.kind == "classes":
            found: Tensor = tapped.forward(text, hidden=False, logits=True).logits
        elif self.kind == "causal":
            found = logits_of(tapped, text, functional.pad(places[:, 1:], (0, 1)))
        elif self.kind == "seq2seq":
            found = logits_of(tapped, text, places, question.target)
        else:
            read = masked(text, places, mask_of(model.net, model.tokenizer))
            found = logits_of(tapped, read, places)
        return found.argmax(-1)

    def _losses(self, tapped: Any, model: HuggingFace, question: Question) -> Losses:
        if self.kind == "causal":
            return causal_losses(tapped, question.text)
        if self.kind == "seq2seq":
            assert question.target is not None, "a decoder has something to write"
            return denoising_losses(tapped, question.text, question.target)
        assert question.hidden is not None, "a masked model has something to find"
        return masked_losses(
            tapped, question.text, question.hidden, mask_of(model.net, model.tokenizer)
        )


@dataclass(frozen=True)
class _Tapped:
    """A model whose passes all have these taps."""

    model: HuggingFace
    taps: list[Tap]

    def forward(self, pieces: Pieces, **how: Any) -> Any:
        return self.model.forward(pieces, taps=self.taps, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def aim_of(model: HuggingFace, batch: Batch, label: str = "", seed: int = 0) -> Aim:
    """What can be asked: classes of a classifier, else what a language model's head predicts."""
    if label and not model.classes:
        raise WorkbenchError(
            f"{model.name} tells no classes apart: it is measured by its own loss, not a label.",
            where=label,
            remedy="Leave the label out, or fit a classifier first: head-pruning does with task=.",
        )
    if model.classes:
        return Aim("classes", label or _label_of(model, batch), seed)
    if not model.objective:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no head whose loss could be measured.",
            remedy="Choose a model saved with a language-model head, such as bert-base-uncased or "
            "gpt2, or one fine-tuned for classes of texts.",
        )
    assert model.objective != "bidirectional", "it has attention"
    return Aim(model.objective, seed=seed)


def _label_of(model: HuggingFace, batch: Batch) -> str:
    """The label of the corpus whose classes are the model's."""
    known = {name: targets.names for name, targets in batch.targets.items() if targets.names}
    for name, classes in known.items():
        if set(classes) <= set(model.classes):
            return name
    there = "; ".join(f"{name}: {', '.join(classes)}" for name, classes in known.items())
    raise WorkbenchError(
        f"{model.name} tells {', '.join(model.classes)} apart, which no label of the corpus has.",
        remedy=f"The corpus has {there or 'no labels'}. Name the corpus it was trained for, such "
        "as primer/sentiment.",
    )


def _gold(model: HuggingFace, batch: Batch, label: str) -> list[int]:
    """The class of each text as the model numbers them; -1 where it has none."""
    if label not in batch.targets:
        raise WorkbenchError(
            f"the corpus has no label {label!r}.", remedy=did_you_mean(label, batch.targets)
        )
    targets = batch.targets[label]
    strange = set(targets.names) - set(model.classes)
    if strange:
        raise WorkbenchError(
            f"{', '.join(sorted(strange))}: no class that {model.name} knows.",
            where=label,
            remedy=f"It knows {', '.join(model.classes)}.",
        )
    place = [model.classes.index(name) for name in targets.names]
    return [-1 if np.isnan(value) else place[int(value)] for value in targets.values]


# --- a classifier of whole texts, made of a language model: its body, and a new head --------------
#
# transformers' own `...ForSequenceClassification`, so that it saves and opens as any other. Costs
# a copy of the weights.


def classifier(model: HuggingFace, classes: Sequence[str], seed: int) -> HuggingFace:
    """The same body under a head that tells these classes apart, drawn from the seed."""
    if len(classes) < 2:
        raise WorkbenchError(
            f"there is {'one class' if classes else 'no class'} to tell apart.",
            where=", ".join(classes),
            remedy="Name a label with two classes or more.",
        )
    if model.two_sided:
        raise WorkbenchError(
            f"{model.name} ({model.family}) writes text, and is not made a classifier here.",
            remedy="Choose an encoder such as mini:bert, or a decoder such as mini:gpt.",
        )
    config: Any = copy.deepcopy(model.net.config)
    config.id2label = dict(enumerate(classes))
    config.label2id = {name: number for number, name in enumerate(classes)}
    if config.pad_token_id is None:  # a decoder looks for a text's last piece by it
        config.pad_token_id = model.tokenizer.pad_token_id
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            kind: Any = AutoModelForSequenceClassification
            net: Any = kind.from_config(config, trust_remote_code=False)
        except ValueError:
            raise WorkbenchError(
                f"transformers has no classifier of the family {model.family}.",
                where=model.name,
                remedy="Choose a model such as mini:bert.",
            ) from None
    body: Any = model.net.base_model
    net.base_model.load_state_dict(body.state_dict(), strict=False)
    return HuggingFace(placed(net, model.device, model.net.dtype), model.tokenizer, model.name)


# --- a short fine-tuning by the loss of any `Aim`: all weights, or gates alone --------------------
#
# With dev texts, the learning rate stays after its warm-up, learning stops where the dev loss has
# not fallen by a thousandth of its first value over `PATIENCE` checks, and the weights are those of
# the best check: only then is `converged` true. (Where classes are separable the loss falls for
# ever.) Without, every step is taken and the rate falls to zero. No weight decay: early stopping is
# what regularises. Batches are shuffled each epoch by the seed. Costs what `fine_tuning` says, and
# a forward pass over the dev texts every `CHECK` steps.

CHECK = 10  # steps between two checks on dev, or two reports of progress
PATIENCE = 5  # checks on dev without a gain
GAIN = 1e-3  # of the first dev loss
WARM_UP = 20  # steps, at most a tenth of all


@dataclass(frozen=True)
class Plan:
    """How many steps at most, how fast, and with how many texts at a time."""

    steps: int
    rate: float = 1e-4
    texts: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Learnt:
    """How a fine-tuning went."""

    losses: list[float]  # of each step, in nats
    dev: dict[int, float] = field(default_factory=dict)  # loss by number of steps taken
    converged: bool = False  # stopped by dev before the steps ran out

    @property
    def best(self) -> int:
        """The number of steps after which the weights were taken."""
        return min(self.dev, key=self.dev.__getitem__) if self.dev else len(self.losses)


def learn(
    model: HuggingFace,
    aim: Aim,
    batch: Batch,
    documents: Sequence[int],
    plan: Plan,
    *,
    dev: Sequence[Question] = (),
    told: Callable[[int, float], object] | None = None,
    taps: Callable[[Question], Iterable[Tap]] = lambda question: (),
    weights: Iterable[Tensor] | None = None,
    more: Sequence[dict[str, Any]] = (),
    penalty: Callable[[], Tensor] | None = None,
) -> Learnt:
    """Fit the model to the documents, in place.

    `dev` are questions that tell when to stop. `weights` are those that learn (default: all of the
    model's); `more` are further parameter groups with learning rates of their own, `penalty` is
    added to every loss, and `taps` hang on every pass.
    """
    if not documents:
        raise WorkbenchError(
            "there is nothing to learn from.",
            where=model.name,
            remedy="Use a corpus, a split or a limit that leaves at least one text.",
        )
    own = list(model.net.parameters() if weights is None else weights)
    groups: list[dict[str, Any]] = [{"params": own, "lr": plan.rate}] if own else []
    groups += more
    if not groups or plan.steps < 1:
        return Learnt([])
    warm = max(1, min(WARM_UP, round(0.1 * plan.steps)))

    def rate(step: int) -> float:
        falling = 1.0 if dev else (plan.steps - step) / max(1, plan.steps - warm)
        return min((step + 1) / warm, falling)

    learner, room = Learner(groups, rate), Limit()
    moving = set(map(id, learner.moving))
    state = [(weight, weight.requires_grad) for weight in model.net.parameters()]
    first = loss_of(model, aim, dev) if dev else 0.0
    stopping = EarlyStopping(PATIENCE, GAIN * first)
    if dev and stopping.is_best(-first):
        learner.keep()

    def gradients(question: Question) -> Iterator[Part]:
        """Of the mean loss of a step's texts; see `_gradients`."""
        parts = in_halves(partial(_gradients, model, aim, learner.moving, taps), question, room)
        return (found for _, found in parts)

    def on_step(done: int, loss: float) -> None:
        if told is not None and (done % CHECK == 0 or done == plan.steps):
            told(done, loss)

    try:
        for weight in [*model.net.parameters(), *learner.moving]:
            weight.requires_grad_(id(weight) in moving)
        with torch.enable_grad():
            batches = iter(_batches(model, aim, batch, documents, plan))
            checks = range(0, plan.steps, CHECK)
            found = fine_tune(
                learner,
                (islice(batches, min(CHECK, plan.steps - start)) for start in checks),
                gradients,
                (lambda: -loss_of(model, aim, dev)) if dev else None,
                stopping,
                on_step,
                penalty,
            )
    finally:
        for weight, moved in state:
            weight.requires_grad_(moved)
            weight.grad = None
    if found.diverged:
        raise WorkbenchError(
            f"the loss is {found.losses[-1]} after {len(found.losses) - 1} steps.",
            where=model.name,
            remedy="Set a lower rate.",
        )
    taken = [min(CHECK * number, plan.steps) for number in range(1 + len(found.dev))]
    losses = dict(zip(taken, [first, *(-score for score in found.dev)], strict=True)) if dev else {}
    return Learnt(found.losses, losses, stopping.waited >= PATIENCE)


def _gradients(
    model: HuggingFace,
    aim: Aim,
    moving: Sequence[Tensor],
    taps: Callable[[Question], Iterable[Tap]],
    question: Question,
) -> Part:
    """The mean loss of some texts, and its gradient by each weight that learns."""
    answer = aim.answer(model, question, taps(question))
    number = answer.number.sum()
    loss = answer.nats.sum() / number.clamp(min=1)
    return loss.detach(), number, torch.autograd.grad(loss, moving, allow_unused=True)


def loss_of(model: HuggingFace, aim: Aim, questions: Iterable[Question]) -> float:
    """Mean loss of the questions, in nats a piece or text."""
    nats, number, room = 0.0, 0.0, Limit()

    @torch.no_grad()
    def ask(question: Question) -> list[float]:
        answer = aim.answer(model, question)
        both: list[float] = torch.stack([answer.nats.double().sum(), answer.number.sum()]).tolist()
        return both

    for question in questions:
        for _, (own, asked) in in_halves(ask, question, room):
            nats, number = nats + own, number + asked
    return nats / max(number, 1.0)


def _batches(
    model: HuggingFace, aim: Aim, batch: Batch, documents: Sequence[int], plan: Plan
) -> Iterable[Question]:
    """As many as there are steps; each epoch is shuffled, with other pieces hidden."""
    random = np.random.default_rng([plan.seed, 7])
    made, epoch = 0, 0
    while made < plan.steps:
        order = random.permutation(list(documents)).tolist()
        own = replace(aim, seed=plan.seed + 1000 * epoch + 1)
        epoch += 1
        before = made
        for some in chunks(order, plan.texts):
            for question in own.questions(model, batch, some, pieces=1 << 30):
                yield question
                made += 1
                if made == plan.steps:
                    return
        if made == before:
            raise WorkbenchError(
                "no text has anything to learn from.",
                where=model.name,
                remedy="Use longer texts: the model predicts pieces from others in the same text.",
            )
