"""Training many probes at once, each as if it were alone.

The probes of one task and kind lie in stacked tensors, so a step is a few batched matrix products
for all of them; those of one seed see the same batches, each seed its own. Each has its own
learning rate, is stopped by its own score on the dev part, and gives back its best epoch, copied by
value; what has stopped is taken out of the stack and costs nothing. Costs, a step, what
the probe model says for each probe that still learns; four numbers in memory for each of their
parameters.
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

from probes.batched_adam import Learning, Parameters
from probes.experiments import KindName
from probes.representations import Bank, words_in
from probes.targets import Examples
from workbench.core.errors import WorkbenchError
from workbench.engine.batch import sent
from workbench.engine.forward_pass import chunks

# --- probe models ---------------------------------------------------------------------------------
#
# Three kinds of probe, many of each side by side: every tensor has the probes in front.
#
# - `edge`: Tenney et al. 2019. Each span's words are projected, pooled by self-attention and laid
#   side by side, then linear, tanh, layer norm, dropout, linear. The projection has the paper's
#   width of 256, or half the width of the states where that is less.
# - `linear`: the mean of each span's words, then linear.
# - `mlp`: the mean, linear, ReLU, linear.
#
# All end in one logit a label. A probe reads one source or a learnt mix of several, γ Σ
# softmax(s) h.
#
# The edge probe pools first and projects then, which is exact, since its attention has one head:
# Σ aᵢ (W hᵢ + b) = W (Σ aᵢ hᵢ) + b, with a = softmax of (W v)·hᵢ; b is part of the next layer's
# bias. No nonlinearity follows the projection, and yet it is not multiplied into that layer: a
# probe that learns the product as one matrix is worse on few targets (relations of mini:bert:
# five points). Costs, for spans of one word, 2 · projection · (width + hidden) a span and probe
# forward, and twice that back.

COLUMNS = 16  # of numbers in a vector register
CHUNK = 1_024  # spans that are averaged at once
INPUT_DROPOUT, DROPOUT = 0.2, 0.3  # of the edge probe
PROJECTION = 256  # its width in the paper


@dataclass(frozen=True)
class Shape:
    """What is the same for all probes of a stack."""

    kind: KindName
    width: int
    sides: int  # spans a target
    labels: int
    hidden: int
    sources: int

    @property
    def projection(self) -> int:
        """How wide each span is when the edge probe's first layer reads it."""
        return min(PROJECTION, max(1, self.width // 2))


@dataclass(frozen=True)
class Reads:
    """Which sources each probe reads: one each for the first ones, a mix for those that follow.

    Where there are several batches of targets, `shares` says how many probes read each; they are
    in the order of their batches, and either none of them mixes or all do.
    """

    fixed: Tensor  # [fixed], place of the source
    mixed: Tensor  # [mixed, sources], bool: which may be mixed
    shares: tuple[int, ...] = ()

    @property
    def number(self) -> int:
        return len(self.fixed) + len(self.mixed)

    @cached_property
    def batch(self) -> Tensor:
        """Which batch each probe reads.  # [probes]"""
        shares = torch.tensor(self.shares or (self.number,))
        return sent(torch.repeat_interleave(shares), self.fixed.device)

    def each(self) -> "Iterator[tuple[slice, Reads]]":
        """The probes of one batch after another."""
        start = 0
        for share in self.shares or (self.number,):
            own = slice(start, start + share)
            yield own, Reads(self.fixed[own], self.mixed[own]) if self.shares else self
            start += share


@dataclass
class Dropping:
    """Dropout whose masks are shared by the probes of a batch, each batch with its own numbers."""

    generators: Sequence[torch.Generator]
    batch: Tensor  # [probes], which batch each reads

    def __call__(self, values: Tensor, share: float) -> Tensor:
        """Drop along the last two dimensions.  # [probes, batch, width]"""
        shape, device = values.shape[-2:], values.device
        drawn = [torch.rand(shape, generator=own, device=device) for own in self.generators]
        kept = (torch.stack(drawn) >= share) / (1 - share)  # [batches, batch, width]
        return values * kept.index_select(0, self.batch)


def initial(shape: Shape, seed: int) -> Parameters:
    """One probe's parameters, drawn from its seed alone.  # no probes in front"""
    random = torch.Generator().manual_seed(seed)

    def linear(inputs: int, *sizes: int) -> Tensor:
        bound = 1 / math.sqrt(inputs)
        return (torch.rand(sizes, generator=random) * 2 - 1) * bound

    width, sides, hidden, labels = shape.width, shape.sides, shape.hidden, shape.labels
    drawn: Parameters = {"mix": torch.zeros(shape.sources), "scale": torch.ones(())}
    if shape.kind == "linear":
        drawn["out"] = wide(linear(sides * width, sides, width, labels))
        drawn["out_bias"] = torch.zeros(labels)
        return drawn
    inputs = width
    if shape.kind == "edge":
        inputs = shape.projection
        drawn["project"] = linear(width, sides, width, inputs)
        drawn["attend"] = linear(inputs, sides, inputs)
        drawn["norm"] = torch.ones(hidden)
        drawn["norm_bias"] = torch.zeros(hidden)
    drawn["first"] = linear(sides * inputs, sides, inputs, hidden)
    drawn["first_bias"] = linear(sides * inputs, hidden)
    drawn["out"] = wide(linear(hidden, hidden, labels))
    drawn["out_bias"] = linear(hidden, labels)
    return drawn


def logits(
    shape: Shape, own: Mapping[str, Tensor], reads: Reads, bank: Bank, spans: Sequence[Tensor]
) -> Tensor:
    """What each probe says of each target; `spans` are [n, 2] a side.  # -> [probes, n, labels]"""
    return answers(shape, own, pooled(shape, own, reads, bank, [side[None] for side in spans]))


def pooled(
    shape: Shape, own: Mapping[str, Tensor], reads: Reads, bank: Bank, spans: Sequence[Tensor]
) -> Tensor:
    """Each side's span as one vector, as each probe reads it, the sides beside each other.

    [batches, n, 2] a side -> [probes, n, sides * width]
    """
    weights = mixing(own, reads.mixed)
    words = torch.stack([side[..., 0] for side in spans], dim=-1)  # [batches, n, sides]
    if all(bool((side[..., 1] - side[..., 0] == 1).all()) for side in spans):
        return _read(weights, reads, bank, bank.rows(words).flatten(3))
    if shape.kind != "edge":
        states = averaged_sides(bank, [side.flatten(0, 1) for side in spans])
        return _read(weights, reads, bank, states.view(len(states), *words.shape[:2], -1))
    vectors = torch.einsum("pswi,psi->psw", own["project"], own["attend"])
    batches = []
    for batch, (probes, part) in enumerate(reads.each()):
        sides = zip(vectors[probes].unbind(1), (side[batch] for side in spans), strict=True)
        found = [_attended(weights[probes], attend, part, bank, side) for attend, side in sides]
        batches.append(torch.cat(found, 2))
    return batches[0] if len(batches) == 1 else torch.cat(batches)


def answers(
    shape: Shape, own: Mapping[str, Tensor], inputs: Tensor, drop: Dropping | None = None
) -> Tensor:
    """What is above the spans.  # [probes, n, sides * width] -> [probes, n, labels]"""
    if shape.kind == "linear":
        return _above(shape, inputs, own)
    if shape.kind == "edge":
        inputs = inputs if drop is None else drop(inputs, INPUT_DROPOUT)
        sides = zip(inputs.chunk(shape.sides, 2), own["project"].unbind(1), strict=True)
        inputs = torch.cat([side @ project for side, project in sides], 2)
    inner = torch.baddbmm(own["first_bias"][:, None], inputs, own["first"].flatten(1, 2))
    if shape.kind == "mlp":
        return _above(shape, functional.relu(inner), own)
    inner = functional.layer_norm(torch.tanh(inner), inner.shape[-1:])
    inner = torch.addcmul(own["norm_bias"][:, None], inner, own["norm"][:, None])
    return _above(shape, inner if drop is None else drop(inner, DROPOUT), own)


def _above(shape: Shape, inner: Tensor, own: Mapping[str, Tensor]) -> Tensor:
    """The last layer.  # [probes, n, inputs] -> [probes, n, labels]"""
    weights = own["out"].reshape(len(inner), inner.shape[2], -1)
    return (inner @ weights)[..., : shape.labels] + own["out_bias"][:, None]


def wide(weights: Tensor) -> Tensor:
    """Zero columns up to a full vector register: narrow products cost twice as much."""
    return functional.pad(weights, (0, -weights.shape[-1] % COLUMNS))


def mixing(own: Mapping[str, Tensor], mixed: Tensor) -> Tensor:
    """How much of each source the probes that mix take; nothing of those they may not.

    [probes, sources]
    """
    number = len(mixed)
    if not number:
        return mixed.float()
    scores = own["mix"][-number:].masked_fill(~mixed, -torch.inf)
    return own["scale"][-number:, None] * scores.softmax(dim=1)


def _attended(weights: Tensor, attend: Tensor, reads: Reads, bank: Bank, spans: Tensor) -> Tensor:
    """The sum of each span's words by each probe's attention.  # [n, 2] -> [probes, n, width]"""
    words, of_span = words_in(spans)
    of_span = sent(of_span, bank.device)
    read = _read(weights, reads, bank, bank.rows(words)[:, None])  # [probes, words, width]
    scores = (read @ attend[:, :, None])[..., 0]  # [probes, words]
    each = of_span.expand_as(scores)
    largest = scores.new_full((len(scores), len(spans)), -torch.inf)
    largest.scatter_reduce_(1, each, scores.detach(), "amax")
    shares = (scores - largest.index_select(1, of_span)).exp()
    totals = torch.zeros_like(largest).index_add(1, of_span, shares)
    found = read.new_zeros(*totals.shape, bank.width)
    return found.index_add(1, of_span, shares[:, :, None] * read) / totals[:, :, None]


def _read(weights: Tensor, reads: Reads, bank: Bank, states: Tensor) -> Tensor:
    """From what each source says to what each probe reads.

    weights [mixed, sources], states [sources, batches, ..., sides * width] -> [probes, ...]
    """
    batches = states.shape[1]
    parts = []
    if len(reads.fixed):
        place = reads.fixed * batches + reads.batch[: len(reads.fixed)]
        parts.append(states.flatten(0, 1).index_select(0, place))
    if len(reads.mixed):
        sizes = bank.common.repeat(1, states.shape[-1] // bank.width)  # [sources, sides * width]
        states = states * sizes.view(len(sizes), *[1] * (states.ndim - 2), -1)
        parts += [
            (weights[probes] @ states[:, batch].flatten(1)).view(-1, *states.shape[2:])
            for batch, (probes, _) in enumerate(reads.each())
        ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def averaged(bank: Bank, spans: Tensor) -> Tensor:
    """The mean of each span's words in every source.  # [n, 2] -> [sources, n, width]"""
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


def averaged_sides(bank: Bank, spans: Sequence[Tensor]) -> Tensor:
    """The same of each side, next to each other.  # [n, 2] each -> [sources, n, sides * width]"""
    return torch.cat([averaged(bank, side) for side in spans], dim=2)


# --- jobs on several threads ----------------------------------------------------------------------
#
# Jobs on several threads of a CPU, one thread each; anywhere else one after another.
#
# The steps of a probe are short: threads that share each of them wait for one another more than
# they work. Costs nothing of its own.

T = TypeVar("T")


class SideBySide:
    """Collects jobs, and begins all of them when the first result is asked for.

    Where several run at once, torch has one thread for each of them until this is left. When it is
    left by an error, no further job is begun, and `check` ends those that run.
    """

    def __init__(self, device: torch.device) -> None:
        self._before = torch.get_num_threads()
        self._most = self._before if device.type == "cpu" else 1
        self._jobs: list[Callable[[], Any]] = []
        self._begun: list[Future[Any] | None] = []
        self._pool: ThreadPoolExecutor | None = None
        self._ended = Event()

    def __enter__(self) -> Self:
        return self

    def add(self, job: Callable[[], T]) -> Callable[[], T]:
        """Plan a job; what is returned gives its result, once, and nothing keeps it here."""
        place = len(self._jobs)
        self._jobs.append(job)
        return lambda: cast(T, self._result(place))

    def check(self) -> None:
        """Raise where this was left by an error; to be called by a job now and then."""
        if self._ended.is_set():
            raise InterruptedError("the run was ended")

    def _result(self, place: int) -> Any:
        threads = min(self._most, len(self._jobs))
        if threads < 2:
            return self._jobs[place]()
        if self._pool is None:
            torch.set_num_threads(1)
            self._pool = ThreadPoolExecutor(threads)
        self._begun += [self._pool.submit(job) for job in self._jobs[len(self._begun) :]]
        begun, self._begun[place] = self._begun[place], None
        assert begun is not None, "a result is asked for once"
        return begun.result()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._ended.set()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=error is not None)
            torch.set_num_threads(self._before)


# --- training -------------------------------------------------------------------------------------

MIXING = {"mix": 10.0}  # times the rate, else few steps leave every mix a mean
# without the projection's own bias the next one is too slow: F1 .57 instead of .63 on an odd model
QUICKER = {"edge": {**MIXING, "first_bias": 10.0}, "linear": MIXING, "mlp": MIXING}
SMALLEST = 16  # targets in a batch, at least
# numbers in the largest tensor, the batch or the probes' own: what a CPU's cache holds, about
AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 30}
Told = Callable[[int, int], object]  # probes done, of so many


@dataclass(frozen=True)
class Probe:
    """What one probe reads, and of which labels it learns."""

    sources: tuple[int, ...]  # places in the bank; several are mixed
    control: bool = False


def controls_of(probes: Iterable[Probe], device: torch.device | None = None) -> Tensor:
    """Which labels each probe learns: 0 the true ones, 1 those of its control task.  # [probes]"""
    return torch.tensor([int(probe.control) for probe in probes], device=device)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long is learnt, and how fast."""

    rate: float = 3e-3
    batch: int = 512  # targets; fewer where there are few
    epochs: int = 20
    patience: int = 4  # epochs without gain before a probe stops; after half of them, a lower rate
    gain: float = 2e-3  # of the score, or a share of the loss; less is none
    by_loss: bool = False  # dev's loss judges an epoch, not its score
    steps: int = 48  # an epoch, about, where targets are few


@dataclass(frozen=True)
class Trained:
    """Probes as they were in their best epoch; the first read one source, the others mix."""

    shape: Shape
    probes: tuple[Probe, ...]
    reads: Reads
    own: Parameters
    epochs: Tensor  # [probes], the epoch that is kept
    updates: int  # of the one that learnt longest
    converged: Tensor  # [probes], bool: dev stopped it, not the maximum number of epochs


def linear_probes(
    bank: Bank,
    probes: Sequence[Probe],
    out: Tensor,
    bias: Tensor,
    converged: Tensor,
    updates: int = 1,
) -> Trained:
    """Linear probes of one source each that were found in another way than by `train`.

    out [probes, sides, width, labels, or more columns of zeros], bias [probes, labels]
    """
    number, sides, width = out.shape[:3]
    own = {
        "mix": torch.zeros(number, len(bank.sources), device=bank.device),
        "scale": torch.ones(number, device=bank.device),
        "out": out,
        "out_bias": bias,
    }
    shape = Shape("linear", width, sides, bias.shape[1], 0, len(bank.sources))
    reads = reads_of(probes, len(bank.sources), bank.device)
    epochs = torch.zeros(number, dtype=torch.long)
    return Trained(shape, tuple(probes), reads, own, epochs, updates, converged)


@dataclass(frozen=True)
class Data:
    """Targets with their labels: the true ones, and those of the control task."""

    spans: tuple[Tensor, ...]  # [n, 2] each
    labels: Tensor  # [2, n, labels], bool: true and control
    unseen: Tensor  # [n], gold labels there is no column for
    scored: Tensor  # [labels], bool
    softmax: bool = False  # one label each: cross-entropy instead of independent sigmoids

    def __len__(self) -> int:
        return len(self.spans[0])

    def take(self, places: Tensor) -> "Data":
        return Data(
            tuple(side[places] for side in self.spans),
            self.labels[:, places],
            self.unseen[places],
            self.scored,
            self.softmax,
        )


def data_of(examples: Examples, control: Tensor, softmax: bool = False) -> Data:
    """The targets of a task, for training."""
    labels = torch.stack([examples.labels, control])
    return Data(examples.spans, labels, examples.unseen, examples.scored, softmax)


def train(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    learnt: Data,
    dev: Data,
    schedule: Schedule,
    seed: int,
    told: Told = lambda done, total: None,
) -> Trained:
    """Train all probes of one seed on `learnt`, each until `dev` gains no more."""
    return train_seeds(kind, hidden, bank, probes, {seed: learnt}, dev, schedule, told)[seed]


def train_seeds(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    learnt: Mapping[int, Data],
    dev: Data,
    schedule: Schedule,
    told: Told = lambda done, total: None,
) -> dict[int, Trained]:
    """The same probes for each seed, with what each seed learns from: as many targets for all."""
    with SideBySide(bank.device) as jobs:
        return add_seeds(jobs, kind, hidden, bank, probes, learnt, dev, schedule, told)()


def add_seeds(
    jobs: SideBySide,
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    learnt: Mapping[int, Data],
    dev: Data,
    schedule: Schedule,
    told: Told,
) -> Callable[[], dict[int, Trained]]:
    """Plan what `train_seeds` does beside other jobs; what is returned gives the probes."""
    first = next(iter(learnt.values()))
    if not len(first):
        raise WorkbenchError("there is no target to learn from.", remedy="Give more sentences.")
    ordered = tuple(sorted(probes, key=_mixes))
    shape, asked, stacks = _stacked(kind, hidden, bank, ordered, tuple(learnt), first, schedule)
    together = _joined(learnt, bank.device)
    stopped = [0] * len(stacks)
    lock = Lock()

    def learn(place: int) -> _Learnt:
        def of_all(number: int) -> None:
            jobs.check()
            with lock:
                stopped[place] = number
                told(sum(stopped), len(asked))

        return _train(shape, bank, stacks[place], together, dev, schedule, of_all)

    planned = [jobs.add(partial(learn, place)) for place in range(len(stacks))]

    def found() -> dict[int, Trained]:
        parts = [result() for result in planned]
        return _by_seed(shape, ordered, asked, parts, bank.device)

    return found


def _by_seed(
    shape: Shape,
    probes: tuple[Probe, ...],
    asked: "_Asked",
    parts: "Sequence[_Learnt]",
    device: torch.device,
) -> dict[int, Trained]:
    """The probes of all stacks together, those of one seed after another."""
    epochs = torch.cat([part.epochs for part in parts])
    converged = torch.cat([part.converged for part in parts])
    values = {name: torch.cat([part.own[name] for part in parts]) for name in parts[0].own}
    reads = reads_of(probes, shape.sources, device)
    updates = max(part.updates for part in parts)
    found = {}
    for seed in dict.fromkeys(seed for seed, _ in asked):
        rows = torch.tensor([row for row, (of, _) in enumerate(asked) if of == seed], device=device)
        own = {name: value[rows] for name, value in values.items()}
        found[seed] = Trained(shape, probes, reads, own, epochs[rows], updates, converged[rows])
    return found


def steps_an_epoch(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    seeds: Sequence[int],
    learnt: Data,
    schedule: Schedule,
) -> int:
    """How many steps `train_seeds` takes over these targets once, in all its stacks together."""
    stacks = _stacked(kind, hidden, bank, probes, seeds, learnt, schedule)[2]
    return len(stacks) * math.ceil(len(learnt) / batch_size(len(learnt), schedule))


def joined(alone: Trained, mixed: Trained) -> Trained:
    """Probes of single layers and probes of mixes, trained apart, as one."""
    return Trained(
        alone.shape,
        (*alone.probes, *mixed.probes),
        Reads(alone.reads.fixed, mixed.reads.mixed),
        {name: torch.cat([alone.own[name], mixed.own[name]]) for name in alone.own},
        torch.cat([alone.epochs, mixed.epochs.cpu()]),
        max(alone.updates, mixed.updates),
        torch.cat([alone.converged, mixed.converged]),
    )


def _mixes(probe: Probe) -> bool:
    return len(probe.sources) > 1


_Asked = Sequence[tuple[int, Probe]]  # (seed, probe)


def _stacked(
    kind: KindName,
    hidden: int,
    bank: Bank,
    probes: Sequence[Probe],
    seeds: Sequence[int],
    learnt: Data,
    schedule: Schedule,
) -> tuple[Shape, _Asked, list[_Asked]]:
    """The shape of all probes, the probes of all seeds, and the same cut into stacks."""
    shape = Shape(
        kind, bank.width, len(learnt.spans), learnt.labels.shape[2], hidden, len(bank.sources)
    )
    asked = sorted(
        ((seed, probe) for seed in seeds for probe in probes), key=lambda a: _mixes(a[1])
    )
    return shape, asked, list(_chunks(shape, asked, batch_size(len(learnt), schedule), bank.device))


class _Learnt(NamedTuple):
    """One stack of probes as they were in their best epoch."""

    own: Parameters
    epochs: Tensor  # [probes]
    converged: Tensor  # [probes]
    updates: int


def _chunks(shape: Shape, asked: _Asked, batch: int, device: torch.device) -> Iterator[_Asked]:
    """As many probes at once as fit; those that mix stand apart, for only they ask for more back.

    `asked` has those that read one source first.
    """
    numbers = sum(value.numel() for value in initial(shape, 0).values())
    largest = max(numbers, batch * max(shape.width * shape.sides, shape.hidden))
    many = max(1, AT_ONCE.get(device.type, AT_ONCE["cpu"]) // largest)
    for _, alike in groupby(asked, key=lambda each: _mixes(each[1])):
        yield from chunks(list(alike), many)


@dataclass(frozen=True)
class _Together:
    """The targets of all seeds, end to end."""

    data: Data
    starts: Mapping[int, int]  # of each seed's own
    number: int  # of targets of a seed


def _joined(learnt: Mapping[int, Data], device: torch.device) -> _Together:
    """Seeds that learn from the same have it once."""
    apart = {id(data): data for data in learnt.values()}
    number = len(next(iter(apart.values())))
    first = {key: place * number for place, key in enumerate(apart)}
    parts = list(apart.values())
    data = replace(
        parts[0],
        spans=tuple(torch.cat(side) for side in zip(*(part.spans for part in parts), strict=True)),
        labels=torch.cat([part.labels for part in parts], 1).to(device),
        unseen=torch.cat([part.unseen for part in parts]),
    )
    return _Together(data, {seed: first[id(data)] for seed, data in learnt.items()}, number)


@dataclass(frozen=True)
class _Alive:
    """The probes that still learn: of which seeds, and what they read."""

    seeds: tuple[int, ...]
    reads: Reads  # of the seeds' batches
    control: Tensor  # [alive]


def _alive(asked: _Asked, shape: Shape, device: torch.device) -> _Alive:
    counts = Counter(seed for seed, _ in asked)
    probes = [probe for _, probe in asked]
    reads = reads_of(probes, shape.sources, device)
    control = controls_of(probes, device)
    return _Alive(tuple(counts), replace(reads, shares=tuple(counts.values())), control)


def _train(
    shape: Shape,
    bank: Bank,
    asked: _Asked,
    learnt: _Together,
    dev: Data,
    schedule: Schedule,
    told: Callable[[int], object],
) -> _Learnt:
    device = bank.device
    drawn = {seed: initial(shape, seed) for seed, _ in asked}
    own = {
        name: torch.stack([drawn[seed][name] for seed, _ in asked]).to(device)
        for name in drawn[asked[0][0]]
    }
    now = Learning.of(own, schedule.rate)
    mark = torch.full((len(asked),), -torch.inf, dtype=torch.double, device=device)
    random = {seed: torch.Generator().manual_seed(seed) for seed in drawn}
    drops = {seed: torch.Generator(device).manual_seed(seed) for seed in drawn}
    size = batch_size(learnt.number, schedule)
    for epoch in range(schedule.epochs):
        alive = _alive([asked[place] for place in now.places.tolist()], shape, device)
        drop = Dropping([drops[seed] for seed in alive.seeds], alive.reads.batch)
        orders = [
            torch.randperm(learnt.number, generator=random[seed]) + learnt.starts[seed]
            for seed in alive.seeds
        ]
        for places in torch.split(torch.stack(orders), size, dim=1):
            _update(shape, now, alive, bank, learnt.data, places, drop)
        score, loss = _judged(shape, now.own, alive, bank, learnt, dev)
        score = -loss.double() if schedule.by_loss else score
        before = mark[now.places]
        unit = before.abs().nan_to_num(posinf=0.0) if schedule.by_loss else 1.0
        worth = score > before + schedule.gain * unit
        mark[now.places[worth]] = score[worth]
        slower = ~worth & ((now.since + 1) % max(1, schedule.patience // 2) == 0)
        now.judged(score, loss, worth, schedule.patience, epoch, slower)
        told(len(asked) - len(now))
        if not len(now):
            break
    if not bool(now.best.loss.isfinite().all()):
        raise WorkbenchError(
            "a probe's loss went astray.", remedy="Give a lower rate, such as --rate 0.0003."
        )
    converged = torch.ones(len(asked), dtype=torch.bool, device=device)
    converged[now.places] = False
    return _Learnt(now.best.own, now.best.epoch, converged, int(max(now.steps.values())))


def _judged(
    shape: Shape, own: Parameters, alive: _Alive, bank: Bank, learnt: _Together, dev: Data
) -> tuple[Tensor, Tensor]:
    """Score and loss on dev, of each probe; without dev, on what its seed learnt from."""
    if len(dev):
        reads = replace(alive.reads, shares=())
        return assessed(shape, own, reads, alive.control, bank, dev)
    found = []
    for seed, (probes, reads) in zip(alive.seeds, alive.reads.each(), strict=True):
        values = {name: value[probes] for name, value in own.items()}
        first = learnt.starts[seed]
        data = learnt.data.take(torch.arange(first, first + learnt.number))
        found.append(assessed(shape, values, reads, alive.control[probes], bank, data))
    score, loss = (torch.cat(each) for each in zip(*found, strict=True))
    return score, loss


def batch_size(number: int, schedule: Schedule) -> int:
    """Targets a step: fewer where there are few, so that there are steps enough."""
    return max(1, min(schedule.batch, max(SMALLEST, number // schedule.steps)))


def reads_of(probes: Sequence[Probe], sources: int, device: torch.device) -> Reads:
    """Which sources these probes read; those that read one come first."""
    mixed = [probe.sources for probe in probes if len(probe.sources) > 1]
    allowed = torch.zeros(len(mixed), sources, dtype=torch.bool)
    for row, own in enumerate(mixed):
        allowed[row, list(own)] = True
    fixed = [probe.sources[0] for probe in probes if len(probe.sources) == 1]
    return Reads(torch.tensor(fixed, dtype=torch.long, device=device), allowed.to(device))


def _update(
    shape: Shape,
    now: Learning,
    alive: _Alive,
    bank: Bank,
    learnt: Data,
    places: Tensor,
    drop: Dropping,
) -> None:
    """One step for all probes, each with the batch of its seed.  # places [seeds, batch]"""
    leaves = now.leaves()
    spans = [side[places] for side in learnt.spans]
    said = answers(shape, leaves, pooled(shape, leaves, alive.reads, bank, spans), drop)
    near = learnt.labels.index_select(1, sent(places.flatten(), bank.device))
    near = near.view(-1, places.shape[1], near.shape[2])  # [2 * seeds, batch, labels]
    wanted = near.index_select(0, alive.control * len(places) + alive.reads.batch)
    slopes = torch.autograd.grad(
        said, list(leaves.values()), slopes_of(said.detach(), wanted, learnt.softmax),
        allow_unused=True,
    )  # fmt: skip
    found = {name: s for name, s in zip(leaves, slopes, strict=True) if s is not None}
    now.step(found, QUICKER[shape.kind])


def slopes_of(said: Tensor, wanted: Tensor, softmax: bool) -> Tensor:
    """How the mean over targets of `nats_of` rises with each logit.  # [probes, n, labels]"""
    if softmax:
        known = wanted.any(2, keepdim=True)  # a label never seen in train cannot be coded
        return (said.softmax(2) * known).sub_(wanted.to(said.dtype)).div_(said.shape[1])
    return said.sigmoid().sub_(wanted.to(said.dtype)).div_(said.shape[1])


def nats_of(said: Tensor, data: Data, control: Tensor) -> Tensor:
    """What the labels of each target cost.  # said [probes, n, labels] -> [probes, n]"""
    wanted = data.labels.to(said.device).index_select(0, control)  # [probes, n, labels]
    if data.softmax:
        return -said.log_softmax(2).where(wanted, 0.0).sum(2)
    lost = functional.binary_cross_entropy_with_logits(said, wanted.float(), reduction="none")
    return lost.sum(2)


def assessed(
    shape: Shape, own: Parameters, reads: Reads, control: Tensor, bank: Bank, data: Data
) -> tuple[Tensor, Tensor]:
    """Score and loss of each probe.  # [probes], [probes]"""
    counts = torch.zeros(reads.number, 3, dtype=torch.long, device=bank.device)
    loss = torch.zeros(reads.number, device=bank.device)
    for places, said in outputs(shape, own, reads, bank, data.spans):
        part = data.take(places)
        counts += counted(said, part, control).sum(1)
        loss += nats_of(said, part, control).sum(1)
    return f1(counts), loss / len(data)


def outputs(
    shape: Shape, own: Parameters, reads: Reads, bank: Bank, spans: Sequence[Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits, a chunk of targets at a time.  # places [some], [probes, some, labels]"""
    widest = max(shape.width * 2, shape.hidden, shape.labels)
    most = AT_ONCE.get(bank.device.type, AT_ONCE["cpu"])
    size = max(16, min(4096, most // max(1, reads.number * widest)))
    with torch.no_grad():
        for places in torch.split(torch.arange(len(spans[0])), size):
            own_spans = [side[places] for side in spans]
            yield places, logits(shape, own, reads, bank, own_spans)


def predictions(logits: Tensor, softmax: bool) -> Tensor:
    """The labels predicted: the likeliest one, or all whose logit is at least 0.

    [probes, n, labels] -> the same shape, bool
    """
    if not softmax:
        return logits >= 0
    likeliest = logits.argmax(2, keepdim=True)
    return torch.zeros_like(logits, dtype=torch.bool).scatter_(2, likeliest, True)


def counted(logits: Tensor, data: Data, control: Tensor) -> Tensor:
    """Labels correctly predicted, predicted, and gold, by target.  # -> [probes, batch, 3]"""
    wanted = data.labels.to(logits.device).index_select(0, control)
    scored = data.scored.to(logits.device)
    answers = predictions(logits, data.softmax) & scored
    unseen = data.unseen.to(logits.device) * (control == 0)[:, None]  # [probes, batch]
    right = (answers & wanted).sum(2)
    return torch.stack([right, answers.sum(2), (wanted & scored).sum(2) + unseen], dim=2)


def f1(counts: Tensor) -> Tensor:
    """2 · right / (said + there); nought where there is nothing to say.  # [..., 3] -> [...]"""
    right, said, there = counts.double().unbind(-1)
    return torch.where(said + there > 0, 2 * right / (said + there).clamp(min=1), 0.0)
