"""Task heads, the same for frozen and for fine-tuned models.

A plain head is linear: a learnt mix of all layers, pooled over the words of a text (mean and
maximum; for a pair also the difference and product of its two texts), then a linear layer. A strong
head has a bidirectional LSTM after the mix and a hidden layer, and can recover word order that a
frozen model does not encode. Each feature of each layer is standardised over the words of train as
the untrained model sees them, and so are the pooled features. Then a feature 100 times the others,
or an offset of 50 times its standard deviation, neither hides a layer nor slows learning. The loss
is softmax cross-entropy (one label per text or word, the ends of an answer) or the mean squared
error (scores). Costs: some thousand weights; an LSTM a few hundred thousand, and a step per word.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.engine.batch import sent
from workbench.engine.forward_pass import chunks
from workbench.engine.halving import Limit, Places, in_halves
from workbench.models.scalar_mix import ScalarMix
from workbench.transfer.features import Read, Source
from workbench.transfer.tasks import Gold, Task

HIDDEN = 256  # width of the LSTM, both directions together, and of the layer after it
DROPOUT = 0.1
STANDARD = 1000  # maximum number of texts for the standardisation
CHUNK = 64  # texts read at a time for it
LEAST = 1e-6  # of the largest spread of a layer; features below it count as constant
LONGEST = 20  # maximum number of words of an answer
NOWHERE = -1e9


class StandardMix(ScalarMix):
    """A learnt mix of layers after standardising each feature; see `Head.standardise`."""

    mean: Tensor  # [layers, width]
    spread: Tensor  # [layers, width]

    def __init__(self, layers: int, width: int) -> None:
        super().__init__(layers)
        self.register_buffer("mean", torch.zeros(layers, width))
        self.register_buffer("spread", torch.ones(layers, width))

    def forward(self, hidden: Sequence[Tensor]) -> Tensor:
        """[…, width] of each layer -> [..., width]"""
        factors = self.scale * self.weights()[:, None] / self.spread  # [layers, width]
        mixed = -(factors * self.mean).sum(0)
        for factor, layer in zip(factors, hidden, strict=True):
            mixed = torch.addcmul(mixed, layer.to(factor.dtype), factor)
        return mixed


class Head(nn.Module):
    """The task head of any task, with its mix of the model's layers."""

    seen_mean: Tensor  # [inputs]
    seen_spread: Tensor  # [inputs]

    def __init__(self, task: Task, layers: int, width: int, lstm: bool, scale: "Scale") -> None:
        super().__init__()
        self.task, self.scale = task, scale
        self.mix = StandardMix(layers + 1, width)
        self.reader = BidirectionalLSTM(width, HIDDEN) if lstm else None
        self.dropout = nn.Dropout(DROPOUT)
        width_in = HIDDEN if lstm else width
        per_text = task.kind in ("class", "score")
        inputs = width_in * (1 if not per_text else 8 if task.pairs else 2)
        self.register_buffer("seen_mean", torch.zeros(inputs))
        self.register_buffer("seen_spread", torch.ones(inputs))
        self.inner = nn.Linear(inputs, HIDDEN) if lstm else None
        self.outer = nn.Linear(HIDDEN if lstm else inputs, task.outputs)
        self.none = nn.Linear(2 * width_in, 1) if task.kind == "answers" else None
        if not lstm:  # a random linear head would first teach its noise to the body
            for layer in self.linear:
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, read: Read) -> Tensor:
        """[batch, outputs] of texts, [batch, words, tags] of words; answers [batch, 2, words + 1].

        The last position of an answer's starts and ends means no answer.
        """
        words = read.words * read.there[..., None]
        words = words if self.reader is None else self.reader(words, read.there)
        if self.task.kind in ("class", "score"):
            return self._outputs(self._pooled(words, read))
        outputs = self._outputs(words)  # [batch, words, outputs]
        if self.none is None:
            return outputs
        searched = read.there & read.second if self.task.pairs else read.there
        outputs = outputs.masked_fill(~searched[..., None], NOWHERE).transpose(1, 2)
        no_answer = self.none(pooled(words, read.there))  # [batch, 1]
        return torch.cat([outputs, no_answer[:, None].expand(-1, 2, 1)], 2)

    def _outputs(self, inputs: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]"""
        inputs = self.dropout((inputs - self.seen_mean) / self.seen_spread)
        if self.inner is not None:
            inputs = self.dropout(torch.tanh(self.inner(inputs)))
        outputs: Tensor = self.outer(inputs)
        return outputs

    @property
    def linear(self) -> list[nn.Linear]:
        """The linear layers, which the ridge penalty applies to."""
        return [layer for layer in (self.inner, self.outer, self.none) if layer is not None]

    @torch.no_grad()
    def standardise(self, source: Source) -> None:
        """Standardise each layer's features over words, then the pooled features."""
        texts = np.linspace(0, len(source) - 1, min(len(source), STANDARD)).round().astype(int)
        room = Limit()

        def read(mix: Any) -> Iterator[Read]:
            for chunk in chunks(texts.tolist(), CHUNK):
                some = Places(chunk, max(source.lengths[text] for text in chunk))
                yield from (
                    r for _, r in in_halves(lambda s: source.read(s.places, mix), some, room)
                )

        mean, spread = _moments(each.words[each.there] for each in read(side_by_side))
        if not len(mean):
            return  # no word of train has a piece
        self.mix.mean.copy_(mean.view_as(self.mix.mean))
        self.mix.spread.copy_(_floored(spread.view_as(self.mix.spread)))
        if self.reader is None:
            mean, spread = _moments(self._inputs(each) for each in read(self.mix))
            self.seen_mean.copy_(mean)
            self.seen_spread.copy_(_floored(spread))

    def _inputs(self, read: Read) -> Tensor:
        """The inputs of a plain head's linear layer.  # [texts or words, inputs]"""
        words = read.words * read.there[..., None]
        per_text = self.task.kind in ("class", "score")
        return self._pooled(words, read) if per_text else words[read.there]

    def _pooled(self, words: Tensor, read: Read) -> Tensor:
        """A text, or a pair of texts, as one vector."""
        if not self.task.pairs:
            return pooled(words, read.there)
        one = pooled(words, read.there & ~read.second)
        two = pooled(words, read.there & read.second)
        return torch.cat([one, two, (one - two).abs(), one * two], -1)

    # --- loss and predictions ---------------------------------------------------------------------

    def loss(self, outputs: Tensor, gold: Sequence[Gold], read: Read) -> Tensor:
        """Nats per text, word or answer; for scores, the squared error of standardised values.

        Words without a piece do not count.
        """
        if self.task.kind == "class":
            return functional.cross_entropy(outputs, _float_targets(gold, outputs.device).long())
        if self.task.kind == "score":
            target = (_float_targets(gold, outputs.device) - self.scale.mean) / self.scale.spread
            return functional.mse_loss(outputs[:, 0], target)
        if self.task.kind == "answers":
            searched = (read.there & read.second if self.task.pairs else read.there).tolist()
            ends = [_first_answer(spans, row) for spans, row in zip(gold, searched, strict=True)]
            target = torch.tensor(ends, device=outputs.device)  # [batch, 2]
            return functional.cross_entropy(outputs.flatten(0, 1), target.flatten())
        target = torch.full(outputs.shape[:2], -100, dtype=torch.long)  # [batch, words]
        for row, tags in enumerate(gold):
            assert isinstance(tags, list), "words have tags"
            target[row, : len(tags)] = torch.tensor([t if t >= 0 else -100 for t in tags])  # type: ignore[operator]
        target = sent(target, outputs.device).masked_fill(~read.there, -100)
        losses = functional.cross_entropy(
            outputs.flatten(0, 1), target.flatten(), reduction="sum", ignore_index=-100
        )
        return losses / (target >= 0).sum().clamp(min=1)

    def targets(self, gold: Sequence[Gold], read: Read) -> int:
        """The number of targets that `loss` is the mean of: texts, or words with a tag."""
        if self.task.kind not in ("tags", "entities"):
            return len(gold)
        has_piece = read.there.tolist()
        return sum(
            tag >= 0 and has_piece[row][word]
            for row, tags in enumerate(gold)
            if isinstance(tags, list)
            for word, tag in enumerate(tags)
            if isinstance(tag, int)
        )

    def guesses(self, outputs: Tensor, read: Read, lengths: Sequence[int]) -> list[Any]:
        """The prediction for each text, in the form of the gold labels."""
        if self.task.kind == "class":
            classes: list[Any] = outputs.argmax(-1).tolist()
            return classes
        if self.task.kind == "score":
            return (outputs[:, 0] * self.scale.spread + self.scale.mean).tolist()
        if self.task.kind == "answers":
            return [_best_span(row) for row in outputs.float().cpu()]
        tags = torch.where(read.there, outputs.argmax(-1), -1 if self.task.kind == "tags" else 0)
        rows = tags.tolist()
        missing = -1 if self.task.kind == "tags" else 0
        return [
            (row + [missing] * length)[:length] for row, length in zip(rows, lengths, strict=True)
        ]


class BidirectionalLSTM(nn.Module):
    """Two LSTMs, one over each text from its start and one from its end.

    Both take a padded batch: torch's bidirectional LSTM needs packed texts, and its backward pass
    then takes three times as long on a CPU.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.forth = nn.LSTM(width, hidden // 2, batch_first=True)
        self.back = nn.LSTM(width, hidden // 2, batch_first=True)

    def forward(self, words: Tensor, there: Tensor) -> Tensor:
        """[batch, words, width], [batch, words] -> [batch, words, hidden]; 0 without a word."""
        position = torch.arange(there.shape[1], device=there.device)
        sizes = (there * (position + 1)).amax(
            1, keepdim=True
        )  # [batch, 1], position of the last word + 1
        reversed_order = torch.where(position < sizes, sizes - 1 - position, position)[
            ..., None
        ]  # [batch, words, 1]
        back = self.back(_reordered(words, reversed_order))[0]
        states = torch.cat([self.forth(words)[0], _reordered(back, reversed_order)], -1)
        return states * there[..., None]


@dataclass(frozen=True)
class Scale:
    """Mean and spread of the gold scores; a head predicts scores with mean 0 and spread 1."""

    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, gold: Sequence[Gold], task: Task) -> "Scale":
        if task.kind != "score":
            return cls()
        values = torch.tensor(list(gold), dtype=torch.float64)
        return cls(float(values.mean()), max(float(values.std(correction=0)), 1e-9))


def side_by_side(hidden: Sequence[Tensor]) -> Tensor:
    """All layers concatenated, instead of a mix.  # [..., width] each -> [..., layers * width]"""
    return torch.cat([layer.float() for layer in hidden], -1)


def _moments(parts: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and spread of each feature over the rows of all parts; empty if there are no rows."""
    rows, first = 0, torch.zeros(0)
    total, squares = first, first
    for part in (part.double() for part in parts if len(part)):
        if not rows:
            first = part[0]  # relative to the first row, so that an offset costs no digits
            total, squares = torch.zeros_like(first), torch.zeros_like(first)
        rows += len(part)
        total = total + (part - first).sum(0)
        squares = squares + (part - first).square().sum(0)
    mean = total / max(rows, 1)
    spread = (squares / max(rows, 1) - mean.square()).clamp(min=0).sqrt()
    return (first + mean).float(), spread.float()


def _floored(spread: Tensor) -> Tensor:
    """The spread, with 1 for constant features.  # [..., features]"""
    return torch.where(spread > LEAST * spread.amax(-1, keepdim=True), spread, 1.0)


def pooled(words: Tensor, chosen: Tensor) -> Tensor:
    """Mean and maximum over the chosen words, 0 if there are none.  # -> [batch, 2 * width]"""
    count = chosen.sum(1, keepdim=True)
    mean = (words * chosen[..., None]).sum(1) / count.clamp(min=1)
    maximum = words.masked_fill(~chosen[..., None], NOWHERE).amax(1)
    return torch.cat([mean, maximum.masked_fill(count == 0, 0.0)], -1)


def _reordered(words: Tensor, order: Tensor) -> Tensor:
    """The words of each text in another order.  # [batch, words, width], [batch, words, 1]"""
    return words.gather(1, order.expand_as(words))


def _float_targets(gold: Sequence[Gold], device: torch.device) -> Tensor:
    return torch.tensor(list(gold), dtype=torch.float32, device=device)


def _first_answer(spans: Gold, searched: Sequence[bool]) -> tuple[int, int]:
    """The ends of the first answer in the searched words, or the position of no answer."""
    assert isinstance(spans, list), "answers are spans"
    for span in spans:
        assert isinstance(span, tuple), "answers are spans"
        if all(searched[span[0] : span[1]]):
            return span[0], span[1] - 1
    return len(searched), len(searched)


def _best_span(logits: Tensor) -> list[tuple[int, int]]:
    """The most probable span of at most `LONGEST` words, or none.  # [2, words + 1]"""
    starts, ends = logits[0, :-1], logits[1, :-1]
    sums = starts[:, None] + ends[None]
    position = torch.arange(len(starts))
    distance = position[None] - position[:, None]
    sums = sums.masked_fill((distance < 0) | (distance >= LONGEST), 2 * NOWHERE)
    best = int(sums.argmax())
    if float(sums.flatten()[best]) < float(logits[0, -1] + logits[1, -1]):
        return []
    return [(best // len(starts), best % len(starts) + 1)]
