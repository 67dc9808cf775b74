"""How much of syntax the attention of all heads tells together (Clark et al. 2019).

A word's head is predicted from how much it gives to every other word and gets from it, head by
head, with a weight for each: for the heads of each layer, and for those of all. Next to them stand
the best fixed offset, the same model with random weights, words without attention, and a control
task that only a memory for words can learn. The probes are convex: each is trained to its optimum,
with the weight decay that is best on dev, and again on half of the sentences. Layers are chosen on
dev; scores are of the held-out split. Costs a pass of the model and of its random twin, then what
`probes.attention_features` says: 1,000 sentences and four layers of four heads take a minute on one
core with three control tasks.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probes import attention_features
from probes.attention_features import Cases, Maps, Numbers, Sentence
from probes.batched_adam import DECAYS
from probes.dependency_trees import Floats, Truths
from probes.experiments import AttentionProbe
from probes.representations import MODEL, NO_LAYER, RANDOM, STATIC, static
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.splits import DEV, PARTS, TEST, TRAIN, Parts, parts_of
from workbench.core.stats import interval, resampled, share
from workbench.corpora.encode import encode
from workbench.engine.batch import Batch
from workbench.engine.forward_pass import Progress as Passing

ATTENTION, BOTH, WORDS = "attention", "attention and words", "words"
ALL = NO_LAYER  # the layer of a probe that sees every head
WIDTH = 64  # of static vectors
TASK, METRIC = "attachment", "uas"
ENOUGH = 0.02  # that half of the sentences may cost
NAMED = 4  # probes in a caveat


class Key(NamedTuple):
    """A probe; of controls, whatever their seed."""

    probe: str
    encoder: str
    stack: str
    layer: int
    control: bool


@dataclass(frozen=True)
class Probed:
    """One probe, trained: where it attaches words, and how its training ended."""

    weights: Tensor
    answers: Mapping[str, Mapping[int, Numbers]]  # of dev and test: where each word is attached
    decay: float
    converged: bool


@dataclass
class Found:
    """Every probe that was trained."""

    sentences: Mapping[str, Sequence[Sentence]]  # of each part
    seeds: tuple[int, ...]
    heads: Mapping[str, tuple[tuple[int, int], ...]]  # of each stack: (layer, head)
    probes: dict[Key, list[Probed]] = field(default_factory=dict)  # one; of controls one a seed
    halves: dict[Key, Probed] = field(default_factory=dict)  # trained on half of the sentences
    of_heads: dict[str, Tensor] = field(default_factory=dict)  # of each stack: [2, heads]
    missing: int = 0  # words that the model did not read

    @property
    def keys(self) -> list[Key]:
        return list(self.probes)


def run(inputs: Inputs, settings: AttentionProbe, progress: Progress) -> Result:
    """Both encoders' attention in one pass each, then every probe to its optimum."""
    parts = parts_of(inputs.corpus, inputs.split, settings.split_sizes, inputs.seed)
    found = learn(inputs, settings, progress, parts)
    tables = _tables(found, parts, inputs.seed)
    return Result(tables, caveats=tuple(_caveats(found, parts, tables["means"])))


def learn(inputs: Inputs, settings: AttentionProbe, progress: Progress, parts: Parts) -> Found:
    """Train on train, choose weight decay on dev, answer on dev and on the held-out split."""
    model, batch = inputs.model, encode(parts.docs)
    maps, missing = attention_features.attention(model, batch, _passing(progress, "encoding"))
    twin = model.reinitialised(inputs.seed)
    others, _ = attention_features.attention(
        twin, batch, _passing(progress, "encoding, random weights")
    )
    sentences = _sentences(parts, batch, missing, inputs.corpus.name)
    rows = np.concatenate([one.first + np.arange(len(one)) for one in sentences[TRAIN]])
    vectors = _scaled(static(batch, range(len(parts.train)), WIDTH, inputs.seed).states, rows)
    found = Found(sentences, settings.seeds, {stack: own.heads for stack, own in maps.items()})
    found.missing = int(missing.sum())
    encoders: list[tuple[str, str, Maps]] = [
        (encoder, stack, own)
        for encoder, each in ((MODEL, maps), (RANDOM, others))
        for stack, own in each.items()
    ]
    jobs = [(WORDS, STATIC, STATIC, ALL)] + [
        (probe, encoder, stack, layer)
        for encoder, stack, own in encoders
        for probe in (ATTENTION, BOTH)
        for layer in (ALL, *sorted({layer for layer, _ in own.heads}))
    ]
    done = 0
    for encoder, stack, own in encoders:
        sizes = attention_features.sizes_of(own, sentences[TRAIN])

        def laid(chosen: Sequence[Sentence], own: Maps = own, sizes: Tensor = sizes) -> list[Cases]:
            return attention_features.cases(
                chosen, own, sizes, vectors, settings.seeds, model.device
            )

        whole = {part: laid(each) for part, each in sentences.items()}
        half = laid(sentences[TRAIN][::2]) if settings.half_data_check and encoder == MODEL else []
        first = not done  # words alone need no attention, but some cases
        for job in jobs:
            if job[1:3] != (encoder, stack) and not (first and job[0] == WORDS):
                continue
            progress(done, len(jobs), f"training: {job[0]}, {job[1]}")
            _learn(found, job, own, whole, half)
            done += 1
        if encoder == MODEL:
            (probe,) = found.probes[Key(ATTENTION, MODEL, stack, ALL, False)]
            found.of_heads[stack] = probe.weights / sizes
    progress(len(jobs), len(jobs), "training")
    return found


def _passing(progress: Progress, doing: str) -> Callable[[Passing], object]:
    return lambda now: progress(now.done, now.total, doing)


def _sentences(
    parts: Parts, batch: Batch, missing: Truths, where: str
) -> Mapping[str, Sequence[Sentence]]:
    found: dict[str, list[Sentence]] = {part: [] for part in PARTS}
    for place, (doc, of) in enumerate(zip(parts.docs, parts.part_of, strict=True)):
        one = attention_features.sentence_of(doc, place, int(batch.word_offsets[place]), missing)
        if one is not None:
            found[PARTS[of]].append(one)
    for part, there in found.items():
        if not there:
            raise WorkbenchError(
                f"there is no word with a head in {part}.",
                where=where,
                remedy="Read a corpus with dependencies and sentences of two words or more in "
                "every split, or raise --limit.",
            )
    return found


def _scaled(vectors: Tensor, rows: Numbers) -> Tensor:
    """Each dimension by its size on these words, those of train.  # [words, width]"""
    sizes = vectors[torch.from_numpy(rows)].float().square().mean(0).sqrt()
    return vectors.float() / torch.where(sizes > 0, sizes, 1.0)


def _learn(
    found: Found,
    job: tuple[str, str, str, int],
    maps: Maps,
    whole: Mapping[str, Sequence[Cases]],
    half: Sequence[Cases],
) -> None:
    """One probe for the task and one for the control task of each seed, in one stack."""
    key, control = Key(*job, False), Key(*job, True)
    device, width = whole[TRAIN][0].vectors.device, whole[TRAIN][0].vectors.shape[-1]
    own = [place for place, (layer, _) in enumerate(maps.heads) if key.layer in (ALL, layer)]
    heads = slice(own[0], own[-1] + 1)

    def trained(
        train: Sequence[Cases], variants: Tensor, decays: Sequence[float] = DECAYS
    ) -> list[Probed]:
        weights, score = _initial(key.probe, len(variants), heads, width, device)
        end = attention_features.learnt(weights, score, variants, train, whole[DEV], decays=decays)
        answers = {
            part: attention_features.attached(end.weights, score, variants, whole[part])
            for part in (DEV, TEST)
        }
        return [
            Probed(
                end.weights[0][row].cpu(),
                {
                    part: {place: answer[row] for place, answer in each.items()}
                    for part, each in answers.items()
                },
                float(end.decays[row]),
                bool(end.converged[row]),
            )
            for row in range(len(variants))
        ]

    every = trained(whole[TRAIN], torch.arange(1 + len(found.seeds), device=device))
    found.probes[key], found.probes[control] = every[:1], every[1:]
    if half:
        # half of the words, so twice the weight decay on the mean of their losses
        task = torch.zeros(1, dtype=torch.long, device=device)
        (found.halves[key],) = trained(half, task, [2 * every[0].decay])


def _initial(
    probe: str, number: int, heads: slice, width: int, device: torch.device
) -> tuple[list[Tensor], attention_features.Score]:
    if probe == ATTENTION:
        return attention_features.by_attention(number, heads, device)
    if probe == BOTH:
        return attention_features.by_attention_and_words(number, heads, width, device)
    return attention_features.by_words_alone(number, width, device)


# --- scores ---------------------------------------------------------------------------------------


def _right(found: Found, part: str, key: Key, probed: Probed, seed: int) -> Floats:
    """Right of those asked, by sentence.  # [sentences, 2]"""
    sentences = found.sentences[part]
    counts = np.zeros((len(sentences), 2))
    for place, one in enumerate(sentences):
        gold = attention_features.control_heads(one, seed) if key.control else one.heads
        right = (probed.answers[part][place][: len(one)] == gold) & one.asked
        counts[place] = right.sum(), one.asked.sum()
    return counts


def _counts(found: Found, part: str, key: Key) -> Floats:
    """The same by seed; the task's probe is one for all seeds.  # [seeds, sentences, 2]"""
    each = zip(found.probes[key], found.seeds, strict=False)
    counts = np.stack([_right(found, part, key, probed, seed) for probed, seed in each])
    return np.broadcast_to(counts, (len(found.seeds), *counts.shape[1:]))


@dataclass(frozen=True)
class _Scored:
    """Of all probes, in the order of their keys."""

    place: Mapping[Key, int]
    on_dev: Floats  # [keys], means over seeds
    values: Floats  # [keys, seeds]
    lower: Floats  # [keys]
    upper: Floats  # [keys]
    n: int
    offset: int  # that is best on train
    baseline_offset: float  # what it scores
    baseline: float  # the same, or an even guess where that scores more
    halves: Mapping[Key, float]  # of probes trained on half of the sentences

    @classmethod
    def of(cls, found: Found, seed: int) -> "_Scored":
        counts = np.stack([_counts(found, TEST, key) for key in found.keys])
        dev = np.stack([_counts(found, DEV, key) for key in found.keys])
        lower, upper = interval(resampled(counts, share, seed))
        offset = attention_features.best_offset(found.sentences[TRAIN])
        right, asked = attention_features.offset_counts(found.sentences[TEST], offset)
        baseline = right / max(asked, 1)
        return cls(
            {key: row for row, key in enumerate(found.keys)},
            share(dev.sum(2)).mean(1),
            share(counts.sum(2)),
            lower,
            upper,
            int(counts[0, 0, :, 1].sum()),
            offset,
            baseline,
            max(baseline, attention_features.even_guess(found.sentences[TEST])),
            {
                key: float(share(_right(found, TEST, key, probed, 0).sum(0)))
                for key, probed in found.halves.items()
            },
        )

    def mean(self, key: Key) -> float:
        return float(self.values[self.place[key]].mean())


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


def _tables(found: Found, parts: Parts, seed: int) -> dict[str, pd.DataFrame]:
    scored = _Scored.of(found, seed)
    rows = {
        "summary": (_SUMMARY, _summary_rows(found, scored)),
        "scores": (_SCORES, _score_rows(found, scored, parts.scored)),
        "means": (_MEANS, _mean_rows(found, scored)),
        "weights": (_WEIGHTS, _weight_rows(found)),
        "by_relation": (_RELATIONS, _relation_rows(found)),
    }
    return {name: pd.DataFrame(list(own), columns=names) for name, (names, own) in rows.items()}


def _score_rows(found: Found, scored: _Scored, split: str) -> Iterator[tuple[object, ...]]:
    """One row for the task, one a seed for its control."""
    for key, row in scored.place.items():
        mode = "all" if key.layer == ALL else "layer"
        each = zip(found.seeds, scored.values[row], found.probes[key], strict=False)
        for seed, value, probed in each:
            yield (TASK, key.probe, key.encoder, mode, key.stack, key.layer, seed, split, METRIC,
                   float(value), scored.n, key.control, probed.decay, probed.converged)  # fmt: skip


def _mean_rows(found: Found, scored: _Scored) -> Iterator[tuple[object, ...]]:
    for key, row in scored.place.items():
        value, control = scored.mean(key), scored.mean(key._replace(control=True))
        learnt = key.control or value > max(scored.baseline, control)
        converged = all(probed.converged for probed in found.probes[key])
        yield (key.probe, key.encoder, key.stack, key.layer, key.control, value,
               float(scored.lower[row]), float(scored.upper[row]), scored.n, scored.baseline,
               control, learnt, converged, scored.halves.get(key, np.nan))  # fmt: skip


def _summary_rows(found: Found, scored: _Scored) -> Iterator[tuple[object, ...]]:
    for key, row in scored.place.items():
        if key.layer != ALL or key.control or key.encoder == RANDOM:
            continue
        layers = [
            other for other in found.keys if other.layer != ALL and other._replace(layer=ALL) == key
        ]
        best = max(layers, key=lambda other: scored.on_dev[scored.place[other]], default=None)
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
            scored.mean(random) if random in scored.place else np.nan,
            control,
            scored.mean(key) - control,
            scored.n,
            scored.halves.get(key, np.nan),
        )


def _weight_rows(found: Found) -> Iterator[tuple[object, ...]]:
    for stack, heads in found.heads.items():
        mean = found.of_heads[stack]
        for place, (layer, head) in enumerate(heads):
            yield stack, layer, head, float(mean[0, place]), float(mean[1, place])


def _relation_rows(found: Found) -> Iterator[tuple[object, ...]]:
    """Relations of the held-out split, the most frequent first."""
    train, test = found.sentences[TRAIN], found.sentences[TEST]
    numbers = Counter(one.relations[place] for one in test for place in np.flatnonzero(one.asked))
    offsets = {relation: attention_features.best_offset(train, relation) for relation in numbers}
    fixed = {
        relation: attention_features.offset_counts(test, offset, relation)[0]
        for relation, offset in offsets.items()
    }
    for key in found.keys:
        if key.layer != ALL or key.control or key.encoder == RANDOM:
            continue
        right: Counter[str] = Counter()
        answers = found.probes[key][0].answers[TEST]
        for place, one in enumerate(test):
            hits = (answers[place][: len(one)] == one.heads) & one.asked
            right.update(one.relations[word] for word in np.flatnonzero(hits))
        for relation, n in numbers.most_common():
            baseline = fixed[relation] / n
            yield (key.stack, key.probe, relation, right[relation] / n, n, baseline,
                   offsets[relation])  # fmt: skip


def _caveats(found: Found, parts: Parts, means: pd.DataFrame) -> Iterator[Caveat]:
    yield from (Caveat(note) for note in parts.notes)
    own = means[(means["encoder"] != RANDOM) & ~means["control"]]
    cut_off = means[~means["converged"]]
    if len(cut_off):
        yield Caveat(
            f"{len(cut_off)} of {len(means)} probes were cut off before their optimum: "
            f"{_named(cut_off)}. Their scores are too low, or too high."
        )
    below = own[own["value"] <= own["baseline"]]
    if len(below):
        yield Caveat(
            f"{len(below)} of {len(own)} probes score no more than the best offset or an even "
            f"guess ({own['baseline'].iloc[0]:.3f}), so they found nothing of syntax that position "
            f"does not tell: {_named(below)}."
        )
    under = own[own["value"] <= own["control_value"]]
    if len(under):
        yield Caveat(
            f"{len(under)} of {len(own)} probes score no more than on their control task, so a "
            f"memory for words explains them: {_named(under)}."
        )
    starved = own[own["value"] - own["half"] > ENOUGH]
    if len(starved):
        most = (starved["value"] - starved["half"]).max()
        yield Caveat(
            f"Trained on half of the sentences, {len(starved)} of {len(own)} probes lose more than "
            f"{100 * ENOUGH:.0f} points (up to {100 * most:.1f}): {_named(starved)}. "
            "More sentences would raise the curve."
        )
    if found.missing:
        yield Caveat(
            f"{found.missing:,} words were cut off or not read by the model: neither they nor "
            "their dependents are asked for."
        )
    silent = len(parts.docs) - sum(map(len, found.sentences.values()))
    if silent:
        yield Caveat(
            f"{silent:,} of {len(parts.docs):,} sentences have no arc between words, punctuation "
            "left out: there is nothing to attach."
        )
    if any(heads for stack, heads in found.heads.items() if stack == "decoder"):
        yield Caveat(
            "In a decoder a word sees only those before it: a head that comes later is found by "
            "its own look back."
        )


def _named(rows: pd.DataFrame) -> str:
    """Probes by name, each with its layers: the first few."""
    found = []
    for (probe, encoder, stack), own in rows.groupby(["probe", "encoder", "stack"], sort=False):
        layers = ", ".join("all" if layer == ALL else str(layer) for layer in own["layer"].unique())
        weights = ", random weights" if encoder == RANDOM else ""
        found.append(probe if probe == WORDS else f"{probe}{weights} ({stack}, layer {layers})")
    return "; ".join(map(str, found[:NAMED])) + (" and others" if len(found) > NAMED else "")
