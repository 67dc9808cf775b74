"""Attention probe (Clark et al. 2019): how much syntax the attention of all heads encodes.

A word's governor is predicted from the attention between it and every other word, in both
directions, with a weight for each attention head: for the heads of each layer, and of all layers.
Baselines: the best fixed offset, the same model with random weights, static vectors without
attention, and a control task that can only be memorised by word type. The probes are convex: each
is trained to its optimum, with the best weight decay on dev, and again on half of the sentences.
Layers are chosen on dev; scores are on the held-out split. Costs: a pass of the model and one of
the random-weight model, then what `attention_features` states: 1,000 sentences and four
layers of four heads take a minute on one core with three control tasks.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.analyses.probes import attention_features
from workbench.analyses.probes.attention_features import Cases, Maps, Numbers, Sentence
from workbench.analyses.probes.batched_adam import DECAYS
from workbench.analyses.probes.dependency_trees import Truths
from workbench.analyses.probes.experiments import MAX_DATA_GAIN, AttentionProbe
from workbench.analyses.probes.representations import MODEL, NO_LAYER, RANDOM, STATIC, static
from workbench.core.arrays import Floats
from workbench.core.errors import WorkbenchError
from workbench.core.findings import capital, of_all, verb_of
from workbench.core.head_names import block_name
from workbench.core.stats import interval, resampled, share
from workbench.corpora.encode import encode
from workbench.corpora.splits import DEV, PARTS, TEST, TRAIN, Parts, parts_of
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import Progress as Passing
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

ATTENTION, BOTH, WORDS = "attention", "attention and words", "words"
ALL = NO_LAYER  # the layer of a probe that reads all heads
WIDTH = 64  # of static vectors
TASK, METRIC = "attachment", "uas"
MAX_NAMED = 4  # probes in a caveat


class Key(NamedTuple):
    """A probe; control tasks of all seeds have one key."""

    probe: str
    encoder: str
    stack: str
    layer: int
    control: bool


@dataclass(frozen=True)
class Probed:
    """One trained probe: its predicted heads, and how its training ended."""

    weights: Tensor
    predictions: Mapping[str, Mapping[int, Numbers]]  # of dev and test: head of each word
    decay: float
    converged: bool


@dataclass
class TrainedProbes:
    """All trained probes."""

    sentences: Mapping[str, Sequence[Sentence]]  # by part
    seeds: tuple[int, ...]
    heads: Mapping[str, tuple[tuple[int, int], ...]]  # by stack: (layer, head)
    probes: dict[Key, list[Probed]] = field(
        default_factory=dict
    )  # one; of control tasks, one per seed
    halves: dict[Key, Probed] = field(default_factory=dict)  # trained on half of the sentences
    head_weights: dict[str, Tensor] = field(default_factory=dict)  # by stack: [2, heads]
    missing: int = 0  # words that the model did not read

    @property
    def keys(self) -> list[Key]:
        return list(self.probes)


def run(inputs: Inputs, settings: AttentionProbe, progress: Progress) -> Result:
    """Compute the attention of both encoders, train all probes and build the tables."""
    parts = parts_of(inputs.corpus, inputs.split, settings.split_sizes, inputs.seed)
    trained_probes = learn(inputs, settings, progress, parts)
    tables = _tables(trained_probes, parts, inputs.seed)
    return Result(tables, caveats=tuple(_caveats(trained_probes, parts, tables["means"])))


def learn(
    inputs: Inputs, settings: AttentionProbe, progress: Progress, parts: Parts
) -> TrainedProbes:
    """Train on train, choose the weight decay on dev, predict on dev and on the held-out split."""
    model, batch = inputs.model, encode(parts.docs)
    maps, missing = attention_features.attention(
        model, batch, _passing(progress, "Encoding corpus")
    )
    twin = model.reinitialised(inputs.seed)
    random_maps, _ = attention_features.attention(
        twin, batch, _passing(progress, "Encoding corpus with random weights")
    )
    sentences = _sentences(parts, batch, missing, inputs.corpus.name)
    rows = np.concatenate([one.first + np.arange(len(one)) for one in sentences[TRAIN]])
    vectors = _scaled(static(batch, range(len(parts.train)), WIDTH, inputs.seed).states, rows)
    trained_probes = TrainedProbes(
        sentences, settings.seeds, {stack: stack_maps.heads for stack, stack_maps in maps.items()}
    )
    trained_probes.missing = int(missing.sum())
    encoders: list[tuple[str, str, Maps]] = [
        (encoder, stack, stack_maps)
        for encoder, each in ((MODEL, maps), (RANDOM, random_maps))
        for stack, stack_maps in each.items()
    ]
    jobs = [(WORDS, STATIC, STATIC, ALL)] + [
        (probe, encoder, stack, layer)
        for encoder, stack, stack_maps in encoders
        for probe in (ATTENTION, BOTH)
        for layer in (ALL, *sorted({layer for layer, _ in stack_maps.heads}))
    ]
    done = 0
    for encoder, stack, stack_maps in encoders:
        sizes = attention_features.sizes_of(stack_maps, sentences[TRAIN])

        def batches(
            chosen: Sequence[Sentence], stack_maps: Maps = stack_maps, sizes: Tensor = sizes
        ) -> list[Cases]:
            return attention_features.cases(
                chosen, stack_maps, sizes, vectors, settings.seeds, model.device
            )

        whole = {part: batches(each) for part, each in sentences.items()}
        half = (
            batches(sentences[TRAIN][::2]) if settings.half_data_check and encoder == MODEL else []
        )
        first = not done  # the probe of words needs no attention; it trains with the first stack
        for job in jobs:
            if job[1:3] != (encoder, stack) and not (first and job[0] == WORDS):
                continue
            progress(done, len(jobs), f"training probes: {job[0]}, {job[1]}")
            _learn(trained_probes, job, stack_maps, whole, half)
            done += 1
        if encoder == MODEL:
            (probe,) = trained_probes.probes[Key(ATTENTION, MODEL, stack, ALL, False)]
            trained_probes.head_weights[stack] = probe.weights / sizes
    progress(len(jobs), len(jobs), "training probes")
    return trained_probes


def _passing(progress: Progress, doing: str) -> Callable[[Passing], object]:
    return lambda pass_: progress(pass_.done, pass_.total, doing)


def _sentences(
    parts: Parts, batch: Batch, missing: Truths, where: str
) -> Mapping[str, Sequence[Sentence]]:
    """The sentences of each part that have at least one arc."""
    sentences: dict[str, list[Sentence]] = {part: [] for part in PARTS}
    for index, (doc, part) in enumerate(zip(parts.docs, parts.part_of, strict=True)):
        first = int(batch.word_offsets[index])
        sentence = attention_features.sentence_of(doc, index, first, missing)
        if sentence is not None:
            sentences[PARTS[part]].append(sentence)
    for name, of_part in sentences.items():
        if not of_part:
            raise WorkbenchError(
                f"{name} has no word with a head.",
                code="too-few-sentences",
                where=where,
                remedy="Choose a corpus with dependencies and sentences of at least two words in "
                "every split, or raise --max-sentences.",
            )
    return sentences


def _scaled(vectors: Tensor, rows: Numbers) -> Tensor:
    """Vectors with each dimension divided by its size on train words.  # [words, width]"""
    sizes = vectors[torch.from_numpy(rows)].float().square().mean(0).sqrt()
    return vectors.float() / torch.where(sizes > 0, sizes, 1.0)


def _learn(
    trained_probes: TrainedProbes,
    job: tuple[str, str, str, int],
    maps: Maps,
    whole: Mapping[str, Sequence[Cases]],
    half: Sequence[Cases],
) -> None:
    """Train a probe on the task and on the control task of each seed, in one stack."""
    key, control = Key(*job, False), Key(*job, True)
    device, width = whole[TRAIN][0].vectors.device, whole[TRAIN][0].vectors.shape[-1]
    columns = [index for index, (layer, _) in enumerate(maps.heads) if key.layer in (ALL, layer)]
    heads = slice(columns[0], columns[-1] + 1)

    def trained(
        train: Sequence[Cases], variants: Tensor, decays: Sequence[float] = DECAYS
    ) -> list[Probed]:
        weights, score = _initial(key.probe, len(variants), heads, width, device)
        end = attention_features.train_probes(
            weights, score, variants, train, whole[DEV], decays=decays
        )
        predictions = {
            part: attention_features.attached(end.weights, score, variants, whole[part])
            for part in (DEV, TEST)
        }
        return [
            Probed(
                end.weights[0][row].cpu(),
                {
                    part: {index: heads_of[row] for index, heads_of in each.items()}
                    for part, each in predictions.items()
                },
                float(end.decays[row]),
                bool(end.converged[row]),
            )
            for row in range(len(variants))
        ]

    every = trained(whole[TRAIN], torch.arange(1 + len(trained_probes.seeds), device=device))
    trained_probes.probes[key], trained_probes.probes[control] = every[:1], every[1:]
    if half:
        # half of the words: twice the weight decay for the same penalty relative to the mean loss
        task = torch.zeros(1, dtype=torch.long, device=device)
        (trained_probes.halves[key],) = trained(half, task, [2 * every[0].decay])


def _initial(
    probe: str, n_probes: int, heads: slice, width: int, device: torch.device
) -> tuple[list[Tensor], attention_features.Score]:
    """Initial weights and scoring function of a kind of probe."""
    if probe == ATTENTION:
        return attention_features.by_attention(n_probes, heads, device)
    if probe == BOTH:
        return attention_features.by_attention_and_words(n_probes, heads, width, device)
    return attention_features.by_words_alone(n_probes, width, device)


# --- scores ---------------------------------------------------------------------------------------


def _right(trained_probes: TrainedProbes, part: str, key: Key, probed: Probed, seed: int) -> Floats:
    """Number of words attached right, and of scored words, by sentence.  # [sentences, 2]"""
    sentences = trained_probes.sentences[part]
    counts = np.zeros((len(sentences), 2))
    for index, sentence in enumerate(sentences):
        gold = attention_features.control_heads(sentence, seed) if key.control else sentence.heads
        predicted = probed.predictions[part][index][: len(sentence)]
        right = (predicted == gold) & sentence.scored
        counts[index] = right.sum(), sentence.scored.sum()
    return counts


def _counts(trained_probes: TrainedProbes, part: str, key: Key) -> Floats:
    """The same by seed; the probe of the task is the same for all.  # [seeds, sentences, 2]"""
    each = zip(trained_probes.probes[key], trained_probes.seeds, strict=False)
    counts = np.stack([_right(trained_probes, part, key, probed, seed) for probed, seed in each])
    return np.broadcast_to(counts, (len(trained_probes.seeds), *counts.shape[1:]))


@dataclass(frozen=True)
class _Scored:
    """Scores of all probes, in the order of their keys."""

    row_of: Mapping[Key, int]
    on_dev: Floats  # [keys], means over seeds
    values: Floats  # [keys, seeds]
    lower: Floats  # [keys]
    upper: Floats  # [keys]
    n: int
    offset: int  # the best offset on train
    baseline_offset: float  # score of that offset
    baseline: float  # the same, or a uniform guess if that scores higher
    halves: Mapping[Key, float]  # of probes trained on half of the sentences

    @classmethod
    def of(cls, trained_probes: TrainedProbes, seed: int) -> "_Scored":
        counts = np.stack([_counts(trained_probes, TEST, key) for key in trained_probes.keys])
        dev = np.stack([_counts(trained_probes, DEV, key) for key in trained_probes.keys])
        lower, upper = interval(resampled(counts, share, seed))
        offset = attention_features.best_offset(trained_probes.sentences[TRAIN])
        right, n_scored = attention_features.offset_counts(trained_probes.sentences[TEST], offset)
        baseline = right / max(n_scored, 1)
        return cls(
            {key: row for row, key in enumerate(trained_probes.keys)},
            share(dev.sum(2)).mean(1),
            share(counts.sum(2)),
            lower,
            upper,
            int(counts[0, 0, :, 1].sum()),
            offset,
            baseline,
            max(baseline, attention_features.uniform_guess(trained_probes.sentences[TEST])),
            {
                key: float(share(_right(trained_probes, TEST, key, probed, 0).sum(0)))
                for key, probed in trained_probes.halves.items()
            },
        )

    def mean(self, key: Key) -> float:
        return float(self.values[self.row_of[key]].mean())


# --- tables ---------------------------------------------------------------------------------------

_SCORES = (
    "task probe encoder mode stack layer seed split metric value n control weight_decay "
    "converged".split()
)
_MEANS = (
    "probe encoder stack layer control value lower upper n baseline control_value learnt "
    "converged half".split()
)
_SUMMARY = (
    "stack probe uas lower upper best_layer best_layer_uas baseline_offset best_offset "
    "baseline_random control selectivity n uas_half".split()
)
_WEIGHTS = "stack layer head weight_to_head weight_from_head".split()
_RELATIONS = "stack probe relation uas n baseline offset".split()


def _tables(trained_probes: TrainedProbes, parts: Parts, seed: int) -> dict[str, pd.DataFrame]:
    """All tables of the experiment, by name."""
    scored = _Scored.of(trained_probes, seed)
    rows = {
        "summary": (_SUMMARY, _summary_rows(trained_probes, scored)),
        "scores": (_SCORES, _score_rows(trained_probes, scored, parts.scored)),
        "means": (_MEANS, _mean_rows(trained_probes, scored)),
        "weights": (_WEIGHTS, _weight_rows(trained_probes)),
        "by_relation": (_RELATIONS, _relation_rows(trained_probes)),
    }
    return {name: pd.DataFrame(list(data), columns=names) for name, (names, data) in rows.items()}


def _score_rows(
    trained_probes: TrainedProbes, scored: _Scored, split: str
) -> Iterator[tuple[object, ...]]:
    """Rows of the table `scores`: one for the task, and one per seed for its control task."""
    for key, row in scored.row_of.items():
        mode = "all" if key.layer == ALL else "layer"
        each = zip(
            trained_probes.seeds, scored.values[row], trained_probes.probes[key], strict=False
        )
        for seed, value, probed in each:
            yield (TASK, key.probe, key.encoder, mode, key.stack, key.layer, seed, split, METRIC,
                   float(value), scored.n, key.control, probed.decay, probed.converged)  # fmt: skip


def _mean_rows(trained_probes: TrainedProbes, scored: _Scored) -> Iterator[tuple[object, ...]]:
    for key, row in scored.row_of.items():
        value, control = scored.mean(key), scored.mean(key._replace(control=True))
        learnt = key.control or value > max(scored.baseline, control)
        converged = all(probed.converged for probed in trained_probes.probes[key])
        yield (key.probe, key.encoder, key.stack, key.layer, key.control, value,
               float(scored.lower[row]), float(scored.upper[row]), scored.n, scored.baseline,
               control, learnt, converged, scored.halves.get(key, np.nan))  # fmt: skip


def _summary_rows(trained_probes: TrainedProbes, scored: _Scored) -> Iterator[tuple[object, ...]]:
    for key, row in scored.row_of.items():
        if key.layer != ALL or key.control or key.encoder == RANDOM:
            continue
        layers = [
            other
            for other in trained_probes.keys
            if other.layer != ALL and other._replace(layer=ALL) == key
        ]
        best = max(layers, key=lambda other: scored.on_dev[scored.row_of[other]], default=None)
        control = scored.mean(key._replace(control=True))
        random = key._replace(encoder=RANDOM)
        yield (
            key.stack,
            key.probe,
            scored.mean(key),
            float(scored.lower[row]),
            float(scored.upper[row]),
            NO_LAYER if best is None else best.layer,
            np.nan if best is None else scored.mean(best),
            scored.baseline_offset,
            scored.offset,
            scored.mean(random) if random in scored.row_of else np.nan,
            control,
            scored.mean(key) - control,
            scored.n,
            scored.halves.get(key, np.nan),
        )


def _weight_rows(trained_probes: TrainedProbes) -> Iterator[tuple[object, ...]]:
    for stack, heads in trained_probes.heads.items():
        mean = trained_probes.head_weights[stack]
        for index, (layer, head) in enumerate(heads):
            yield stack, layer, head, float(mean[0, index]), float(mean[1, index])


def _relation_rows(trained_probes: TrainedProbes) -> Iterator[tuple[object, ...]]:
    """Rows of the table `by_relation`, the most frequent relations first."""
    train, test = trained_probes.sentences[TRAIN], trained_probes.sentences[TEST]
    counts = Counter(one.relations[word] for one in test for word in np.flatnonzero(one.scored))
    offsets = {relation: attention_features.best_offset(train, relation) for relation in counts}
    fixed = {
        relation: attention_features.offset_counts(test, offset, relation)[0]
        for relation, offset in offsets.items()
    }
    for key in trained_probes.keys:
        if key.layer != ALL or key.control or key.encoder == RANDOM:
            continue
        right: Counter[str] = Counter()
        predictions = trained_probes.probes[key][0].predictions[TEST]
        for index, one in enumerate(test):
            hits = (predictions[index][: len(one)] == one.heads) & one.scored
            right.update(one.relations[word] for word in np.flatnonzero(hits))
        for relation, n in counts.most_common():
            baseline = fixed[relation] / n
            yield (key.stack, key.probe, relation, right[relation] / n, n, baseline,
                   offsets[relation])  # fmt: skip


def _caveats(trained_probes: TrainedProbes, parts: Parts, means: pd.DataFrame) -> Iterator[Caveat]:
    yield from (Caveat(note) for note in parts.notes)
    compared = means[(means["encoder"] != RANDOM) & ~means["control"]]
    cut_off = means[~means["converged"]]
    if len(cut_off):
        yield Caveat(
            f"{capital(of_all(len(cut_off), len(means), 'probe'))} stopped before their optimum: "
            f"{_named(cut_off)}. Their scores may be too low or too high."
        )
    below = compared[compared["value"] <= compared["baseline"]]
    if len(below):
        yield Caveat(
            f"{capital(of_all(len(below), len(compared), 'probe'))} "
            f"{verb_of(len(below), 'does', 'do')} not score above the best offset or a "
            f"uniform guess ({compared['baseline'].iloc[0]:.3f}), so they found no syntax beyond "
            f"position: {_named(below)}."
        )
    under = compared[compared["value"] <= compared["control_value"]]
    if len(under):
        yield Caveat(
            f"{capital(of_all(len(under), len(compared), 'probe'))} "
            f"{verb_of(len(under), 'does', 'do')} not score above the control task, so "
            f"memorised words can explain the scores: {_named(under)}."
        )
    if trained_probes.missing:
        yield Caveat(
            f"{trained_probes.missing:,} words were cut off or not read by the model. They and "
            "their dependents are not scored."
        )
    n_without_arcs = len(parts.docs) - sum(map(len, trained_probes.sentences.values()))
    if n_without_arcs:
        yield Caveat(
            f"{n_without_arcs:,} of {len(parts.docs):,} sentences have no arc between words "
            "(without punctuation). They are left out."
        )
    if any(heads for stack, heads in trained_probes.heads.items() if stack == "decoder"):
        yield Caveat(
            "In a decoder, a word attends only to words before it. If its governor comes later, "
            "only the attention from the governor to the word can show the arc."
        )


def _starved(compared: pd.DataFrame) -> pd.DataFrame:
    """The probes that half of the sentences would have lowered."""
    return compared[compared["value"] - compared["half"] > MAX_DATA_GAIN]


def still_open(tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Yield how much twice the sentences would still raise UAS, if they would."""
    means = tables["means"]
    starved = _starved(means[(means["encoder"] == MODEL) & ~means["control"]])
    if len(starved):
        gain = 100 * (starved["value"] - starved["half"]).max()
        yield f"UAS (the second half of the sentences adds up to {gain:.1f} points)"


def _named(rows: pd.DataFrame) -> str:
    """The first probes by name, each with its layers."""
    names = []
    for (probe, encoder, stack), own in rows.groupby(["probe", "encoder", "stack"], sort=False):
        layers = ", ".join(
            "all layers" if layer == ALL else block_name(layer) for layer in own["layer"].unique()
        )
        weights = ", random weights" if encoder == RANDOM else ""
        names.append(probe if probe == WORDS else f"{probe}{weights} ({stack}, {layers})")
    more = " and others" if len(names) > MAX_NAMED else ""
    return "; ".join(map(str, names[:MAX_NAMED])) + more
