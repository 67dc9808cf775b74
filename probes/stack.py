"""Training many probes at once, each as if it were alone.

The probes of one task and kind lie in stacked tensors, so a step is a few batched matrix products
for all of them; those of one seed see the same batches, each seed its own. Each has its own
learning rate, is stopped by its own score on the dev part, and gives back its best epoch, copied by
value; what has stopped is taken out of the stack and costs nothing. Costs, a step, what `kinds`
says for each probe that still learns; four numbers in memory for each of their parameters.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from threading import Event, Lock
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from probes.bank import Bank
from probes.examples import Examples
from probes.kinds import (
    Dropping,
    KindName,
    Parameters,
    Reads,
    Shape,
    answers,
    initial,
    logits,
    pooled_sides,
)
from workbench.errors import WorkbenchError

MIXING = 10.0  # times the rate, for scores of layers: else few steps leave every mix a mean
BETAS, TINY = (0.9, 0.999), 1e-8
AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 30}  # numbers in the largest tensor, about: a CPU's cache
Told = Callable[[int, int], object]  # probes done, of so many


@dataclass(frozen=True)
class Probe:
    """What one probe reads, and of which labels it learns."""

    sources: tuple[int, ...]  # places in the bank; several are mixed
    control: bool = False


@dataclass(frozen=True)
class Schedule:
    """How long is learnt, and how fast."""

    rate: float = 3e-3
    batch: int = 512  # targets; fewer where there are few
    epochs: int = 20
    patience: int = 3  # epochs without gain before a probe stops; after each its rate is halved
    gain: float = 1e-3  # of the score; less is none


@dataclass(frozen=True)
class Trained:
    """Probes as they were in their best epoch; the first read one source, the others mix."""

    shape: Shape
    probes: tuple[Probe, ...]
    reads: Reads
    own: Parameters
    epochs: Tensor  # [probes], the epoch that is kept
    updates: int  # of the one that learnt longest


@dataclass
class _Learning:
    """The probes that still learn, with what their optimiser keeps."""

    places: Tensor  # [alive], among all
    own: Parameters
    mean: Parameters
    square: Parameters
    rate: Tensor  # [alive]
    since: Tensor  # [alive], epochs without gain
    score: Tensor  # [alive], of the last epoch with gain
    steps: int = 0


@dataclass
class Best:
    """The best epoch of each probe, by value."""

    own: Parameters
    score: Tensor  # [probes]
    loss: Tensor  # [probes]
    epoch: Tensor  # [probes]

    def gained(self, places: Tensor, score: Tensor, loss: Tensor) -> Tensor:
        """Whether these probes are better than they ever were; a tie is broken by the loss."""
        before, loss_before = self.score[places], self.loss[places]
        return (score > before) | ((score == before) & (loss < loss_before))

    def keep(self, places: Tensor, own: Parameters, score: Tensor, loss: Tensor, at: int) -> None:
        for name, values in own.items():
            self.own[name][places] = values
        self.score[places], self.loss[places], self.epoch[places] = score, loss, at


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
    first = next(iter(learnt.values()))
    if not len(first):
        raise WorkbenchError("there is no target to learn from.", remedy="Give more sentences.")
    ordered = tuple(sorted(probes, key=lambda probe: len(probe.sources) > 1))
    shape = Shape(
        kind, bank.width, len(first.spans), first.labels.shape[2], hidden, len(bank.sources)
    )
    asked = [(seed, probe) for seed in learnt for probe in ordered]
    chunks = list(_chunks(shape, asked, schedule, bank.device))
    stopped = [0] * len(chunks)
    lock, ended = Lock(), Event()

    def learn(place: int) -> tuple[Parameters, Tensor, int]:
        def of_all(number: int) -> None:
            if ended.is_set():
                raise InterruptedError("the run was ended")
            with lock:
                stopped[place] = number
                told(sum(stopped), len(asked))

        return _train(shape, bank, chunks[place], learnt, dev, schedule, of_all)

    with _side_by_side(bank.device, len(chunks), ended) as each:
        parts = list(each(learn, range(len(chunks))))
    own = {name: torch.cat([part[0][name] for part in parts]) for name in parts[0][0]}
    epochs = torch.cat([part[1] for part in parts])
    updates = max(part[2] for part in parts)
    reads = reads_of(ordered, shape.sources, bank.device)
    size = len(ordered)
    return {
        seed: Trained(
            shape,
            ordered,
            reads,
            {name: value[place * size : (place + 1) * size] for name, value in own.items()},
            epochs[place * size : (place + 1) * size],
            updates,
        )
        for place, seed in enumerate(learnt)
    }


@contextmanager
def _side_by_side(
    device: torch.device, jobs: int, ended: Event
) -> Iterator[Callable[..., Iterator[Any]]]:
    """On a CPU of several threads, stacks side by side with one thread each.

    Steps are short: threads that share each of them wait for one another more than they work.
    `ended` is set where the run is cancelled, so that none goes on to its end first.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu" or min(threads, jobs) < 2:
        yield map
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(max_workers=min(threads, jobs)) as workers:
            try:
                yield workers.map
            except BaseException:
                ended.set()
                raise
    finally:
        torch.set_num_threads(threads)


_Asked = Sequence[tuple[int, Probe]]  # (seed, probe), the probes of a seed together


def _chunks(
    shape: Shape, asked: _Asked, schedule: Schedule, device: torch.device
) -> Iterator[_Asked]:
    """As many probes at once as fit."""
    largest = schedule.batch * max(shape.width, shape.hidden)
    many = max(1, AT_ONCE.get(device.type, AT_ONCE["cpu"]) // largest)
    for start in range(0, len(asked), many):
        yield asked[start : start + many]


@dataclass(frozen=True)
class _Group:
    """The probes of one seed that still learn: what they read, and where they stand."""

    seed: int
    reads: Reads
    control: Tensor  # [some]
    first: int
    last: int


def _groups(asked: _Asked, shape: Shape, device: torch.device) -> list[_Group]:
    found, first = [], 0
    for seed, own in groupby(asked, key=itemgetter(0)):
        probes = [probe for _, probe in own]
        control = torch.tensor([int(probe.control) for probe in probes], device=device)
        reads = reads_of(probes, shape.sources, device)
        found.append(_Group(seed, reads, control, first, first + len(probes)))
        first += len(probes)
    return found


def _train(
    shape: Shape,
    bank: Bank,
    asked: _Asked,
    learnt: Mapping[int, Data],
    dev: Data,
    schedule: Schedule,
    told: Callable[[int], object],
) -> tuple[Parameters, Tensor, int]:
    device, number = bank.device, len(asked)
    drawn = {seed: initial(shape, seed) for seed, _ in asked}
    own = {
        name: torch.stack([drawn[seed][name] for seed, _ in asked]).to(device)
        for name in drawn[asked[0][0]]
    }
    best = Best(
        {name: value.clone() for name, value in own.items()},
        torch.full((number,), -torch.inf, dtype=torch.double, device=device),
        torch.full((number,), torch.inf, device=device),
        torch.zeros(number, dtype=torch.long, device=device),
    )
    now = _Learning(
        torch.arange(number, device=device),
        own,
        {name: torch.zeros_like(value) for name, value in own.items()},
        {name: torch.zeros_like(value) for name, value in own.items()},
        torch.full((number,), schedule.rate, device=device),
        torch.zeros(number, dtype=torch.long, device=device),
        torch.full((number,), -torch.inf, dtype=torch.double, device=device),
    )
    random = {seed: torch.Generator().manual_seed(seed) for seed in drawn}
    drops = {seed: Dropping(torch.Generator(device).manual_seed(seed)) for seed in drawn}
    targets = len(learnt[asked[0][0]])
    size = batch_size(targets, schedule)
    for epoch in range(schedule.epochs):
        groups = _groups([asked[place] for place in now.places.tolist()], shape, device)
        orders = [torch.randperm(targets, generator=random[group.seed]) for group in groups]
        for start in range(0, targets, size):
            batches = [
                learnt[group.seed].take(order[start : start + size])
                for group, order in zip(groups, orders, strict=True)
            ]
            _update(shape, now, groups, bank, batches, [drops[group.seed] for group in groups])
        judged = [
            assessed(
                shape,
                {name: value[group.first : group.last] for name, value in now.own.items()},
                group.reads,
                group.control,
                bank,
                dev if len(dev) else learnt[group.seed],
            )
            for group in groups
        ]
        score, loss = (torch.cat(each) for each in zip(*judged, strict=True))
        gained = best.gained(now.places, score, loss)
        kept = {name: value[gained] for name, value in now.own.items()}
        best.keep(now.places[gained], kept, score[gained], loss[gained], epoch)
        worth = score > now.score + schedule.gain
        now.score = torch.where(worth, score, now.score)
        now.since = torch.where(worth, 0, now.since + 1)
        now.rate = torch.where(worth, now.rate, now.rate / 2)
        now = _still(now, now.since < schedule.patience)
        told(number - len(now.places))
        if not len(now.places):
            break
    if not bool(best.loss.isfinite().all()):
        raise WorkbenchError(
            "a probe's loss went astray.", remedy="Give a lower rate, such as --rate 0.0003."
        )
    return best.own, best.epoch, now.steps


def batch_size(number: int, schedule: Schedule) -> int:
    """Targets a step: fewer where there are few, so that there are steps enough."""
    return max(1, min(schedule.batch, max(16, number // 16)))


def reads_of(probes: Sequence[Probe], sources: int, device: torch.device) -> Reads:
    """Which sources these probes read; those that read one come first."""
    mixed = [probe.sources for probe in probes if len(probe.sources) > 1]
    allowed = torch.zeros(len(mixed), sources, dtype=torch.bool)
    for row, own in enumerate(mixed):
        allowed[row, list(own)] = True
    fixed = [probe.sources[0] for probe in probes if len(probe.sources) == 1]
    return Reads(torch.tensor(fixed, dtype=torch.long, device=device), allowed.to(device))


def _still(now: _Learning, kept: Tensor) -> _Learning:
    """Without the probes that have stopped."""
    if bool(kept.all()):
        return now

    def of(values: Parameters) -> Parameters:
        return {name: value[kept] for name, value in values.items()}

    return _Learning(
        now.places[kept],
        of(now.own),
        of(now.mean),
        of(now.square),
        now.rate[kept],
        now.since[kept],
        now.score[kept],
        now.steps,
    )


def _update(
    shape: Shape,
    now: _Learning,
    groups: Sequence[_Group],
    bank: Bank,
    batches: Sequence[Data],
    drops: Sequence[Dropping],
) -> None:
    """One step of Adam, at each probe's own rate; each group has its own batch."""
    mixes = any(len(group.reads.mixed) for group in groups)
    learns = {name: v for name, v in now.own.items() if mixes or name not in ("mix", "scale")}
    leaves = {name: value.detach().requires_grad_() for name, value in learns.items()}
    sides: list[list[Tensor]] = [[] for _ in batches[0].spans]
    for group, batch, drop in zip(groups, batches, drops, strict=True):
        own = {name: value[group.first : group.last] for name, value in leaves.items()}
        found = pooled_sides(shape, own, group.reads, bank, batch.spans, drop)
        for side, pooled in zip(sides, found, strict=True):
            side.append(pooled)
    joined = [side[0] if len(side) == 1 else torch.cat(side) for side in sides]
    numbers = [group.last - group.first for group in groups]
    said = answers(shape, leaves, joined, list(zip(drops, numbers, strict=True)))
    parts = zip(torch.split(said, numbers), batches, groups, strict=True)
    loss = torch.stack([losses(own, batch, group.control).sum() for own, batch, group in parts])
    grads = torch.autograd.grad(loss.sum(), list(leaves.values()), allow_unused=True)
    now.steps += 1
    first = 1 - BETAS[0] ** now.steps
    second = math.sqrt(1 - BETAS[1] ** now.steps)
    for name, grad in zip(learns, grads, strict=True):
        if grad is None:
            continue
        value, mean, square = now.own[name], now.mean[name], now.square[name]
        mean.lerp_(grad, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
        quick = MIXING if name == "mix" else 1.0
        rate = (quick * now.rate / first).reshape(-1, *[1] * (value.ndim - 1))
        below = square.sqrt().div_(second).add_(TINY).div_(rate)
        value.addcdiv_(mean, below, value=-1)


def losses(said: Tensor, batch: Data, control: Tensor) -> Tensor:
    """What each probe's answers cost, in nats a target.  # [probes, batch, labels] -> [probes]"""
    wanted = batch.labels.to(said.device).index_select(0, control)  # [probes, batch, labels]
    if batch.softmax:
        known = wanted.any(2)  # a label never seen in train cannot be coded
        nats = -(said.log_softmax(2) * wanted).sum(2) * known
        return nats.sum(1) / max(1, said.shape[1])
    nats = functional.binary_cross_entropy_with_logits(said, wanted.float(), reduction="none")
    return nats.sum(2).mean(1)


def assessed(
    shape: Shape, own: Parameters, reads: Reads, control: Tensor, bank: Bank, data: Data
) -> tuple[Tensor, Tensor]:
    """Score and loss of each probe.  # [probes], [probes]"""
    counts = torch.zeros(reads.number, 3, dtype=torch.long, device=bank.device)
    loss = torch.zeros(reads.number, device=bank.device)
    for places, said in outputs(shape, own, reads, bank, data.spans):
        part = data.take(places)
        counts += counted(said, part, control).sum(1)
        loss += losses(said, part, control) * len(places)
    return f1(counts), loss / len(data)


def outputs(
    shape: Shape, own: Parameters, reads: Reads, bank: Bank, spans: Sequence[Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits, a chunk of targets at a time.  # places [some], [probes, some, labels]"""
    widest = max(shape.width * 2, shape.hidden, shape.labels)
    most = AT_ONCE.get(bank.device.type, AT_ONCE["cpu"]) // 4
    size = max(16, min(4096, most // max(1, reads.number * widest)))
    with torch.no_grad():
        for places in torch.split(torch.arange(len(spans[0])), size):
            own_spans = [side[places] for side in spans]
            yield places, logits(shape, own, reads, bank, own_spans)


def counted(said: Tensor, data: Data, control: Tensor) -> Tensor:
    """Labels rightly said, said, and there, target by target.  # -> [probes, batch, 3]

    A label is said where its logit is not below nought.
    """
    wanted = data.labels.to(said.device).index_select(0, control)
    scored = data.scored.to(said.device)
    answers = (said >= 0) & scored
    unseen = data.unseen.to(said.device) * (control == 0)[:, None]  # [probes, batch]
    right = (answers & wanted).sum(2)
    return torch.stack([right, answers.sum(2), (wanted & scored).sum(2) + unseen], dim=2)


def f1(counts: Tensor) -> Tensor:
    """2 · right / (said + there); nought where there is nothing to say.  # [..., 3] -> [...]"""
    right, said, there = counts.double().unbind(-1)
    return torch.where(said + there > 0, 2 * right / (said + there).clamp(min=1), 0.0)
