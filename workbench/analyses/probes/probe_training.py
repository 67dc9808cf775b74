"""Train many probes at once, with the same result as training each alone.

The probes of one task and kind are stacked in tensors, so a step is a few batched matrix products
for all of them. Probes of one seed see the same batches; each seed has its own. Each probe has its
own learning rate and its own early stopping on dev, and returns a copy of its best epoch. A stopped
probe leaves the stack and costs nothing more. Costs: per step, what the probe model costs for each
probe that still trains; in memory, four numbers per parameter.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from threading import Event, Lock
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional

from workbench.analyses.probes.batched_adam import OnProgress, Parameters, TrainingState
from workbench.analyses.probes.experiments import KindName
from workbench.analyses.probes.representations import Bank, words_in
from workbench.analyses.probes.targets import Examples
from workbench.core.errors import WorkbenchError
from workbench.engine.batch import sent
from workbench.engine.forward_pass import chunks

# --- probe models ---------------------------------------------------------------------------------
#
# Three kinds of probe, many of each stacked: the first dimension of every tensor is the probe.
#
# - `edge`: Tenney et al. 2019. Each span's words are projected and attention-pooled; the spans are
#   concatenated; then linear, tanh, layer norm, dropout, linear. The projection has the paper's
#   width of 256, or half the width of the states if that is smaller.
# - `linear`: each span's words are mean-pooled, then linear.
# - `mlp`: mean-pooled, then linear, ReLU, linear.
#
# All end in one logit per label. A probe reads one source or a learned mix of several, γ Σ
# softmax(s) h.
#
# The edge probe pools first and projects afterwards. This is exact, since its attention has one
# head: Σ aᵢ (W hᵢ + b) = W (Σ aᵢ hᵢ) + b, with a = softmax of (W v)·hᵢ; b is part of the next
# layer's bias. No nonlinearity follows the projection, but it is still not merged into the next
# layer: a probe that learns the product as one matrix is worse on few targets (relations of
# mini:bert: five points). Costs: for spans of one word, 2 · projection · (width + hidden) per span
# and probe forward, and twice that backward.

COLUMNS = 16  # numbers in a vector register
CHUNK = 1_024  # spans pooled at once
INPUT_DROPOUT, DROPOUT = 0.2, 0.3  # of the edge probe
PROJECTION = 256  # width of the projection in the paper


@dataclass(frozen=True)
class Shape:
    """Kind and sizes, the same for all probes of a stack."""

    kind: KindName
    width: int
    sides: int  # spans per target
    labels: int
    hidden: int
    sources: int

    @property
    def projection(self) -> int:
        """Width of a projected span in the edge probe."""
        return min(PROJECTION, max(1, self.width // 2))


@dataclass(frozen=True)
class Reads:
    """Sources of each probe: one source for the first probes, a mix for the following ones.

    With several batches of targets, `per_batch` is the number of probes that read each batch.
    Probes are in the order of their batches, and either none of them mixes or all do.
    """

    fixed: Tensor  # [fixed], index of the source
    mixed: Tensor  # [mixed, sources], bool: which sources may be mixed
    per_batch: tuple[int, ...] = ()

    @property
    def n_probes(self) -> int:
        return len(self.fixed) + len(self.mixed)

    @cached_property
    def batch(self) -> Tensor:
        """Index of the batch that each probe reads.  # [probes]"""
        per_batch = torch.tensor(self.per_batch or (self.n_probes,))
        return sent(torch.repeat_interleave(per_batch), self.fixed.device)

    def each(self) -> "Iterator[tuple[slice, Reads]]":
        """The probes of each batch: their rows and their sources."""
        start = 0
        for n_probes in self.per_batch or (self.n_probes,):
            rows = slice(start, start + n_probes)
            yield rows, Reads(self.fixed[rows], self.mixed[rows]) if self.per_batch else self
            start += n_probes


@dataclass
class SharedDropout:
    """Dropout with one mask for all probes of a batch; each batch has its own generator."""

    generators: Sequence[torch.Generator]
    batch: Tensor  # [probes], index of the batch that each reads

    def __call__(self, values: Tensor, rate: float) -> Tensor:
        """Drop along the last two dimensions.  # [probes, batch, width]"""
        shape, device = values.shape[-2:], values.device
        uniform = [torch.rand(shape, generator=each, device=device) for each in self.generators]
        mask = (torch.stack(uniform) >= rate) / (1 - rate)  # [batches, batch, width]
        return values * mask.index_select(0, self.batch)


def initial(shape: Shape, seed: int) -> Parameters:
    """One probe's initial parameters, which depend only on its seed.  # no probe dimension"""
    random = torch.Generator().manual_seed(seed)

    def linear(inputs: int, *sizes: int) -> Tensor:
        bound = 1 / math.sqrt(inputs)
        return (torch.rand(sizes, generator=random) * 2 - 1) * bound

    width, sides, hidden, labels = shape.width, shape.sides, shape.hidden, shape.labels
    parameters: Parameters = {"mix": torch.zeros(shape.sources), "scale": torch.ones(())}
    if shape.kind == "linear":
        parameters["out"] = wide(linear(sides * width, sides, width, labels))
        parameters["out_bias"] = torch.zeros(labels)
        return parameters
    inputs = width
    if shape.kind == "edge":
        inputs = shape.projection
        parameters["project"] = linear(width, sides, width, inputs)
        parameters["attend"] = linear(inputs, sides, inputs)
        parameters["norm"] = torch.ones(hidden)
        parameters["norm_bias"] = torch.zeros(hidden)
    parameters["first"] = linear(sides * inputs, sides, inputs, hidden)
    parameters["first_bias"] = linear(sides * inputs, hidden)
    parameters["out"] = wide(linear(hidden, hidden, labels))
    parameters["out_bias"] = linear(hidden, labels)
    return parameters


def logits(
    shape: Shape,
    parameters: Mapping[str, Tensor],
    reads: Reads,
    bank: Bank,
    spans: Sequence[Tensor],
) -> Tensor:
    """Logits of each probe; `spans` are [n, 2] per side.  # -> [probes, n, labels]"""
    return head_logits(
        shape, parameters, pooled(shape, parameters, reads, bank, [side[None] for side in spans])
    )


def pooled(
    shape: Shape,
    parameters: Mapping[str, Tensor],
    reads: Reads,
    bank: Bank,
    spans: Sequence[Tensor],
) -> Tensor:
    """Pooled states of each span from each probe's sources, with the sides concatenated.

    [batches, n, 2] per side -> [probes, n, sides * width]
    """
    weights = mix_weights(parameters, reads.mixed)
    words = torch.stack([side[..., 0] for side in spans], dim=-1)  # [batches, n, sides]
    if all(bool((side[..., 1] - side[..., 0] == 1).all()) for side in spans):
        return _select_sources(weights, reads, bank, bank.rows(words).flatten(3))
    if shape.kind != "edge":
        states = mean_pooled_sides(bank, [side.flatten(0, 1) for side in spans])
        states = states.view(len(states), *words.shape[:2], -1)
        return _select_sources(weights, reads, bank, states)
    vectors = torch.einsum("pswi,psi->psw", parameters["project"], parameters["attend"])
    batches = []
    for batch, (probes, part) in enumerate(reads.each()):
        sides = zip(vectors[probes].unbind(1), (side[batch] for side in spans), strict=True)
        parts = [
            _attention_pooled(weights[probes], attend, part, bank, side) for attend, side in sides
        ]
        batches.append(torch.cat(parts, 2))
    return batches[0] if len(batches) == 1 else torch.cat(batches)


def head_logits(
    shape: Shape,
    parameters: Mapping[str, Tensor],
    inputs: Tensor,
    dropout: SharedDropout | None = None,
) -> Tensor:
    """Logits from pooled spans.  # [probes, n, sides * width] -> [probes, n, labels]"""
    if shape.kind == "linear":
        return _output_layer(shape, inputs, parameters)
    if shape.kind == "edge":
        inputs = inputs if dropout is None else dropout(inputs, INPUT_DROPOUT)
        sides = zip(inputs.chunk(shape.sides, 2), parameters["project"].unbind(1), strict=True)
        inputs = torch.cat([side @ project for side, project in sides], 2)
    inner = torch.baddbmm(
        parameters["first_bias"][:, None], inputs, parameters["first"].flatten(1, 2)
    )
    if shape.kind == "mlp":
        return _output_layer(shape, functional.relu(inner), parameters)
    inner = functional.layer_norm(torch.tanh(inner), inner.shape[-1:])
    inner = torch.addcmul(parameters["norm_bias"][:, None], inner, parameters["norm"][:, None])
    return _output_layer(shape, inner if dropout is None else dropout(inner, DROPOUT), parameters)


def _output_layer(shape: Shape, inner: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """The last layer.  # [probes, n, inputs] -> [probes, n, labels]"""
    weights = parameters["out"].reshape(len(inner), inner.shape[2], -1)
    return (inner @ weights)[..., : shape.labels] + parameters["out_bias"][:, None]


def wide(weights: Tensor) -> Tensor:
    """Zero-padded to a multiple of a vector register: narrow products cost twice as much."""
    return functional.pad(weights, (0, -weights.shape[-1] % COLUMNS))


def mix_weights(parameters: Mapping[str, Tensor], mixed: Tensor) -> Tensor:
    """Weight of each source in each mix; 0 for sources that a probe may not read.

    [probes, sources]
    """
    n_mixes = len(mixed)
    if not n_mixes:
        return mixed.float()
    scores = parameters["mix"][-n_mixes:].masked_fill(~mixed, -torch.inf)
    return parameters["scale"][-n_mixes:, None] * scores.softmax(dim=1)


def _attention_pooled(
    weights: Tensor, attend: Tensor, reads: Reads, bank: Bank, spans: Tensor
) -> Tensor:
    """Attention-pooled words of each span, for each probe.  # [n, 2] -> [probes, n, width]"""
    words, of_span = words_in(spans)
    of_span = sent(of_span, bank.device)
    # [probes, words, width]
    states = _select_sources(weights, reads, bank, bank.rows(words)[:, None])
    scores = (states @ attend[:, :, None])[..., 0]  # [probes, words]
    largest = scores.new_full((len(scores), len(spans)), -torch.inf)
    largest.scatter_reduce_(1, of_span.expand_as(scores), scores.detach(), "amax")
    attention = (scores - largest.index_select(1, of_span)).exp()
    totals = torch.zeros_like(largest).index_add(1, of_span, attention)
    sums = states.new_zeros(*totals.shape, bank.width)
    return sums.index_add(1, of_span, attention[:, :, None] * states) / totals[:, :, None]


def _select_sources(weights: Tensor, reads: Reads, bank: Bank, states: Tensor) -> Tensor:
    """The states of each probe's source, or its mix of sources.

    weights [mixed, sources], states [sources, batches, ..., sides * width] -> [probes, ...]
    """
    batches = states.shape[1]
    parts = []
    if len(reads.fixed):
        rows = reads.fixed * batches + reads.batch[: len(reads.fixed)]
        parts.append(states.flatten(0, 1).index_select(0, rows))
    if len(reads.mixed):
        sizes = bank.common.repeat(1, states.shape[-1] // bank.width)  # [sources, sides * width]
        states = states * sizes.view(len(sizes), *[1] * (states.ndim - 2), -1)
        parts += [
            (weights[probes] @ states[:, batch].flatten(1)).view(-1, *states.shape[2:])
            for batch, (probes, _) in enumerate(reads.each())
        ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def mean_pooled(bank: Bank, spans: Tensor) -> Tensor:
    """Mean-pooled words of each span in every source.  # [n, 2] -> [sources, n, width]"""
    means = []
    for some in torch.split(spans, CHUNK):
        words, of_span = words_in(some)
        states = bank.rows(words)  # [sources, words, width]
        if len(words) > len(some):
            lengths = (some[:, 1] - some[:, 0]).to(states)
            sums = states.new_zeros(len(states), len(some), bank.width)
            states = sums.index_add(1, of_span.to(bank.device), states) / lengths[:, None]
        means.append(states)
    return torch.cat(means, dim=1)


def mean_pooled_sides(bank: Bank, spans: Sequence[Tensor]) -> Tensor:
    """Mean-pooled sides, concatenated.  # [n, 2] each -> [sources, n, sides * width]"""
    return torch.cat([mean_pooled(bank, side) for side in spans], dim=2)


# --- jobs on several threads ----------------------------------------------------------------------
#
# On a CPU, jobs run in parallel with one thread each; on other devices, one after another.
#
# Training steps of probes are short: threads that share one step mostly wait for each other. Costs:
# nothing of its own.

T = TypeVar("T")


class JobPool:
    """Collects jobs, and starts all of them when the first result is requested.

    While several jobs run, torch uses one thread for each. If the context ends with an error, no
    further job starts, and `check` stops the running ones.
    """

    def __init__(self, device: torch.device) -> None:
        self._n_threads = torch.get_num_threads()
        self._max_threads = self._n_threads if device.type == "cpu" else 1
        self._jobs: list[Callable[[], Any]] = []
        self._started: list[Future[Any] | None] = []
        self._pool: ThreadPoolExecutor | None = None
        self._failed = Event()

    def __enter__(self) -> Self:
        return self

    def add(self, job: Callable[[], T]) -> Callable[[], T]:
        """Add a job; returns a function that gives the result once, which is not kept here."""
        index = len(self._jobs)
        self._jobs.append(job)
        return lambda: cast(T, self._result(index))

    def check(self) -> None:
        """Raise an error if the context ended with one; jobs call this now and then."""
        if self._failed.is_set():
            raise InterruptedError("the run was stopped")

    def _result(self, index: int) -> Any:
        threads = min(self._max_threads, len(self._jobs))
        if threads < 2:
            return self._jobs[index]()
        if self._pool is None:
            torch.set_num_threads(1)
            self._pool = ThreadPoolExecutor(threads)
        self._started += [self._pool.submit(job) for job in self._jobs[len(self._started) :]]
        future, self._started[index] = self._started[index], None
        assert future is not None, "a result can be requested only once"
        return future.result()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._failed.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=error is not None)
            torch.set_num_threads(self._n_threads)


# --- training -------------------------------------------------------------------------------------

# Factors of the learning rate. With a lower one, mixes stay near the plain mean after few steps.
MIX_RATE = {"mix": 10.0}
# The projection has no bias of its own, so the next bias must learn faster: F1 .63 instead of .57
# on an unusual model.
RATE_FACTORS = {"edge": {**MIX_RATE, "first_bias": 10.0}, "linear": MIX_RATE, "mlp": MIX_RATE}
MIN_BATCH = 16  # targets
# Numbers in the largest tensor, the batch or the parameters: about the size of a CPU's cache.
MAX_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 30}


@dataclass(frozen=True)
class Probe:
    """The sources of one probe, and whether it is trained on the control task."""

    sources: tuple[int, ...]  # indices in the bank; several are mixed
    control: bool = False


def controls_of(probes: Iterable[Probe], device: torch.device | None = None) -> Tensor:
    """The labels of each probe: 0 true labels, 1 labels of the control task.  # [probes]"""
    return torch.tensor([int(probe.control) for probe in probes], device=device)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Settings of the training."""

    learning_rate: float = 3e-3
    batch_size: int = 512  # targets; fewer for small tasks
    epochs: int = 20
    # epochs without gain before early stopping; after half of them, the learning rate is halved
    patience: int = 4
    gain: float = 2e-3  # minimum gain of the score, or relative gain of the loss
    by_loss: bool = False  # compare epochs by the dev loss instead of the dev score
    steps: int = 48  # minimum number per epoch, about, where targets are few


@dataclass(frozen=True)
class Trained:
    """Probes at their best epoch; the first ones read one source, the others mix."""

    shape: Shape
    probes: tuple[Probe, ...]
    reads: Reads
    parameters: Parameters
    epochs: Tensor  # [probes], the best epoch
    updates: int  # training steps of the probe that trained longest
    converged: Tensor  # [probes], bool: early stopping on dev ended its training


def linear_probes(
    bank: Bank,
    probes: Sequence[Probe],
    out: Tensor,
    bias: Tensor,
    converged: Tensor,
    updates: int = 1,
) -> Trained:
    """Linear probes of one source each, from weights that were not computed by `train`.

    out [probes, sides, width, labels (may be zero-padded)], bias [probes, labels]
    """
    n_probes, sides, width = out.shape[:3]
    parameters = {
        "mix": torch.zeros(n_probes, len(bank.sources), device=bank.device),
        "scale": torch.ones(n_probes, device=bank.device),
        "out": out,
        "out_bias": bias,
    }
    shape = Shape("linear", width, sides, bias.shape[1], 0, len(bank.sources))
    reads = reads_of(probes, len(bank.sources), bank.device)
    epochs = torch.zeros(n_probes, dtype=torch.long)
    return Trained(shape, tuple(probes), reads, parameters, epochs, updates, converged)


@dataclass(frozen=True)
class Data:
    """Targets with their true labels and their labels of the control task."""

    spans: tuple[Tensor, ...]  # [n, 2] each
    labels: Tensor  # [2, n, labels], bool: true and control
    unseen: Tensor  # [n], number of gold labels without a column
    scored: Tensor  # [labels], bool
    softmax: bool = False  # softmax cross-entropy (one label each) instead of sigmoids

    def __len__(self) -> int:
        return len(self.spans[0])

    def take(self, indices: Tensor) -> "Data":
        return Data(
            tuple(side[indices] for side in self.spans),
            self.labels[:, indices],
            self.unseen[indices],
            self.scored,
            self.softmax,
        )


def data_of(examples: Examples, control: Tensor, softmax: bool = False) -> Data:
    """The targets of a task with true and control labels."""
    labels = torch.stack([examples.labels, control])
    return Data(examples.spans, labels, examples.unseen, examples.scored, softmax)


def train(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    train_data: Data,
    dev: Data,
    schedule: Schedule,
    seed: int,
    on_progress: OnProgress = lambda done, total: None,
) -> Trained:
    """Train all probes of one seed on `train_data`, each until it gains no more on `dev`."""
    by_seed = {seed: train_data}
    return train_seeds(kind, hidden, bank, probes, by_seed, dev, schedule, on_progress)[seed]


def train_seeds(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    train_data: Mapping[int, Data],
    dev: Data,
    schedule: Schedule,
    on_progress: OnProgress = lambda done, total: None,
) -> dict[int, Trained]:
    """Train the same probes for each seed; `train_data` has equally many targets per seed."""
    with JobPool(bank.device) as jobs:
        return add_seeds(jobs, kind, hidden, bank, probes, train_data, dev, schedule, on_progress)()


def add_seeds(
    jobs: JobPool,
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    train_data: Mapping[int, Data],
    dev: Data,
    schedule: Schedule,
    on_progress: OnProgress,
) -> Callable[[], dict[int, Trained]]:
    """Add the training of `train_seeds` to the jobs; the function returned gives the probes."""
    first = next(iter(train_data.values()))
    if not len(first):
        raise WorkbenchError(
            "there are no training targets.",
            code="too-few-targets",
            remedy="Use more sentences: raise --max-sentences, or choose a larger corpus.",
        )
    ordered = tuple(sorted(probes, key=_mixes))
    shape, seeded, stacks = _plan_stacks(
        kind, hidden, bank, ordered, tuple(train_data), first, schedule
    )
    joined_data = _join_seeds(train_data, bank.device)
    stopped = [0] * len(stacks)
    lock = Lock()

    def train_stack(index: int) -> _TrainedStack:
        def on_stopped(n_stopped: int) -> None:
            jobs.check()
            with lock:
                stopped[index] = n_stopped
                on_progress(sum(stopped), len(seeded))

        return _train(shape, bank, stacks[index], joined_data, dev, schedule, on_stopped)

    pending = [jobs.add(partial(train_stack, index)) for index in range(len(stacks))]

    def wait() -> dict[int, Trained]:
        parts = [result() for result in pending]
        return _by_seed(shape, ordered, seeded, parts, bank.device)

    return wait


def _by_seed(
    shape: Shape,
    probes: tuple[Probe, ...],
    seeded: "_SeededProbes",
    parts: "Sequence[_TrainedStack]",
    device: torch.device,
) -> dict[int, Trained]:
    """The trained probes of all stacks, by seed."""
    epochs = torch.cat([part.epochs for part in parts])
    converged = torch.cat([part.converged for part in parts])
    values = {
        name: torch.cat([part.parameters[name] for part in parts]) for name in parts[0].parameters
    }
    reads = reads_of(probes, shape.sources, device)
    updates = max(part.updates for part in parts)
    trained = {}
    for seed in dict.fromkeys(seed for seed, _ in seeded):
        of_seed = [row for row, (other, _) in enumerate(seeded) if other == seed]
        rows = torch.tensor(of_seed, device=device)
        parameters = {name: value[rows] for name, value in values.items()}
        trained[seed] = Trained(
            shape, probes, reads, parameters, epochs[rows], updates, converged[rows]
        )
    return trained


def steps_an_epoch(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    seeds: Sequence[int],
    train_data: Data,
    schedule: Schedule,
) -> int:
    """Number of steps of `train_seeds` per epoch, over all stacks."""
    stacks = _plan_stacks(kind, hidden, bank, probes, seeds, train_data, schedule)[2]
    return len(stacks) * math.ceil(len(train_data) / batch_size(len(train_data), schedule))


def joined(alone: Trained, mixed: Trained) -> Trained:
    """Probes of single layers and probes of mixes, which were trained separately, as one."""
    return Trained(
        alone.shape,
        (*alone.probes, *mixed.probes),
        Reads(alone.reads.fixed, mixed.reads.mixed),
        {
            name: torch.cat([alone.parameters[name], mixed.parameters[name]])
            for name in alone.parameters
        },
        torch.cat([alone.epochs, mixed.epochs.cpu()]),
        max(alone.updates, mixed.updates),
        torch.cat([alone.converged, mixed.converged]),
    )


def _mixes(probe: Probe) -> bool:
    return len(probe.sources) > 1


_SeededProbes = Sequence[tuple[int, Probe]]  # (seed, probe)


def _plan_stacks(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    seeds: Sequence[int],
    train_data: Data,
    schedule: Schedule,
) -> tuple[Shape, _SeededProbes, list[_SeededProbes]]:
    """The shape of all probes, the probes of all seeds, and the same split into stacks."""
    shape = Shape(
        kind,
        bank.width,
        len(train_data.spans),
        train_data.labels.shape[2],
        hidden,
        len(bank.sources),
    )
    seeded = sorted(
        ((seed, probe) for seed in seeds for probe in probes), key=lambda pair: _mixes(pair[1])
    )
    size = batch_size(len(train_data), schedule)
    return shape, seeded, list(_memory_chunks(shape, seeded, size, bank.device))


class _TrainedStack(NamedTuple):
    """One stack of probes at their best epochs."""

    parameters: Parameters
    epochs: Tensor  # [probes]
    converged: Tensor  # [probes]
    updates: int


def _memory_chunks(
    shape: Shape, seeded: _SeededProbes, batch: int, device: torch.device
) -> Iterator[_SeededProbes]:
    """Stacks of probes that fit in memory; mixes are separate, since only they need more gradients.

    `seeded` has the probes that read one source first.
    """
    n_parameters = sum(value.numel() for value in initial(shape, 0).values())
    largest = max(n_parameters, batch * max(shape.width * shape.sides, shape.hidden))
    per_stack = max(1, MAX_NUMBERS.get(device.type, MAX_NUMBERS["cpu"]) // largest)
    for _, group in groupby(seeded, key=lambda pair: _mixes(pair[1])):
        yield from chunks(list(group), per_stack)


@dataclass(frozen=True)
class _JoinedData:
    """The targets of all seeds, concatenated."""

    data: Data
    starts: Mapping[int, int]  # index of each seed's first target
    n_targets: int  # of each seed


def _join_seeds(train_data: Mapping[int, Data], device: torch.device) -> _JoinedData:
    """The targets of all seeds; data that several seeds share is stored once."""
    distinct = {id(data): data for data in train_data.values()}
    n_targets = len(next(iter(distinct.values())))
    first = {key: index * n_targets for index, key in enumerate(distinct)}
    parts = list(distinct.values())
    data = replace(
        parts[0],
        spans=tuple(torch.cat(side) for side in zip(*(part.spans for part in parts), strict=True)),
        labels=torch.cat([part.labels for part in parts], 1).to(device),
        unseen=torch.cat([part.unseen for part in parts]),
    )
    return _JoinedData(
        data, {seed: first[id(data)] for seed, data in train_data.items()}, n_targets
    )


@dataclass(frozen=True)
class _Running:
    """The probes that still train: their seeds, sources and labels."""

    seeds: tuple[int, ...]
    reads: Reads  # one batch per seed
    control: Tensor  # [running]


def _running(seeded: _SeededProbes, shape: Shape, device: torch.device) -> _Running:
    counts = Counter(seed for seed, _ in seeded)
    probes = [probe for _, probe in seeded]
    reads = reads_of(probes, shape.sources, device)
    control = controls_of(probes, device)
    return _Running(tuple(counts), replace(reads, per_batch=tuple(counts.values())), control)


def _train(
    shape: Shape,
    bank: Bank,
    seeded: _SeededProbes,
    train_data: _JoinedData,
    dev: Data,
    schedule: Schedule,
    on_stopped: Callable[[int], object],
) -> _TrainedStack:
    """Train one stack of probes; `on_stopped` gets the number of probes that have stopped."""
    device = bank.device
    first = {seed: initial(shape, seed) for seed, _ in seeded}
    parameters = {
        name: torch.stack([first[seed][name] for seed, _ in seeded]).to(device)
        for name in first[seeded[0][0]]
    }
    state = TrainingState.of(parameters, schedule.learning_rate)
    # the score that must be exceeded: it rises only with a gain, so small gains add up
    reference = torch.full((len(seeded),), -torch.inf, dtype=torch.double, device=device)
    order_generators = {seed: torch.Generator().manual_seed(seed) for seed in first}
    dropout_generators = {seed: torch.Generator(device).manual_seed(seed) for seed in first}
    size = batch_size(train_data.n_targets, schedule)
    for epoch in range(schedule.epochs):
        running = _running([seeded[row] for row in state.rows.tolist()], shape, device)
        generators = [dropout_generators[seed] for seed in running.seeds]
        dropout = SharedDropout(generators, running.reads.batch)
        orders = [
            torch.randperm(train_data.n_targets, generator=order_generators[seed])
            + train_data.starts[seed]
            for seed in running.seeds
        ]
        for batch in torch.split(torch.stack(orders), size, dim=1):
            _training_step(shape, state, running, bank, train_data.data, batch, dropout)
        score, loss = _evaluate_epoch(shape, state.parameters, running, bank, train_data, dev)
        score = -loss.double() if schedule.by_loss else score
        before = reference[state.rows]
        unit = before.abs().nan_to_num(posinf=0.0) if schedule.by_loss else 1.0
        gained = score > before + schedule.gain * unit
        reference[state.rows[gained]] = score[gained]
        halve = ~gained & ((state.without_gain + 1) % max(1, schedule.patience // 2) == 0)
        state.end_epoch(score, loss, gained, schedule.patience, epoch, halve)
        on_stopped(len(seeded) - len(state))
        if not len(state):
            break
    if not bool(state.best.loss.isfinite().all()):
        raise WorkbenchError(
            "the loss of a probe diverged.",
            code="training-diverged",
            remedy="Set a lower learning rate, such as --learning-rate 0.0003.",
        )
    converged = torch.ones(len(seeded), dtype=torch.bool, device=device)
    converged[state.rows] = False
    best = state.best
    return _TrainedStack(best.parameters, best.epoch, converged, int(max(state.steps.values())))


def _evaluate_epoch(
    shape: Shape,
    parameters: Parameters,
    running: _Running,
    bank: Bank,
    train_data: _JoinedData,
    dev: Data,
) -> tuple[Tensor, Tensor]:
    """Score and loss of each probe on dev; without dev targets, on its training targets."""
    if len(dev):
        reads = replace(running.reads, per_batch=())
        return evaluate_probes(shape, parameters, reads, running.control, bank, dev)
    parts = []
    for seed, (rows, reads) in zip(running.seeds, running.reads.each(), strict=True):
        values = {name: value[rows] for name, value in parameters.items()}
        first = train_data.starts[seed]
        data = train_data.data.take(torch.arange(first, first + train_data.n_targets))
        parts.append(evaluate_probes(shape, values, reads, running.control[rows], bank, data))
    score, loss = (torch.cat(each) for each in zip(*parts, strict=True))
    return score, loss


def batch_size(n_targets: int, schedule: Schedule) -> int:
    """Targets per step; fewer for small tasks, so that an epoch has enough steps."""
    return max(1, min(schedule.batch_size, max(MIN_BATCH, n_targets // schedule.steps)))


def reads_of(probes: Sequence[Probe], sources: int, device: torch.device) -> Reads:
    """The sources of these probes; probes that read one source come first."""
    mixed = [probe.sources for probe in probes if len(probe.sources) > 1]
    allowed = torch.zeros(len(mixed), sources, dtype=torch.bool)
    for row, indices in enumerate(mixed):
        allowed[row, list(indices)] = True
    fixed = [probe.sources[0] for probe in probes if len(probe.sources) == 1]
    return Reads(torch.tensor(fixed, dtype=torch.long, device=device), allowed.to(device))


def _training_step(
    shape: Shape,
    state: TrainingState,
    running: _Running,
    bank: Bank,
    train_data: Data,
    batch: Tensor,
    dropout: SharedDropout,
) -> None:
    """One step for all probes, each on the batch of its seed.  # batch [seeds, targets]"""
    leaves = state.leaves()
    spans = [side[batch] for side in train_data.spans]
    inputs = pooled(shape, leaves, running.reads, bank, spans)
    logits = head_logits(shape, leaves, inputs, dropout)
    labels = train_data.labels.index_select(1, sent(batch.flatten(), bank.device))
    labels = labels.view(-1, batch.shape[1], labels.shape[2])  # [2 * seeds, targets, labels]
    gold = labels.index_select(0, running.control * len(batch) + running.reads.batch)
    gradients = torch.autograd.grad(
        logits, list(leaves.values()), loss_gradient(logits.detach(), gold, train_data.softmax),
        allow_unused=True,
    )  # fmt: skip
    by_name = {name: g for name, g in zip(leaves, gradients, strict=True) if g is not None}
    state.step(by_name, RATE_FACTORS[shape.kind])


def loss_gradient(logits: Tensor, gold: Tensor, softmax: bool) -> Tensor:
    """Gradient of the mean of `target_losses` by each logit.  # [probes, n, labels]"""
    if softmax:
        known = gold.any(2, keepdim=True)  # a label never seen in train has no loss
        return (logits.softmax(2) * known).sub_(gold.to(logits.dtype)).div_(logits.shape[1])
    return logits.sigmoid().sub_(gold.to(logits.dtype)).div_(logits.shape[1])


def target_losses(logits: Tensor, data: Data, control: Tensor) -> Tensor:
    """Loss of each target, in nats.  # logits [probes, n, labels] -> [probes, n]"""
    gold = data.labels.to(logits.device).index_select(0, control)  # [probes, n, labels]
    if data.softmax:
        return -logits.log_softmax(2).where(gold, 0.0).sum(2)
    losses = functional.binary_cross_entropy_with_logits(logits, gold.float(), reduction="none")
    return losses.sum(2)


def evaluate_probes(
    shape: Shape, parameters: Parameters, reads: Reads, control: Tensor, bank: Bank, data: Data
) -> tuple[Tensor, Tensor]:
    """Score and loss of each probe.  # [probes], [probes]"""
    counts = torch.zeros(reads.n_probes, 3, dtype=torch.long, device=bank.device)
    loss = torch.zeros(reads.n_probes, device=bank.device)
    for indices, logits in outputs(shape, parameters, reads, bank, data.spans):
        part = data.take(indices)
        counts += count_labels(logits, part, control).sum(1)
        loss += target_losses(logits, part, control).sum(1)
    return f1(counts), loss / len(data)


def outputs(
    shape: Shape, parameters: Parameters, reads: Reads, bank: Bank, spans: Sequence[Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Indices and logits of the targets, in chunks.  # [chunk], [probes, chunk, labels]"""
    widest = max(shape.width * 2, shape.hidden, shape.labels)
    max_numbers = MAX_NUMBERS.get(bank.device.type, MAX_NUMBERS["cpu"])
    size = max(16, min(4096, max_numbers // max(1, reads.n_probes * widest)))
    with torch.no_grad():
        for indices in torch.split(torch.arange(len(spans[0])), size):
            chunk = [side[indices] for side in spans]
            yield indices, logits(shape, parameters, reads, bank, chunk)


def predictions(logits: Tensor, softmax: bool) -> Tensor:
    """The predicted labels: the most likely one, or all with a logit of at least 0.

    [probes, n, labels] -> the same shape, bool
    """
    if not softmax:
        return logits >= 0
    most_likely = logits.argmax(2, keepdim=True)
    return torch.zeros_like(logits, dtype=torch.bool).scatter_(2, most_likely, True)


def count_labels(logits: Tensor, data: Data, control: Tensor) -> Tensor:
    """Number of labels right, predicted and gold, by target.  # -> [probes, batch, 3]"""
    gold = data.labels.to(logits.device).index_select(0, control)
    scored = data.scored.to(logits.device)
    predicted = predictions(logits, data.softmax) & scored
    unseen = data.unseen.to(logits.device) * (control == 0)[:, None]  # [probes, batch]
    right = (predicted & gold).sum(2)
    return torch.stack([right, predicted.sum(2), (gold & scored).sum(2) + unseen], dim=2)


def f1(counts: Tensor) -> Tensor:
    """2 · right / (predicted + gold); 0 without predicted and gold labels.  # [..., 3] -> [...]"""
    right, predicted, gold = counts.double().unbind(-1)
    total = predicted + gold
    return torch.where(total > 0, 2 * right / total.clamp(min=1), 0.0)
