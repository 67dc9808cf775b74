"""Task heads: what labels texts or words from a model's states.

A `StandardHead` is the one that transformers has for the architecture
(`...ForSequenceClassification` and others): its weights are the net's own, and its labels of words
are read at their first pieces. A `MixHead` is the same for frozen and for fine-tuned models of any
architecture: a learnt mix of all layers, pooled over the words of a text (mean and maximum; for a
pair also the difference and product of its two texts), then a linear layer; with an LSTM, a
bidirectional LSTM after the mix and a hidden layer, which can recover word order that a frozen
model does not encode. Each feature of each layer is standardised over the words of train as the
untrained model sees them, and so are the pooled features. Then a feature 100 times the others, or
an offset of 50 times its standard deviation, neither hides a layer nor slows learning. The loss is
softmax cross-entropy (one label per text or word, the ends of an answer) or the mean squared error
(scores). Costs: some thousand weights; an LSTM a few hundred thousand, and a step per word.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.engine.batch import Batch, Pieces, sent
from workbench.engine.forward_pass import chunks
from workbench.engine.halving import Limit, Places, in_halves
from workbench.engine.model import Model
from workbench.engine.taps import Tap
from workbench.engine.task import Gold, Task
from workbench.engine.words import by_word, owners
from workbench.models.output_heads.lm_heads import autocast
from workbench.models.output_heads.scalar_mix import ScalarMix

HIDDEN = 256  # width of the LSTM, both directions together, and of the layer after it
DROPOUT = 0.1
STANDARD = 1000  # maximum number of texts for the standardisation
CHUNK = 64  # texts read at a time for it
LEAST = 1e-6  # of the largest spread of a layer; features below it count as constant
LONGEST = 20  # maximum number of words of an answer
NOWHERE = -1e9

Mix = Callable[[Sequence[Tensor]], Tensor]


# --- what a head reads ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """What a head reads of some texts: word vectors after a mix of layers, or a net's logits."""

    words: Tensor  # [batch, words, width]; of a `StandardHead`, its outputs
    there: Tensor  # [batch, words], words with at least one piece
    second: Tensor  # [batch, words], words of the second text of a pair


def read_states(
    states: Callable[[Pieces], Sequence[Tensor]],
    mix: Mix,
    text: Pieces,
    segments: Tensor,
    training: bool = False,
) -> Read:
    """Word vectors of texts on the model's device; in training, products may be in bf16.

    # segments: [batch, words], on the host
    """
    device = text.ids.device
    with autocast(device) if training else nullcontext():
        mixed = mix(states(text))  # [batch, pieces, width]
    words, there = by_word(mixed.float(), text)
    return Read(words, there, sent(segments[:, : words.shape[1]], device))


def segments_of(batch: Batch) -> Tensor:
    """Which words belong to the second text of a pair.  # [texts, longest], bool"""
    sizes = np.diff(batch.word_offsets)
    second = torch.zeros(len(batch), max(1, int(sizes.max(initial=0))), dtype=torch.bool)
    real = torch.arange(second.shape[1]) < torch.from_numpy(sizes)[:, None]
    second[real] = torch.from_numpy(batch.segments.astype(bool))
    return second


class Source(Protocol):
    """Where a head gets its inputs."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> Sequence[int]:
        """The number of pieces, or of words, of each text."""
        ...

    def read(self, texts: Sequence[int], mix: Any) -> Any:
        """The head's inputs for some texts."""
        ...


# --- losses and predictions, the same for all heads -----------------------------------------------


@dataclass(frozen=True)
class Scale:
    """Mean and spread of the gold scores; a head predicts scores with mean 0 and spread 1."""

    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, gold: Sequence[Gold], task: Task, centred: bool = True) -> "Scale":
        """The scale of these scores; not `centred`, their root mean square alone."""
        if task.kind != "score":
            return cls()
        values = torch.tensor(list(gold), dtype=torch.float64)
        mean = float(values.mean()) if centred else 0.0
        return cls(mean, max(float((values - mean).square().mean().sqrt()), 1e-9))


@dataclass(frozen=True)
class BatchScores:
    """Loss in nats, right predictions and all predictions of each text; see `TaskHead.scores`.

    The nats of a score are those of a normal distribution with the spread of train, without its
    constant: half the squared error of the standardised value.
    """

    nats: Tensor  # [batch], differentiable
    right: Tensor  # [batch]; of scores 1 - squared error, whose mean is the explained variance
    number: Tensor  # [batch], predictions: texts or words


class TaskHead(nn.Module):
    """A task head: `head(head.read(model, text, segments))` are its outputs for texts in pieces."""

    task: Task
    scale: Scale
    mix: Any  # of the layers; None if it mixes none
    method: str = ""  # that its model was adapted with

    def read(self, model: Model, text: Pieces, segments: Tensor, taps: Iterable[Tap] = ()) -> Read:
        """What the head reads of texts on the model's device.  # segments: [batch, words], host"""
        raise NotImplementedError

    def loss(self, outputs: Tensor, gold: Sequence[Gold], read: Read) -> Tensor:
        """Mean nats per text, word or answer; for scores, squared errors of standardised values.

        Words without a piece do not count.
        """
        scores = self.scores(outputs, gold, read)
        mean = scores.nats.sum() / scores.number.sum().clamp(min=1)
        return 2 * mean if self.task.kind == "score" else mean

    def targets(self, gold: Sequence[Gold], read: Read) -> int:
        """The number of targets that `loss` is the mean of: texts, or words with a tag."""
        if self.task.per_text:
            return len(gold)
        return int((self._tags(gold, read) >= 0).sum())

    def scores(self, outputs: Tensor, gold: Sequence[Gold], read: Read) -> BatchScores:
        """Loss, right predictions and predictions of each text; `loss` is a sum over a sum."""
        ones = torch.ones(len(gold), device=outputs.device)
        if self.task.kind == "class":
            target = _float_targets(gold, outputs.device).long()
            nats = functional.cross_entropy(outputs, target, reduction="none")
            return BatchScores(nats, (outputs.argmax(-1) == target).float(), ones)
        if self.task.kind == "score":
            target = (_float_targets(gold, outputs.device) - self.scale.mean) / self.scale.spread
            error = (outputs[:, 0] - target).square()
            return BatchScores(error / 2, 1 - error.detach(), ones)
        if self.task.kind == "answers":
            searched = self._searched(read).tolist()
            ends = [_first_answer(spans, row) for spans, row in zip(gold, searched, strict=True)]
            target = torch.tensor(ends, device=outputs.device)  # [batch, 2]
            nats = functional.cross_entropy(outputs.transpose(1, 2), target, reduction="none")
            guesses = self.guesses(outputs, read, [])
            right = [_is_right(spans, guess) for spans, guess in zip(gold, guesses, strict=True)]
            return BatchScores(
                nats.mean(1), torch.tensor(right, device=outputs.device).float(), ones
            )
        target = self._tags(gold, read)  # [batch, words]
        nats = functional.cross_entropy(
            outputs.transpose(1, 2), target, reduction="none", ignore_index=-100
        )
        is_right = (outputs.argmax(-1) == target) & (target >= 0)
        return BatchScores(nats.sum(1), is_right.float().sum(1), (target >= 0).float().sum(1))

    def _tags(self, gold: Sequence[Gold], read: Read) -> Tensor:
        """The gold tags; -100 for words without a tag or a piece.  # [batch, words]"""
        target = torch.full(read.there.shape, -100, dtype=torch.long)
        for row, tags in enumerate(gold):
            assert isinstance(tags, list), "words have tags"
            known = [tag if tag >= 0 else -100 for tag in tags[: target.shape[1]]]  # type: ignore[operator]
            target[row, : len(known)] = torch.tensor(known, dtype=torch.long)
        return sent(target, read.there.device).masked_fill(~read.there, -100)

    def _searched(self, read: Read) -> Tensor:
        """The words that an answer may be in: of a pair, those of its second text."""
        return read.there & read.second if self.task.pairs else read.there

    def guesses(self, outputs: Tensor, read: Read, lengths: Sequence[int]) -> list[Any]:
        """The prediction for each text, in the form of the gold labels."""
        if self.task.kind == "class":
            return outputs.argmax(-1).tolist()
        if self.task.kind == "score":
            return (outputs[:, 0] * self.scale.spread + self.scale.mean).tolist()
        if self.task.kind == "answers":
            return [_best_span(row) for row in outputs.detach().float().cpu()]
        missing = -1 if self.task.kind == "tags" else self.task.outside
        rows = torch.where(read.there, outputs.argmax(-1), missing).tolist()
        return [
            (row + [missing] * length)[:length] for row, length in zip(rows, lengths, strict=True)
        ]


class StandardHead(TaskHead):
    """The head of a net of transformers, which computes its logits itself.

    A word has the logits of its first piece; an answer begins at the first piece of a word and ends
    at the last one, and no answer is at the first piece of the text.
    """

    def __init__(self, task: Task, scale: Scale | None = None) -> None:
        super().__init__()
        self.task, self.scale, self.mix = task, scale or Scale(), None
        self.own_weights: Sequence[Tensor] = ()  # those of the net that are not its body's

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """The weights of the net that learn with the head, while it is trained."""
        return iter(self.own_weights)

    def read(self, model: Model, text: Pieces, segments: Tensor, taps: Iterable[Tap] = ()) -> Read:
        with autocast(text.ids.device) if self.training else nullcontext():
            logits = model.forward(text, taps=taps, hidden=False, logits=True).logits
        assert logits is not None, "the net has a head"
        return self.read_logits(logits.float(), text, segments)

    def read_logits(self, logits: Tensor, text: Pieces, segments: Tensor) -> Read:
        """What the head reads of the net's logits.

        # [batch, outputs] of texts, or [batch, pieces, outputs]
        """
        mask = owners(text)  # [batch, words, pieces]
        there = mask.any(-1)
        second = sent(segments[:, : there.shape[1]], there.device)
        second = functional.pad(second, (0, there.shape[1] - second.shape[1]))
        if self.task.kind in ("class", "score"):
            return Read(logits, there, second)
        first = mask.int().argmax(-1)  # [batch, words]
        if self.task.kind != "answers":
            return Read(_at(logits, first), there, second)
        last = mask.shape[-1] - 1 - mask.flip(-1).int().argmax(-1)
        none = torch.zeros_like(first[:, :1])
        starts = _at(logits[..., :1], torch.cat([first, none], 1))
        ends = _at(logits[..., 1:], torch.cat([last, none], 1))
        return Read(torch.cat([starts, ends], -1), there, second)  # [batch, words + 1, 2]

    def forward(self, read: Read) -> Tensor:
        """[batch, outputs] of texts, [batch, words, tags] of words; answers [batch, 2, words + 1].

        The last position of an answer's starts and ends means no answer.
        """
        if self.task.kind != "answers":
            return read.words
        searched = functional.pad(self._searched(read), (0, 1), value=True)
        return read.words.masked_fill(~searched[..., None], NOWHERE).transpose(1, 2)


def _at(logits: Tensor, pieces: Tensor) -> Tensor:
    """[batch, pieces, outputs], [batch, n] -> [batch, n, outputs]"""
    return logits.gather(1, pieces[..., None].expand(-1, -1, logits.shape[-1]))


# --- a mix of all layers --------------------------------------------------------------------------


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


class MixHead(TaskHead):
    """A linear head, or an LSTM, on a learnt mix of the layers of the stack that reads the text."""

    seen_mean: Tensor  # [inputs]
    seen_spread: Tensor  # [inputs]

    def __init__(self, task: Task, layers: int, width: int, lstm: bool, scale: Scale) -> None:
        super().__init__()
        self.task, self.scale = task, scale
        self.mix = StandardMix(layers + 1, width)
        self.reader = BidirectionalLSTM(width, HIDDEN) if lstm else None
        self.dropout = nn.Dropout(DROPOUT)
        width_in = HIDDEN if lstm else width
        pooled = task.kind in ("class", "score")
        inputs = width_in * (1 if not pooled else 8 if task.pairs else 2)
        self.register_buffer("seen_mean", torch.zeros(inputs))
        self.register_buffer("seen_spread", torch.ones(inputs))
        self.inner = nn.Linear(inputs, HIDDEN) if lstm else None
        self.outer = nn.Linear(HIDDEN if lstm else inputs, task.outputs)
        self.none = nn.Linear(2 * width_in, 1) if task.kind == "answers" else None
        if not lstm:  # a random linear head would first teach its noise to the body
            for layer in self.linear:
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)

    def read(self, model: Model, text: Pieces, segments: Tensor, taps: Iterable[Tap] = ()) -> Read:
        tapped, net = list(taps), cast(Any, model)

        def states(some: Pieces) -> Sequence[Tensor]:
            if not tapped:
                return model.states(some)
            hidden: Sequence[Tensor] = net.forward(some, taps=tapped, alone=True).hidden[
                model.stacks[0].name
            ]
            return hidden

        return read_states(states, self.mix, text, segments)

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
        searched = self._searched(read)[..., None]
        outputs = outputs.masked_fill(~searched, NOWHERE).transpose(1, 2)
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


def _is_right(spans: Gold, guess: list[tuple[int, int]]) -> bool:
    """Whether a guess is one of the answers, or there is none and it says so."""
    assert isinstance(spans, list), "answers are spans"
    return guess[0] in spans if guess else not spans


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
