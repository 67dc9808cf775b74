"""Description length (Voita & Titov 2020): number of bits to send labels, given a layer.

A probe's score shows whether labels can be predicted. The code length also shows how hard that is,
in data (online code) or in the size of the probe (variational code). Baselines: a control task, the
top layer with random weights, embeddings without positions, and static vectors. The results of each
task, code and seed are saved, so a stopped run continues from there. Costs: one pass of the model
and one of the random-weight model; then, for 1,500 targets of 13 probes at width 128, about 3 s on
one core for the online code and 5 s for the variational one, and twice that for two spans.
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

from workbench.analyses.probes import codes
from workbench.analyses.probes.batched_adam import OnProgress
from workbench.analyses.probes.codes import ends_of, frequency_bits, prequential_code, uniform_bits
from workbench.analyses.probes.edge_trials import TaskData, prepare_tasks
from workbench.analyses.probes.experiments import CODE_KEYS, Code, DescriptionLength
from workbench.analyses.probes.probe_grid import plan_probes
from workbench.analyses.probes.probe_inputs import load_results, open_inputs, save_results, tasks_in
from workbench.analyses.probes.probe_training import Data, Probe, Schedule, controls_of, outputs
from workbench.analyses.probes.representations import BARE, MODEL, RANDOM, STATIC, Bank, build_banks
from workbench.analyses.probes.targets import order_of
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.files import (
    folder_or_temporary,
)
from workbench.core.findings import capital, of_all, verb_of
from workbench.core.stats import interval, resampled
from workbench.corpora.corpus import Corpus
from workbench.corpora.splits import TRAIN
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

DEV_TARGETS = 300  # maximum for the dev loss of an epoch
TEST_TARGETS = 2_000  # maximum for the accuracy
NATS = 1 / math.log(2)  # bits


@dataclass(frozen=True)
class SentLabels:
    """Results of one task, code and seed, for the probes of one bank; costs in nats."""

    task: str
    code: Code
    seed: int
    bank: int
    probes: tuple[Probe, ...]
    order: NDArray[np.int64]  # [n], indices of the train targets in sending order
    ends: tuple[int, ...]  # of the blocks
    nats: Floats  # [probes, n], in sending order; 0 where the uniform code was used
    divergence: Floats  # [probes], cost of the probe
    accuracy: Floats  # [probes]
    converged: NDArray[np.bool_] | None  # [probes]; None: trained for a fixed number of steps

    def bits(self, uniform: float, unit: float) -> Floats:
        """Bits of each target in sending order, with its part of the probe.  # [probes, n]"""
        bits: Floats = (self.nats + self.divergence[:, None] / self.nats.shape[1]) * unit
        if self.code == "online":
            bits[:, : self.ends[0]] = uniform
        return bits


def fits(corpus: Corpus, settings: DescriptionLength) -> None:
    """Raise an error if the corpus does not have the requested tasks."""
    tasks_in(corpus, settings.tasks)


def run(inputs: Inputs, settings: DescriptionLength, progress: Progress) -> Result:
    """Encode the corpus, compute all codes and build the tables."""
    with folder_or_temporary(inputs.scratch) as home:
        probe_inputs = open_inputs(inputs, home, settings.split_sizes, settings.tasks, progress)
        banks = build_banks(probe_inputs.sources, inputs.model.device, probe_inputs.train_words)
        tasks, caveats = prepare_tasks(probe_inputs, settings.max_targets, "auto", inputs.seed)
        tasks, constant = _varied(tasks)
        sent = list(_sent(tasks, banks, settings, home, progress))
    tables = _tables(tasks, banks, sent, settings, inputs.seed)
    if settings.unit == "paper":
        constant.append(Caveat(_PAPER))
    unreliable = _reliability_caveats(tables, settings)
    return Result(tables, caveats=(*probe_inputs.caveats(), *caveats, *constant, *unreliable))


def _reliability_caveats(
    tables: Mapping[str, pd.DataFrame], settings: DescriptionLength
) -> Iterator[Caveat]:
    """Warnings of codes with unconverged probes, and of codes no better than the baselines."""
    ended = tables["codes"]["converged"].dropna()
    if cut := int((~ended.astype(bool)).sum()):
        yield Caveat(
            f"{capital(of_all(cut, len(ended), 'online code'))} {verb_of(cut, 'is', 'are')} too "
            "long: the last probe was still "
            f"improving after {settings.max_epochs} epochs. Raise max_epochs.",
            ("codes", "summary"),
        )
    failed = tables["summary"][~tables["summary"]["learnt"].astype(bool)]
    if len(failed):
        names = ", ".join(f"{row.task} ({row.code})" for row in failed.itertuples())
        yield Caveat(
            f"No layer compresses the labels of {names} better than the label frequencies or the "
            "control task. These codes say nothing about the layers.",
            ("summary",),
        )


_PAPER = (
    "Lengths are in the unit of the paper's released code, which adds nats to bits. They are "
    "shorter, and compression is higher, than with unit=bits."
)


def _varied(tasks: Mapping[str, TaskData]) -> tuple[dict[str, TaskData], list[Caveat]]:
    """The tasks with at least two different labels, and caveats on the others."""
    varied, caveats = {}, []
    for name, task in tasks.items():
        if uniform_bits(task.train):
            varied[name] = task
            continue
        label = task.examples.names[0] if task.examples.names else "no label"
        caveats.append(
            Caveat(f"{name} is left out: every target is {label!r}, so there is nothing to send.")
        )
    if not varied:
        raise WorkbenchError(
            "every task has only one label, so there is nothing to send.",
            code="too-few-labels",
            where=", ".join(tasks),
            remedy="Use more sentences: raise --max-sentences, or choose a larger corpus.",
        )
    return varied, caveats


# --- sending labels -------------------------------------------------------------------------------


def _sent(
    tasks: Mapping[str, TaskData],
    banks: Sequence[Bank],
    settings: DescriptionLength,
    home: Path,
    progress: Progress,
) -> Iterator[SentLabels]:
    """Send the labels of all tasks; finished results are read from disk."""
    jobs = [
        (name, code, seed, bank)
        for name in tasks
        for code in dict.fromkeys(settings.codes)
        for seed in settings.seeds
        for bank in range(len(banks))
    ]
    for done, (name, code, seed, bank) in enumerate(jobs):

        def on_progress(
            part: int, of: int, done: int = done, doing: str = f"sending labels: {name}, {code}"
        ) -> None:
            progress(100 * done + 100 * part // max(of, 1), 100 * len(jobs), doing)

        on_progress(0, 1)
        path = home / f"code-{done:05d}.npz"
        sent = _read(path, name, code, seed, bank)
        if sent is None:
            sent = _send_task(tasks[name], banks[bank], code, seed, bank, settings, on_progress)
            _write(path, sent)
        yield sent
    progress(100 * len(jobs), 100 * len(jobs), "sending labels")


def _send_task(
    task: TaskData,
    bank: Bank,
    code: Code,
    seed: int,
    index: int,
    settings: DescriptionLength,
    on_progress: OnProgress,
) -> SentLabels:
    """Code lengths of the train targets of a task, for every probe of a bank."""
    plan = plan_probes(bank.sources, ("layer",), settings.control_tasks)
    probes = tuple(probe for probe in plan if len(probe.sources) == 1)
    order = order_of(len(task.train), seed)
    train = task.train.take(order)
    test = task.test.take(_sample(len(task.test), TEST_TARGETS, seed))
    divergence = torch.zeros(len(probes))
    ends: tuple[int, ...] = (len(train),)
    converged = None
    if code == "online":
        ends = ends_of(len(train), settings.portions)
        dev = task.dev.take(_sample(len(task.dev), DEV_TARGETS, seed))
        schedule = Schedule(learning_rate=settings.learning_rate, epochs=settings.max_epochs)
        nats, last = prequential_code(
            settings.probe,
            settings.hidden_size,
            bank,
            probes,
            train,
            dev,
            ends,
            schedule,
            seed,
            on_progress,
        )
        logits = (
            outputs(last.shape, last.parameters, last.reads, bank, test.spans) if last else None
        )
        converged = last.converged.cpu().numpy() if last else None
    else:
        hidden = settings.hidden_size if settings.probe == "mlp" else None
        steps = settings.variational_steps
        trained = codes.train_bayesian(hidden, bank, probes, train, steps, seed, on_progress)
        divergence = codes.divergence(trained.layers)
        nats = codes.variational_code(trained, bank, train, seed)
        logits = codes.variational_outputs(trained, bank, test)
    accuracy = np.full(len(probes), np.nan) if logits is None else _accuracy(logits, probes, test)
    return SentLabels(
        task.examples.task.name,
        code,
        seed,
        index,
        probes,
        order.numpy(),
        ends,
        nats.double().cpu().numpy(),
        divergence.double().cpu().numpy(),
        accuracy,
        converged,
    )


def _sample(n_targets: int, max_targets: int, seed: int) -> Tensor:
    """Indices of a random sample of the targets, sorted.  # [sampled]"""
    return order_of(n_targets, seed)[:max_targets].sort().values


def _accuracy(
    chunks: Iterator[tuple[Tensor, Tensor]], probes: Sequence[Probe], test: Data
) -> Floats:
    """Share of targets whose labels each probe predicts exactly.  # [probes]"""
    control = controls_of(probes)
    right = torch.zeros(len(probes), dtype=torch.long)
    for indices, device_logits in chunks:
        part, logits = test.take(indices), device_logits.cpu()
        gold = part.labels.index_select(0, control)  # [probes, chunk, labels]
        if test.softmax:
            is_right = gold.gather(2, logits.argmax(2)[..., None])[..., 0]
        else:
            seen = (part.unseen == 0) | control[:, None].bool()
            is_right = ((logits >= 0) == gold).all(2) & seen
        right += is_right.sum(1)
    return (right.double() / max(1, len(test))).numpy()


_FIELDS = ("order", "nats", "divergence", "accuracy")


def _write(path: Path, sent: SentLabels) -> None:
    arrays = {name: getattr(sent, name) for name in _FIELDS}
    if sent.converged is not None:
        arrays["converged"] = sent.converged
    save_results(path, sent.probes, arrays, ends=sent.ends)


def _read(path: Path, name: str, code: Code, seed: int, bank: int) -> SentLabels | None:
    """A finished result from disk; None if there is none, or if it cannot be read."""

    def build(
        probes: tuple[Probe, ...], facts: Any, arrays: Mapping[str, NDArray[Any]]
    ) -> SentLabels:
        order, nats, divergence, accuracy = (arrays[field] for field in _FIELDS)
        ends, converged = tuple(facts["ends"]), arrays.get("converged")
        return SentLabels(
            name, code, seed, bank, probes, order, ends, nats, divergence, accuracy, converged
        )

    return load_results(path, build)


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
    """A probe, over all seeds."""

    task: str
    code: str
    encoder: str
    stack: str
    layer: int
    control: bool


def _tables(
    tasks: Mapping[str, TaskData],
    banks: Sequence[Bank],
    sent: Sequence[SentLabels],
    settings: DescriptionLength,
    seed: int,
) -> dict[str, pd.DataFrame]:
    """All tables of the experiment, by name."""
    code_rows: list[tuple[object, ...]] = []
    portions: list[tuple[object, ...]] = []
    counts: dict[Key, list[Floats]] = {}  # by seed [sentences, 2]: bits of uniform code and code
    unit = NATS if settings.unit == "bits" else 1.0
    for result in sent:
        task = tasks[result.task]
        uniform = uniform_bits(task.train)
        bits = result.bits(uniform, unit)
        n_targets = bits.shape[1]
        sentence = _sentences(task)[result.order]
        for index, probe in enumerate(result.probes):
            source = banks[result.bank].sources[probe.sources[0]]
            key = Key(
                result.task, result.code, source.encoder, source.stack, source.layer, probe.control
            )
            total = float(bits[index].sum())
            code_rows.append(
                (result.task, settings.probe, *key[1:], result.seed, total,
                 float(result.divergence[index] * unit), n_targets * uniform,
                 n_targets * uniform / total, n_targets, float(result.accuracy[index]),
                 None if result.converged is None else bool(result.converged[index]))
            )  # fmt: skip
            if result.code == "online":
                for first, last in zip((0, *result.ends), result.ends, strict=False):
                    portions.append(
                        (result.task, settings.probe, *key[2:], result.seed, last / n_targets,
                         last - first, float(bits[index, first:last].sum()))
                    )  # fmt: skip
            by_sentence = np.zeros((sentence.max() + 1, 2))
            np.add.at(
                by_sentence, sentence, np.stack([np.full(n_targets, uniform), bits[index]], axis=1)
            )
            counts.setdefault(key, []).append(by_sentence)
    return {
        "summary": pd.DataFrame(
            list(_summary(tasks, counts, settings.probe, seed)), columns=_SUMMARY
        ),
        "codes": pd.DataFrame(code_rows, columns=_CODES),
        "portions": pd.DataFrame(portions, columns=_PORTIONS),
    }


def _sentences(task: TaskData) -> NDArray[np.int64]:
    """Index of the sentence of each train target.  # [n]"""
    documents = task.examples.document[task.examples.of(TRAIN)]
    sentences: NDArray[np.int64] = torch.unique(documents, return_inverse=True)[1].numpy()
    return sentences


def compression(counts: Floats) -> Floats:
    """Length of the uniform code divided by that of the code.  # [..., 2] -> [...]"""
    return counts[..., 0] / np.maximum(counts[..., 1], 1e-9)


def _summary(
    tasks: Mapping[str, TaskData], counts: Mapping[Key, list[Floats]], probe: str, seed: int
) -> Iterator[tuple[object, ...]]:
    """Rows of the table `summary`, one per task, code and stack."""
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
        baselines = {
            encoder: max((mean[key] for key in true if key.encoder == encoder), default=math.nan)
            for encoder in (STATIC, BARE)
        }
        twin = [mean[key] for key in true if (key.encoder, key.stack) == (RANDOM, stack)]
        train = tasks[task].train
        frequency = len(train) * uniform_bits(train) / frequency_bits(train)
        control = mean.get(best._replace(control=True), math.nan)
        draws = resampled(np.stack(counts[best])[None], compression, seed)
        lower, upper = interval(draws[0])
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
            baselines[STATIC],
            baselines[BARE],
            frequency,
            control,
            not (mean[best] < frequency or mean[best] < control),
            len(train),
        )
