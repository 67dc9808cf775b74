"""Structural probe (Hewitt & Manning 2019): whether the states of a layer encode dependency trees.

A linear map is trained so that squared distances of words match distances in the tree, and squared
lengths match depths. Baselines: words in a chain, the embeddings (layer 0), the same model with
random weights, and static vectors. Layers are chosen on dev; scores are on the held-out split. The
first seed's probes are also trained on half of the sentences. Costs: a pass of the model and one of
the random-weight model, then what `structural_training` states: 1,000 sentences through four
layers of 128 take half a minute on one core with three seeds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.analyses.probes import dependency_trees as gold
from workbench.analyses.probes.batched_adam import EPOCHS, Fitted
from workbench.analyses.probes.dependency_trees import Tree
from workbench.analyses.probes.experiments import LAYER, MAX_DATA_GAIN, StructuralProbe, TreeTask
from workbench.analyses.probes.findings import TREE_TITLES
from workbench.analyses.probes.representations import (
    MODEL,
    NO_LAYER,
    RANDOM,
    STATIC,
    Source,
    encoded,
    randomised,
    static,
)
from workbench.analyses.probes.structural_training import INPUTS, Probe, States, predicted, trained
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.files import folder_or_temporary
from workbench.core.findings import capital, of_all, verb_of
from workbench.core.head_names import state_name
from workbench.core.stats import difference, interval, resampled, share, wilson_interval
from workbench.corpora.encode import encode
from workbench.corpora.splits import PARTS, TRAIN, Parts, parts_of
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

CHAIN = "chain"
PROBE = "structural"
METRICS: Mapping[TreeTask, tuple[str, str]] = {
    "distance": ("uuas", "dspr"),
    "depth": ("root", "nspr"),
}
SHOWN = 10  # sentences in the table of trees
MAX_NAMED = 4  # scores in a caveat
PAIRS = 1_000_000  # word pairs times probes, scored at a time


class Key(NamedTuple):
    """A layer of an encoder."""

    encoder: str
    stack: str
    layer: int


CHAIN_KEY = Key(CHAIN, CHAIN, NO_LAYER)


@dataclass(frozen=True)
class TrainedProbes:
    """Trained probes, with everything needed to score them."""

    parts: Parts
    trees: Mapping[str, list[Tree]]  # by part
    sources: tuple[Source, ...]
    states: States
    probes: tuple[Probe, ...]  # in order of task, source, inputs, seed
    matrices: Tensor  # [probes, width, rank]
    chosen: Mapping[str, tuple[str, ...]]  # inputs of each source, by metric
    converged: tuple[bool, ...]  # [probes]
    halves: Mapping[Probe, Tensor]  # probes trained on half of the sentences: [width, rank]
    seeds: tuple[int, ...]
    missing: int  # words that the model did not read
    isolated: int  # words without a head and without dependents

    def of(self, task: TreeTask) -> tuple[list[Probe], Tensor]:
        """The probes of one task."""
        rows = [row for row, probe in enumerate(self.probes) if probe.task == task]
        return [self.probes[row] for row in rows], self.matrices[rows]

    def is_chosen(self, probe: Probe, metric: str) -> bool:
        """Whether a metric is that of this probe, among those on the same states."""
        return probe.inputs == self.chosen[metric][probe.source]

    def inputs_by_key(self, metric: str) -> dict[Key, str]:
        """How the states of each layer were scaled, as dev chose; the chain reads none."""
        each = zip(self.sources, self.chosen[metric], strict=True)
        return {CHAIN_KEY: ""} | {_key(source): inputs for source, inputs in each}

    def converged_by_key(self, task: TreeTask, metric: str) -> dict[Key, list[bool]]:
        """Whether the probes of each layer converged, by seed; the chain is not trained."""
        by_key: dict[Key, list[bool]] = {CHAIN_KEY: [True] * len(self.seeds)}
        for probe, converged in zip(self.probes, self.converged, strict=True):
            if probe.task == task and self.is_chosen(probe, metric):
                by_key.setdefault(_key(self.sources[probe.source]), []).append(converged)
        return by_key


def run(inputs: Inputs, settings: StructuralProbe, progress: Progress) -> Result:
    """Train all probes at once, then score them on the same sentences."""
    with folder_or_temporary(inputs.scratch) as home:
        trained_probes = learn(inputs, settings, progress, home)
        tables = _tables(trained_probes, inputs.seed, progress)
    return Result(tables, caveats=tuple(_caveats(trained_probes, tables["means"])))


def learn(
    inputs: Inputs, settings: StructuralProbe, progress: Progress, home: Path
) -> TrainedProbes:
    """Read, encode and train; of the held-out split, only the states are computed."""
    model = inputs.model
    parts = parts_of(inputs.corpus, inputs.split, settings.split_sizes, inputs.seed)
    batch = encode(parts.docs)
    states_of_model = encoded(model, batch, home, progress)
    sources = (
        *states_of_model.sources,
        *randomised(model, batch, home, progress, inputs.seed),
        static(batch, range(len(parts.train)), model.width, inputs.seed),
    )
    trees: dict[str, list[Tree]] = {part: [] for part in PARTS}
    missing = states_of_model.missing.numpy()
    for document, (doc, part) in enumerate(zip(parts.docs, parts.part_of, strict=True)):
        first = int(batch.word_offsets[document])
        trees[PARTS[part]] += gold.trees_of(doc, document, first, missing)
    for name, of_part in trees.items():
        if not of_part:
            raise WorkbenchError(
                f"{name} has no tree of at least two words.",
                code="too-few-sentences",
                where=inputs.corpus.name,
                remedy="Choose a corpus with dependencies in every split, or raise "
                "--max-sentences.",
            )
    rows = np.concatenate([tree.rows for tree in trees[TRAIN]])
    states = States.of([source.states for source in sources], rows, model.device)
    seeds = settings.seeds
    tasks = [task for task in METRICS if task in settings.measures]
    rank = min(settings.probe_rank or model.width, model.width)

    def fit(probes: Sequence[Probe], of_train: Sequence[Tree], what: str) -> Fitted:
        label = f"training {len(probes)} probes{what}"
        return trained(
            states,
            of_train,
            trees["dev"],
            probes,
            rank,
            lambda done, most: progress(done, most, label),
        )

    tried = [
        Probe(task, source, seeds[0], given)
        for task in tasks
        for source in range(len(sources))
        for given in INPUTS
    ]
    trial = fit(tried, trees[TRAIN], " on each scaling of the states")
    by_metric = _best_on_dev(states, trees["dev"], tried, trial)
    best = sorted({row for rows in by_metric.values() for row in rows})
    chosen = [tried[row] for row in best]
    matrices, converged = trial.weights[0][best][:, None], trial.converged[best][:, None]
    if len(seeds) > 1:
        more = fit(
            [probe._replace(seed=seed) for probe in chosen for seed in seeds[1:]],
            trees[TRAIN],
            " of further seeds",
        )
        by_seed = (len(chosen), len(seeds) - 1)
        matrices = torch.cat([matrices, more.weights[0].view(*by_seed, *matrices.shape[2:])], 1)
        converged = torch.cat([converged, more.converged.view(by_seed)], 1)
    half_probes = [
        probe
        for probe in chosen
        if settings.half_data_check and sources[probe.source].encoder != RANDOM
    ]
    halves: dict[Probe, Tensor] = {}
    if half_probes:
        halved = fit(half_probes, trees[TRAIN][::2], " on half of the sentences")
        halves = dict(zip(half_probes, halved.weights[0], strict=True))
    n_in_trees = sum(len(tree) for of_part in trees.values() for tree in of_part)
    n_missing = int(missing.sum())
    isolated = len(batch.words) - n_missing - n_in_trees
    return TrainedProbes(
        parts,
        trees,
        sources,
        states,
        tuple(probe._replace(seed=seed) for probe in chosen for seed in seeds),
        matrices.flatten(0, 1),
        {metric: tuple(tried[row].inputs for row in rows) for metric, rows in by_metric.items()},
        tuple(converged.flatten().tolist()),
        halves,
        seeds,
        n_missing,
        isolated,
    )


def _best_on_dev(
    states: States, trees: Sequence[Tree], tried: Sequence[Probe], trial: Fitted
) -> dict[str, list[int]]:
    """The row of the probe with the best score of each source, by metric; among equals, by loss."""
    by_metric: dict[str, list[int]] = {}
    losses = trial.losses.tolist()
    for task in dict.fromkeys(probe.task for probe in tried):
        rows = [row for row, probe in enumerate(tried) if probe.task == task]
        counted = _count(task, [tried[row] for row in rows], trial.weights[0][rows], states, trees)
        for metric, (each, measure, n) in counted.items():
            scores = measure(each[:-1].sum(1)) if n else np.zeros(len(rows))
            ranked = [
                (float(score), -losses[row], row) for score, row in zip(scores, rows, strict=True)
            ]
            by_metric[metric] = [
                max(ranked[first : first + len(INPUTS)])[-1]
                for first in range(0, len(ranked), len(INPUTS))
            ]
    return by_metric


# --- scores ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """Counts of one metric for each tree, and the function from their sums to the score."""

    task: TreeTask
    metric: str
    keys: tuple[Key, ...]
    numbers: Floats  # [keys, seeds, trees, numbers]
    measure: gold.Measure
    n: int
    halves: Mapping[Key, float]  # of the first seed's probes, trained on half of the sentences

    @property
    def values(self) -> Floats:
        """[keys, seeds]"""
        return self.measure(self.numbers.sum(2))


def _count(
    task: TreeTask,
    probes: Sequence[Probe],
    matrices: Tensor,
    states: States,
    trees: Sequence[Tree],
) -> dict[str, tuple[Floats, gold.Measure, int]]:
    """Counts of both metrics of a task by probe and tree, the function from sums to the score, and
    the number of cases. The chain is in the last row.  # [probes + 1, trees, numbers]
    """
    right = np.zeros((len(probes) + 1, len(trees), 2))
    ranks = np.zeros((len(probes) + 1, len(trees)))
    count = gold.count_distances if task == "distance" else gold.count_depths
    chain = gold.chain_distances if task == "distance" else gold.chain_depths
    for indices, group in gold.grouped(trees, PAIRS // len(probes)):
        values = predicted(matrices, states, probes, group)
        right[:-1, indices], ranks[:-1, indices] = count(values, group)
        of_chain = np.stack([chain(len(group[0]))] * len(group))[None]
        right[-1:, indices], ranks[-1:, indices] = count(of_chain, group)
    lengths = np.array([len(tree) for tree in trees], dtype=np.int64)
    averaged = int(np.isin(lengths, gold.averaged_lengths(lengths)).sum())
    edges, rank = METRICS[task]
    return {
        edges: (right, share, int(right[-1, :, 1].sum())),
        rank: (gold.by_length(ranks, lengths), gold.mean_of_lengths, averaged),
    }


def _counted(trained_probes: TrainedProbes, part: str, task: TreeTask) -> Iterator[_Counts]:
    """Both metrics of a task, for every source and the chain; none for a metric without cases."""
    probes, matrices = trained_probes.of(task)
    half_probes = [
        probe for probe in trained_probes.halves if probe.task == task and part == "test"
    ]
    matrices = torch.cat([matrices, *(trained_probes.halves[probe][None] for probe in half_probes)])
    trees = trained_probes.trees[part]
    counted = _count(task, [*probes, *half_probes], matrices, trained_probes.states, trees)
    keys = [_key(source) for source in trained_probes.sources]
    for metric, (each, measure, n) in counted.items():
        if not n:
            continue
        own = [row for row, probe in enumerate(probes) if trained_probes.is_chosen(probe, metric)]
        halves = {
            keys[probe.source]: float(measure(each[len(probes) + row].sum(0)))
            for row, probe in enumerate(half_probes)
            if trained_probes.is_chosen(probe, metric)
        }
        yield _Counts(
            task, metric, (*keys, CHAIN_KEY), _by_seed(each[[*own, -1]], trained_probes),
            measure, n, halves,
        )  # fmt: skip


def _by_seed(counts: Floats, trained_probes: TrainedProbes) -> Floats:
    """Counts by seed; the chain has the same for all seeds.

    [probes + 1, trees, numbers] -> [keys, seeds, trees, numbers]
    """
    seeds = len(trained_probes.seeds)
    of_probes = counts[:-1].reshape(-1, seeds, *counts.shape[1:])
    chain = np.broadcast_to(counts[-1:, None], (1, seeds, *counts.shape[1:]))
    return np.concatenate([of_probes, chain])


def _key(source: Source) -> Key:
    return Key(source.encoder, source.stack, source.layer)


# --- tables ---------------------------------------------------------------------------------------

_SCORES = "task probe encoder mode stack layer seed split metric value n control converged".split()
_MEANS = [
    *LAYER,
    *"value lower upper n delta delta_lower delta_upper p_value".split(),
    *"learnt converged half half_loss inputs".split(),
]
_SUMMARY = (
    "task metric stack best_layer best_score lower upper baseline_chain baseline_random "
    "baseline_lexical baseline_static inputs".split()
)
_TREES = "stack layer sentence index word head neighbour punctuation".split()


def _tables(
    trained_probes: TrainedProbes, seed: int, progress: Progress
) -> dict[str, pd.DataFrame]:
    """All tables of the experiment, by name."""
    scores: list[tuple[object, ...]] = []
    means: list[tuple[object, ...]] = []
    summary: list[tuple[object, ...]] = []
    best: dict[str, int] = {}  # the layer whose trees are shown, by stack
    tasks = [task for task in METRICS if any(probe.task == task for probe in trained_probes.probes)]
    for done, task in enumerate(tasks):
        progress(done, len(tasks), "scoring")
        on_dev = {counts.metric: counts for counts in _counted(trained_probes, "dev", task)}
        for counts in _counted(trained_probes, "test", task):
            selection = on_dev.get(counts.metric) or next(iter(on_dev.values()), None)
            draws = resampled(counts.numbers, counts.measure, seed)  # [keys, draws]
            scores += _score_rows(counts, trained_probes)
            means += _mean_rows(counts, draws, trained_probes)
            scaled = trained_probes.inputs_by_key(counts.metric)
            for row in _summary_rows(counts, selection, draws, scaled):
                summary.append(row)
                if counts.metric == "uuas":
                    best[str(row[2])] = int(str(row[3]))
    return {
        "summary": pd.DataFrame(summary, columns=_SUMMARY),
        "scores": pd.DataFrame(scores, columns=_SCORES),
        "means": pd.DataFrame(means, columns=_MEANS),
        "trees": pd.DataFrame(list(_tree_rows(trained_probes, best)), columns=_TREES),
    }


def _score_rows(counts: _Counts, trained_probes: TrainedProbes) -> Iterator[tuple[object, ...]]:
    split, stopped = (
        trained_probes.parts.scored,
        trained_probes.converged_by_key(counts.task, counts.metric),
    )
    for key, values in zip(counts.keys, counts.values, strict=True):
        mode = "layer" if key.encoder == MODEL else "baseline"
        seeds = trained_probes.seeds[:1] if key.encoder == CHAIN else trained_probes.seeds
        for seed, value, converged in zip(seeds, values, stopped[key], strict=False):
            yield (counts.task, PROBE, key.encoder, mode, key.stack, key.layer, seed, split,
                   counts.metric, float(value), counts.n, False, converged)  # fmt: skip


def _mean_rows(
    counts: _Counts, draws: Floats, trained_probes: TrainedProbes
) -> Iterator[tuple[object, ...]]:
    row_of = {key: row for row, key in enumerate(counts.keys)}
    stopped = trained_probes.converged_by_key(counts.task, counts.metric)
    scaled = trained_probes.inputs_by_key(counts.metric)
    values = counts.values.mean(1)
    lower, upper = _interval(counts, values, draws)
    for row, key in enumerate(counts.keys):
        twin = row_of.get(key._replace(encoder=RANDOM)) if key.encoder == MODEL else None
        baselines = [values[each] for each in (row_of[CHAIN_KEY], twin) if each is not None]
        is_learnt = key == CHAIN_KEY or values[row] > max(baselines)
        half = counts.halves.get(key, np.nan)
        below = row_of.get(key._replace(layer=key.layer - 1)) if key.layer > 0 else None
        gain: tuple[float, ...] = (np.nan,) * 4
        if below is not None:
            gain = float(values[row] - values[below]), *difference(draws[below], draws[row])
        yield (counts.task, *key, counts.metric, float(values[row]), float(lower[row]),
               float(upper[row]), counts.n, *gain, bool(is_learnt), all(stopped[key]), half,
               float(counts.values[row, 0] - half), scaled[key])  # fmt: skip


def _summary_rows(
    counts: _Counts, dev: _Counts | None, draws: Floats, scaled: Mapping[Key, str]
) -> Iterator[tuple[object, ...]]:
    """Rows of the table `summary`; layers are chosen by their means on dev."""
    values = counts.values.mean(1)
    on_dev = np.zeros_like(values) if dev is None else dev.values.mean(1)
    lower, upper = _interval(counts, values, draws)
    row_of = {key: row for row, key in enumerate(counts.keys)}

    def chosen(encoder: str, stack: str) -> int:
        rows = [r for key, r in row_of.items() if (key.encoder, key.stack) == (encoder, stack)]
        return max(rows, key=lambda row: on_dev[row])

    for stack in dict.fromkeys(key.stack for key in counts.keys if key.encoder == MODEL):
        best = chosen(MODEL, stack)
        yield (
            counts.task,
            counts.metric,
            stack,
            counts.keys[best].layer,
            float(values[best]),
            float(lower[best]),
            float(upper[best]),
            float(values[row_of[CHAIN_KEY]]),
            float(values[chosen(RANDOM, stack)]),
            float(values[row_of[Key(MODEL, stack, 0)]]),
            float(values[row_of[Key(STATIC, STATIC, NO_LAYER)]]),
            scaled[counts.keys[best]],
        )


def _interval(counts: _Counts, values: Floats, draws: Floats) -> tuple[Floats, Floats]:
    """The interval of each mean; where every root is found, no sample misses one, so Wilson's."""
    lower, upper = interval(draws)
    if counts.metric == "root":
        lower = np.where(values == 1, wilson_interval(counts.n, counts.n)[0], lower)
    return lower, upper


def _tree_rows(
    trained_probes: TrainedProbes, best: Mapping[str, int]
) -> Iterator[tuple[object, ...]]:
    """Rows of the table `trees`, of the first seed, at the layer with the best UUAS on dev."""
    docs = trained_probes.parts.docs
    for stack, layer in best.items():
        source = [_key(each) for each in trained_probes.sources].index(Key(MODEL, stack, layer))
        row, probe = next(
            (row, probe)
            for row, probe in enumerate(trained_probes.probes)
            if (probe.task, probe.source) == ("distance", source)
            and trained_probes.is_chosen(probe, "uuas")
        )
        matrix = trained_probes.matrices[[row]]
        for sentence, tree in enumerate(trained_probes.trees["test"][:SHOWN]):
            distances = predicted(matrix, trained_probes.states, [probe], [tree])[
                0
            ]  # [1, words, words]
            neighbours = gold.spanning(distances, ~tree.punctuation[None])[0]
            for index, word in enumerate(tree.words):
                text = docs[tree.document][int(word)].text
                yield (stack, layer, sentence, index, text, int(tree.heads[index]),
                       int(neighbours[index]), bool(tree.punctuation[index]))  # fmt: skip


def _caveats(trained_probes: TrainedProbes, means: pd.DataFrame) -> Iterator[Caveat]:
    yield from (Caveat(note) for note in trained_probes.parts.notes)
    cut_off = trained_probes.converged.count(False)
    rows = means[~means["converged"].astype(bool)]
    if len(rows):
        yield Caveat(
            f"{capital(of_all(cut_off, len(trained_probes.converged), 'probe'))} "
            f"{verb_of(cut_off, 'was', 'were')} still improving on dev "
            f"after {EPOCHS} epochs ({_named(rows)}). Their scores are too low."
        )
    compared = means[means["encoder"].isin([MODEL, STATIC])]
    idle = compared[~compared["learnt"]]
    if len(idle):
        yield Caveat(
            f"{capital(of_all(len(idle), len(compared), 'score'))} "
            f"{verb_of(len(idle), 'is', 'are')} not above the chain baseline or, for "
            f"layers of the model, not above the same layer with random weights: {_named(idle)}. "
            "These probes found no syntax."
        )
    if trained_probes.missing:
        yield Caveat(
            f"{trained_probes.missing:,} words were cut off or not read by the model. They are "
            "left out of the trees, also for the baselines."
        )
    if trained_probes.isolated:
        yield Caveat(
            f"{trained_probes.isolated:,} words have no head and no dependent that the model read. "
            "They are left out."
        )
    lengths = np.array([len(tree) for tree in trained_probes.trees["test"]], dtype=np.int64)
    outside = len(lengths) - int(np.isin(lengths, gold.averaged_lengths(lengths)).sum())
    if outside:
        yield Caveat(
            f"{outside:,} of {len(lengths):,} sentences have fewer than {gold.SHORTEST} or more "
            f"than {gold.LONGEST} words. They do not count in DSpr and NSpr, as in the paper."
        )


def _starved(means: pd.DataFrame) -> pd.DataFrame:
    """The scores that half of the sentences would have lowered."""
    compared = means[means["encoder"].isin([MODEL, STATIC])]
    return compared[compared["half_loss"] > MAX_DATA_GAIN]


def still_open(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Yield the measures that twice the sentences would still raise at a layer of the model."""
    starved = _starved(tables["means"])
    for metric, rows in starved[starved["encoder"] == MODEL].groupby("metric", sort=False):
        gain = 100 * rows["half_loss"].max()
        yield (
            f"how far {TREE_TITLES[str(metric)]} rises with more sentences (the second half adds "
            f"up to {gain:.1f} points)"
        )


def _named(rows: pd.DataFrame) -> str:
    """The first scores by metric, each with its layers."""
    names = []
    for (metric, encoder, stack), own in rows.groupby(["metric", "encoder", "stack"], sort=False):
        layers = ", ".join(state_name(layer) for layer in own["layer"] if layer >= 0)
        weights = ", random weights" if encoder == RANDOM else ""
        where = STATIC if encoder == STATIC else f"{stack}{weights}, {layers}"
        names.append(f"{metric} ({where})")
    more = " and others" if len(names) > MAX_NAMED else ""
    return "; ".join(names[:MAX_NAMED]) + more
