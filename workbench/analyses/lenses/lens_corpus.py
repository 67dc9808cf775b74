"""The experiment `lens`: at which layer, and for which words, a model's predictions become final.

Words are drawn from the texts, each is predicted from its context as `prediction.of_word` does,
and every state is read by the model's own head. Of a model with a task head, its own predictions
are read (`task_lens`): the class of a text, the tag of a word, or the first word of an answer; the
random-weight models then have the same head. Random-weight models of the same architecture read
the same words: they also have layers from which a prediction no longer changes, earlier for some
words than for others, so that only a difference beyond theirs says something of what was learnt.
Costs: a pass over each word's text for the model and for each random model, and the head for every
state; of an encoder-decoder, its decoder for every state of the encoder.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from workbench.analyses.lenses.experiments import LensSettings
from workbench.analyses.lenses.lens import (
    Final,
    OpenLens,
    Places,
    final_layers,
    measured,
    open_lens,
    places_of,
    predictable,
)
from workbench.analyses.lenses.task_lens import (
    Labels,
    OpenTaskLens,
    batches_of,
    drawn,
    drawn_labels,
    known_labels,
    open_task_lens,
    require_pairs,
    sample_of,
)
from workbench.core.arrays import Floats, Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.core.comparisons import Comparison, comparison_table
from workbench.core.errors import WorkbenchError
from workbench.core.stats import (
    p_value,
    p_value_beyond,
)
from workbench.corpora.encode import encode
from workbench.corpora.splits import few_sentences_caveat
from workbench.corpora.word_groups import FREQUENT, Group, frequency_ranks, word_groups
from workbench.engine.batch import Batch
from workbench.engine.model import Model, UnsupportedError
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.interventions.head_replay import Point

if TYPE_CHECKING:
    from spacy.tokens import Doc

Mask = NDArray[np.bool_]

# names in the table of what `lens.measured` computes
MEASURES = {
    "agreement": "agrees",
    "accuracy": "correct",
    "p_final": "p_final",
    "rank_final": "rank_final",
    "reciprocal_rank": "reciprocal_rank",
    "rank_gold": "rank_gold",
    "nats": "nats",
    "kl": "kl",
    "entropy": "entropy",
}


@dataclass(frozen=True, eq=False)
class _Words:
    """The words to predict, and what is known of them."""

    chosen: Sequence[tuple[int, int]]  # document of the batch, word
    sample: ClusterSample  # the words in documents
    tags: Sequence[str]  # "" without a tag
    ranks: Ints  # [words], rank of the word by frequency in the texts, from 1; of texts 0
    labels: Sequence[str] = ()  # of texts, their true class

    @cached_property
    def groups(self) -> list[Group]:
        """What the words are grouped by, the name of the group, and its words."""
        of = np.array(self.labels)
        labels = [Group("label", name, of == name) for name in sorted(set(self.labels))]
        return [*word_groups(self.tags, self.ranks), *labels]


@dataclass(frozen=True, eq=False)
class _Read:
    """What the states of a model predict for the words."""

    points: Sequence[Point]
    values: Mapping[str, Floats]  # [points, words] by measure
    gold: Ints | None  # [words], the true choices, if known
    note: str

    @cached_property
    def final(self) -> dict[str, Ints]:
        """By stack, the layer from which each prediction is final.  # [words] each"""
        agrees = self.values["agrees"].astype(bool)
        return {
            stack: final_layers(agrees[[p.ends_layer and p.stack == stack for p in self.points]])
            for stack in dict.fromkeys(point.stack for point in self.points)
        }

    @property
    def last(self) -> str:
        """The stack that the head reads."""
        return self.points[-1].stack


def run(inputs: Inputs, settings: LensSettings, progress: Progress) -> Result:
    """Compute the tables of `lens`."""
    model = inputs.model
    docs = list(inputs.docs())
    batch = encode(docs)
    if model.task_head is not None:
        return _of_task_head(inputs, settings, docs, batch, progress)
    words = _drawn(model, docs, batch, settings.max_predictions, inputs.seed)

    def read(model: Model, sublayers: bool, on_progress: Any) -> _Read:
        return _read(
            open_lens(model, sublayers), places_of(model, batch, words.chosen), on_progress
        )

    notes = [] if any(words.tags) else [
        "The corpus has no parts of speech, so words are not grouped by them."
    ]  # fmt: skip
    return _compared_with_random(inputs, settings, words, read, notes, progress)


def _of_task_head(
    inputs: Inputs, settings: LensSettings, docs: "Sequence[Doc]", batch: Batch, progress: Progress
) -> Result:
    """The tables of a model with a task head: predictions are its labels of texts or words."""
    opened = open_task_lens(inputs.model)
    require_pairs(opened, docs)
    known = known_labels(opened, docs, inputs.corpus.layers())
    chosen, gold, notes = drawn_labels(opened, batch, known, settings.max_predictions, inputs.seed)
    labels: list[str] | None = None if opened.of_words else []
    if opened.task_kind == "class":
        labels = [opened.names[each] for each in gold if each is not None]
    if opened.task_kind == "answers":
        notes.append("Of an answer, its first word is predicted.")
    if opened.of_words and not any(docs[text][word].pos_ for text, word in chosen):
        notes.append("The corpus has no parts of speech, so words are not grouped by them.")
    notes.append("The models with random weights have the same task head.")
    words = _known(docs, chosen, inputs.seed, labels)

    def read(model: Model, sublayers: bool, on_progress: Any) -> _Read:
        # random-weight models have the same head
        reading = replace(opened, model=model)
        return _read(reading, batches_of(reading, batch, words.chosen, gold), on_progress)

    return _compared_with_random(inputs, settings, words, read, notes, progress)


def _compared_with_random(
    inputs: Inputs,
    settings: LensSettings,
    words: _Words,
    read_by: Callable[[Model, bool, Any], _Read],
    caveats: Sequence[str],
    progress: Progress,
) -> Result:
    """Read the model and its random-weight models, and compute the tables."""
    model = inputs.model
    twins = list(range(settings.random_models))
    total = len(words.chosen) * (1 + len(twins))

    def on_progress(done: int) -> None:
        progress(done, total, "reading the layers")

    read = read_by(model, settings.sublayers, on_progress)
    notes: list[str] = [f"States after attention are left out: {read.note}"] if read.note else []
    random: list[_Read] = []
    try:
        for number in twins:
            begun = len(words.chosen) * (1 + number)
            twin = model.reinitialised(inputs.seed + number + 1)
            random.append(read_by(twin, False, lambda done, begun=begun: on_progress(begun + done)))
    except UnsupportedError as error:
        notes.append(f"There is no random-weight baseline: {error.what}")
    tables = {
        "layers": _layers(words, read, random),
        "final": _final(words, read, random),
        "groups": _groups(words, read, random),
        "tests": _tests(words, read, random),
        "objective": objective_table(model.predicts),
    }
    notes += few_sentences_caveat(len({document for document, _ in words.chosen}))
    notes += caveats
    return Result(tables, caveats=tuple(Caveat(text) for text in notes))


# --- words and their predictions ------------------------------------------------------------------


def _drawn(model: Model, docs: Sequence["Doc"], batch: Batch, most: int, seed: int) -> _Words:
    """Words drawn uniformly from all that the model can predict."""
    possible = predictable(model, batch)
    if not possible:
        raise WorkbenchError(
            "the texts have no word that the model knows and can predict.",
            code="too-few-sentences",
            where=model.name,
            remedy="Choose a corpus with longer texts, or in the language of the model.",
        )
    return _known(docs, drawn(possible, most, seed), seed)


def _known(
    docs: Sequence["Doc"],
    chosen: Sequence[tuple[int, int]],
    seed: int,
    labels: Sequence[str] | None = None,
) -> _Words:
    """What is known of words, or with `labels` of texts."""
    sample = sample_of(docs, chosen, seed)
    if labels is not None:
        nothing = np.zeros(len(chosen), dtype=np.int64)
        return _Words(chosen, sample, [""] * len(chosen), nothing, labels)
    rank = frequency_ranks(docs)
    tokens = [docs[document][word] for document, word in chosen]
    return _Words(
        chosen,
        sample,
        [token.pos_ for token in tokens],
        np.array([rank[token.lower_] for token in tokens]),
    )


@torch.no_grad()
def _read(
    opened: OpenLens | OpenTaskLens,
    batches: Iterable[Places] | Iterable[Labels],
    on_progress: Any,
) -> _Read:
    parts: dict[Point, list[dict[str, Floats]]] = {}
    gold: list[Ints] = []
    done = 0
    for places in batches:
        logits, points = opened.read(places)  # type: ignore[arg-type]
        final = Final.of(logits)
        for point, logits in points:
            values = measured(logits, final, places.gold)
            found = {name: each.double().cpu().numpy() for name, each in values.items()}
            if "rank_gold" in found:
                found["reciprocal_rank"] = 1 / found["rank_gold"]
            parts.setdefault(point, []).append(found)
        if places.gold is not None:
            gold.append(places.gold.numpy())
        done += len(places)
        on_progress(done)
    joined = {
        name: np.stack([np.concatenate([part[name] for part in each]) for each in parts.values()])
        for name in MEASURES.values()
        if all(name in part for each in parts.values() for part in each)
    }
    return _Read(list(parts), joined, np.concatenate(gold) if gold else None, opened.note)


# --- tables ---------------------------------------------------------------------------------------


def _layers(words: _Words, read: _Read, random: Sequence[_Read]) -> pd.DataFrame:
    n = len(words.chosen)
    rows = []
    for measure, name in MEASURES.items():
        if name not in read.values:
            continue  # there is no true choice
        values = read.values[name]
        lower, upper = _interval(words, values, np.ones((len(values), n)))
        for index, point in enumerate(read.points):
            ends = lower[index], upper[index]
            rows.append(("model", *point, measure, values[index].mean(), *ends, n))
        if random:
            means = np.stack([each.values[name].mean(1) for each in random])  # [twins, points]
            for index, point in enumerate(random[0].points):
                over = means[:, index]
                rows.append(("random", *point, measure, over.mean(), over.min(), over.max(), n))
    columns = ["weights", "stack", "layer", "sublayer", "measure", "value", "lower", "upper", "n"]
    return pd.DataFrame(rows, columns=columns)


def _final(words: _Words, read: _Read, random: Sequence[_Read]) -> pd.DataFrame:
    keys, until, members, null = [], [], [], []
    for stack, final in read.final.items():
        for by, group, own in words.groups:
            for layer in range(_top(read, stack) + 1):
                keys.append((stack, by, group, layer))
                until.append(final <= layer)
                members.append(own)
                known = [float((each.final[stack][own] <= layer).mean()) for each in random]
                null.append(np.mean(known) if known else np.nan)
    values = np.array(until, dtype=np.float64)
    inside: Floats = np.array(members, dtype=np.float64)
    lower, upper = _interval(words, values, inside)
    table = pd.DataFrame(keys, columns=["stack", "by", "group", "layer"])
    table["cumulative"] = (values * inside).sum(1) / inside.sum(1)
    before = table.groupby(["stack", "by", "group"], sort=False)["cumulative"].shift(fill_value=0)
    table.insert(4, "share", table["cumulative"] - before)
    return table.assign(lower=lower, upper=upper, random=null, n=inside.sum(1).astype(np.int64))


def _groups(words: _Words, read: _Read, random: Sequence[_Read]) -> pd.DataFrame:
    keys, layers, members, null = [], [], [], []
    for stack, final in read.final.items():
        for by, group, own in words.groups:
            keys.append((stack, by, group))
            layers.append(final)
            members.append(own)
            known = [float(each.final[stack][own].mean()) for each in random]
            null.append(np.mean(known) if known else np.nan)
    values = np.array(layers, dtype=np.float64)
    inside: Floats = np.array(members, dtype=np.float64)
    lower, upper = _interval(words, values, inside)
    unknown = np.full(inside.shape[1], np.nan)
    right = read.values["correct"][-1] if "correct" in read.values else unknown  # of the last state
    sizes = inside.sum(1)
    return pd.DataFrame(keys, columns=["stack", "by", "group"]).assign(
        mean_layer=(values * inside).sum(1) / sizes, lower=lower, upper=upper, random=null,
        accuracy=inside @ right / sizes, n=sizes.astype(np.int64),
    )  # fmt: skip


def _interval(words: _Words, values: Floats, inside: Floats) -> tuple[Floats, Floats]:
    """Bootstrap intervals over documents of the means of groups of words.

    # [rows, words] twice -> [rows] twice
    """
    return words.sample.ratio_interval((values * inside).T, inside.T)


def _top(read: _Read, stack: str) -> int:
    return max(point.layer for point in read.points if point.stack == stack)


# --- tests ----------------------------------------------------------------------------------------


def _tests(words: _Words, read: _Read, random: Sequence[_Read]) -> pd.DataFrame:
    columns = [
        "comparison", "first", "second", "difference", "lower", "upper", "random", "p", "holds",
        "n_first", "n_second", "random_models",
    ]  # fmt: skip
    return comparison_table(list(_compared(words, read, random)), columns)


def _compared(words: _Words, read: _Read, random: Sequence[_Read]) -> Iterator[Comparison]:
    def baseline(gold: Ints) -> Floats:
        """Whether the most frequent true piece is the true one; one of a tie."""
        values, counts = np.unique(gold, return_counts=True)
        hits: Floats = (gold == values[counts.argmax()]).astype(np.float64)
        return hits

    everything = np.ones(len(words.chosen), dtype=bool)
    if read.gold is not None:
        right, guessed = read.values["correct"][-1], baseline(read.gold)
        draws = _differences(words, right, everything, guessed, everything)
        known = [float((each.values["correct"][-1] - guessed).mean()) for each in random]
        yield Comparison(
            _about("accuracy", everything, everything), right.mean(), guessed.mean(), draws,
            np.array(known), float(p_value(draws)), "higher",
        )  # fmt: skip
    groups = {(by, name): inside for by, name, inside in words.groups}
    frequent = words.ranks <= FREQUENT
    pairs = {
        "function words": (
            groups.get(("class", "function words")), groups.get(("class", "content words"))
        ),
        "frequent words": (frequent, ~frequent),
    }  # fmt: skip
    for name, (first, second) in pairs.items():
        if first is None or second is None or not first.any() or not second.any():
            continue
        layers = read.final[read.last].astype(np.float64)
        difference = float(layers[first].mean() - layers[second].mean())
        twins = [each.final[each.last] for each in random]
        null = np.array([twin[first].mean() - twin[second].mean() for twin in twins])
        draws = _differences(words, layers, first, layers, second)
        yield Comparison(
            _about(name, first, second), layers[first].mean(), layers[second].mean(), draws, null,
            p_value_beyond(difference, null, draws), "lower",
        )  # fmt: skip


def _about(name: str, first: Mask, second: Mask) -> dict[str, object]:
    sizes = {"n_first": int(first.sum()), "n_second": int(second.sum())}
    return {"comparison": name, **sizes}


def _differences(words: _Words, one: Floats, first: Mask, other: Floats, second: Mask) -> Floats:
    """The difference of two means in each bootstrap sample of documents.  # -> [draws]"""
    parts, wholes = np.stack([one * first, other * second], 1), np.stack([first, second], 1)
    one_mean, other_mean = np.nan_to_num(words.sample.ratio_draws(parts, wholes))  # [draws] each
    differences: Floats = one_mean - other_mean
    return differences
