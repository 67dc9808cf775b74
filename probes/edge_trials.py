"""The trials of edge probing: tasks made ready, probes trained, and what each came to on disk.

Costs what `probes.edge_probing` says.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from probes.experiments import EdgeProbing, KindName, LossName, Mode
from probes.logistic import STRENGTHS, logistic
from probes.probe_grid import Measured, measured, planned, ridge
from probes.probe_inputs import Opened, read_done, write_done
from probes.probe_training import (
    Data,
    Probe,
    Schedule,
    SideBySide,
    Told,
    Trained,
    add_seeds,
    data_of,
    joined,
    mixing,
    steps_an_epoch,
)
from probes.representations import MODEL, Bank
from probes.targets import Examples, control_labels, examples_of, order_of
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Progress
from workbench.core.splits import DEV, TEST, TRAIN

HALF = 0.5  # of the targets, for whether more data would change the curve


# --- tasks made ready for training: targets by part, labels true and of the control task ----------
#
# A task without targets to learn from or to be scored on is left out, and that is said. Costs
# what `examples` costs, and one draw a word type.

# Dev targets scored after each epoch: half as many as may be trained on, within these bounds.
DEV_LEAST, DEV_MOST = 500, 2_000


@dataclass(frozen=True)
class Ready:
    """A task made ready: its targets by part, and what they are called."""

    examples: Examples
    train: Data
    dev: Data
    test: Data
    tested: Examples


def ready_tasks(
    read: Opened, targets: int | None, loss: LossName, seed: int
) -> tuple[dict[str, Ready], list[Caveat]]:
    """The tasks that have targets, with at most `targets` to train on; caveats about the others."""
    ready: dict[str, Ready] = {}
    caveats = []
    words = read.words
    for task in read.tasks:
        examples = examples_of(task, read.batch, read.part_of, read.encoded.missing, targets, seed)
        for why, number in examples.left_out.items():
            caveats.append(Caveat(f"{task.name}: {number:,} targets {why}, and are left out."))
        learnt, dev, test = (examples.of(part) for part in (TRAIN, DEV, TEST))
        if not len(learnt) or not len(test):
            part = "train" if not len(learnt) else "test"
            caveats.append(Caveat(f"{task.name} has no targets in {part}, and is left out."))
            continue
        control = control_labels(examples, words, seed)
        data = data_of(examples, control, examples.softmax(loss))
        most = DEV_MOST if targets is None else min(DEV_MOST, max(DEV_LEAST, targets // 2))
        if len(dev) > most:
            dev = dev[order_of(len(dev), seed)[:most].sort().values]
        tested = examples.take(test)
        ready[task.name] = Ready(
            examples, data.take(learnt), data.take(dev), data.take(test), tested
        )
        caveats += [Caveat(f"{task.name}: {said}") for said in _odd(examples, len(dev), tested)]
    if not ready:
        raise WorkbenchError(
            "no task has targets both to learn from and to be scored on.",
            where=", ".join(task.name for task in read.tasks),
            remedy="Give more sentences, with --limit or a larger corpus.",
        )
    return ready, caveats


def _odd(examples: Examples, dev: int, tested: Examples) -> Iterator[str]:
    if len(examples.names) == 1 and bool(examples.labels[examples.of(TRAIN)].all()):
        yield f"every target to learn from is {examples.names[0]!r}, so a score says nothing."
    if not dev:
        yield "dev has no targets, so probes stopped by what they learnt from."
    if (names := examples.names) and not bool(examples.scored[_commonest(examples)]):
        yield (
            f"its most frequent label, {names[_commonest(examples)]!r}, does not count in the "
            "score; the majority baseline predicts the most frequent label that does."
        )
    if unseen := int(tested.unseen.sum()):
        yield f"{unseen:,} gold labels do not occur in train, and count as missed."


def _commonest(examples: Examples) -> int:
    """The place of the most frequent label of train."""
    return int(examples.labels[examples.of(TRAIN)].sum(0).argmax())


# --- trials ---------------------------------------------------------------------------------------
#
# Everything that edge probing trains, one stack after another, each written down when it is done.
#
# A trial is one task, kind of probe, seed and share of the targets. Costs what its stack costs; a
# file of counts and answers each, from which a run that was stopped goes on.

Kind = KindName | Literal["ridge"]
RIDGE: Literal["ridge"] = "ridge"


@dataclass(frozen=True)
class Trial:
    """What one task, kind, seed and share came to, for the probes of one bank."""

    task: str
    kind: Kind
    seed: int
    share: float
    bank: int
    probes: tuple[Probe, ...]
    found: Measured
    mixes: NDArray[np.float64]  # [mixing probes, sources]
    converged: NDArray[np.bool_]  # [probes]
    half: bool  # trained on half of the targets, for whether more would change the curve


def modes_asked(settings: EdgeProbing) -> tuple[Mode, ...]:
    """A preview reads single layers only."""
    return ("layer",) if settings.preview else settings.modes


def trials_of(
    read: Opened,
    ready: Mapping[str, Ready],
    banks: Sequence[Bank],
    settings: EdgeProbing,
    home: Path,
    progress: Progress,
) -> Iterator[Trial]:
    """Everything that is trained, all seeds of a task at once; what is on disk is read."""
    stacks = _planned(ready, banks, settings)
    done = [0] * len(stacks)  # percent
    lock = Lock()

    def told_of(number: int, stopped: int, of: int) -> None:
        with lock:
            done[number] = 100 * stopped // max(of, 1)
            progress(sum(done), 100 * len(stacks), stacks[number].task)

    with SideBySide(banks[0].device) as jobs:
        results: list[Callable[[], list[Trial]]] = []
        for number, stack in enumerate(stacks):
            kept = {seed: home / f"trial-{number:05d}-{seed}.npz" for seed in stack.seeds}
            found = [trial for s, path in kept.items() if (trial := _read(path, stack, s))]
            if len(found) == len(kept):
                results.append(partial(list, found))
                continue
            bank, task = banks[stack.bank], ready[stack.task]
            told = partial(told_of, number)
            trained = _trained(jobs, task, bank, stack, settings, told)
            results.append(partial(_tried, read, task, bank, trained, stack, kept))
        for number in range(len(stacks)):
            yield from results[number]()
            results[number] = list  # let its probes go
            told_of(number, 1, 1)
    progress(100 * len(stacks), 100 * len(stacks), "all tasks")


def _tried(
    read: Opened,
    task: Ready,
    bank: Bank,
    trained: Callable[[], dict[int, Trained]],
    stack: "_Stack",
    kept: Mapping[int, Path],
) -> list[Trial]:
    """Wait until a stack is trained, test it, and write down what it came to."""
    found = [_trial(read, task, bank, own, stack, seed) for seed, own in trained().items()]
    for trial in found:
        _write(kept[trial.seed], trial)
    return found


@dataclass(frozen=True)
class _Stack:
    """Probes of one task and bank that are trained together."""

    task: str
    kind: Kind
    share: float  # of the targets
    bank: int
    probes: tuple[Probe, ...]
    seeds: tuple[int, ...]
    half: bool = False


def _planned(
    ready: Mapping[str, Ready], banks: Sequence[Bank], settings: EdgeProbing
) -> list[_Stack]:
    """Every stack of probes, in the order in which they are trained."""
    kinds: tuple[Kind, ...] = (RIDGE,) if settings.preview else settings.probes
    seeds = settings.effort.seeds[:1] if settings.preview else settings.effort.seeds
    modes = modes_asked(settings)
    every = [planned(bank.sources, modes, settings.control_tasks) for bank in banks]
    if settings.preview:
        every = [tuple(p for p in probes if len(p.sources) == 1) for probes in every]
    halves = [
        tuple(probe for probe in probes if _tells_of_data(probe, bank, modes))
        for probes, bank in zip(every, banks, strict=True)
    ]
    stacks: list[_Stack] = []
    for name in ready:
        for kind in kinds:
            if settings.half_data_check and not settings.preview:
                share = HALF * max(settings.data_fractions)
                stacks += [
                    _Stack(name, kind, share, number, probes, seeds, half=True)
                    for number, probes in enumerate(halves)
                    if probes
                ]
            stacks += [
                _Stack(name, kind, share, number, every[number], seeds)
                for share in sorted(settings.data_fractions)
                for number in range(len(banks))
            ]
    return stacks


USUAL_EPOCHS, USUAL_STEPS = 16, 45  # until dev stops a probe; until L-BFGS is at its optimum
OVERHEAD = 2.5  # of a step, over its matrix products alone
STEP = 1e-2  # seconds that a step takes besides them


def estimated_time(ready: Mapping[str, Ready], banks: Sequence[Bank], settings: EdgeProbing) -> str:
    """How many probes will be trained and about how long that takes, for the log.

    Times a matrix product on the device, and multiplies: right within a factor of two or so.
    """
    operations, number, steps = 0.0, 0, 0
    for stack in _planned(ready, banks, settings):
        task, bank = ready[stack.task], banks[stack.bank]
        targets = stack.share * len(task.train)
        width, labels = bank.width * len(task.train.spans), task.train.labels.shape[2]
        epochs = min(USUAL_EPOCHS, settings.effort.epochs)
        seeds, probes = len(stack.seeds), len(stack.probes)
        alone = sum(len(probe.sources) == 1 for probe in stack.probes)
        number += probes * seeds
        steps += epochs * _steps(stack, task, bank, settings)
        if stack.kind == RIDGE:
            operations += len(bank.sources) * width**2 * (targets + width)
        elif stack.kind == "linear":
            solved = alone * (1 if stack.share >= 1 else seeds)
            operations += 4 * targets * width * labels * len(STRENGTHS) * USUAL_STEPS * solved
            operations += 6 * targets * width * labels * epochs * (probes - alone) * seeds
        else:
            operations += 6 * targets * width * settings.hidden_size * epochs * probes * seeds
    threads = torch.get_num_threads() if banks[0].device.type == "cpu" else 1
    seconds = OVERHEAD * operations / _speed(banks[0].device) + STEP * steps / threads
    about = f"{max(1, seconds):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    name = "preview" if settings.preview else f"preset {settings.preset}"
    return f"Training {number:,} probes ({name}): about {about}."


def _steps(stack: _Stack, task: Ready, bank: Bank, settings: EdgeProbing) -> int:
    """Steps an epoch of the probes that Adam trains; linear probes of one layer have L-BFGS."""
    if stack.kind == RIDGE:
        return 0
    probes = [p for p in stack.probes if stack.kind != "linear" or len(p.sources) > 1]
    learnt, schedule = _share(task.train, stack.share, stack.seeds[0]), _schedule(settings)
    return steps_an_epoch(stack.kind, settings.hidden_size, bank, probes, stack.seeds, learnt, schedule)


def _schedule(settings: EdgeProbing) -> Schedule:
    effort = settings.effort
    return Schedule(
        rate=settings.learning_rate,
        batch=settings.batch_size,
        epochs=effort.epochs,
        patience=effort.patience,
        steps=effort.steps,
    )


@cache
def _speed(device: torch.device) -> float:
    """Floating-point operations a second, from a few matrix products; measured once."""
    one, other = torch.rand(8, 256, 256, device=device), torch.rand(8, 256, 256, device=device)
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        float((one @ other).sum())  # waits for the device
        best = min(best, time.perf_counter() - started)
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    return 2 * one.numel() * 256 / best * max(1.0, 0.75 * threads if threads > 1 else 1.0)


def _tells_of_data(probe: Probe, bank: Bank, modes: Sequence[Mode]) -> bool:
    """Whether a probe is also trained on half of the targets: the model's layers, or its mixes."""
    single = len(probe.sources) == 1
    return (
        bank.sources[probe.sources[0]].encoder == MODEL
        and not probe.control
        and (single or "layer" not in modes)
    )


def _trained(
    jobs: SideBySide, task: Ready, bank: Bank, stack: _Stack, settings: EdgeProbing, told: Told
) -> Callable[[], dict[int, Trained]]:
    """The probes of every seed, each trained on its own sample of a share; as jobs."""
    if stack.kind == RIDGE:
        closed = jobs.add(partial(ridge, bank, stack.probes, task.train, task.dev))
        return lambda: dict.fromkeys(stack.seeds, closed())
    kind, hidden = stack.kind, settings.hidden_size
    learnt = {seed: _share(task.train, stack.share, seed) for seed in stack.seeds}
    schedule = _schedule(settings)
    if kind != "linear":
        return add_seeds(jobs, kind, hidden, bank, stack.probes, learnt, task.dev, schedule, told)
    alone = [probe for probe in stack.probes if len(probe.sources) == 1]
    mixes = [probe for probe in stack.probes if len(probe.sources) > 1]

    def told_of_alone(done: int, total: int) -> None:
        jobs.check()
        told(done, total + len(mixes))

    one_for_all = stack.share >= 1  # the optimum depends on no seed
    waited = {
        seed: jobs.add(partial(logistic, bank, alone, learnt[seed], task.dev, told_of_alone))
        for seed in (stack.seeds[:1] if one_for_all else stack.seeds)
        if alone
    }
    if not mixes:
        mixed: Callable[[], dict[int, Trained]] = dict
    else:
        mixed = add_seeds(jobs, kind, hidden, bank, mixes, learnt, task.dev, schedule, told)

    def found() -> dict[int, Trained]:
        optimal = {seed: result() for seed, result in waited.items()}
        if one_for_all and optimal:
            optimal = dict.fromkeys(stack.seeds, *optimal.values())
        mixing = mixed()
        if not (optimal and mixing):
            return optimal or mixing
        return {seed: joined(optimal[seed], mixing[seed]) for seed in stack.seeds}

    return found


def _share(data: Data, share: float, seed: int) -> Data:
    if share >= 1:
        return data
    return data.take(order_of(len(data), seed)[: max(1, round(share * len(data)))])


def _trial(
    read: Opened, task: Ready, bank: Bank, trained: Trained, stack: _Stack, seed: int
) -> Trial:
    """What trained probes predict on the test part."""
    document = task.tested.document - read.first_scored
    found = measured(trained, bank, task.test, document, len(read.parts.test), task.tested.single)
    mixes = mixing(trained.own, trained.reads.mixed)
    scale = trained.own["scale"][len(trained.probes) - len(mixes) :, None]
    return Trial(
        stack.task,
        stack.kind,
        seed,
        stack.share,
        stack.bank,
        trained.probes,
        found,
        (mixes / scale).double().cpu().numpy(),
        trained.converged.cpu().numpy(),
        stack.half,
    )


_FIELDS = ("counts", "labels", "likeliest", "right")


def _write(path: Path, trial: Trial) -> None:
    arrays = {name: getattr(trial.found, name) for name in _FIELDS}
    arrays |= {"mixes": trial.mixes, "converged": trial.converged}
    write_done(path, trial.probes, arrays)


def _read(path: Path, stack: _Stack, seed: int) -> Trial | None:
    """What was done before the run was stopped; what cannot be read is done again."""
    return read_done(
        path,
        lambda probes, _, kept: Trial(
            stack.task,
            stack.kind,
            seed,
            stack.share,
            stack.bank,
            probes,
            Measured(*(kept[field] for field in _FIELDS)),
            kept["mixes"],
            kept["converged"],
            stack.half,
        ),
    )
