"""What a model is asked about each text, and how well it answers: the numbers that heads are for.

A language model predicts what its own objective hides; a classifier names the class that the
corpus gives each text. An `Aim` cuts a corpus into batches that are ready to be asked again and
again, with taps and with repeated rows; what is hidden follows from the seed and a text's place
alone, so every question is put to the same pieces. Costs what `likelihood` says.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from workbench.engine.batch import Batch
from workbench.engine.moving import sent
from workbench.engine.passes import CHUNK
from workbench.engine.pieces import Pieces
from workbench.engine.taps import Tap
from workbench.errors import WorkbenchError, did_you_mean
from workbench.models.huggingface import HuggingFace
from workbench.models.likelihood import (
    Losses,
    causal_losses,
    denoising_losses,
    logits_of,
    masked_losses,
    with_context,
)
from workbench.models.masking import chosen, denoising, masked
from workbench.models.objectives import mask_of, symbols
from workbench.models.scoring import batched, limit_of

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
        for start in range(0, len(wanted), CHUNK):
            part = wanted[start : start + CHUNK]
            text = model.encode(batch, part)
            place_of = dict(zip(text.order.tolist(), part, strict=True))
            for rows in batched(replace(text, unaligned=(), cut=()), limit):
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


def aim_of(model: object, batch: Batch, label: str = "", seed: int = 0) -> Aim:
    """What can be asked: classes of a classifier, else what a language model's head predicts."""
    if not isinstance(model, HuggingFace):
        name = getattr(model, "name", "this model")
        raise WorkbenchError(
            f"{name} has no attention heads.", remedy="Choose a transformer, such as mini:bert."
        )
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
