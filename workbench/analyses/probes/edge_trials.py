"""The trials of edge probing: prepares the tasks, trains the probes and saves their results.

Costs: as stated in `workbench.analyses.probes.edge_probing`.
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

from workbench.analyses.probes.batched_adam import OnProgress
from workbench.analyses.probes.experiments import EdgeProbing, KindName, LossName, Mode
from workbench.analyses.probes.logistic import STRENGTHS, logistic
from workbench.analyses.probes.probe_grid import Measured, measured, plan_probes, ridge
from workbench.analyses.probes.probe_inputs import ProbeInputs, load_results, save_results
from workbench.analyses.probes.probe_training import (
    Data,
    JobPool,
    Probe,
    Schedule,
    Trained,
    add_seeds,
    data_of,
    joined,
    mix_weights,
    steps_an_epoch,
)
from workbench.analyses.probes.representations import MODEL, Bank
from workbench.analyses.probes.targets import Examples, control_labels, examples_of, order_of
from workbench.core.errors import WorkbenchError
from workbench.core.findings import plural, verb_of
from workbench.corpora.splits import DEV, TEST, TRAIN
from workbench.experiment.definition import Caveat, Progress

HALF = 0.5  # of the targets, to check whether more data would change the curve


# --- tasks prepared for training: targets by part, true labels and labels of the control task -----
#
# A task without train or test targets is left out, with a caveat. Costs: what `examples_of` costs,
# and one random draw per word type.

# Dev targets scored after each epoch: half of the maximum of training targets, in these bounds.
MIN_DEV, MAX_DEV = 500, 2_000


@dataclass(frozen=True)
class TaskData:
    """The targets of a task by part, with their labels."""

    examples: Examples
    train: Data
    dev: Data
    test: Data
    tested: Examples


def prepare_tasks(
    probe_inputs: ProbeInputs, targets: int | None, loss: LossName, seed: int
) -> tuple[dict[str, TaskData], list[Caveat]]:
    """Tasks with targets, each with a maximum of `targets` for training; caveats on the others."""
    tasks: dict[str, TaskData] = {}
    caveats = []
    words = probe_inputs.words
    for task in probe_inputs.tasks:
        examples = examples_of(
            task,
            probe_inputs.batch,
            probe_inputs.part_of,
            probe_inputs.encoded.missing,
            targets,
            seed,
        )
        for reason, n_targets in examples.left_out.items():
            caveats.append(
                Caveat(f"{task.name}: targets that {reason} are left out ({n_targets:,}).")
            )
        train, dev, test = (examples.of(part) for part in (TRAIN, DEV, TEST))
        if not len(train) or not len(test):
            part = "train" if not len(train) else "test"
            caveats.append(Caveat(f"{task.name} is left out: it has no targets in {part}."))
            continue
        control = control_labels(examples, words, seed)
        data = data_of(examples, control, examples.softmax(loss))
        max_dev = MAX_DEV if targets is None else min(MAX_DEV, max(MIN_DEV, targets // 2))
        if len(dev) > max_dev:
            dev = dev[order_of(len(dev), seed)[:max_dev].sort().values]
        tested = examples.take(test)
        tasks[task.name] = TaskData(
            examples, data.take(train), data.take(dev), data.take(test), tested
        )
        messages = _label_problems(examples, len(dev), tested)
        caveats += [Caveat(f"{task.name}: {message}") for message in messages]
    if not tasks:
        raise WorkbenchError(
            "no task has both training and test targets.",
            code="too-few-targets",
            where=", ".join(task.name for task in probe_inputs.tasks),
            remedy="Use more sentences: raise --max-sentences, or choose a larger corpus.",
        )
    return tasks, caveats


def _label_problems(examples: Examples, n_dev: int, tested: Examples) -> Iterator[str]:
    """Messages about labels of a task that limit what its scores mean."""
    if len(examples.names) == 1 and bool(examples.labels[examples.of(TRAIN)].all()):
        yield f"every training target is {examples.names[0]!r}, so a score says nothing."
    if not n_dev:
        yield "dev has no targets, so early stopping used the training targets."
    if (names := examples.names) and not bool(examples.scored[_most_frequent(examples)]):
        yield (
            f"its most frequent label, {names[_most_frequent(examples)]!r}, does not count in the "
            "score. The majority baseline predicts the most frequent label that counts."
        )
    if unseen := int(tested.unseen.sum()):
        labels = (
            f"{plural(unseen, 'gold label')} {verb_of(unseen, 'does', 'do')} not occur in train"
        )
        yield f"{labels}; {verb_of(unseen, 'it counts', 'they count')} as missed."


def _most_frequent(examples: Examples) -> int:
    """The index of the most frequent label in train."""
    return int(examples.labels[examples.of(TRAIN)].sum(0).argmax())


# --- trials ---------------------------------------------------------------------------------------
#
# Everything that edge probing trains, one stack after another; each is saved when it is done.
#
# A trial is one task, kind of probe, seed and share of the targets. Costs: what its stack costs,
# and one file of counts and predictions, from which a stopped run continues.

Kind = KindName | Literal["ridge"]
RIDGE: Literal["ridge"] = "ridge"


@dataclass(frozen=True)
class Trial:
    """Results of one task, kind, seed and share, for the probes of one bank."""

    task: str
    kind: Kind
    seed: int
    share: float
    bank: int
    probes: tuple[Probe, ...]
    measured: Measured
    mixes: NDArray[np.float64]  # [mixes, sources]
    converged: NDArray[np.bool_]  # [probes]
    half: bool  # trained on half of the targets, to check whether more would change the curve


def resolve_modes(settings: EdgeProbing) -> tuple[Mode, ...]:
    """The modes to probe; a preview reads single layers only."""
    return ("layer",) if settings.preview else settings.modes


def train_trials(
    probe_inputs: ProbeInputs,
    tasks: Mapping[str, TaskData],
    banks: Sequence[Bank],
    settings: EdgeProbing,
    home: Path,
    progress: Progress,
) -> Iterator[Trial]:
    """Train all probes, all seeds of a task at once; finished trials are read from disk."""
    stacks = _planned(tasks, banks, settings)
    done = [0] * len(stacks)  # percent
    lock = Lock()

    def on_progress(index: int, stopped: int, total: int) -> None:
        with lock:
            done[index] = 100 * stopped // max(total, 1)
            progress(sum(done), 100 * len(stacks), f"training probes: {stacks[index].task}")

    with JobPool(banks[0].device) as jobs:
        results: list[Callable[[], list[Trial]]] = []
        for index, stack in enumerate(stacks):
            paths = {seed: home / f"trial-{index:05d}-{seed}.npz" for seed in stack.seeds}
            trials = [trial for s, path in paths.items() if (trial := _read(path, stack, s))]
            if len(trials) == len(paths):
                results.append(partial(list, trials))
                continue
            bank, task = banks[stack.bank], tasks[stack.task]
            trained = _trained(jobs, task, bank, stack, settings, partial(on_progress, index))
            results.append(partial(_finish, probe_inputs, task, bank, trained, stack, paths))
        for index in range(len(stacks)):
            yield from results[index]()
            results[index] = list  # free the memory of its probes
            on_progress(index, 1, 1)
    progress(100 * len(stacks), 100 * len(stacks), "training probes")


def _finish(
    probe_inputs: ProbeInputs,
    task: TaskData,
    bank: Bank,
    trained: Callable[[], dict[int, Trained]],
    stack: "_Stack",
    paths: Mapping[int, Path],
) -> list[Trial]:
    """Wait until a stack is trained, score it on test and save the trials."""
    trials = [
        _trial(probe_inputs, task, bank, probes, stack, seed) for seed, probes in trained().items()
    ]
    for trial in trials:
        _write(paths[trial.seed], trial)
    return trials


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
    tasks: Mapping[str, TaskData], banks: Sequence[Bank], settings: EdgeProbing
) -> list[_Stack]:
    """All stacks of probes, in training order."""
    kinds: tuple[Kind, ...] = (RIDGE,) if settings.preview else settings.probes
    seeds = settings.budget.seeds[:1] if settings.preview else settings.budget.seeds
    modes = resolve_modes(settings)
    plans = [plan_probes(bank.sources, modes, settings.control_tasks) for bank in banks]
    if settings.preview:
        plans = [tuple(p for p in probes if len(p.sources) == 1) for probes in plans]
    half_plans = [
        tuple(probe for probe in probes if _checks_data(probe, bank, modes))
        for probes, bank in zip(plans, banks, strict=True)
    ]
    stacks: list[_Stack] = []
    for name in tasks:
        for kind in kinds:
            if settings.half_data_check and not settings.preview:
                share = HALF * max(settings.data_fractions)
                stacks += [
                    _Stack(name, kind, share, index, probes, seeds, half=True)
                    for index, probes in enumerate(half_plans)
                    if probes
                ]
            stacks += [
                _Stack(name, kind, share, index, probes, seeds)
                for share in sorted(settings.data_fractions)
                for index, probes in enumerate(plans)
            ]
    return stacks


USUAL_EPOCHS, USUAL_STEPS = 16, 45  # until early stopping; until L-BFGS is at its optimum
OVERHEAD = 2.5  # time of a step, relative to its matrix products
STEP = 1e-2  # seconds of a step besides its matrix products


def estimated_time(
    tasks: Mapping[str, TaskData], banks: Sequence[Bank], settings: EdgeProbing
) -> str:
    """A line for the log: number of probes to train and estimated time.

    Times a matrix product on the device and multiplies; accurate within a factor of about two.
    """
    operations, n_probes, steps = 0.0, 0, 0
    for stack in _planned(tasks, banks, settings):
        task, bank = tasks[stack.task], banks[stack.bank]
        targets = stack.share * len(task.train)
        width, labels = bank.width * len(task.train.spans), task.train.labels.shape[2]
        epochs = min(USUAL_EPOCHS, settings.budget.epochs)
        seeds, probes = len(stack.seeds), len(stack.probes)
        n_single = sum(len(probe.sources) == 1 for probe in stack.probes)
        n_probes += probes * seeds
        steps += epochs * _steps(stack, task, bank, settings)
        if stack.kind == RIDGE:
            operations += len(bank.sources) * width**2 * (targets + width)
        elif stack.kind == "linear":
            solved = n_single * (1 if stack.share >= 1 else seeds)
            operations += 4 * targets * width * labels * len(STRENGTHS) * USUAL_STEPS * solved
            operations += 6 * targets * width * labels * epochs * (probes - n_single) * seeds
        else:
            operations += 6 * targets * width * settings.hidden_size * epochs * probes * seeds
    threads = torch.get_num_threads() if banks[0].device.type == "cpu" else 1
    seconds = OVERHEAD * operations / _speed(banks[0].device) + STEP * steps / threads
    duration = f"{max(1, seconds):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    name = "preview" if settings.preview else f"effort {settings.effort}"
    return f"Training {n_probes:,} probes ({name}): about {duration}."


def _steps(stack: _Stack, task: TaskData, bank: Bank, settings: EdgeProbing) -> int:
    """Steps per epoch of the probes trained with Adam; single-layer linear probes use L-BFGS."""
    if stack.kind == RIDGE:
        return 0
    probes = [p for p in stack.probes if stack.kind != "linear" or len(p.sources) > 1]
    train, schedule = _share(task.train, stack.share, stack.seeds[0]), _schedule(settings)
    return steps_an_epoch(
        stack.kind, settings.hidden_size, bank, probes, stack.seeds, train, schedule
    )


def _schedule(settings: EdgeProbing) -> Schedule:
    budget = settings.budget
    return Schedule(
        learning_rate=settings.learning_rate,
        batch_size=settings.batch_size,
        epochs=budget.epochs,
        patience=budget.patience,
        steps=budget.steps,
    )


@cache
def _speed(device: torch.device) -> float:
    """Floating-point operations per second, from a few matrix products; measured once."""
    one, other = torch.rand(8, 256, 256, device=device), torch.rand(8, 256, 256, device=device)
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        float((one @ other).sum())  # waits for the device
        best = min(best, time.perf_counter() - started)
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    return 2 * one.numel() * 256 / best * max(1.0, 0.75 * threads if threads > 1 else 1.0)


def _checks_data(probe: Probe, bank: Bank, modes: Sequence[Mode]) -> bool:
    """Whether a probe is also trained on half of the targets: the model's layers, or mixes."""
    single = len(probe.sources) == 1
    return (
        bank.sources[probe.sources[0]].encoder == MODEL
        and not probe.control
        and (single or "layer" not in modes)
    )


def _trained(
    jobs: JobPool,
    task: TaskData,
    bank: Bank,
    stack: _Stack,
    settings: EdgeProbing,
    on_progress: OnProgress,
) -> Callable[[], dict[int, Trained]]:
    """Add the training of a stack to the jobs; each seed trains on its own sample of the share."""
    if stack.kind == RIDGE:
        ridge_probes = jobs.add(partial(ridge, bank, stack.probes, task.train, task.dev))
        return lambda: dict.fromkeys(stack.seeds, ridge_probes())
    kind, hidden = stack.kind, settings.hidden_size
    train = {seed: _share(task.train, stack.share, seed) for seed in stack.seeds}
    schedule = _schedule(settings)
    if kind != "linear":
        return add_seeds(
            jobs, kind, hidden, bank, stack.probes, train, task.dev, schedule, on_progress
        )
    single = [probe for probe in stack.probes if len(probe.sources) == 1]
    mixes = [probe for probe in stack.probes if len(probe.sources) > 1]

    def on_single(done: int, total: int) -> None:
        jobs.check()
        on_progress(done, total + len(mixes))

    shared = stack.share >= 1  # with all targets, the optimum does not depend on the seed
    pending = {
        seed: jobs.add(partial(logistic, bank, single, train[seed], task.dev, on_single))
        for seed in (stack.seeds[:1] if shared else stack.seeds)
        if single
    }
    if not mixes:
        train_mixes: Callable[[], dict[int, Trained]] = dict
    else:
        train_mixes = add_seeds(
            jobs, kind, hidden, bank, mixes, train, task.dev, schedule, on_progress
        )

    def wait() -> dict[int, Trained]:
        optimal = {seed: result() for seed, result in pending.items()}
        if shared and optimal:
            optimal = dict.fromkeys(stack.seeds, *optimal.values())
        trained_mixes = train_mixes()
        if not (optimal and trained_mixes):
            return optimal or trained_mixes
        return {seed: joined(optimal[seed], trained_mixes[seed]) for seed in stack.seeds}

    return wait


def _share(data: Data, share: float, seed: int) -> Data:
    """A random share of the targets; the same for the same seed."""
    if share >= 1:
        return data
    return data.take(order_of(len(data), seed)[: max(1, round(share * len(data)))])


def _trial(
    probe_inputs: ProbeInputs,
    task: TaskData,
    bank: Bank,
    trained: Trained,
    stack: _Stack,
    seed: int,
) -> Trial:
    """The results of trained probes on test."""
    document = task.tested.document - probe_inputs.first_scored
    scores = measured(
        trained, bank, task.test, document, len(probe_inputs.parts.test), task.tested.single
    )
    mixes = mix_weights(trained.parameters, trained.reads.mixed)
    scale = trained.parameters["scale"][len(trained.probes) - len(mixes) :, None]
    return Trial(
        stack.task,
        stack.kind,
        seed,
        stack.share,
        stack.bank,
        trained.probes,
        scores,
        (mixes / scale).double().cpu().numpy(),
        trained.converged.cpu().numpy(),
        stack.half,
    )


_FIELDS = ("counts", "labels", "likeliest", "right")


def _write(path: Path, trial: Trial) -> None:
    arrays = {name: getattr(trial.measured, name) for name in _FIELDS}
    arrays |= {"mixes": trial.mixes, "converged": trial.converged}
    save_results(path, trial.probes, arrays)


def _read(path: Path, stack: _Stack, seed: int) -> Trial | None:
    """A finished trial from disk; None if there is none, or if it cannot be read."""
    return load_results(
        path,
        lambda probes, _, arrays: Trial(
            stack.task,
            stack.kind,
            seed,
            stack.share,
            stack.bank,
            probes,
            Measured(*(arrays[field] for field in _FIELDS)),
            arrays["mixes"],
            arrays["converged"],
            stack.half,
        ),
    )
