"""Task heads: the same one over a frozen model and over one that is fine-tuned.

A plain head is linear: a learnt mix of all layers, pooled over the words of a text (mean and
maximum; of a pair also the difference and product of its two texts), then a linear layer. A strong
head has a bidirectional LSTM after the mix and a hidden layer, which can recover what a frozen
model does not encode of word order. Every layer is standardised, feature by feature, over the words
of train as the model saw them before training, and so are pooled features: a feature 100 times the
others, or an offset of 50 times its spread, neither hides a layer nor slows learning. The loss is
softmax cross-entropy (one label a text or a word, the ends of an answer) or the mean squared error
(scores). Costs some thousand weights; an LSTM a few hundred thousand and a step a word.
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

HIDDEN = 256  # of the LSTM, both directions, and of the layer behind it
DROPOUT = 0.1
STANDARD = 1000  # maximum number of texts that the standardisation is computed from
CHUNK = 64  # texts read at a time for it
LEAST = 1e-6  # of the largest spread of a layer; a feature with less is constant
LONGEST = 20  # words of an answer
NOWHERE = -1e9


class StandardMix(ScalarMix):
    """A learnt mix of layers, each feature of each standardised first; see `Head.standardise`."""

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
    """What is learnt above a model, whatever the task."""

    seen_mean: Tensor  # [inputs]
    seen_spread: Tensor  # [inputs]

    def __init__(self, task: Task, layers: int, width: int, lstm: bool, scale: "Scale") -> None:
        super().__init__()
        self.task, self.scale = task, scale
        self.mix = StandardMix(layers + 1, width)
        self.reader = BothWays(width, HIDDEN) if lstm else None
        self.dropout = nn.Dropout(DROPOUT)
        seen = HIDDEN if lstm else width
        whole = task.kind in ("class", "score")
        inputs = seen * (1 if not whole else 8 if task.pairs else 2)
        self.register_buffer("seen_mean", torch.zeros(inputs))
        self.register_buffer("seen_spread", torch.ones(inputs))
        self.inner = nn.Linear(inputs, HIDDEN) if lstm else None
        self.outer = nn.Linear(HIDDEN if lstm else inputs, task.outputs)
        self.none = nn.Linear(2 * seen, 1) if task.kind == "answers" else None
        if not lstm:  # a random linear head would first teach a body its own noise
            for layer in self.linear:
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, read: Read) -> Tensor:
        """[batch, outputs] of texts, [batch, words, tags] of words; of answers [batch, 2, words+1].

        The last place of an answer's starts and ends is for no answer at all.
        """
        words = read.words * read.there[..., None]
        words = words if self.reader is None else self.reader(words, read.there)
        if self.task.kind in ("class", "score"):
            return self._outputs(self._whole(words, read))
        found = self._outputs(words)  # [batch, words, outputs]
        if self.none is None:
            return found
        asked = read.there & read.second if self.task.pairs else read.there
        found = found.masked_fill(~asked[..., None], NOWHERE).transpose(1, 2)
        nothing = self.none(pooled(words, read.there))  # [batch, 1]
        return torch.cat([found, nothing[:, None].expand(-1, 2, 1)], 2)

    def _outputs(self, seen: Tensor) -> Tensor:
        """[..., inputs] -> [..., outputs]"""
        seen = self.dropout((seen - self.seen_mean) / self.seen_spread)
        if self.inner is not None:
            seen = self.dropout(torch.tanh(self.inner(seen)))
        found: Tensor = self.outer(seen)
        return found

    @property
    def linear(self) -> list[nn.Linear]:
        """Layers whose weights a ridge penalty holds small."""
        return [layer for layer in (self.inner, self.outer, self.none) if layer is not None]

    @torch.no_grad()
    def standardise(self, source: Source) -> None:
        """Mean 0 and spread 1 of each layer's features over words, then of what is pooled."""
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
            return  # the model knows no word of train
        self.mix.mean.copy_(mean.view_as(self.mix.mean))
        self.mix.spread.copy_(_floored(spread.view_as(self.mix.spread)))
        if self.reader is None:
            mean, spread = _moments(self._seen(each) for each in read(self.mix))
            self.seen_mean.copy_(mean)
            self.seen_spread.copy_(_floored(spread))

    def _seen(self, read: Read) -> Tensor:
        """What a plain head is linear in.  # [texts or words, inputs]"""
        words = read.words * read.there[..., None]
        whole = self.task.kind in ("class", "score")
        return self._whole(words, read) if whole else words[read.there]

    def _whole(self, words: Tensor, read: Read) -> Tensor:
        """A text, or a pair, as one vector."""
        if not self.task.pairs:
            return pooled(words, read.there)
        one = pooled(words, read.there & ~read.second)
        two = pooled(words, read.there & read.second)
        return torch.cat([one, two, (one - two).abs(), one * two], -1)

    # --- what is true, and what is thought --------------------------------------------------------

    def loss(self, found: Tensor, gold: Sequence[Gold], read: Read) -> Tensor:
        """Nats a text, a word or an answer; of scores the squared distance, in standard units.

        Nothing is learnt from words that the model cannot see.
        """
        if self.task.kind == "class":
            return functional.cross_entropy(found, _numbers(gold, found.device).long())
        if self.task.kind == "score":
            wanted = (_numbers(gold, found.device) - self.scale.mean) / self.scale.spread
            return functional.mse_loss(found[:, 0], wanted)
        if self.task.kind == "answers":
            seen = (read.there & read.second if self.task.pairs else read.there).tolist()
            ends = [_first(spans, row) for spans, row in zip(gold, seen, strict=True)]
            wanted = torch.tensor(ends, device=found.device)  # [batch, 2]
            return functional.cross_entropy(found.flatten(0, 1), wanted.flatten())
        wanted = torch.full(found.shape[:2], -100, dtype=torch.long)  # [batch, words]
        for row, tags in enumerate(gold):
            assert isinstance(tags, list), "words have tags"
            wanted[row, : len(tags)] = torch.tensor([t if t >= 0 else -100 for t in tags])  # type: ignore[operator]
        wanted = sent(wanted, found.device).masked_fill(~read.there, -100)
        losses = functional.cross_entropy(
            found.flatten(0, 1), wanted.flatten(), reduction="sum", ignore_index=-100
        )
        return losses / (wanted >= 0).sum().clamp(min=1)

    def targets(self, gold: Sequence[Gold], read: Read) -> int:
        """How many things `loss` is the mean of: texts, or words with a tag."""
        if self.task.kind not in ("tags", "entities"):
            return len(gold)
        seen = read.there.tolist()
        return sum(
            tag >= 0 and seen[row][word]
            for row, tags in enumerate(gold)
            if isinstance(tags, list)
            for word, tag in enumerate(tags)
            if isinstance(tag, int)
        )

    def guesses(self, found: Tensor, read: Read, lengths: Sequence[int]) -> list[Any]:
        """What is thought of each text, in the form of the gold."""
        if self.task.kind == "class":
            classes: list[Any] = found.argmax(-1).tolist()
            return classes
        if self.task.kind == "score":
            return (found[:, 0] * self.scale.spread + self.scale.mean).tolist()
        if self.task.kind == "answers":
            return [_best(row) for row in found.float().cpu()]
        tags = torch.where(read.there, found.argmax(-1), -1 if self.task.kind == "tags" else 0)
        rows = tags.tolist()
        missing = -1 if self.task.kind == "tags" else 0
        return [
            (row + [missing] * length)[:length] for row, length in zip(rows, lengths, strict=True)
        ]


class BothWays(nn.Module):
    """An LSTM that reads texts from their start, and one that reads from their end.

    Each gets a padded batch: torch's own bidirectional LSTM needs texts packed, and then its
    backward pass takes three times as long on a CPU.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.forth = nn.LSTM(width, hidden // 2, batch_first=True)
        self.back = nn.LSTM(width, hidden // 2, batch_first=True)

    def forward(self, words: Tensor, there: Tensor) -> Tensor:
        """[batch, words, width], [batch, words] -> [batch, words, hidden]; nought where none is."""
        place = torch.arange(there.shape[1], device=there.device)
        sizes = (there * (place + 1)).amax(1, keepdim=True)  # [batch, 1], the last word's place + 1
        turned = torch.where(place < sizes, sizes - 1 - place, place)[
            ..., None
        ]  # [batch, words, 1]
        back = self.back(_turned(words, turned))[0]
        found = torch.cat([self.forth(words)[0], _turned(back, turned)], -1)
        return found * there[..., None]


@dataclass(frozen=True)
class Scale:
    """How scores lie: what a head predicts has a mean of nought and a spread of one."""

    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, gold: Sequence[Gold], task: Task) -> "Scale":
        if task.kind != "score":
            return cls()
        values = torch.tensor(list(gold), dtype=torch.float64)
        return cls(float(values.mean()), max(float(values.std(correction=0)), 1e-9))


def side_by_side(hidden: Sequence[Tensor]) -> Tensor:
    """All layers in one vector, in place of a mix.  # [..., width] each -> [..., layers * width]"""
    return torch.cat([layer.float() for layer in hidden], -1)


def _moments(parts: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and spread of each feature over the rows of all parts; empty where there are none."""
    rows, first = 0, torch.zeros(0)
    total, squares = first, first
    for part in (part.double() for part in parts if len(part)):
        if not rows:
            first = part[0]  # counted from a row, so that an offset costs no digits
            total, squares = torch.zeros_like(first), torch.zeros_like(first)
        rows += len(part)
        total = total + (part - first).sum(0)
        squares = squares + (part - first).square().sum(0)
    mean = total / max(rows, 1)
    spread = (squares / max(rows, 1) - mean.square()).clamp(min=0).sqrt()
    return (first + mean).float(), spread.float()


def _floored(spread: Tensor) -> Tensor:
    """1 for a feature that is constant.  # [..., features]"""
    return torch.where(spread > LEAST * spread.amax(-1, keepdim=True), spread, 1.0)


def pooled(words: Tensor, chosen: Tensor) -> Tensor:
    """The mean and the largest of some words; of none, noughts.  # -> [batch, 2 * width]"""
    number = chosen.sum(1, keepdim=True)
    mean = (words * chosen[..., None]).sum(1) / number.clamp(min=1)
    most = words.masked_fill(~chosen[..., None], NOWHERE).amax(1)
    return torch.cat([mean, most.masked_fill(number == 0, 0.0)], -1)


def _turned(words: Tensor, places: Tensor) -> Tensor:
    """Words in another order, each text's own.  # [batch, words, width], [batch, words, 1]"""
    return words.gather(1, places.expand_as(words))


def _numbers(gold: Sequence[Gold], device: torch.device) -> Tensor:
    return torch.tensor(list(gold), dtype=torch.float32, device=device)


def _first(spans: Gold, seen: Sequence[bool]) -> tuple[int, int]:
    """The ends of the first answer that can be seen, or the place of no answer."""
    assert isinstance(spans, list), "answers are spans"
    for span in spans:
        assert isinstance(span, tuple), "answers are spans"
        if all(seen[span[0] : span[1]]):
            return span[0], span[1] - 1
    return len(seen), len(seen)


def _best(found: Tensor) -> list[tuple[int, int]]:
    """The likeliest span of at most so many words, or none.  # [2, words + 1]"""
    starts, ends = found[0, :-1], found[1, :-1]
    sums = starts[:, None] + ends[None]
    place = torch.arange(len(starts))
    apart = place[None] - place[:, None]
    sums = sums.masked_fill((apart < 0) | (apart >= LONGEST), 2 * NOWHERE)
    best = int(sums.argmax())
    if float(sums.flatten()[best]) < float(found[0, -1] + found[1, -1]):
        return []
    return [(best // len(starts), best % len(starts) + 1)]
