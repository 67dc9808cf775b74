"""Description length (Voita & Titov 2020): in how few bits labels can be sent, given a layer.

What a probe scores says whether labels can be found; the length of the code says also how hard it
is, by data (`probes.codes`) or by the size of the probe (`probes.codes`). Beside each layer
stand labels drawn by word type, the random twin's top layer, bare embeddings and static vectors.
What a task, code and seed came to is written down, so a run that was stopped goes on from there.
Costs one pass of the model and of its twin; then, for 1,500 targets of 13 probes at width 128, some
3 s on one core for the online code and 5 s for the variational one, and twice that for two spans.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes import codes as variational
from probes.codes import ends_of, frequency_bits, prequential_code, uniform_bits
from probes.edge_trials import Ready, ready_tasks
from probes.experiments import CODE_KEYS, Code, DescriptionLength
from probes.probe_grid import planned
from probes.probe_inputs import opened, read_done, tasks_in, write_done
from probes.probe_training import Data, Probe, Schedule, Told, controls_of, outputs
from probes.representations import BARE, MODEL, RANDOM, STATIC, Bank, banked
from probes.targets import order_of
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.files import (
    folder_or_temporary,
)
from workbench.core.splits import TRAIN
from workbench.core.stats import interval, resampled
from workbench.corpora.corpus import Corpus

Floats = NDArray[np.float64]
LOOKED_AT = 300  # dev targets that tell an epoch's loss
ASKED = 2_000  # test targets that the accuracy is of
NATS = 1 / math.log(2)  # bits


@dataclass(frozen=True)
class Sent:
    """What one task, code and seed came to, for the probes of one bank; a code's cost in nats."""

    task: str
    code: Code
    seed: int
    bank: int
    probes: tuple[Probe, ...]
    order: NDArray[np.int64]  # [n], place among the train targets of each as it was sent
    ends: tuple[int, ...]  # of the blocks
    nats: Floats  # [probes, n], in that order; 0 where it was sent by the uniform code
    divergence: Floats  # [probes], what the probe costs
    accuracy: Floats  # [probes]
    converged: NDArray[np.bool_] | None  # [probes]; None: it was trained for a number of steps

    def bits(self, uniform: float, unit: float) -> Floats:
        """Of each target, in that order, with its part of the probe's cost.  # [probes, n]"""
        found: Floats = (self.nats + self.divergence[:, None] / self.nats.shape[1]) * unit
        if self.code == "online":
            found[:, : self.ends[0]] = uniform
        return found


def fits(corpus: Corpus, settings: DescriptionLength) -> None:
    """Raise where the corpus has none of the tasks asked for."""
    tasks_in(corpus, settings.tasks)


def run(inputs: Inputs, settings: DescriptionLength, progress: Progress) -> Result:
    """Encode, send, and tell."""
    with folder_or_temporary(inputs.scratch) as home:
        read = opened(inputs, home, settings.split_sizes, settings.tasks, progress)
        banks = banked(read.sources, inputs.model.device, read.train_words)
        ready, caveats = ready_tasks(read, settings.max_targets, "auto", inputs.seed)
        ready, constant = _varied(ready)
        sent = list(_sent(ready, banks, settings, home, progress))
    tables = _tables(ready, banks, sent, settings, inputs.seed)
    told = [Caveat(_PAPER)] if settings.unit == "paper" else []
    unreliable = _reliability(tables, settings)
    return Result(tables, caveats=(*read.caveats(), *caveats, *constant, *told, *unreliable))


def _reliability(
    tables: Mapping[str, pd.DataFrame], settings: DescriptionLength
) -> Iterator[Caveat]:
    """Which codes cannot be relied on: probes that were cut off, and those that failed."""
    ended = tables["codes"]["converged"].dropna()
    if cut := int((~ended.astype(bool)).sum()):
        yield Caveat(
            f"{cut} of {len(ended)} online codes end with a probe that was still improving after "
            f"{settings.max_epochs} epochs: they are too long. Raise epochs.",
            ("codes", "summary"),
        )
    failed = tables["summary"][~tables["summary"]["learnt"].astype(bool)]
    if len(failed):
        names = ", ".join(f"{row.task} ({row.code})" for row in failed.itertuples())
        yield Caveat(
            f"No layer compresses the labels of {names} better than their frequencies alone or "
            "than its control task: these codes say nothing about the layers.",
            ("summary",),
        )


_PAPER = (
    "Lengths are in the unit of the paper's released code, which adds nats to bits: they are "
    "shorter, and compression is higher, than in bits throughout."
)


def _varied(ready: Mapping[str, Ready]) -> tuple[dict[str, Ready], list[Caveat]]:
    """The tasks that have something to send, ready to be."""
    kept, caveats = {}, []
    for name, task in ready.items():
        if uniform_bits(task.train):
            kept[name] = task
            continue
        label = task.examples.names[0] if task.examples.names else "no label"
        caveats.append(
            Caveat(f"{name} is left out: every target is {label!r}, which takes no bit to send.")
        )
    if not kept:
        raise WorkbenchError(
            "no task has labels that differ, so there is nothing to send.",
            where=", ".join(ready),
            remedy="Give more sentences, with --limit or a larger corpus.",
        )
    return kept, caveats


# --- sending --------------------------------------------------------------------------------------


def _sent(
    ready: Mapping[str, Ready],
    banks: Sequence[Bank],
    settings: DescriptionLength,
    home: Path,
    progress: Progress,
) -> Iterator[Sent]:
    """One stack of probes after another; what is on disk is read."""
    asked = [
        (name, code, seed, number)
        for name in ready
        for code in dict.fromkeys(settings.codes)
        for seed in settings.seeds
        for number in range(len(banks))
    ]
    for done, (name, code, seed, number) in enumerate(asked):

        def told(part: int, of: int, done: int = done, doing: str = f"{name}, {code}") -> None:
            progress(100 * done + 100 * part // max(of, 1), 100 * len(asked), doing)

        told(0, 1)
        kept = home / f"code-{done:05d}.npz"
        found = _read(kept, name, code, seed, number)
        if found is None:
            found = _one(ready[name], banks[number], code, seed, number, settings, told)
            _write(kept, found)
        yield found
    progress(100 * len(asked), 100 * len(asked), "all tasks")


def _one(
    task: Ready,
    bank: Bank,
    code: Code,
    seed: int,
    number: int,
    settings: DescriptionLength,
    told: Told,
) -> Sent:
    """Send the train targets of a task to every probe of a bank."""
    plan = planned(bank.sources, ("layer",), settings.control_tasks)
    probes = tuple(probe for probe in plan if len(probe.sources) == 1)
    order = order_of(len(task.train), seed)
    train = task.train.take(order)
    test = task.test.take(_some(len(task.test), ASKED, seed))
    divergence = torch.zeros(len(probes))
    ends: tuple[int, ...] = (len(train),)
    converged = None
    if code == "online":
        ends = ends_of(len(train), settings.portions)
        dev = task.dev.take(_some(len(task.dev), LOOKED_AT, seed))
        schedule = Schedule(rate=settings.learning_rate, epochs=settings.max_epochs)
        nats, last = prequential_code(
            settings.probe, settings.hidden_size, bank, probes, train, dev, ends, schedule, seed, told
        )
        answers = outputs(last.shape, last.own, last.reads, bank, test.spans) if last else None
        converged = last.converged.cpu().numpy() if last else None
    else:
        hidden = settings.hidden_size if settings.probe == "mlp" else None
        found = variational.learnt(hidden, bank, probes, train, settings.variational_steps, seed, told)
        divergence = variational.divergence(found.layers)
        nats = variational.variational_code(found, bank, train, seed)
        answers = variational.variational_outputs(found, bank, test)
    accuracy = np.full(len(probes), np.nan) if answers is None else _right(answers, probes, test)
    return Sent(
        task.examples.task.name,
        code,
        seed,
        number,
        probes,
        order.numpy(),
        ends,
        nats.double().cpu().numpy(),
        divergence.double().cpu().numpy(),
        accuracy,
        converged,
    )


def _some(number: int, most: int, seed: int) -> Tensor:
    """Places of so many at most.  # [some]"""
    return order_of(number, seed)[:most].sort().values


def _right(answers: Iterator[tuple[Tensor, Tensor]], probes: Sequence[Probe], test: Data) -> Floats:
    """The share of targets that each probe gets wholly right.  # [probes]"""
    control = controls_of(probes)
    right = torch.zeros(len(probes), dtype=torch.long)
    for places, logits in answers:
        part, said = test.take(places), logits.cpu()
        wanted = part.labels.index_select(0, control)  # [probes, some, labels]
        if test.softmax:
            hit = wanted.gather(2, said.argmax(2)[..., None])[..., 0]
        else:
            hit = ((said >= 0) == wanted).all(2) & ((part.unseen == 0) | control[:, None].bool())
        right += hit.sum(1)
    found: Floats = (right.double() / max(1, len(test))).numpy()
    return found


_FIELDS = ("order", "nats", "divergence", "accuracy")


def _write(path: Path, found: Sent) -> None:
    arrays = {name: getattr(found, name) for name in _FIELDS}
    if found.converged is not None:
        arrays["converged"] = found.converged
    write_done(path, found.probes, arrays, ends=found.ends)


def _read(path: Path, name: str, code: Code, seed: int, bank: int) -> Sent | None:
    """What was done before the run was stopped; what cannot be read is done again."""

    def made(probes: tuple[Probe, ...], about: Any, kept: Mapping[str, NDArray[Any]]) -> Sent:
        order, nats, divergence, accuracy = (kept[field] for field in _FIELDS)
        ends, converged = tuple(about["ends"]), kept.get("converged")
        return Sent(
            name, code, seed, bank, probes, order, ends, nats, divergence, accuracy, converged
        )

    return read_done(path, made)


# --- tables ---------------------------------------------------------------------------------------

_CODES = [
    *CODE_KEYS,
    *"seed bits divergence_bits uniform_bits compression n final_accuracy converged".split(),
]
_PORTIONS = "task probe encoder stack layer control seed portion targets bits".split()
_SUMMARY = (
    "task probe code stack best_layer compression lower upper baseline_random baseline_lexical "
    "baseline_static baseline_no_positions baseline_frequency control_compression learnt n"
).split()


class Key(NamedTuple):
    """A probe, seeds together."""

    task: str
    code: str
    encoder: str
    stack: str
    layer: int
    control: bool


def _tables(
    ready: Mapping[str, Ready],
    banks: Sequence[Bank],
    sent: Sequence[Sent],
    settings: DescriptionLength,
    seed: int,
) -> dict[str, pd.DataFrame]:
    codes: list[tuple[object, ...]] = []
    portions: list[tuple[object, ...]] = []
    counts: dict[Key, list[Floats]] = {}  # of each seed [sentences, 2]: uniform bits, and the code
    unit = NATS if settings.unit == "bits" else 1.0
    for found in sent:
        task = ready[found.task]
        uniform = uniform_bits(task.train)
        bits = found.bits(uniform, unit)
        number = bits.shape[1]
        sentence = _sentences(task)[found.order]
        for place, probe in enumerate(found.probes):
            source = banks[found.bank].sources[probe.sources[0]]
            own = Key(
                found.task, found.code, source.encoder, source.stack, source.layer, probe.control
            )
            total = float(bits[place].sum())
            codes.append(
                (found.task, settings.probe, *own[1:], found.seed, total,
                 float(found.divergence[place] * unit), number * uniform, number * uniform / total,
                 number, float(found.accuracy[place]),
                 None if found.converged is None else bool(found.converged[place]))
            )  # fmt: skip
            if found.code == "online":
                for first, last in zip((0, *found.ends), found.ends, strict=False):
                    portions.append(
                        (found.task, settings.probe, *own[2:], found.seed, last / number,
                         last - first, float(bits[place, first:last].sum()))
                    )  # fmt: skip
            each = np.zeros((sentence.max() + 1, 2))
            np.add.at(each, sentence, np.stack([np.full(number, uniform), bits[place]], axis=1))
            counts.setdefault(own, []).append(each)
    return {
        "summary": pd.DataFrame(
            list(_summary(ready, counts, settings.probe, seed)), columns=_SUMMARY
        ),
        "codes": pd.DataFrame(codes, columns=_CODES),
        "portions": pd.DataFrame(portions, columns=_PORTIONS),
    }


def _sentences(task: Ready) -> NDArray[np.int64]:
    """The sentence of each train target, counted from 0.  # [n]"""
    documents = task.examples.document[task.examples.of(TRAIN)]
    found: NDArray[np.int64] = torch.unique(documents, return_inverse=True)[1].numpy()
    return found


def compression(counts: Floats) -> Floats:
    """The uniform code over the code.  # [..., 2] -> [...]"""
    found: Floats = counts[..., 0] / np.maximum(counts[..., 1], 1e-9)
    return found


def _summary(
    ready: Mapping[str, Ready], counts: Mapping[Key, list[Floats]], probe: str, seed: int
) -> Iterator[tuple[object, ...]]:
    """Of each task, code and stack."""
    mean = {
        key: float(np.mean([compression(each.sum(0)) for each in own]))
        for key, own in counts.items()
    }
    for task, code, stack in dict.fromkeys(
        (key.task, key.code, key.stack) for key in counts if key.encoder == MODEL
    ):
        true = [key for key in counts if (key.task, key.code) == (task, code) and not key.control]
        layers = [key for key in true if (key.encoder, key.stack) == (MODEL, stack)]
        best = max(layers, key=lambda key: mean[key])
        beside = {
            encoder: max((mean[key] for key in true if key.encoder == encoder), default=math.nan)
            for encoder in (STATIC, BARE)
        }
        twin = [mean[key] for key in true if (key.encoder, key.stack) == (RANDOM, stack)]
        train = ready[task].train
        frequency = len(train) * uniform_bits(train) / frequency_bits(train)
        control = mean.get(best._replace(control=True), math.nan)
        drawn = resampled(np.stack(counts[best])[None], compression, seed)
        lower, upper = interval(drawn[0])
        yield (
            task,
            probe,
            code,
            stack,
            best.layer,
            mean[best],
            float(lower),
            float(upper),
            max(twin, default=math.nan),
            mean[min(layers, key=lambda key: key.layer)],
            beside[STATIC],
            beside[BARE],
            frequency,
            control,
            not (mean[best] < frequency or mean[best] < control),
            len(train),
        )
