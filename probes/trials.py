"""Everything that edge probing trains, one stack after another, each written down when it is done.

A trial is one task, kind of probe, seed and share of the targets. Costs what its stack costs; a
file of counts and answers each, from which a run that was stopped goes on.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from probes.asked import EdgeProbing
from probes.bank import Bank
from probes.inputs import Opened
from probes.kinds import KindName, mixing
from probes.measure import Measured, measured
from probes.plan import Mode, planned
from probes.ready import Ready
from probes.ridge import ridge
from probes.stack import Data, Probe, Schedule, Told, Trained, train_seeds
from workbench.experiment import Progress
from workbench.files import written_whole

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
    kinds: tuple[Kind, ...] = (RIDGE,) if settings.preview else settings.probes
    seeds = settings.seeds[:1] if settings.preview else settings.seeds
    asked = [
        (name, kind, share, number)
        for name in ready
        for kind in kinds
        for share in sorted(settings.shares)
        for number in range(len(banks))
    ]
    for done, (name, kind, share, number) in enumerate(asked):
        bank, task = banks[number], ready[name]
        probes = planned(bank.sources, modes_asked(settings), settings.controls)
        if settings.preview:
            probes = tuple(probe for probe in probes if len(probe.sources) == 1)

        def told(stopped: int, of: int, done: int = done, name: str = name) -> None:
            progress(100 * done + 100 * stopped // max(of, 1), 100 * len(asked), name)

        told(0, 1)
        kept = [home / f"trial-{done:05d}-{seed}.npz" for seed in seeds]
        found = [
            _read(path, name, kind, seed, share, number)
            for path, seed in zip(kept, seeds, strict=True)
        ]
        if any(trial is None for trial in found):
            fresh = _trained(task, bank, probes, kind, seeds, share, settings, told)
            found = [
                _trial(read, task, bank, fresh[seed], kind, seed, share, number) for seed in seeds
            ]
            for path, trial in zip(kept, found, strict=True):
                assert trial is not None
                _write(path, trial)
        for trial in found:
            assert trial is not None
            yield trial
    progress(100 * len(asked), 100 * len(asked), "all tasks")


def _trained(
    task: Ready,
    bank: Bank,
    probes: Sequence[Probe],
    kind: Kind,
    seeds: Sequence[int],
    share: float,
    settings: EdgeProbing,
    told: Told,
) -> dict[int, Trained]:
    """The probes of every seed, each learning from its own draw of a share."""
    if kind == RIDGE:
        return {seed: ridge(bank, probes, task.train, task.dev) for seed in seeds}
    learnt = {seed: _share(task.train, share, seed) for seed in seeds}
    schedule = Schedule(settings.rate, settings.batch, settings.epochs, settings.patience)
    return train_seeds(kind, settings.hidden, bank, probes, learnt, task.dev, schedule, told)


def _share(data: Data, share: float, seed: int) -> Data:
    if share >= 1:
        return data
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    return data.take(order[: max(1, round(share * len(data)))])


def _trial(
    read: Opened,
    task: Ready,
    bank: Bank,
    trained: Trained,
    kind: Kind,
    seed: int,
    share: float,
    number: int,
) -> Trial:
    """What trained probes say of the test part."""
    document = task.tested.document - read.first_scored
    found = measured(trained, bank, task.test, document, len(read.parts.test), task.tested.single)
    mixes = mixing(trained.own, trained.reads.mixed)
    scale = trained.own["scale"][len(trained.probes) - len(mixes) :, None]
    return Trial(
        task.examples.task.name,
        kind,
        seed,
        share,
        number,
        trained.probes,
        found,
        (mixes / scale).double().cpu().numpy(),
    )


_FIELDS = ("counts", "labels", "likeliest", "right")


def _write(path: Path, trial: Trial) -> None:
    about = {"probes": [[probe.sources, probe.control] for probe in trial.probes]}
    arrays = {name: getattr(trial.found, name) for name in _FIELDS}
    with written_whole(path) as draft, draft.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), mixes=trial.mixes, **arrays)


def _read(path: Path, name: str, kind: Kind, seed: int, share: float, bank: int) -> Trial | None:
    """What was done before the run was stopped."""
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as kept:
        about = json.loads(str(kept["about"]))
        found = Measured(*(kept[field] for field in _FIELDS))
        own = tuple(Probe(tuple(sources), control) for sources, control in about["probes"])
        return Trial(name, kind, seed, share, bank, own, found, kept["mixes"])
