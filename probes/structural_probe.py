"""Whether a tree can be read off the geometry of a layer (Hewitt & Manning 2019).

A linear map is learnt under which squared distances of words are distances in the tree, and squared
lengths depths. Next to every layer stand words in a chain, the embeddings (layer 0), the same model
with random weights, and static vectors. Layers are chosen on dev; scores are of the held-out split.
The first seed's probes are also trained on half of the sentences. Costs a pass of the model and of
its random twin, then what `probes.structural_training` says: 1,000 sentences through four layers
of 128 take half a minute on one core with three seeds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probes import dependency_trees as gold
from probes.batched_adam import EPOCHS
from probes.dependency_trees import Floats, Tree
from probes.experiments import LAYER, StructuralProbe, TreeTask
from probes.representations import (
    MODEL,
    NO_LAYER,
    RANDOM,
    STATIC,
    Source,
    encoded,
    randomised,
    static,
)
from probes.structural_training import Probe, States, predicted, trained
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.files import folder_or_temporary
from workbench.core.splits import PARTS, TRAIN, Parts, parts_of
from workbench.core.stats import difference, interval, resampled, share
from workbench.corpora.encode import encode

CHAIN = "chain"
PROBE = "structural"
METRICS: Mapping[TreeTask, tuple[str, str]] = {
    "distance": ("uuas", "dspr"),
    "depth": ("root", "nspr"),
}
SHOWN = 10  # sentences whose trees are shown
ENOUGH = 0.02  # that half of the sentences may cost
NAMED = 4  # scores in a caveat
PAIRS = 1_000_000  # of words and probes, scored at a time


class Key(NamedTuple):
    """A layer of an encoder."""

    encoder: str
    stack: str
    layer: int


CHAIN_KEY = Key(CHAIN, CHAIN, NO_LAYER)


@dataclass(frozen=True)
class Learnt:
    """Probes that were trained, and all that is needed to score them."""

    parts: Parts
    trees: Mapping[str, list[Tree]]  # of each part
    sources: tuple[Source, ...]
    states: States
    probes: tuple[Probe, ...]  # by task, then source, then seed
    matrices: Tensor  # [probes, width, rank]
    converged: tuple[bool, ...]  # [probes]
    halves: Mapping[Probe, Tensor]  # trained on half of the sentences: [width, rank]
    seeds: tuple[int, ...]
    missing: int  # words that the model did not read
    loose: int  # words that hang on nothing, and nothing on them

    def of(self, task: TreeTask) -> tuple[list[Probe], Tensor]:
        """The probes of one task."""
        rows = [row for row, probe in enumerate(self.probes) if probe.task == task]
        return [self.probes[row] for row in rows], self.matrices[rows]

    def stopped(self, task: TreeTask) -> dict[Key, list[bool]]:
        """Of each layer and seed, whether its probe converged; the chain learns nothing."""
        found: dict[Key, list[bool]] = {CHAIN_KEY: [True] * len(self.seeds)}
        for probe, converged in zip(self.probes, self.converged, strict=True):
            if probe.task == task:
                found.setdefault(_key(self.sources[probe.source]), []).append(converged)
        return found


def run(inputs: Inputs, settings: StructuralProbe, progress: Progress) -> Result:
    """Train every probe at once, then score them all on the same sentences."""
    with folder_or_temporary(inputs.scratch) as home:
        learnt = learn(inputs, settings, progress, home)
        tables = _tables(learnt, inputs.seed, progress)
    return Result(tables, caveats=tuple(_caveats(learnt, tables["means"])))


def learn(inputs: Inputs, settings: StructuralProbe, progress: Progress, home: Path) -> Learnt:
    """Read, encode and train; the held-out split is encoded, and not looked at otherwise."""
    model = inputs.model
    parts = parts_of(inputs.corpus, inputs.split, settings.split_sizes, inputs.seed)
    batch = encode(parts.docs)
    own = encoded(model, batch, home, progress)
    sources = (
        *own.sources,
        *randomised(model, batch, home, progress, inputs.seed),
        static(batch, range(len(parts.train)), model.width, inputs.seed),
    )
    trees: dict[str, list[Tree]] = {part: [] for part in PARTS}
    missing = own.missing.numpy()
    for place, (doc, of) in enumerate(zip(parts.docs, parts.part_of, strict=True)):
        first = int(batch.word_offsets[place])
        trees[PARTS[of]] += gold.trees_of(doc, place, first, missing)
    for part, found in trees.items():
        if not found:
            raise WorkbenchError(
                f"there is no tree of two words in {part}.",
                where=inputs.corpus.name,
                remedy="Read a corpus with dependencies in every split, or raise --limit.",
            )
    rows = np.concatenate([tree.rows for tree in trees[TRAIN]])
    states = States.of([source.states for source in sources], rows, model.device)
    seeds = settings.seeds
    tasks = [task for task in METRICS if task in settings.measures]
    probes = tuple(
        Probe(task, source, seed)
        for task in tasks
        for source in range(len(sources))
        for seed in seeds
    )
    rank = min(settings.probe_rank or model.width, model.width)
    fitted = trained(
        states,
        trees[TRAIN],
        trees["dev"],
        probes,
        rank,
        lambda done, most: progress(done, most, f"training {len(probes)} probes"),
    )
    again = [
        probe
        for probe in probes
        if settings.half_data_check and probe.seed == seeds[0] and sources[probe.source].encoder != RANDOM
    ]
    halves: dict[Probe, Tensor] = {}
    half = trees[TRAIN][::2]
    if again:
        halved = trained(
            states,
            half,
            trees["dev"],
            again,
            rank,
            lambda done, most: progress(done, most, f"training {len(again)} on half"),
        )
        halves = dict(zip(again, halved.weights[0], strict=True))
    read = sum(len(tree) for found in trees.values() for tree in found)
    lost = int(missing.sum())
    loose = len(batch.words) - lost - read
    return Learnt(
        parts,
        trees,
        sources,
        states,
        probes,
        fitted.weights[0],
        tuple(fitted.converged.tolist()),
        halves,
        seeds,
        lost,
        loose,
    )


# --- scores ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """What one metric counts of each tree, so that it can be summed, and what sums come to."""

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


def _counted(learnt: Learnt, part: str, task: TreeTask) -> Iterator[_Counts]:
    """Both metrics of a task, for every source and for the chain; one that is of nothing is not."""
    trees = learnt.trees[part]
    probes, matrices = learnt.of(task)
    again = [probe for probe in learnt.halves if probe.task == task and part == "test"]
    right = np.zeros((len(probes) + len(again) + 1, len(trees), 2))
    ranks = np.zeros((len(probes) + len(again) + 1, len(trees)))
    count = gold.count_distances if task == "distance" else gold.count_depths
    chain = gold.chain_distances if task == "distance" else gold.chain_depths
    every = [*probes, *again]
    matrices = torch.cat([matrices, *(learnt.halves[probe][None] for probe in again)])
    for places, chosen in gold.grouped(trees, PAIRS // len(every)):
        found = predicted(matrices, learnt.states, every, chosen)
        right[:-1, places], ranks[:-1, places] = count(found, chosen)
        guess = np.stack([chain(len(chosen[0]))] * len(chosen))[None]
        right[-1:, places], ranks[-1:, places] = count(guess, chosen)
    lengths = np.array([len(tree) for tree in trees], dtype=np.int64)
    keys = (*(_key(source) for source in learnt.sources), CHAIN_KEY)
    halved = [_key(learnt.sources[probe.source]) for probe in again]
    whole = [*range(len(probes)), len(every)]

    def counts(metric: str, each: Floats, measure: gold.Measure, n: int) -> _Counts:
        halves = measure(each[len(probes) : -1].sum(1))  # [again]
        by_key = {key: float(value) for key, value in zip(halved, halves, strict=True)}
        return _Counts(task, metric, keys, _by_seed(each[whole], learnt), measure, n, by_key)

    edges, rank = METRICS[task]
    asked = int(right[-1, :, 1].sum())
    if asked:
        yield counts(edges, right, share, asked)
    among = np.isin(lengths, gold.averaged_lengths(lengths))
    if among.any():
        laid = gold.by_length(ranks, lengths)
        yield counts(rank, laid, gold.mean_of_lengths, int(among.sum()))


def _by_seed(counts: Floats, learnt: Learnt) -> Floats:
    """[probes + 1, trees, numbers] -> [keys, seeds, trees, numbers]; the chain has one for all."""
    seeds = len(learnt.seeds)
    own = counts[:-1].reshape(-1, seeds, *counts.shape[1:])
    chain = np.broadcast_to(counts[-1:, None], (1, seeds, *counts.shape[1:]))
    return np.concatenate([own, chain])


def _key(source: Source) -> Key:
    return Key(source.encoder, source.stack, source.layer)


# --- tables ---------------------------------------------------------------------------------------

_SCORES = "task probe encoder mode stack layer seed split metric value n control converged".split()
_MEANS = [
    *LAYER,
    *"value lower upper n delta delta_lower delta_upper p_value".split(),
    *"learnt converged half half_loss".split(),
]
_SUMMARY = (
    "task metric stack best_layer best_score lower upper baseline_chain baseline_random "
    "baseline_lexical baseline_static".split()
)
_TREES = "stack layer sentence index word head neighbour punctuation".split()


def _tables(learnt: Learnt, seed: int, progress: Progress) -> dict[str, pd.DataFrame]:
    scores: list[tuple[object, ...]] = []
    means: list[tuple[object, ...]] = []
    summary: list[tuple[object, ...]] = []
    best: dict[str, int] = {}  # the layer whose trees are shown, by stack
    tasks = [task for task in METRICS if any(probe.task == task for probe in learnt.probes)]
    for number, task in enumerate(tasks):
        progress(number, len(tasks), "scoring")
        on_dev = {counts.metric: counts for counts in _counted(learnt, "dev", task)}
        for counts in _counted(learnt, "test", task):
            judge = on_dev.get(counts.metric) or next(iter(on_dev.values()), None)
            draws = resampled(counts.numbers, counts.measure, seed)  # [keys, draws]
            scores += _score_rows(counts, learnt)
            means += _mean_rows(counts, draws, learnt)
            for row in _summary_rows(counts, judge, draws):
                summary.append(row)
                if counts.metric == "uuas":
                    best[str(row[2])] = int(str(row[3]))
    return {
        "summary": pd.DataFrame(summary, columns=_SUMMARY),
        "scores": pd.DataFrame(scores, columns=_SCORES),
        "means": pd.DataFrame(means, columns=_MEANS),
        "trees": pd.DataFrame(list(_tree_rows(learnt, best)), columns=_TREES),
    }


def _score_rows(counts: _Counts, learnt: Learnt) -> Iterator[tuple[object, ...]]:
    split, stopped = learnt.parts.scored, learnt.stopped(counts.task)
    for key, values in zip(counts.keys, counts.values, strict=True):
        mode = "layer" if key.encoder == MODEL else "baseline"
        seeds = learnt.seeds[:1] if key.encoder == CHAIN else learnt.seeds
        for seed, value, converged in zip(seeds, values, stopped[key], strict=False):
            yield (counts.task, PROBE, key.encoder, mode, key.stack, key.layer, seed, split,
                   counts.metric, float(value), counts.n, False, converged)  # fmt: skip


def _mean_rows(counts: _Counts, draws: Floats, learnt: Learnt) -> Iterator[tuple[object, ...]]:
    place = {key: row for row, key in enumerate(counts.keys)}
    stopped = learnt.stopped(counts.task)
    values = counts.values.mean(1)
    lower, upper = interval(draws)
    for row, key in enumerate(counts.keys):
        twin = place.get(key._replace(encoder=RANDOM)) if key.encoder == MODEL else None
        under = [values[each] for each in (place[CHAIN_KEY], twin) if each is not None]
        knows = key == CHAIN_KEY or values[row] > max(under)
        half = counts.halves.get(key, np.nan)
        beneath = place.get(key._replace(layer=key.layer - 1)) if key.layer > 0 else None
        gain: tuple[float, ...] = (np.nan,) * 4
        if beneath is not None:
            gain = float(values[row] - values[beneath]), *difference(draws[beneath], draws[row])
        yield (counts.task, *key, counts.metric, float(values[row]), float(lower[row]),
               float(upper[row]), counts.n, *gain, bool(knows), all(stopped[key]), half,
               float(counts.values[row, 0] - half))  # fmt: skip


def _summary_rows(
    counts: _Counts, dev: _Counts | None, draws: Floats
) -> Iterator[tuple[object, ...]]:
    """Of each stack of the model; layers are chosen by their means on dev, or else it is 0."""
    values = counts.values.mean(1)
    judged = np.zeros_like(values) if dev is None else dev.values.mean(1)
    lower, upper = interval(draws)
    place = {key: row for row, key in enumerate(counts.keys)}

    def chosen(encoder: str, stack: str) -> int:
        rows = [r for key, r in place.items() if (key.encoder, key.stack) == (encoder, stack)]
        return max(rows, key=lambda row: judged[row])

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
            float(values[place[CHAIN_KEY]]),
            float(values[chosen(RANDOM, stack)]),
            float(values[place[Key(MODEL, stack, 0)]]),
            float(values[place[Key(STATIC, STATIC, NO_LAYER)]]),
        )


def _tree_rows(learnt: Learnt, best: Mapping[str, int]) -> Iterator[tuple[object, ...]]:
    """Of the first seed, at the layer that has most edges right on dev."""
    docs = learnt.parts.docs
    for stack, layer in best.items():
        source = [_key(each) for each in learnt.sources].index(Key(MODEL, stack, layer))
        probe = Probe("distance", source, learnt.seeds[0])
        matrix = learnt.matrices[[learnt.probes.index(probe)]]
        for sentence, tree in enumerate(learnt.trees["test"][:SHOWN]):
            found = predicted(matrix, learnt.states, [probe], [tree])[0]  # [1, words, words]
            neighbours = gold.spanning(found, ~tree.punctuation[None])[0]
            for index, word in enumerate(tree.words):
                text = docs[tree.document][int(word)].text
                yield (stack, layer, sentence, index, text, int(tree.heads[index]),
                       int(neighbours[index]), bool(tree.punctuation[index]))  # fmt: skip


def _caveats(learnt: Learnt, means: pd.DataFrame) -> Iterator[Caveat]:
    yield from (Caveat(note) for note in learnt.parts.notes)
    cut_off = learnt.converged.count(False)
    if cut_off:
        rows = means[~means["converged"]]
        yield Caveat(
            f"{cut_off} of {len(learnt.converged)} probes still gained on dev after {EPOCHS} "
            f"epochs and were cut off: {_named(rows)}. Their scores are too low."
        )
    own = means[means["encoder"].isin([MODEL, STATIC])]
    idle = own[~own["learnt"]]
    if len(idle):
        yield Caveat(
            f"{len(idle)} of {len(own)} scores are no better than words in a chain or, of the "
            f"model, than the same layer with random weights: {_named(idle)}. Nothing of syntax "
            "was found there."
        )
    starved = own[own["half_loss"] > ENOUGH]
    if len(starved):
        yield Caveat(
            f"Trained on half of the sentences, {len(starved)} of {len(own)} scores are more than "
            f"{100 * ENOUGH:.0f} points lower (up to {100 * starved['half_loss'].max():.1f}): "
            f"{_named(starved)}. More sentences would raise the curves."
        )
    if learnt.missing:
        yield Caveat(
            f"{learnt.missing:,} words were cut off or not read by the model: they are left out "
            "of their trees, and of every baseline's."
        )
    if learnt.loose:
        yield Caveat(
            f"{learnt.loose:,} words stand alone, without a head or a dependent that was read: "
            "there is no tree to learn."
        )
    lengths = np.array([len(tree) for tree in learnt.trees["test"]], dtype=np.int64)
    outside = len(lengths) - int(np.isin(lengths, gold.averaged_lengths(lengths)).sum())
    if outside:
        yield Caveat(
            f"{outside:,} of {len(lengths):,} sentences have fewer than {gold.SHORTEST} or more "
            f"than {gold.LONGEST} words: dspr and nspr are of the others, as published ones are."
        )


def _named(rows: pd.DataFrame) -> str:
    """Scores by metric, each with its layers: the first few."""
    found = []
    for (metric, encoder, stack), own in rows.groupby(["metric", "encoder", "stack"], sort=False):
        layers = ", ".join(str(layer) for layer in own["layer"])
        weights = ", random weights" if encoder == RANDOM else ""
        where = STATIC if encoder == STATIC else f"{stack}{weights}, layer {layers}"
        found.append(f"{metric} ({where})")
    return "; ".join(found[:NAMED]) + (" and others" if len(found) > NAMED else "")
