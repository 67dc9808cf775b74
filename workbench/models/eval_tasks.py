"""Evaluation tasks: what a model predicts for each text, and its loss and accuracy there.

A language model predicts the pieces of its own objective; a classifier predicts the class that the
corpus gives each text. An `EvalTask` cuts a corpus into batches that can be evaluated many times,
with taps and with repeated rows. Which pieces are hidden depends only on the seed and a text's
position in the corpus, so every evaluation uses the same pieces. Costs: as in `lm_losses`.
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
    """One batch of texts to evaluate, on the model's device."""

    text: Pieces  # the input
    target: Pieces | None = None  # the decoder's target
    hidden: Tensor | None = None  # [batch, pieces], the pieces that a masked model predicts
    gold: Tensor | None = None  # [batch], the class of each text

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
            None if self.gold is None else self.gold[on_device],
        )


@dataclass(frozen=True)
class BatchScores:
    """Loss in nats (differentiable), correct predictions and all predictions, per text."""

    nats: Tensor  # [batch]
    right: Tensor  # [batch]
    number: Tensor  # [batch], predicted pieces or classes


@dataclass(frozen=True)
class EvalTask:
    """The evaluation task of one model on one corpus."""

    kind: Kind
    label: str = ""  # label of the corpus that gives each text its class
    seed: int = 0

    @property
    def unit(self) -> str:
        """The unit over which losses are averaged."""
        return "text" if self.kind == "classes" else "piece"

    def questions(
        self,
        model: HuggingFace,
        batch: Batch,
        documents: Sequence[int] | None = None,
        pieces: int | None = None,
    ) -> Iterator[Question]:
        """The corpus in batches, longest texts first; texts without a class are skipped."""
        chosen_documents = list(range(len(batch))) if documents is None else list(documents)
        gold = _gold(model, batch, self.label) if self.kind == "classes" else None
        if gold is not None:
            chosen_documents = [document for document in chosen_documents if gold[document] >= 0]
        limit = limit_of(model) if pieces is None else pieces
        for part in chunks(chosen_documents, CHUNK):
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

    def answer(self, model: HuggingFace, texts: Question, taps: Iterable[Tap] = ()) -> BatchScores:
        """Evaluate one batch."""
        if self.kind == "classes":
            assert texts.gold is not None, "a classifier needs gold classes"
            logits = model.forward(texts.text, taps=taps, hidden=False, logits=True).logits
            assert logits is not None, "a classifier has logits"
            nats = functional.cross_entropy(logits.float(), texts.gold, reduction="none")
            right = logits.argmax(-1) == texts.gold
            return BatchScores(nats, right.long(), torch.ones_like(texts.gold))
        losses = self._losses(_Tapped(model, list(taps)), model, texts)
        right = (losses.right & losses.scored).sum(1)
        return BatchScores(losses.nats.sum(1), right, losses.scored.sum(1))

    def gold(self, texts: Question) -> tuple[Tensor, Tensor]:
        """The mask of predictions and their gold values: pieces, or the class of each text.

        # [batch, pieces] bool, and the gold values row by row
        """
        if self.kind == "classes":
            assert texts.gold is not None, "a classifier needs gold classes"
            return torch.ones_like(texts.gold, dtype=torch.bool)[:, None], texts.gold
        if self.kind == "causal":
            mask, text = with_context(texts.text), texts.text
        elif self.kind == "seq2seq":
            assert texts.target is not None, "an encoder-decoder needs a target"
            mask, text = texts.target.mask, texts.target
        else:
            assert texts.hidden is not None, "a masked model needs hidden pieces"
            mask, text = texts.hidden, texts.text
        return mask, text.ids[mask]

    def guesses(self, model: HuggingFace, texts: Question, taps: Iterable[Tap] = ()) -> Tensor:
        """The model's most likely prediction at each position of `gold`, row by row."""
        tapped: Any = _Tapped(model, list(taps))
        mask, _ = self.gold(texts)
        text = texts.text
        if self.kind == "classes":
            logits: Tensor = tapped.forward(text, hidden=False, logits=True).logits
        elif self.kind == "causal":
            logits = logits_of(tapped, text, functional.pad(mask[:, 1:], (0, 1)))
        elif self.kind == "seq2seq":
            logits = logits_of(tapped, text, mask, texts.target)
        else:
            inputs = masked(text, mask, mask_of(model.net, model.tokenizer))
            logits = logits_of(tapped, inputs, mask)
        return logits.argmax(-1)

    def _losses(self, tapped: Any, model: HuggingFace, texts: Question) -> Losses:
        if self.kind == "causal":
            return causal_losses(tapped, texts.text)
        if self.kind == "seq2seq":
            assert texts.target is not None, "an encoder-decoder needs a target"
            return denoising_losses(tapped, texts.text, texts.target)
        assert texts.hidden is not None, "a masked model needs hidden pieces"
        return masked_losses(tapped, texts.text, texts.hidden, mask_of(model.net, model.tokenizer))


@dataclass(frozen=True)
class _Tapped:
    """A model that runs every forward pass with these taps."""

    model: HuggingFace
    taps: list[Tap]

    def forward(self, pieces: Pieces, **how: Any) -> Any:
        return self.model.forward(pieces, taps=self.taps, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def eval_task_of(model: HuggingFace, batch: Batch, label: str = "", seed: int = 0) -> EvalTask:
    """The model's task: classes for a classifier, else the objective of its language-model head."""
    if label and not model.classes:
        raise WorkbenchError(
            f"{model.name} is not a classifier, so it cannot be evaluated on a label.",
            code="model-unsupported",
            where=label,
            remedy="Leave the label out to use the language-model loss, or train a classifier "
            "first (head-pruning does so with task=).",
        )
    if model.classes:
        return EvalTask("classes", label or _label_of(model, batch), seed)
    if not model.objective:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no language-model or classification head.",
            code="model-unsupported",
            remedy="Choose a model saved with a language-model head, such as bert-base-uncased or "
            "gpt2, or a model fine-tuned for text classification.",
        )
    assert model.objective != "bidirectional", "a model with attention is not an ELMo"
    return EvalTask(model.objective, seed=seed)


def _label_of(model: HuggingFace, batch: Batch) -> str:
    """The corpus label whose classes the model predicts."""
    known = {name: targets.names for name, targets in batch.targets.items() if targets.names}
    for name, classes in known.items():
        if set(classes) <= set(model.classes):
            return name
    labels = "; ".join(f"{name}: {', '.join(classes)}" for name, classes in known.items())
    raise WorkbenchError(
        f"{model.name} predicts the classes {', '.join(model.classes)}; no label of the corpus has "
        "these classes.",
        code="label-missing",
        remedy=f"The corpus has {labels or 'no labels'}. Choose the corpus that the model was "
        "trained on, such as primer/sentiment.",
    )


def _gold(model: HuggingFace, batch: Batch, label: str) -> list[int]:
    """The model's class index of each text; -1 for a text without a class."""
    if label not in batch.targets:
        raise WorkbenchError(
            f"the corpus has no label {label!r}.",
            code="label-missing",
            remedy=did_you_mean(label, batch.targets),
        )
    targets = batch.targets[label]
    unknown = set(targets.names) - set(model.classes)
    if unknown:
        raise WorkbenchError(
            f"{model.name} does not predict the class {', '.join(sorted(unknown))}.",
            code="label-missing",
            where=label,
            remedy=f"Its classes are {', '.join(model.classes)}.",
        )
    index_of = [model.classes.index(name) for name in targets.names]
    return [-1 if np.isnan(value) else index_of[int(value)] for value in targets.values]


# --- a text classifier from a language model: the same body with a new head -----------------------
#
# Uses transformers' `...ForSequenceClassification`, so it saves and opens like any other model.
# Costs: a copy of the weights.


def classifier(model: HuggingFace, classes: Sequence[str], seed: int) -> HuggingFace:
    """A classifier of these classes: the model's body with a random head, by the seed."""
    if len(classes) < 2:
        raise WorkbenchError(
            f"a classifier needs two classes or more, but there is "
            f"{'one class' if classes else 'no class'}.",
            code="setting-invalid",
            where=", ".join(classes),
            remedy="Choose a label with two classes or more.",
        )
    if model.two_sided:
        raise WorkbenchError(
            f"{model.name} ({model.family}) is an encoder-decoder; classifiers are built from "
            "encoders and decoders only.",
            code="model-unsupported",
            remedy="Choose an encoder such as mini:bert, or a decoder such as mini:gpt.",
        )
    config: Any = copy.deepcopy(model.net.config)
    config.id2label = dict(enumerate(classes))
    config.label2id = {name: index for index, name in enumerate(classes)}
    if config.pad_token_id is None:  # a decoder needs it to find a text's last piece
        config.pad_token_id = model.tokenizer.pad_token_id
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            kind: Any = AutoModelForSequenceClassification
            net: Any = kind.from_config(config, trust_remote_code=False)
        except ValueError:
            raise WorkbenchError(
                f"transformers has no classifier for the family {model.family}.",
                code="model-unsupported",
                where=model.name,
                remedy="Choose a model such as mini:bert.",
            ) from None
    body: Any = model.net.base_model
    net.base_model.load_state_dict(body.state_dict(), strict=False)
    return HuggingFace(placed(net, model.device, model.net.dtype), model.tokenizer, model.name)


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
) -> Learnt:
    """Fine-tune the model on the documents, in place.

    `dev` are batches for early stopping. `weights` are the trained weights (default: all of the
    model's); `more` are further parameter groups with their own learning rates. `penalty` is added
    to every loss, and `taps` are active in every pass. `on_progress` gets the step and its loss.
    """
    if not documents:
        raise WorkbenchError(
            "there is no text to train on.",
            code="too-few-sentences",
            where=model.name,
            remedy="Choose a corpus, a split and a maximum number of sentences that leave at least "
            "one text.",
        )
    trained = list(model.net.parameters() if weights is None else weights)
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
    state = [(weight, weight.requires_grad) for weight in model.net.parameters()]
    first = loss_of(model, aim, dev) if dev else 0.0
    stopping = EarlyStopping(PATIENCE, GAIN * first)
    if dev and stopping.is_best(-first):
        learner.keep()

    def gradients(question: Question) -> Iterator[Part]:
        """Gradients of the mean loss of a step's texts; see `_gradients`."""
        parts = in_halves(partial(_gradients, model, aim, learner.moving, taps), question, memory)
        return (part for _, part in parts)

    def on_step(done: int, loss: float) -> None:
        if on_progress is not None and (done % CHECK == 0 or done == plan.steps):
            on_progress(done, loss)

    try:
        for weight in [*model.net.parameters(), *learner.moving]:
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
        both: list[float] = torch.stack([scores.nats.double().sum(), scores.number.sum()]).tolist()
        return both

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
