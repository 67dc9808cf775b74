"""Evaluation: the loss and the right predictions of a model on what it was made for.

A language model predicts the pieces of its own objective; a task head the labels that the corpus
gives to texts or words. An `EvalTask` cuts a corpus into batches that can be evaluated many times,
with taps and with repeated rows. Which pieces are hidden depends only on the seed and a text's
position in the corpus, so every evaluation uses the same pieces. Costs: as in `lm_losses`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Batch, Pieces, sent
from workbench.engine.forward_pass import CHUNK, by_length, chunks
from workbench.engine.halving import Limit, Part, in_halves
from workbench.engine.taps import Tap
from workbench.engine.task import Gold, Task
from workbench.engine.words import owners
from workbench.models.fine_tuning import EarlyStopping, Learner, fine_tune
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.lm_heads import mask_of, symbols
from workbench.models.output_heads.lm_losses import (
    Losses,
    Tapped,
    causal_losses,
    chosen,
    denoising,
    denoising_losses,
    logits_of,
    masked,
    masked_losses,
    with_context,
)
from workbench.models.output_heads.task_heads import BatchScores, segments_of
from workbench.models.scoring.lm_scoring import limit_of


@dataclass(frozen=True)
class Question:
    """One batch of texts to evaluate, on the model's device."""

    text: Pieces  # the input
    target: Pieces | None = None  # the decoder's target
    hidden: Tensor | None = None  # [batch, pieces], the pieces that a masked model predicts
    gold: tuple[Gold, ...] = ()  # the labels of each text
    segments: Tensor | None = None  # [batch, words], on the host: words of a pair's second text
    n_unread: int = 0  # words beyond the model's maximum length

    def __len__(self) -> int:
        return len(self.text)

    def halves(self) -> tuple["Question", "Question"]:
        """The first and the last half of the rows, at the same width."""
        rows = torch.arange(len(self))
        return self.take(rows[: len(self) // 2]), self.take(rows[len(self) // 2 :])

    @property
    def pieces(self) -> int:
        """In all rows, padding included."""
        both = (self.text, self.target)
        return sum(each.ids.numel() for each in both if each is not None)

    @property
    def order(self) -> list[int]:
        """The index of each text in the corpus."""
        return self.text.order.tolist()

    def take(self, rows: Tensor) -> "Question":
        """The given rows, with repetitions; `rows` are on the host."""
        on_device = sent(rows, self.text.ids.device)
        return Question(
            self.text.take(rows),
            None if self.target is None else self.target.take(rows),
            None if self.hidden is None else self.hidden[on_device],
            tuple(self.gold[row] for row in rows.tolist()) if self.gold else (),
            None if self.segments is None else self.segments[rows],
        )


@dataclass(frozen=True)
class EvalTask:
    """What is evaluated of a model on one corpus: what it was made for."""

    task: Task
    gold: tuple[Gold | None, ...] = ()  # of each document of the batch, for a task head
    seed: int = 0

    @property
    def metrics(self) -> tuple[str, str]:
        """The loss, and the share of right predictions; of scores the explained variance."""
        return ("loss", "r2" if self.task.kind == "score" else "accuracy")

    def questions(
        self,
        model: HuggingFace,
        batch: Batch,
        documents: Sequence[int] | None = None,
        pieces: int | None = None,
    ) -> Iterator[Question]:
        """The corpus in batches, longest texts first; texts without a label are skipped."""
        chosen_documents = list(range(len(batch))) if documents is None else list(documents)
        segments = None
        if not self.task.is_language_model:
            segments = segments_of(batch)
            chosen_documents = [each for each in chosen_documents if self.gold[each] is not None]
        limit = limit_of(model) if pieces is None else pieces
        for part in chunks(chosen_documents, CHUNK):
            text = model.encode(batch, part)
            place_of = dict(zip(text.order.tolist(), part, strict=True))
            for rows in by_length(replace(text, unaligned=(), cut=()), Limit(limit)):
                places = [place_of[order] for order in rows.order.tolist()]
                n_unread = int((rows.word_counts - rows.kept).sum())
                yield replace(self._question(model, rows, places, segments), n_unread=n_unread)

    def _question(
        self, model: HuggingFace, text: Pieces, places: Sequence[int], segments: Tensor | None
    ) -> Question:
        device, kind = model.device, self.task.kind
        if kind == "masked":
            return Question(text.to(device), hidden=sent(chosen(text, self.seed), device))
        if kind == "seq2seq":
            read, written = denoising(text, symbols(model.tokenizer), self.seed)
            return Question(read.to(device), target=written.to(device))
        if segments is None:
            return Question(text.to(device))
        gold = tuple(value for place in places if (value := self.gold[place]) is not None)
        return Question(text.to(device), gold=gold, segments=segments[list(places)])

    def answer(self, model: HuggingFace, texts: Question, taps: Iterable[Tap] = ()) -> BatchScores:
        """Evaluate one batch."""
        if texts.segments is not None:
            head = model.task_head
            read = head.read(model, texts.text, texts.segments, taps)
            scores: BatchScores = head.scores(head(read), texts.gold, read)
            return scores
        losses = self.losses(model, texts, taps)
        right = (losses.right & losses.scored).sum(1)
        return BatchScores(losses.nats.sum(1), right, losses.scored.sum(1))

    def targets(self, texts: Question) -> tuple[Tensor, Tensor]:
        """The mask of predictions and their gold choices: pieces, tags, or the class of each text.

        Scores and answers are no choices.  # [batch, n] bool, and the gold choices row by row
        """
        if self.task.kind == "class":
            ones = torch.ones(len(texts), 1, dtype=torch.bool)
            return ones, torch.tensor(list(texts.gold))
        if self.task.kind in ("tags", "entities"):
            there = owners(texts.text).any(-1).cpu()  # [batch, words]
            tags = torch.full(there.shape, -1)
            for row, own in enumerate(texts.gold):
                known = torch.tensor(list(own)[: there.shape[1]], dtype=torch.int64)  # type: ignore[arg-type]
                tags[row, : len(known)] = known
            mask = there & (tags >= 0)
            return mask, tags[mask]
        if self.task.kind == "causal":
            mask, text = with_context(texts.text), texts.text
        elif self.task.kind == "seq2seq":
            assert texts.target is not None, "an encoder-decoder needs a target"
            mask, text = texts.target.mask, texts.target
        else:
            assert texts.hidden is not None, "a masked model needs hidden pieces"
            mask, text = texts.hidden, texts.text
        return mask, text.ids[mask]

    def guesses(self, model: HuggingFace, texts: Question, taps: Iterable[Tap] = ()) -> Tensor:
        """The model's most likely choice at each position of `targets`, row by row."""
        tapped: Any = Tapped(model, list(taps))
        mask, _ = self.targets(texts)
        text = texts.text
        if texts.segments is not None:
            head = model.task_head
            outputs = head(head.read(model, text, texts.segments, taps)).argmax(-1).cpu()
            return outputs if self.task.kind == "class" else outputs[mask]  # type: ignore[no-any-return]
        if self.task.kind == "causal":
            logits = logits_of(tapped, text, functional.pad(mask[:, 1:], (0, 1)))
        elif self.task.kind == "seq2seq":
            logits = logits_of(tapped, text, mask, texts.target)
        else:
            inputs = masked(text, mask, mask_of(model.net, model.tokenizer))
            logits = logits_of(tapped, inputs, mask)
        return logits.argmax(-1)

    def losses(self, model: HuggingFace, texts: Question, taps: Iterable[Tap] = ()) -> Losses:
        """The loss of every predicted piece, of a language model."""
        tapped: Any = Tapped(model, list(taps))
        if self.task.kind == "causal":
            return causal_losses(tapped, texts.text)
        if self.task.kind == "seq2seq":
            assert texts.target is not None, "an encoder-decoder needs a target"
            return denoising_losses(tapped, texts.text, texts.target)
        assert texts.hidden is not None, "a masked model needs hidden pieces"
        return masked_losses(tapped, texts.text, texts.hidden, mask_of(model.net, model.tokenizer))


def eval_task_of(model: HuggingFace, gold: Sequence[Gold | None] = (), seed: int = 0) -> EvalTask:
    """What the model was made for; `gold` has the labels of each document, for a task head."""
    task = model.predicts
    if task is None:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no language-model or task head.",
            code="model-unsupported",
            remedy="Choose a model saved with a language-model head, such as bert-base-uncased or "
            "gpt2, or a run of finetune.",
        )
    assert task.kind != "bidirectional", "a model with attention is not an ELMo"
    return EvalTask(task, tuple(gold), seed)


# --- a short fine-tuning with the loss of any `EvalTask`: of all weights, or of gates only --------
#
# With dev texts: the learning rate is constant after its warm-up. Training stops early when the dev
# loss has not fallen by a thousandth of its first value over `PATIENCE` checks, and the weights of
# the best check are kept; only then is `converged` true. (For separable classes the loss keeps
# falling.) Without dev texts: every step is taken and the learning rate decays to zero. There is no
# weight decay; early stopping regularises. Batches are shuffled each epoch by the seed. Costs: as
# in `fine_tuning`, and a forward pass over the dev texts every `CHECK` steps.

CHECK = 10  # steps between two dev checks, and between two progress reports
PATIENCE = 5  # dev checks without improvement before early stopping
GAIN = 1e-3  # minimum improvement, as a share of the first dev loss
WARM_UP = 20  # warm-up steps; at most a tenth of all steps


@dataclass(frozen=True)
class Plan:
    """Maximum number of steps, learning rate, batch size (in texts) and seed."""

    steps: int
    rate: float = 1e-4
    texts: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Learnt:
    """Losses of a fine-tuning, and whether it converged."""

    losses: list[float]  # training loss of each step, in nats
    dev: dict[int, float] = field(default_factory=dict)  # dev loss by number of steps
    converged: bool = False  # stopped early by the dev loss

    @property
    def best(self) -> int:
        """The number of steps of the kept weights."""
        return min(self.dev, key=self.dev.__getitem__) if self.dev else len(self.losses)


def learn(
    model: HuggingFace,
    aim: EvalTask,
    batch: Batch,
    documents: Sequence[int],
    plan: Plan,
    *,
    dev: Sequence[Question] = (),
    on_progress: Callable[[int, float], object] | None = None,
    taps: Callable[[Question], Iterable[Tap]] = lambda question: (),
    weights: Iterable[Tensor] | None = None,
    more: Sequence[dict[str, Any]] = (),
    penalty: Callable[[], Tensor] | None = None,
    each_step: Callable[[int], object] = lambda done: None,
) -> Learnt:
    """Fine-tune the model on the documents, in place.

    `dev` are batches for early stopping. `weights` are the trained weights (default: all of the
    model's and its task head's); `more` are further parameter groups with their own learning rates.
    `penalty` is added to every loss, and `taps` are active in every pass. `on_progress` gets the
    step and its loss every `CHECK` steps, and `each_step` the number of each step.
    """
    if not documents:
        raise WorkbenchError(
            "there is no text to train on.",
            code="too-few-sentences",
            where=model.name,
            remedy="Choose a corpus, a split and a maximum number of sentences that leave at least "
            "one text.",
        )
    own = [*model.net.parameters()]
    if model.task_head is not None:
        own += model.task_head.parameters()  # of a mix of layers; a standard head is in the net
    trained = own if weights is None else list(weights)
    groups: list[dict[str, Any]] = [{"params": trained, "lr": plan.rate}] if trained else []
    groups += more
    if not groups or plan.steps < 1:
        return Learnt([])
    warm_up = max(1, min(WARM_UP, round(0.1 * plan.steps)))

    def rate_factor(step: int) -> float:
        decay = 1.0 if dev else (plan.steps - step) / max(1, plan.steps - warm_up)
        return min((step + 1) / warm_up, decay)

    learner, memory = Learner(groups, rate_factor), Limit()
    moving_ids = set(map(id, learner.moving))
    state = [(weight, weight.requires_grad) for weight in own]
    first = loss_of(model, aim, dev) if dev else 0.0
    stopping = EarlyStopping(PATIENCE, GAIN * first)
    if dev and stopping.is_best(-first):
        learner.keep()

    def gradients(question: Question) -> Iterator[Part]:
        """Gradients of the mean loss of a step's texts; see `_gradients`."""
        parts = in_halves(partial(_gradients, model, aim, learner.moving, taps), question, memory)
        return (part for _, part in parts)

    def on_step(done: int, loss: float) -> None:
        each_step(done)
        if on_progress is not None and (done % CHECK == 0 or done == plan.steps):
            on_progress(done, loss)

    try:
        for weight in [*own, *learner.moving]:
            weight.requires_grad_(id(weight) in moving_ids)
        with torch.enable_grad():
            batches = iter(_batches(model, aim, batch, documents, plan))
            checks = range(0, plan.steps, CHECK)
            curves = fine_tune(
                learner,
                (islice(batches, min(CHECK, plan.steps - start)) for start in checks),
                gradients,
                (lambda: -loss_of(model, aim, dev)) if dev else None,
                stopping,
                on_step,
                penalty,
            )
    finally:
        for weight, needs_gradient in state:
            weight.requires_grad_(needs_gradient)
            weight.grad = None
    if curves.diverged:
        raise WorkbenchError(
            f"training diverged: the loss is {curves.losses[-1]} after {len(curves.losses) - 1} "
            "steps.",
            code="training-diverged",
            where=model.name,
            remedy="Set a lower learning rate.",
        )
    taken = [min(CHECK * number, plan.steps) for number in range(1 + len(curves.dev))]
    losses = (
        dict(zip(taken, [first, *(-score for score in curves.dev)], strict=True)) if dev else {}
    )
    return Learnt(curves.losses, losses, stopping.waited >= PATIENCE)


def _gradients(
    model: HuggingFace,
    aim: EvalTask,
    moving: Sequence[Tensor],
    taps: Callable[[Question], Iterable[Tap]],
    texts: Question,
) -> Part:
    """The mean loss of some texts, and its gradient for each trained weight."""
    scores = aim.answer(model, texts, taps(texts))
    number = scores.number.sum()
    loss = scores.nats.sum() / number.clamp(min=1)
    return loss.detach(), number, torch.autograd.grad(loss, moving, allow_unused=True)


def loss_of(model: HuggingFace, aim: EvalTask, questions: Iterable[Question]) -> float:
    """Mean loss of the batches, in nats per piece or text."""
    nats, number, memory = 0.0, 0.0, Limit()

    @torch.no_grad()
    def sums(texts: Question) -> list[float]:
        scores = aim.answer(model, texts)
        return torch.stack([scores.nats.double().sum(), scores.number.sum()]).tolist()

    for question in questions:
        for _, (part_nats, part_number) in in_halves(sums, question, memory):
            nats, number = nats + part_nats, number + part_number
    return nats / max(number, 1.0)


def _batches(
    model: HuggingFace, aim: EvalTask, batch: Batch, documents: Sequence[int], plan: Plan
) -> Iterable[Question]:
    """One batch per step; each epoch is shuffled and hides other pieces."""
    random = np.random.default_rng([plan.seed, 7])
    n_batches, epoch = 0, 0
    while n_batches < plan.steps:
        order = random.permutation(list(documents)).tolist()
        epoch_aim = replace(aim, seed=plan.seed + 1000 * epoch + 1)
        epoch += 1
        before = n_batches
        for part in chunks(order, plan.texts):
            for question in epoch_aim.questions(model, batch, part, pieces=1 << 30):
                yield question
                n_batches += 1
                if n_batches == plan.steps:
                    return
        if n_batches == before:
            raise WorkbenchError(
                "no text has a piece that the model could predict.",
                code="too-few-sentences",
                where=model.name,
                remedy="Use longer texts: the model predicts pieces from others in the same text.",
            )
