"""The tables of edge probing, from what its trials came to.

Scores and means are `results`' work; here stand mixes, confusions, gains from layer to layer and
predictions, each with the sentence it is of. Costs milliseconds.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from probes import results
from probes.asked import EdgeProbing
from probes.bank import Bank
from probes.examples import Examples
from probes.inputs import Opened
from probes.measure import majority
from probes.plan import modes_of
from probes.ready import Ready
from probes.results import MAJORITY, Key, Row
from probes.sources import MODEL, NO_LAYER
from probes.trials import Trial, modes_asked
from workbench.splits import DEV

GAINS = 20  # examples told for each layer


def rows_of(
    read: Opened,
    ready: Mapping[str, Ready],
    banks: Sequence[Bank],
    trials: Sequence[Trial],
    settings: EdgeProbing,
) -> tuple[list[Row], list[Row]]:
    """Every probe's counts, and those of the probes that were trained on half of the targets."""
    rows: list[Row] = []
    halves: list[Row] = []
    for trial in trials:
        task, bank = ready[trial.task], banks[trial.bank]
        for place, probe in enumerate(trial.probes):
            last = bank.sources[probe.sources[-1]]
            (halves if trial.half else rows).extend(
                Row(
                    trial.task,
                    trial.kind,
                    last.encoder,
                    mode,
                    last.stack,
                    layer,
                    trial.share,
                    probe.control,
                    trial.seed,
                    task.examples.task.metric,
                    len(task.test),
                    trial.found.counts[place],
                    bool(trial.converged[place]),
                )
                for mode, layer in modes_of(probe, bank.sources, modes_asked(settings))
            )
    for name, task in ready.items():
        counts = torch.zeros(len(read.parts.test), 3, dtype=torch.int32)
        said = majority(task.examples, task.test).int()
        counts.index_add_(0, task.tested.document - read.first_scored, said)
        for share in settings.shares:
            rows.append(
                Row(
                    name,
                    MAJORITY,
                    MAJORITY,
                    "baseline",
                    MAJORITY,
                    NO_LAYER,
                    share,
                    False,
                    settings.effort.seeds[0],
                    task.examples.task.metric,
                    len(task.test),
                    counts.numpy(),
                )
            )
    return rows, halves


def tables_of(
    read: Opened,
    ready: Mapping[str, Ready],
    banks: Sequence[Bank],
    trials: Sequence[Trial],
    rows: Sequence[Row],
    halves: Sequence[Row],
    settings: EdgeProbing,
    seed: int,
) -> dict[str, pd.DataFrame]:
    mix = _mix(banks, trials, settings)
    means = results.means(rows, seed)
    half = results.halves([row for row in rows if row.share == max(settings.shares)], halves)
    answers = [
        answer
        for trial in trials
        if trial.share == max(settings.shares) and not trial.half
        for answer in _answers(trial, banks[trial.bank], settings)
    ]
    labels: dict[Key, tuple[Examples, NDArray[np.int64]]] = {}
    for key, trial, place in answers:
        before = labels.get(key, (None, 0))[1]
        labels[key] = (ready[trial.task].examples, before + trial.found.labels[place].astype(int))
    tables = {
        "summary": results.summary(means, mix, half),
        "scores": results.scores(rows, read.parts.scored),
        "means": means,
        "halves": half,
        "per_label": results.per_label(labels),
        "mix": mix,
        "confusion": _confusion(ready, answers),
        "gains": _gains(read, ready, answers, settings),
        "tasks": _about(read, ready),
    }
    if settings.predictions:
        tables["predictions"] = _predictions(read, ready, answers, settings)
    return tables


_Answer = tuple[Key, Trial, int]  # of the trial, the probe at this place


def _answers(trial: Trial, bank: Bank, settings: EdgeProbing) -> Iterator[_Answer]:
    """The true probes of the model, each under its first mode."""
    for place, probe in enumerate(trial.probes):
        last = bank.sources[probe.sources[-1]]
        if last.encoder == MODEL and not probe.control:
            mode, layer = modes_of(probe, bank.sources, modes_asked(settings))[0]
            yield Key(trial.task, trial.kind, last.stack, mode, layer), trial, place


def _mix(banks: Sequence[Bank], trials: Sequence[Trial], settings: EdgeProbing) -> pd.DataFrame:
    data = []
    for trial in trials:
        sources = banks[trial.bank].sources
        mixing_probes = [probe for probe in trial.probes if len(probe.sources) > 1]
        for probe, weights in zip(mixing_probes, trial.mixes, strict=True):
            last = sources[probe.sources[-1]]
            whole = sum((s.encoder, s.stack) == (last.encoder, last.stack) for s in sources)
            if last.encoder != MODEL or len(probe.sources) < whole or probe.control:
                continue
            if trial.half or trial.share < max(settings.shares):
                continue
            for place in probe.sources:
                source = sources[place]
                data.append(
                    (trial.task, trial.kind, source.stack, trial.seed, source.layer,
                     float(weights[place]))
                )  # fmt: skip
    return pd.DataFrame(data, columns=results.MIX)


def _confusion(ready: Mapping[str, Ready], answers: Sequence[_Answer]) -> pd.DataFrame:
    said: dict[Key, list[NDArray[np.int64]]] = {}
    gold: dict[Key, list[NDArray[np.int64]]] = {}
    for key, trial, place in answers:
        tested = ready[trial.task].tested
        if not ready[trial.task].examples.single:
            continue
        known = (tested.unseen == 0).numpy()
        gold.setdefault(key, []).append(tested.labels.int().argmax(1).numpy()[known])
        said.setdefault(key, []).append(trial.found.likeliest[place].astype(np.int64)[known])
    data = []
    for key in said:
        names = ready[key.task].examples.names
        data += results.confusion(key, names, np.concatenate(gold[key]), np.concatenate(said[key]))
    return pd.DataFrame(data, columns=results.CONFUSION)


def _about(read: Opened, ready: Mapping[str, Ready]) -> pd.DataFrame:
    data = []
    for task in read.tasks:
        if task.name not in ready:
            continue
        one = ready[task.name]
        data.append(
            (
                task.name,
                task.layer,
                task.about,
                len(one.examples.spans),
                task.metric,
                "softmax" if one.train.softmax else "sigmoid",
                len(one.examples.names),
                len(one.train),
                len(one.examples.of(DEV)),
                len(one.test),
                sum(one.examples.left_out.values()),
            )
        )
    columns = "task layer about spans metric loss labels train dev test left_out".split()
    return pd.DataFrame(data, columns=columns)


SPANS = ("span1_start", "span1_end", "span2_start", "span2_end")


def _targets(read: Opened, task: Ready) -> pd.DataFrame:
    """The sentence, spans (as characters of its text) and gold labels of every scored target."""
    words = read.batch.words  # [words, 2], characters
    tested = task.tested
    data: dict[str, object] = {
        "target": np.arange(len(tested)),
        "sentence": (tested.document - read.first_scored).numpy(),
        "text": [read.parts.docs[document].text for document in tested.document.tolist()],
    }
    for side in (0, 1):
        spans = tested.spans[side].numpy() if side < len(tested.spans) else None
        start, end = SPANS[2 * side : 2 * side + 2]
        data[start] = NO_LAYER if spans is None else words[spans[:, 0], 0]
        data[end] = NO_LAYER if spans is None else words[spans[:, 1] - 1, 1]
    edges = read.batch.edges[tested.task.layer]
    data["gold"] = [
        ", ".join(
            edges.names[label]
            for label in edges.labels[edges.label_offsets[edge] : edges.label_offsets[edge + 1]]
        )
        for edge in tested.edge.tolist()
    ]
    return pd.DataFrame(data)


def _firsts(answers: Sequence[_Answer], settings: EdgeProbing) -> list[_Answer]:
    """Those of the first seed that read one layer."""
    return [
        (key, trial, place)
        for key, trial, place in answers
        if trial.seed == settings.effort.seeds[0] and len(trial.probes[place].sources) == 1
    ]


def _gains(
    read: Opened, ready: Mapping[str, Ready], answers: Sequence[_Answer], settings: EdgeProbing
) -> pd.DataFrame:
    """Some targets that each layer is the first to get right."""
    by_layer = {
        (trial.task, trial.kind, key.stack, key.layer): (trial, place)
        for key, trial, place in _firsts(answers, settings)
    }
    targets = {name: _targets(read, task) for name, task in ready.items()}
    parts = []
    for (name, kind, stack, layer), (trial, place) in by_layer.items():
        below = by_layer.get((name, kind, stack, layer - 1))
        if below is None:
            continue
        better = trial.found.right[place] & ~below[0].found.right[below[1]]
        some = np.flatnonzero(better)[:GAINS]
        part = (
            targets[name]
            .iloc[some]
            .assign(
                task=name,
                probe=kind,
                stack=stack,
                layer=layer,
                below=np.array(ready[name].examples.names, dtype=object)[
                    below[0].found.likeliest[below[1]][some]
                ],
            )
        )
        parts.append(part)
    columns = [
        "task",
        "probe",
        "stack",
        "layer",
        "target",
        "sentence",
        "text",
        *SPANS,
        "gold",
        "below",
    ]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def _predictions(
    read: Opened, ready: Mapping[str, Ready], answers: Sequence[_Answer], settings: EdgeProbing
) -> pd.DataFrame:
    parts = []
    targets = {name: _targets(read, task) for name, task in ready.items()}
    for key, trial, place in _firsts(answers, settings):
        names = np.array(ready[trial.task].examples.names, dtype=object)
        part = targets[trial.task].assign(
            task=trial.task,
            probe=trial.kind,
            stack=key.stack,
            layer=key.layer,
            predicted=names[trial.found.likeliest[place]],
            right=trial.found.right[place],
        )
        parts.append(part)
    columns = ["task", "probe", "stack", "layer", "target", "sentence", "text", *SPANS, "gold"]
    columns += ["predicted", "right"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


def sentence_hash(text: str) -> int:
    """The same for the same sentence, on any machine."""
    return int.from_bytes(
        hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True
    )
