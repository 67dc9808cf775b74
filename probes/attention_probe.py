"""How much of syntax the attention of all heads tells together (Clark et al. 2019).

A word's head is told from how much it gives to every other word and gets from it, head by head,
with a weight for each: for the heads of each layer, and for those of all. Beside them stand the
best fixed offset, the same model with random weights, words without attention, and a control task
that only a memory for words can learn. Layers are chosen on dev; scores are of the held-out split.
Costs a pass of the model and of its random twin, then what `probes.attachment` says: 1,000
sentences and four layers of four heads take half a minute on one core with three seeds.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from pydantic import Field
from torch import Tensor

from probes import attachment
from probes.attachment import Cases, Maps, Numbers, Sentence
from probes.seeds import Seeds
from probes.sources import MODEL, NO_LAYER, RANDOM, STATIC, static
from probes.trees import Floats, Truths, share
from workbench.bootstrap import interval, resampled
from workbench.corpora.encode import encode
from workbench.engine.batch import Batch
from workbench.engine.passes import Progress as Passing
from workbench.errors import WorkbenchError
from workbench.experiment import (
    HEADS,
    Caveat,
    Experiment,
    Inputs,
    Progress,
    Result,
    Table,
)
from workbench.models.fresh import fresh
from workbench.splits import DEV, PARTS, TEST, TRAIN, Parts, SplitSettings, parts_of

ATTENTION, BOTH, WORDS = "attention", "attention and words", "words"
ALL = NO_LAYER  # the layer of a probe that sees every head
WIDTH = 64  # of static vectors
TASK, METRIC = "attachment", "uas"


class AttentionProbe(SplitSettings):
    """What is learnt, and from how much."""

    seeds: Seeds = Field((0, 1, 2), min_length=1, description="Each trains every probe anew.")


TABLES = {
    "scores": Table(
        "Share of words attached to their gold head on the held-out split, roots and punctuation "
        "left out: every probe and its control. Layer -1 sees the heads of all layers, or none. "
        "The probe `words` sees static vectors of both words and how far they are apart, as the "
        "paper's own baseline does; no attention.",
        ("probe", "encoder", "stack", "layer", "seed", "split", "control"),
    ),
    "summary": Table(
        "Probes that see every head, and the layer that is best by itself on dev. baseline_offset "
        "attaches every word at best_offset (right: positive), chosen on train; baseline_random is "
        "the same probe of the same model with random weights; selectivity is over the control.",
        ("stack", "probe"),
    ),
    "means": Table(
        "Means over seeds with 95 % intervals over sentences and seeds.",
        ("probe", "encoder", "stack", "layer", "control"),
    ),
    "weights": Table(
        "Of the probe that sees every head: the weight of what a word gives to its head, and of "
        "what the head gives to the word. Means over seeds.",
        ("stack", "layer", "head"),
    ),
    "by_relation": Table(
        "The same probe by relation, beside the offset that is best for that relation on train.",
        ("stack", "probe", "relation"),
    ),
}


class Key(NamedTuple):
    """A probe, whatever its seed."""

    probe: str
    encoder: str
    stack: str
    layer: int
    control: bool


@dataclass
class Found:
    """What every probe answers, on dev and on the held-out split."""

    sentences: Mapping[str, Sequence[Sentence]]  # of each part
    seeds: tuple[int, ...]
    heads: Mapping[str, tuple[tuple[int, int], ...]]  # of each stack: (layer, head)
    answers: dict[tuple[str, Key], list[dict[int, Numbers]]] = field(default_factory=dict)
    weights: dict[Key, list[Tensor]] = field(default_factory=dict)  # of each seed
    of_heads: dict[str, Tensor] = field(default_factory=dict)  # of each stack: [2, heads]
    missing: int = 0  # words that the model did not read

    @property
    def keys(self) -> list[Key]:
        return list(self.weights)


def run(inputs: Inputs, settings: AttentionProbe, progress: Progress) -> Result:
    """Both encoders' attention in one pass each, then every probe of every seed."""
    parts = parts_of(inputs.corpus, inputs.split, settings.split_sizes, inputs.seed)
    found = learn(inputs, settings, progress, parts)
    return Result(_tables(found, parts, inputs.seed), caveats=tuple(_caveats(found, parts)))


def learn(inputs: Inputs, settings: AttentionProbe, progress: Progress, parts: Parts) -> Found:
    """Train on train, stop by dev, answer on dev and on the held-out split."""
    model, batch = inputs.model, encode(parts.docs)
    maps, missing = attachment.attention(model, batch, _told(progress, "looking"))
    twin = fresh(model, inputs.seed)
    others, _ = attachment.attention(twin, batch, _told(progress, "looking, random weights"))
    sentences = _sentences(parts, batch, missing, inputs.corpus.name)
    rows = np.concatenate([one.first + np.arange(len(one)) for one in sentences[TRAIN]])
    vectors = _scaled(static(batch, range(len(parts.train)), WIDTH, inputs.seed).states, rows)
    seeds = settings.seeds
    jobs: list[tuple[str, str, str, Maps]] = [
        (probe, encoder, stack, own)
        for encoder, each in ((MODEL, maps), (RANDOM, others))
        for stack, own in each.items()
        for probe in (ATTENTION, BOTH)
    ]
    jobs.insert(0, (WORDS, STATIC, STATIC, jobs[0][3]))
    found = Found(sentences, seeds, {stack: own.heads for stack, own in maps.items()})
    found.missing = int(missing.sum())
    for number, (probe, encoder, stack, own) in enumerate(jobs):
        sizes = attachment.sizes_of(own, sentences[TRAIN])
        for place, seed in enumerate(seeds):
            done = number * len(seeds) + place
            progress(done, len(jobs) * len(seeds), f"training: {probe}, {encoder}")
            laid = {
                part: attachment.cases(sentences[part], own, sizes, vectors, seed, model.device)
                for part in PARTS
            }
            _learn(found, probe, encoder, stack, own, laid, seed)
        if (probe, encoder) == (ATTENTION, MODEL):
            key = Key(ATTENTION, MODEL, stack, ALL, False)
            found.of_heads[stack] = torch.stack(found.weights[key]).mean(0) / sizes
    progress(len(jobs) * len(seeds), len(jobs) * len(seeds), "training")
    return found


def _told(progress: Progress, doing: str) -> Callable[[Passing], object]:
    return lambda now: progress(now.done, now.total, doing)


def _sentences(
    parts: Parts, batch: Batch, missing: Truths, where: str
) -> Mapping[str, Sequence[Sentence]]:
    found: dict[str, list[Sentence]] = {part: [] for part in PARTS}
    for place, (doc, of) in enumerate(zip(parts.docs, parts.part_of, strict=True)):
        one = attachment.sentence_of(doc, place, int(batch.word_offsets[place]), missing)
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
    probe: str,
    encoder: str,
    stack: str,
    maps: Maps,
    laid: Mapping[str, Sequence[Cases]],
    seed: int,
) -> None:
    """Every layer and all, the task and its control, in one stack of probes."""
    layers = [ALL] if probe == WORDS else [ALL, *sorted({layer for layer, _ in maps.heads})]
    keys = [Key(probe, encoder, stack, layer, c) for layer in layers for c in (False, True)]
    device, width = laid[TRAIN][0].vectors.device, laid[TRAIN][0].vectors.shape[-1]
    masks = torch.tensor(
        [[float(key.layer in (ALL, layer)) for layer, _ in maps.heads] for key in keys],
        device=device,
    )
    is_control = torch.tensor([key.control for key in keys], device=device)
    rate = attachment.RATE_WORDS
    if probe == ATTENTION:
        (weights, score), rate = attachment.by_attention(masks), attachment.RATE
    elif probe == BOTH:
        weights, score = attachment.by_attention_and_words(masks, width)
    else:
        weights, score = attachment.by_words_alone(len(keys), width, device)
    fitted = attachment.learnt(
        weights, score, is_control, laid[TRAIN], laid[DEV], rate, seed
    ).weights
    for part in (DEV, TEST):
        answers = attachment.attached(fitted, score, is_control, laid[part])
        for row, key in enumerate(keys):
            own = {place: answer[row] for place, answer in answers.items()}
            found.answers.setdefault((part, key), []).append(own)
    for row, key in enumerate(keys):
        found.weights.setdefault(key, []).append(fitted[0][row].cpu())


# --- scores ---------------------------------------------------------------------------------------


def _counts(found: Found, part: str, key: Key) -> Floats:
    """Right of those asked, by seed and sentence.  # [seeds, sentences, 2]"""
    sentences = found.sentences[part]
    counts = np.zeros((len(found.seeds), len(sentences), 2))
    for row, (seed, answers) in enumerate(zip(found.seeds, found.answers[part, key], strict=True)):
        for place, one in enumerate(sentences):
            gold = attachment.control_heads(one, seed) if key.control else one.heads
            right = (answers[place][: len(one)] == gold) & one.asked
            counts[row, place] = right.sum(), one.asked.sum()
    return counts


@dataclass(frozen=True)
class _Scored:
    """Of all probes, in the order of their keys."""

    place: Mapping[Key, int]
    on_dev: Floats  # [keys], means over seeds
    values: Floats  # [keys, seeds]
    lower: Floats  # [keys]
    upper: Floats  # [keys]
    n: int

    @classmethod
    def of(cls, found: Found, seed: int) -> "_Scored":
        counts = np.stack([_counts(found, TEST, key) for key in found.keys])
        dev = np.stack([_counts(found, DEV, key) for key in found.keys])
        lower, upper = interval(resampled(counts, share, seed))
        return cls(
            {key: row for row, key in enumerate(found.keys)},
            share(dev.sum(2)).mean(1),
            share(counts.sum(2)),
            lower,
            upper,
            int(counts[0, 0, :, 1].sum()),
        )

    def mean(self, key: Key) -> float:
        return float(self.values[self.place[key]].mean())


# --- tables ---------------------------------------------------------------------------------------

_SCORES = "task probe encoder mode stack layer seed split metric value n control".split()
_MEANS = "probe encoder stack layer control value lower upper n".split()
_SUMMARY = (
    "stack probe uas lower upper best_layer best_layer_uas baseline_offset best_offset "
    "baseline_random control selectivity n".split()
)
_WEIGHTS = "stack layer head weight_to_head weight_from_head".split()
_RELATIONS = "stack probe relation uas n baseline offset".split()


def _tables(found: Found, parts: Parts, seed: int) -> dict[str, pd.DataFrame]:
    scored = _Scored.of(found, seed)
    rows = {
        "summary": (_SUMMARY, _summary_rows(found, scored)),
        "scores": (_SCORES, _score_rows(found, scored, parts.scored)),
        "means": (_MEANS, _mean_rows(scored)),
        "weights": (_WEIGHTS, _weight_rows(found)),
        "by_relation": (_RELATIONS, _relation_rows(found)),
    }
    return {name: pd.DataFrame(list(own), columns=names) for name, (names, own) in rows.items()}


def _score_rows(found: Found, scored: _Scored, split: str) -> Iterator[tuple[object, ...]]:
    for key, row in scored.place.items():
        mode = "all" if key.layer == ALL else "layer"
        for seed, value in zip(found.seeds, scored.values[row], strict=True):
            yield (TASK, key.probe, key.encoder, mode, key.stack, key.layer, seed, split, METRIC,
                   float(value), scored.n, key.control)  # fmt: skip


def _mean_rows(scored: _Scored) -> Iterator[tuple[object, ...]]:
    for key, row in scored.place.items():
        yield (key.probe, key.encoder, key.stack, key.layer, key.control, scored.mean(key),
               float(scored.lower[row]), float(scored.upper[row]), scored.n)  # fmt: skip


def _summary_rows(found: Found, scored: _Scored) -> Iterator[tuple[object, ...]]:
    offset = attachment.best_offset(found.sentences[TRAIN])
    baseline = attachment.offset_counts(found.sentences[TEST], offset)
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
            baseline[0] / max(baseline[1], 1),
            offset,
            scored.mean(random) if random in scored.place else np.nan,
            control,
            scored.mean(key) - control,
            scored.n,
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
    offsets = {relation: attachment.best_offset(train, relation) for relation in numbers}
    fixed = {
        relation: attachment.offset_counts(test, offset, relation)[0]
        for relation, offset in offsets.items()
    }
    for key in found.keys:
        if key.layer != ALL or key.control or key.encoder == RANDOM:
            continue
        right: Counter[str] = Counter()
        for answers in found.answers[TEST, key]:
            for place, one in enumerate(test):
                hits = (answers[place][: len(one)] == one.heads) & one.asked
                right.update(one.relations[word] for word in np.flatnonzero(hits))
        for relation, n in numbers.most_common():
            uas = right[relation] / (n * len(found.seeds))
            baseline = fixed[relation] / n
            yield key.stack, key.probe, relation, uas, n, baseline, offsets[relation]


def _caveats(found: Found, parts: Parts) -> Iterator[Caveat]:
    yield from (Caveat(note) for note in parts.notes)
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
            "In a decoder a word sees only those before it: a head that comes later is told by its "
            "own look back."
        )


EXPERIMENT = Experiment(
    name="attention-probe",
    about="How many words find their head by the attention of all heads together.",
    settings=AttentionProbe,
    run=run,
    tables=TABLES,
    needs=(HEADS,),
    layers=("dependencies",),
    split="held-out",
    figures="workbench.view.attachment:FIGURES",
)
