"""The affine maps of a tuned lens: their form, their training, and the states that they learn from.

A map changes a state h of one layer to h + A h + b, so that the model's own head predicts from it
what it predicts from the last layer's state (Belrose et al. 2023). Maps start at zero, which is the
logit lens. All layers learn at the same time from the same batches: states are computed once
without gradients, and the loss is the Kullback-Leibler divergence of the lens's distribution from
the final one. Each map is kept as it was at its best dev loss. Costs: per step a pass of the model
over a batch, and for each layer the forward and backward pass of the head on the predicted pieces;
for layers of an encoder below a decoder, of the decoder.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import CHUNK, PIECES, by_length, chunks
from workbench.engine.halving import Limit, Part
from workbench.engine.model import Direction, Model
from workbench.engine.taps import StackName
from workbench.models.bilm import BEGIN, END
from workbench.models.fine_tuning import EarlyStopping, Learner, fine_tune
from workbench.models.interventions.head_replay import (
    Change,
    Recorded,
    ReplayHead,
    layer_logits,
    recorded_states,
    replay_head,
)
from workbench.models.output_heads.lm_losses import chosen, denoising, masked, with_context

if TYPE_CHECKING:
    import pandas as pd

CHECK = 25  # steps between two dev losses
PATIENCE = 3  # dev losses without gain before early stopping
GAIN = 1e-3  # minimum gain of a dev loss, as a share of its first value
TINY = 1e-5  # nats; a smaller gain is none
WARM_UP = 10  # steps
BIAS_RATE = 10  # learning rate of the biases over that of the weights: they have further to go
TRAINED, HELD_OUT = 256, 1024  # maximum number of predictions in a step, and of all dev texts
TRAINED_LOGITS = 1 << 22  # of a layer in a step, at most: 85 predictions of 49,152 pieces
LOGITS = {"cpu": 2**24, "cuda": 2**28}  # maximum number of logits computed at a time
FLOOR = 1e-2  # smallest deviation of a feature, as a share of the mean deviation of all features

# --- maps -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Maps:
    """The map of each layer of a stack; the last layer has none.

    ELMo has two groups, the halves of its states: each direction has a map of its own, since its
    word is an input of the other one.
    """

    weight: Tensor  # [layers, groups, width, width], A
    bias: Tensor  # [layers, groups, width], b

    @classmethod
    def zero(cls, layers: int, groups: int, width: int, device: torch.device) -> "Maps":
        return cls(
            torch.zeros(layers, groups, width, width, device=device),
            torch.zeros(layers, groups, width, device=device),
        )

    def __call__(self, layer: int, states: Tensor) -> Tensor:
        """The mapped states of a layer.  # [..., groups * width] -> the same shape"""
        if layer == len(self.weight):
            return states
        return _mapped(states, self.weight[layer], self.bias[layer])


def _mapped(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """h + A h + b.  # [..., groups * width], [groups, width, width], [groups, width]"""
    groups, width = bias.shape
    own = states.reshape(-1, groups, width).transpose(0, 1)  # [groups, n, width]
    wide = own.to(weight)
    changed = torch.baddbmm(bias[:, None], wide, weight.mT) + wide
    return changed.transpose(0, 1).reshape(states.shape).to(states.dtype)


class HasMaps(Protocol):
    """A run of `tuned-lens`, or its result."""

    @property
    def arrays(self) -> Mapping[str, NDArray[np.generic]]: ...

    @property
    def tables(self) -> "Mapping[str, pd.DataFrame]": ...


def arrays_of(maps: Mapping[StackName, Maps]) -> dict[str, NDArray[np.generic]]:
    """The maps as arrays of a result."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for stack, own in maps.items():
        arrays[f"{stack}_weight"] = own.weight.detach().cpu().numpy()
        arrays[f"{stack}_bias"] = own.bias.detach().cpu().numpy()
    return arrays


def maps_of(run: HasMaps, model: Model) -> dict[StackName, Maps]:
    """The maps that a run of `tuned-lens` trained; an error if they do not fit the model."""
    facts = run.tables.get("facts")
    trained = {} if facts is None else dict(zip(facts["fact"], facts["value"], strict=True))
    if trained.get("model_hash") not in (None, model.content_hash):
        raise _misfit(model, "they were trained on a model with other weights")
    maps: dict[StackName, Maps] = {}
    for stack in model.stacks:
        names = f"{stack.name}_weight", f"{stack.name}_bias"
        if not set(names) <= set(run.arrays):
            raise _misfit(model, f"it has no maps of the {stack.name}")
        weight, bias = (torch.tensor(run.arrays[name], device=model.device) for name in names)
        if len(weight) != stack.layers or bias[0].numel() != model.width:
            raise _misfit(
                model,
                f"its maps are of {len(weight)} layers of width {bias[0].numel()}; the "
                f"{stack.name} has {stack.layers} of width {model.width}",
            )
        maps[stack.name] = Maps(weight, bias)
    return maps


def _misfit(model: Model, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"this run's maps do not fit {model.name}: {reason}.",
        code="model-mismatch",
        where=model.name,
        remedy="Name a run of tuned-lens on this model.",
    )


# --- what the model predicts, and the states it reads for it --------------------------------------


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions of a batch of texts, and the states of every layer.

    Rows are the predicted pieces (or words); of ELMo all next words, then all previous words.
    """

    recorded: Recorded
    mask: Tensor  # [batch, pieces] of the last stack: the pieces that predict
    states: Tensor  # [layers + 1, n, width], of the last stack at these pieces
    gold: Tensor  # [n]
    document: NDArray[np.int64]  # [n], index in the batch of the corpus
    n_next: int | None = None  # of ELMo: the number of predicted next words

    def __len__(self) -> int:
        return len(self.gold)

    def sampled(self, count: int, random: np.random.Generator) -> "Predicted":
        """At most so many of the predictions, at random, in their order."""
        if len(self) <= count:
            return self
        kept = np.sort(random.permutation(len(self))[:count])
        rows = torch.from_numpy(kept).to(self.gold.device)
        mask = self.mask
        if self.n_next is None:
            mask = torch.zeros_like(mask)
            mask[tuple(self.mask.nonzero()[rows].T)] = True
        return Predicted(
            self.recorded,
            mask,
            self.states[:, rows],
            self.gold[rows],
            self.document[kept],
            None if self.n_next is None else int((kept < self.n_next).sum()),
        )


@dataclass(frozen=True, eq=False)
class Reader:
    """A model's predictions on texts, and the logits of any layer."""

    model: Model
    head: ReplayHead
    choices: int  # size of the vocabulary of the head

    @classmethod
    def of(cls, model: Model) -> "Reader":
        head = replay_head(model)
        with torch.no_grad():
            logits = head(torch.zeros(1, model.width, device=model.device))
        return cls(model, head, logits.shape[-1])

    @property
    def groups(self) -> int:
        """The number of maps of a layer."""
        return 2 if self.model.objective == "bidirectional" else 1

    @property
    def n_logits(self) -> int:
        """The maximum number of logits computed at a time."""
        return LOGITS.get(self.model.device.type, LOGITS["cpu"])

    def predictions(self, batch: Batch, documents: Sequence[int], seed: int) -> Iterator[Predicted]:
        """What the model predicts in these documents; `seed` chooses hidden pieces."""
        kind = self.model.device.type
        most = min(PIECES.get(kind, PIECES["cpu"]), self.n_logits // self.choices)
        for part in chunks(documents, CHUNK):
            text = self.model.encode(batch, part)
            for rows in by_length(text, Limit(max(1, most))):
                found = self._predicted(rows, seed)
                if len(found):
                    yield found

    @torch.no_grad()
    def _predicted(self, text: Pieces, seed: int) -> Predicted:
        model, device = self.model, self.model.device
        if model.objective == "bidirectional":
            return self._of_words(text)
        target = None
        if model.objective == "causal":
            golds = with_context(text)
            mask = functional.pad(golds[:, 1:], (0, 1))  # the piece before
            gold = text.ids[golds]
        elif model.objective == "masked":
            mask = chosen(text, seed)
            gold = text.ids[mask]
            text = masked(text, mask, model.symbols.mask)
        else:
            text, target = denoising(text, model.symbols, seed)
            mask, gold = target.mask, target.ids[target.mask]
            target = target.to(device)
        document = text.order[mask.nonzero()[:, 0]].numpy()
        mask = mask.to(device)
        recorded = recorded_states(model, text.to(device), target)
        states = torch.stack([layer[mask] for layer in recorded.states[recorded.last]])
        return Predicted(recorded, mask, states, gold.to(device), document)

    def _of_words(self, text: Pieces) -> Predicted:
        """ELMo's next words and previous words, with the boundaries of the text."""
        model = self.model
        ids, unknown = model.vocabulary, model.symbols.unknown
        recorded = recorded_states(model, text)
        layers = recorded.states["encoder"]  # [batch, words + 2, width] each
        gold = torch.full(layers[0].shape[:2], ids[END])
        gold[:, 0] = ids[BEGIN]
        is_word = torch.zeros_like(gold, dtype=torch.bool)
        for row, id_ in enumerate(text.ids):
            words = model.piece_texts(id_[text.mask[row]].tolist())
            gold[row, 1 : len(words) + 1] = torch.tensor([ids.get(word, unknown) for word in words])
            is_word[row, 1 : len(words) + 1] = True
        has_word = is_word.any(1, keepdim=True)
        # a word, or the boundary beside one
        first = functional.pad(is_word[:, 1:], (0, 1)) | is_word
        last = functional.pad(is_word[:, :-1], (1, 0)) | is_word
        ahead, behind = first & has_word, last & has_word
        states = torch.stack([torch.cat([layer[ahead], layer[behind]]) for layer in layers])
        golds = torch.cat([gold.roll(-1, 1)[ahead], gold.roll(1, 1)[behind]])
        rows = torch.cat([ahead.nonzero()[:, 0], behind.nonzero()[:, 0]])
        return Predicted(
            recorded, ahead, states, golds.to(model.device), text.order[rows].numpy(),
            int(ahead.sum()),
        )  # fmt: skip

    def final(self, predicted: Predicted) -> Tensor:
        """The log-probabilities of the final predictions.  # [n, choices]"""
        return self._read(predicted.states[-1:], predicted)[0].log_softmax(-1)

    def logits(
        self, predicted: Predicted, stack: StackName, layers: Sequence[int], change: Change | None
    ) -> Tensor:
        """The logits of some layers of a stack.  # [layers, n, choices]"""
        recorded = predicted.recorded
        if stack != recorded.last:
            return layer_logits(self.model, recorded, predicted.mask, stack, layers, change)
        states = [predicted.states[layer] for layer in layers]
        if change is not None:
            states = [change(layer, own) for layer, own in zip(layers, states, strict=True)]
        return self._read(torch.stack(states), predicted)

    def _read(self, states: Tensor, predicted: Predicted) -> Tensor:
        """# [layers, n, width] -> [layers, n, choices]"""
        layers, n, _ = states.shape
        if predicted.n_next is None:
            return self.head(states.flatten(0, 1)).view(layers, n, -1)
        parts = states[:, : predicted.n_next], states[:, predicted.n_next :]
        directions: tuple[Direction, ...] = ("next", "previous")
        return torch.cat(
            [
                self.head(part.flatten(0, 1), direction).view(layers, part.shape[1], -1)
                for part, direction in zip(parts, directions, strict=True)
            ],
            1,
        )


def divergence(final: Tensor, lens: Tensor) -> Tensor:
    """KL(final || lens) in nats, from log-probabilities.  # [..., choices], both -> [...]"""
    return (final.exp() * (final - lens)).sum(-1)


# --- statistics of the train split ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scale:
    """Mean and standard deviation of each feature of a stack's states, by layer."""

    mean: Tensor  # [layers + 1, width]
    deviation: Tensor  # [layers + 1, width]


@dataclass(frozen=True, eq=False)
class TrainFacts:
    """What is known of the train split before training."""

    scales: Mapping[StackName, Scale]
    constant: Tensor  # [choices], the model's mean distribution
    frequencies: Tensor  # [choices], of the pieces to predict
    predictions: int


def train_facts(
    reader: Reader, batch: Batch, documents: Sequence[int], seed: int, on: Callable[[int], object]
) -> TrainFacts:
    """Scales of the states, and the two baselines that read no layer, in one pass."""
    sums: dict[StackName, Tensor] = {}
    total = torch.zeros(reader.choices, dtype=torch.float64)
    counts = torch.ones(reader.choices, dtype=torch.float64)  # no piece is impossible
    n_predictions, done = 0, 0
    for predicted in reader.predictions(batch, documents, seed):
        recorded = predicted.recorded
        for stack, layers in recorded.states.items():
            if stack == recorded.last:
                states = predicted.states
            else:
                states = torch.stack([layer[recorded.text.mask] for layer in layers])
            wide = states.double().cpu()  # [layers + 1, n, width]
            n = torch.full(wide.shape[::2], float(wide.shape[1]), dtype=torch.float64)
            own = torch.stack([wide.sum(1), wide.square().sum(1), n])  # [3, layers + 1, width]
            sums[stack] = sums.get(stack, torch.zeros_like(own)) + own
        with torch.no_grad():
            total += reader.final(predicted).exp().sum(0).double().cpu()
        counts += torch.bincount(predicted.gold.cpu(), minlength=reader.choices)
        n_predictions += len(predicted)
        done += len(set(predicted.document.tolist()))
        on(done)
    if not n_predictions:
        raise WorkbenchError(
            "the texts to train on have no piece to predict.",
            code="too-few-sentences",
            remedy="Choose a corpus that has words.",
        )
    device = reader.model.device
    return TrainFacts(
        {stack: _scale(each, device) for stack, each in sums.items()},
        (total / total.sum()).float().to(device),
        (counts / counts.sum()).float().to(device),
        n_predictions,
    )


def _scale(sums: Tensor, device: torch.device) -> Scale:
    """# [3, layers + 1, width]: sum, sum of squares, number"""
    mean = sums[0] / sums[2]
    deviation = (sums[1] / sums[2] - mean.square()).clamp(min=0).sqrt()
    floor = FLOOR * deviation.mean(-1, keepdim=True)
    # an encoder's first layer at one repeated piece does not vary at all
    deviation = torch.maximum(deviation, floor).clamp(min=1e-6)
    return Scale(mean.float().to(device), deviation.float().to(device))


# --- training -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """Trained maps, and how they were trained."""

    maps: Mapping[StackName, Maps]
    train: Mapping[int, Mapping[StackName, Sequence[float]]]  # mean loss by layer, by step
    dev: Mapping[int, Mapping[StackName, Sequence[float]]]
    best: Mapping[StackName, Sequence[int]]  # the step of each kept map
    converged: Mapping[StackName, Sequence[bool]]
    steps: int
    stopped: bool  # by early stopping
    diverged: bool


def _flat(layers: Mapping[StackName, Sequence[Tensor]]) -> list[Tensor]:
    return [each for of_stack in layers.values() for each in of_stack]


@dataclass(eq=False)
class _Learning:
    """The weights of all maps in training.

    A map learns on standardised states, and its output is scaled as the last layer's states:
    h + s B (h - m) / d + o c, where o is s plus the distance of the means of both layers. So one
    learning rate fits all features and layers.
    """

    scales: Mapping[StackName, Scale]
    groups: int
    weights: dict[StackName, list[Tensor]] = field(default_factory=dict)  # B by layer
    biases: dict[StackName, list[Tensor]] = field(default_factory=dict)  # c by layer

    def __post_init__(self) -> None:
        for stack, scale in self.scales.items():
            layers, width = len(scale.mean) - 1, scale.mean.shape[1] // self.groups
            zeros = partial(torch.zeros, device=scale.mean.device)
            self.weights[stack] = [zeros(self.groups, width, width) for _ in range(layers)]
            self.biases[stack] = [zeros(self.groups, width) for _ in range(layers)]
        for weight in self.all:
            weight.requires_grad_(True)

    @property
    def all(self) -> list[Tensor]:
        """Every weight and bias."""
        return [*_flat(self.weights), *_flat(self.biases)]

    def plain(self, stack: StackName, layer: int) -> tuple[Tensor, Tensor]:
        """A and b of a layer."""
        scale = self.scales[stack]
        shape = self.groups, -1
        mean, deviation = scale.mean[layer].view(shape), scale.deviation[layer].view(shape)
        size = scale.deviation[-1].view(shape)
        weight = size[:, :, None] * self.weights[stack][layer] / deviation[:, None, :]
        offset = size + (scale.mean[-1].view(shape) - mean).abs()
        bias = offset * self.biases[stack][layer] - (weight @ mean[:, :, None])[:, :, 0]
        return weight, bias

    def change(self, stack: StackName) -> Change:
        return lambda layer, states: _mapped(states, *self.plain(stack, layer))

    def maps(self) -> dict[StackName, Maps]:
        found = {}
        for stack, layers in self.weights.items():
            both = [self.plain(stack, layer) for layer in range(len(layers))]
            weight, bias = (torch.stack([each[n].detach() for each in both]) for n in (0, 1))
            found[stack] = Maps(weight, bias)
        return found


@dataclass(eq=False)
class _Kept:
    """The best map of each layer, by its dev loss."""

    maps: dict[StackName, Maps]
    loss: dict[StackName, Tensor]  # [layers]
    step: dict[StackName, Tensor]  # [layers]

    def update(
        self, losses: Mapping[StackName, Tensor], maps: Mapping[StackName, Maps], step: int
    ) -> None:
        for stack, loss in losses.items():
            better = loss < self.loss[stack]
            kept, now = self.maps[stack], maps[stack]
            kept.weight[better], kept.bias[better] = now.weight[better], now.bias[better]
            self.loss[stack] = torch.where(better, loss, self.loss[stack])
            self.step[stack] = torch.where(better, step, self.step[stack])


def trained_maps(
    reader: Reader,
    scales: Mapping[StackName, Scale],
    batch: Batch,
    train: Sequence[int],
    dev: Sequence[int],
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    on_step: Callable[[int, float], object],
) -> Trained:
    """Train the maps of all layers of all stacks; see the module."""
    random = np.random.default_rng([seed, 5])
    held_out = list(reader.predictions(batch, dev, seed))
    share = HELD_OUT / max(HELD_OUT, sum(map(len, held_out)))
    held_out = [each.sampled(max(1, round(share * len(each))), random) for each in held_out]
    if not held_out:
        raise WorkbenchError(
            "the dev texts have no piece to predict.",
            code="too-few-sentences",
            remedy="Give more dev texts, with --set max_dev=….",
        )
    learning = _Learning(scales, reader.groups)
    weights = learning.all
    learner = Learner(
        [
            {"params": _flat(learning.weights), "lr": learning_rate},
            {"params": _flat(learning.biases), "lr": BIAS_RATE * learning_rate},
        ],
        lambda step: min(1.0, (step + 1) / WARM_UP),
    )
    zero = {
        stack: Maps(*(torch.zeros_like(each) for each in (own.weight, own.bias)))
        for stack, own in learning.maps().items()
    }
    first = dev_losses(reader, held_out, None)
    kept = _Kept(
        zero, dict(first), {stack: torch.zeros_like(each) for stack, each in first.items()}
    )
    most = min(TRAINED, max(1, TRAINED_LOGITS // reader.choices))
    curves: dict[int, dict[StackName, Sequence[float]]] = {}
    dev_curve: dict[int, Mapping[StackName, Tensor]] = {0: first}
    since: list[tuple[StackName, Sequence[int], Tensor, int]] = []
    n_steps = 0

    def parts(documents: Sequence[int]) -> Iterator[Part]:
        nonlocal n_steps
        epoch = n_steps * batch_size // max(1, len(train))
        n_steps += 1
        read = list(reader.predictions(batch, documents, seed + epoch))
        share = most / max(most, sum(map(len, read)))
        for whole in read:
            predicted = whole.sampled(max(1, round(share * len(whole))), random)
            with torch.no_grad():
                final = reader.final(predicted)
            for stack, layers in _layer_chunks(reader, learning.weights, len(predicted)):
                with torch.enable_grad():
                    logits = reader.logits(predicted, stack, layers, learning.change(stack))
                    by_layer = divergence(final, logits.log_softmax(-1)).mean(1)  # [layers]
                    gradients = torch.autograd.grad(by_layer.mean(), weights, allow_unused=True)
                since.append((stack, layers, by_layer.detach(), len(predicted)))
                yield by_layer.mean().detach(), len(layers) * len(predicted), gradients

    def dev_score() -> float:
        losses = dev_losses(reader, held_out, learning.change)
        dev_curve[n_steps] = losses
        curves[n_steps] = _means(since, first)
        since.clear()
        kept.update(losses, learning.maps(), n_steps)
        return -float(torch.cat(list(losses.values())).mean())

    mean_first = float(torch.cat(list(first.values())).mean())
    stopping = EarlyStopping(PATIENCE, gain=max(TINY, GAIN * mean_first), highest=0.0)
    stopping.is_best(-mean_first)
    intervals = _intervals(train, steps, batch_size, seed)
    found = fine_tune(learner, intervals, parts, dev_score, stopping, on_step)
    return Trained(
        kept.maps,
        curves,
        {step: {s: each.tolist() for s, each in own.items()} for step, own in dev_curve.items()},
        {stack: each.long().tolist() for stack, each in kept.step.items()},
        {stack: _converged([own[stack] for own in dev_curve.values()]) for stack in first},
        n_steps,
        stopping.is_over,
        found.diverged,
    )


def _intervals(
    documents: Sequence[int], steps: int, size: int, seed: int
) -> Iterator[list[list[int]]]:
    """Batches of documents, shuffled each epoch, in intervals between two dev losses."""
    random = np.random.default_rng([seed, 4])
    waiting: list[int] = []
    for start in range(0, steps, CHECK):
        interval = []
        for _ in range(min(CHECK, steps - start)):
            while len(waiting) < min(size, len(documents)):
                waiting += [documents[n] for n in random.permutation(len(documents))]
            interval.append(waiting[:size])
            del waiting[:size]
        yield interval


def _layer_chunks(
    reader: Reader, weights: Mapping[StackName, Sequence[Any]], n: int
) -> Iterator[tuple[StackName, list[int]]]:
    """Layers whose logits of n predictions are computed at a time."""
    at_once = max(1, reader.n_logits // max(1, n * reader.choices))
    for stack, layers in weights.items():
        for part in chunks(range(len(layers)), at_once):
            yield stack, list(part)


@torch.no_grad()
def dev_losses(
    reader: Reader,
    predictions: Sequence[Predicted],
    change_of: Callable[[StackName], Change] | None,
) -> dict[StackName, Tensor]:
    """The mean loss of each layer of each stack.  # [layers] per stack"""
    stacks = {stack.name: [None] * stack.layers for stack in reader.model.stacks}
    sums = {
        stack: torch.zeros(len(layers), dtype=torch.float64) for stack, layers in stacks.items()
    }
    total = 0
    for predicted in predictions:
        final = reader.final(predicted)
        total += len(predicted)
        for stack, layers in _layer_chunks(reader, stacks, len(predicted)):
            change = None if change_of is None else change_of(stack)
            lens = reader.logits(predicted, stack, layers, change).log_softmax(-1)
            sums[stack][layers] += divergence(final, lens).double().sum(1).cpu()
    return {stack: each / total for stack, each in sums.items()}


def _means(
    parts: Sequence[tuple[StackName, Sequence[int], Tensor, int]],
    like: Mapping[StackName, Tensor],
) -> dict[StackName, Sequence[float]]:
    """The mean training loss of each layer over some steps."""
    sums = {stack: torch.zeros_like(each) for stack, each in like.items()}
    counts = {stack: torch.zeros_like(each) for stack, each in like.items()}
    for stack, layers, losses, n in parts:
        sums[stack][list(layers)] += n * losses.double().cpu()
        counts[stack][list(layers)] += n
    return {stack: (sums[stack] / counts[stack]).tolist() for stack in like}


def _converged(dev: Sequence[Tensor]) -> list[bool]:
    """Whether the last `PATIENCE` dev losses of each layer brought no gain.  # [layers] each"""
    losses = torch.stack(list(dev))  # [checks, layers]
    if len(losses) <= PATIENCE:
        return [False] * losses.shape[1]
    earlier = losses[:-PATIENCE].min(0).values
    gain = earlier - losses.min(0).values
    return (gain <= torch.clamp(GAIN * losses[0], min=TINY)).tolist()
