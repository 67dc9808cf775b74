"""The experiment `contributions`: what each part of a model adds to the words it predicts.

Words of the corpus are predicted from their contexts. The number that is taken apart is a choice's
logit minus the mean logit of the vocabulary: a part that raises all logits alike changes no
probability, and is not counted. Contributions to the model's own choice describe what decides; they
are positive on average by selection, also in random models. What is tested is the gain: how much
more a part gives to the true word in its own context than to this word in other contexts and to
other words in this context, all of the same part of speech. Its permutation null exchanges the
distinct true words within their part of speech. So neither frequent words nor the part of speech
count. The gain takes one direction for each word, the mean gradient of its logit, so that what a
part gives is not mixed with how a non-linear head reads it. Of a model with a task head, classes of
texts (or of tagged words) take the place of words: contributions are those to the layers that the
head reads, along the gradient of each class in each text, and the null exchanges the true classes
of documents (or of distinct words). Costs: two forward passes over the
predicted words, and a backward pass of the head for each distinct true word (in each batch, if the
head is not linear).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from spacy.tokens import Doc
from torch import Tensor

from workbench.analyses.lenses.contributions import columns_of, stack_of
from workbench.analyses.lenses.experiments import ContributionsOverCorpus
from workbench.analyses.lenses.lens import Places, places_of, predictable
from workbench.analyses.lenses.task_lens import (
    Labels,
    OpenTaskLens,
    batches_of,
    drawn,
    drawn_labels,
    head_logits,
    known_labels,
    open_task_lens,
    require_pairs,
    sample_of,
)
from workbench.core.arrays import Floats, Ints
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError, listed
from workbench.core.findings import percent
from workbench.core.stats import SIGNIFICANT, permutation_p_values_of_means
from workbench.corpora.encode import encode
from workbench.corpora.splits import few_sentences_caveat
from workbench.engine.batch import Pieces, sent
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.interventions.direct_contributions import (
    Component,
    Contributions,
    Reader,
    contributions_to,
    contributions_to_layers,
    reader,
)
from workbench.models.output_heads.task_heads import MixHead

Mask = NDArray[np.bool_]
SOURCES = {  # of a layer
    "embeddings": "embeddings",
    "mlp": "MLP",
    "attention-bias": "biases",
    "norm-bias": "biases",
    "output-bias": "biases",
}
NO_TAG = "(none)"


@dataclass(frozen=True)
class _All:
    """Contributions to the model's choice and to every distinct true word."""

    components: Sequence[Component]
    own: Floats  # [words, components], to the model's choice
    gold: Floats  # [words, components], to the true word
    every: NDArray[np.float32]  # [words, components, types]
    column: Ints  # [words], the type of the true word
    totals: Floats  # [words], the sum for the model's choice
    logits: Floats  # [words], the model's choice above the mean
    right: Floats  # [words], 1 if the choice is the true word
    error: float  # largest difference of a sum from what it must be, relative to the mean


@dataclass(frozen=True)
class _Measured(_All):
    """Also what is tested."""

    gain: Floats  # [words, components]; 0 where not tested
    null: Floats  # [permutations, components], mean gains over the tested words
    tested: Mask  # [words], whether there is another word of the part of speech


def run(inputs: Inputs, settings: ContributionsOverCorpus, progress: Progress) -> Result:
    """Compute the tables of `contributions`."""
    model = inputs.model
    progress(0, None, "reading the model")
    opened = reader(model)
    docs = list(inputs.docs())
    batch = encode(docs)
    if model.task_head is not None:
        return _of_task_head(inputs, settings, opened, docs, progress)
    words = drawn(predictable(model, batch), settings.max_words, inputs.seed)
    if len(words) < 2:
        raise WorkbenchError(
            "the texts have no two words that the model can predict.",
            code="too-few-sentences",
            where=inputs.corpus.name,
            remedy="Choose a corpus with more words that the model knows.",
        )
    places = list(places_of(model, batch, words))
    gold = np.concatenate([_numbers(each.gold) for each in places])
    tags = [_tag(docs[document], word) for document, word in words]
    found = _measured(opened, places, gold, progress)
    measured = _tested(found, tags, settings.n_permutations, inputs.seed)
    sample = sample_of(docs, words, inputs.seed)
    n_types = {"distinct words": len(set(gold.tolist()))}
    return _result(opened, measured, sample, tags, settings, n_types, [])


def _of_task_head(
    inputs: Inputs,
    settings: ContributionsOverCorpus,
    opened: Reader,
    docs: Sequence[Doc],
    progress: Progress,
) -> Result:
    """The tables of a model with a task head: classes take the place of words."""
    head = open_task_lens(inputs.model)
    require_pairs(head, docs)
    known = known_labels(head, docs, inputs.corpus.layers())
    batch = encode(docs)
    places, choices, notes = drawn_labels(head, batch, known, settings.max_words, inputs.seed)
    if len(places) < 2 or None in choices:
        raise WorkbenchError(
            f"no two {'words' if head.of_words else 'texts'} have one of the labels "
            f"{listed(head.names)}, which the model predicts.",
            code="labels-missing",
            where=inputs.corpus.name,
            remedy="Choose the corpus that the head was fitted on, or one with the same labels.",
        )
    gold = np.array(choices, dtype=np.int64)
    sample = sample_of(docs, places, inputs.seed)
    units, tags = sample, [head.names[each] for each in gold]
    if head.of_words:  # the tag of a frequent word is one observation
        forms = [docs[text][word].lower_ for text, word in places]
        units = ClusterSample.of(forms, inputs.seed)
        tags = [_tag(docs[text], word) for text, word in places]
    found = _measured_labels(opened, head, batches_of(head, batch, places, choices), gold, progress)
    measured = _tested_labels(found, units, settings.n_permutations, inputs.seed)
    n_types = {"classes": len(set(gold.tolist()))}
    return _result(opened, measured, sample, tags, settings, n_types, notes)


def _result(
    opened: Reader,
    measured: _Measured,
    sample: ClusterSample,
    tags: Sequence[str],
    settings: ContributionsOverCorpus,
    n_types: dict[str, int],
    notes: Sequence[str],
) -> Result:
    stack = stack_of(opened)
    tables = {
        "components": _components(measured, sample, stack),
        "layers": _layers(measured, sample),
        "tags": _tags(measured, sample, stack, tags, settings.min_count),
        "summary": _summary(measured, sample, n_types),
        "objective": objective_table(opened.model.predicts),
    }
    caveats = [
        *few_sentences_caveat(sample.n_clusters, "document"),
        *notes,
        *_caveats(opened, measured),
    ]
    return Result(tables, caveats=tuple(Caveat(text) for text in caveats))


# --- measuring ------------------------------------------------------------------------------------


def _tag(doc: Doc, word: int) -> str:
    return doc[word].pos_ or doc[word].tag_ or NO_TAG


def _measured(opened: Reader, batches: Sequence[Places], gold: Ints, progress: Progress) -> _All:
    types, column = np.unique(gold, return_inverse=True)
    own, true, totals, logits, right = [], [], [], [], []
    components: Sequence[Component] = ()
    done, error = 0, 0.0
    gradients: Tensor | None = None  # [types, width], summed over words
    for places in batches:
        some = slice(done, done + len(places))
        # a linear head has the same gradient everywhere
        explained = _Above(gold[some], types if opened.bias is None or not done else types[:0])
        found = contributions_to(opened, *_read(opened, places), explained, first=2)
        assert found.gradients is not None, "gradients were taken"
        summed = found.gradients[2:] * len(places)
        if len(summed):
            gradients = summed if gradients is None else gradients + summed
        values = found.values.cpu().numpy()  # [2, words, components]
        components = found.components
        own.append(values[0])
        true.append(values[1])
        total = found.totals.cpu().numpy()
        size = float(np.abs(total).mean())
        error = max(error, float(np.abs(values.sum(-1) - total).max()) / max(size, 1e-12))
        totals.append(total[0])
        logits.append(explained.of_choice(found.logits))
        right.append(_numbers(explained.top) == gold[some])
        done += len(places)
        progress(done, 2 * len(gold), "explaining words")
    assert gradients is not None, "there are words"
    mean = gradients / (len(batches[0]) if opened.bias is not None else len(gold))
    every = []
    for places in batches:
        found = contributions_to(
            opened, *_read(opened, places), _Above(None, types), directions=mean
        )
        every.append(found.values.permute(1, 2, 0).float().cpu().numpy())
        done += len(places)
        progress(done, 2 * len(gold), "explaining words")
    return _All(
        components,
        np.concatenate(own),
        np.concatenate(true),
        np.concatenate(every),
        column,
        np.concatenate(totals),
        np.concatenate(logits),
        np.concatenate(right).astype(np.float64),
        error,
    )


def _tested(found: _All, tags: Sequence[str], permutations: int, seed: int) -> _Measured:
    """Gains within each part of speech, and their permutation null."""
    gain, tested = np.zeros_like(found.gold), np.zeros(len(found.gold), dtype=np.bool_)
    null = np.zeros((permutations, gain.shape[1]))
    random = np.random.default_rng([seed, len(gain), permutations])
    of_word = np.array(tags, dtype=object)
    for tag in sorted(set(tags)):
        here = np.flatnonzero(of_word == tag)
        types, column = np.unique(found.column[here], return_inverse=True)
        if len(types) < 2:
            continue
        block = found.every[here][:, :, types].astype(np.float64)  # [here, components, types]
        block -= block.mean(0, keepdims=True)  # the same word in other contexts
        block -= block.mean(2, keepdims=True)  # other words in the same context
        gain[here], tested[here] = block[np.arange(len(here)), :, column], True
        sums = np.zeros((len(types), block.shape[1], len(types)))  # by true word and its stand-in
        np.add.at(sums, column, block)
        for row in null:
            row += sums[np.arange(len(types)), :, random.permutation(len(types))].sum(0)
    null /= max(int(tested.sum()), 1)
    return _Measured(**vars(found), gain=gain, null=null, tested=tested)


def _measured_labels(
    opened: Reader,
    head: OpenTaskLens,
    batches: Iterable[Labels],
    gold: Ints,
    progress: Progress,
) -> _All:
    """Contributions to the classes of texts, or to the tags of words."""
    types = np.arange(len(head.names))
    values, totals, logits, right = [], [], [], []
    components: Sequence[Component] = ()
    done, error = 0, 0.0
    for labels in batches:
        some = gold[done : done + len(labels)]
        explained = _Above(some, types)
        found = _of_labels(opened, head, _one_each(labels), explained)
        components = found.components
        each = found.values.cpu().numpy()  # [2 + classes, places, components]
        total = found.totals.cpu().numpy()
        size = float(np.abs(total).mean())
        error = max(error, float(np.abs(each.sum(-1) - total).max()) / max(size, 1e-12))
        values.append(each)
        totals.append(total[0])
        # of a head the numbers themselves, of a classifier all logits
        is_number = head.mixes_layers
        chosen = (
            found.logits[:, 0].cpu().numpy() if is_number else explained.of_choice(found.logits)
        )
        logits.append(chosen)
        right.append(_numbers(explained.top) == some)
        done += len(labels)
        progress(done, len(gold), f"explaining {'words' if head.of_words else 'texts'}")
    joined = np.concatenate(values, 1)  # [2 + classes, places, components]
    return _All(
        components,
        joined[0],
        joined[1],
        joined[2:].transpose(1, 2, 0).astype(np.float32),
        gold,
        np.concatenate(totals),
        np.concatenate(logits),
        np.concatenate(right).astype(np.float64),
        error,
    )


def _one_each(labels: Labels) -> Labels:
    """A row of the batch for each prediction."""
    rows = torch.arange(len(labels))
    taken = labels.text.take(labels.rows.to(labels.text.ids.device))
    return replace(labels, text=taken, segments=labels.segments[labels.rows], rows=rows)


def _of_labels(
    opened: Reader, head: OpenTaskLens, labels: Labels, explained: "_Above"
) -> Contributions:
    if head.mixes_layers:
        return contributions_to_layers(
            opened, labels.text, lambda layers: explained(head_logits(head.head, layers, labels))
        )
    if not head.of_words:
        return contributions_to(opened, labels.text, None, None, explained)
    of_word = labels.text.words == sent(labels.at, labels.text.words.device)[:, None]
    first = of_word.int().argmax(1)  # [places], the first piece of each word; a row per place
    places = torch.stack([torch.arange(len(first), device=first.device), first], 1)
    return contributions_to(opened, labels.text, None, places, explained)


def _tested_labels(found: _All, units: ClusterSample, permutations: int, seed: int) -> _Measured:
    """Gains of the true class, and their null: the classes of units, exchanged.

    A unit is a document, or a distinct word; its class is its most frequent one.
    """
    block = found.every.astype(np.float64)  # [places, components, classes]
    block -= block.mean(0, keepdims=True)  # the same class elsewhere
    block -= block.mean(2, keepdims=True)  # other classes here
    gain = block[np.arange(len(block)), :, found.column]
    of_unit = units.sums(np.eye(block.shape[2])[found.column]).argmax(1)
    sums = units.sums(block)  # [units, components, classes]
    random = np.random.default_rng([seed, len(gain), permutations])
    null = np.stack(
        [
            sums[np.arange(len(sums)), :, random.permutation(of_unit)].sum(0)
            for _ in range(permutations)
        ]
    )
    tested = np.ones(len(gain), dtype=np.bool_)
    return _Measured(**vars(found), gain=gain, null=null / len(gain), tested=tested)


class _Above:
    """Logits above the mean: of the model's choice and the true word, if given, then of types."""

    def __init__(self, gold: Ints | None, types: Ints) -> None:
        self.gold = None if gold is None else torch.from_numpy(gold)  # [words]
        self.types = torch.from_numpy(types)
        self.top: Tensor | None = None  # [words]; set by the first call, with the model's logits

    def __call__(self, logits: Tensor) -> Tensor:
        """[words, choices] -> [words, 2 + types], or [words, types]"""
        found = [logits[:, self.types.to(logits.device)]]
        if self.gold is not None:
            if self.top is None:
                self.top = logits.detach().argmax(-1)
            pair = torch.stack([self.top, self.gold.to(logits.device)], 1)  # [words, 2]
            found.insert(0, logits.gather(1, pair))
        return torch.cat(found, 1) - logits.mean(-1, keepdim=True)

    def of_choice(self, logits: Tensor) -> Floats:
        """Of the model's choice.  # [words]"""
        return self(logits)[:, 0].cpu().numpy().astype(np.float64)


def _read(opened: Reader, places: Places) -> tuple[Pieces, Pieces | None, Tensor]:
    """The batch, and the pieces that predict.  # [words, 2]"""
    at = torch.stack([places.rows, places.at], 1).to(opened.model.device)
    return places.text, places.target, at


def _numbers(values: Tensor | None) -> Ints:
    assert values is not None, "words of a corpus are known"
    return values.cpu().numpy()


# --- tables ---------------------------------------------------------------------------------------


def _means(
    sample: ClusterSample, values: Floats, name: str, chosen: Mask | None = None
) -> dict[str, Floats]:
    """The columns of means over words, or over the chosen ones.  # [words, columns], [words]"""
    if chosen is not None and chosen.any():  # if nothing is tested, all are 0
        sample, values = sample.take(chosen), values[chosen]
    lower, upper = sample.mean_interval(values)
    prefix = "" if name == "contribution" else f"{name}_"
    mean = sample.sums(values).sum(0) / len(values)
    return {name: mean, f"{prefix}lower": lower, f"{prefix}upper": upper}


def _components(measured: _Measured, sample: ClusterSample, stack: Any) -> pd.DataFrame:
    size = np.abs(measured.own).mean(0)  # [components]
    gain = _means(sample, measured.gain, "gain", measured.tested)
    p_values = permutation_p_values_of_means(gain["gain"], measured.null)
    return pd.DataFrame(
        {
            **columns_of(measured.components, stack),
            **_means(sample, measured.own, "contribution"),
            "share": size / max(size.sum(), 1e-300),
            "gold": measured.gold.mean(0),
            **gain,
            "p": p_values,
            "writes": (p_values < SIGNIFICANT) & (gain["gain"] > 0),
            "n": len(measured.own),
            "n_tested": int(measured.tested.sum()),
        }
    )


def _source(component: Component) -> str:
    if component.part == "head":
        return "cross-attention" if component.kind == "cross" else "attention"
    return SOURCES[component.part]


def _layers(measured: _Measured, sample: ClusterSample) -> pd.DataFrame:
    """Sums over the parts of each layer and kind."""
    keys = [(each.layer, _source(each)) for each in measured.components]
    distinct = list(dict.fromkeys(keys))
    group = np.zeros((len(keys), len(distinct)))
    for index, key in enumerate(keys):
        group[index, distinct.index(key)] = 1
    return pd.DataFrame(
        {
            "layer": [layer for layer, _ in distinct],
            "source": [source for _, source in distinct],
            **_means(sample, measured.own @ group, "contribution"),
            **_means(sample, measured.gain @ group, "gain", measured.tested),
            "n": len(measured.own),
        }
    )


def _tags(
    measured: _Measured, sample: ClusterSample, stack: Any, tags: Sequence[str], least: int
) -> pd.DataFrame:
    """Means of each tag, without the biases."""
    counts = Counter(tags)
    shown = [tag for tag, count in counts.most_common() if count >= least]
    wanted = [
        index
        for index, each in enumerate(measured.components)
        if each.part in ("embeddings", "head", "mlp")
    ]
    parts = []
    for tag in shown:
        chosen = np.array([each == tag for each in tags])
        parts.append(
            pd.DataFrame(
                {
                    "tag": tag,
                    **columns_of([measured.components[index] for index in wanted], stack),
                    **_means(sample, measured.own[:, wanted], "contribution", chosen),
                    **_means(sample, measured.gain[:, wanted], "gain", chosen),
                    "n": counts[tag],
                }
            )
        )
    columns = ["tag", "part", "stack", "kind", "layer", "head", "contribution", "lower", "upper"]
    columns += ["gain", "gain_lower", "gain_upper", "n"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _summary(measured: _Measured, sample: ClusterSample, n_types: dict[str, int]) -> pd.DataFrame:
    parts = [each.part for each in measured.components]
    size = np.abs(measured.own)  # [words, components]
    of_part = {
        name: size[:, [part in members for part in parts]].sum(1) / size.sum(1).clip(1e-300)
        for name, members in (
            ("share of heads", ("head",)),
            ("share of MLPs", ("mlp",)),
            ("share of embeddings", ("embeddings",)),
            ("share of biases", ("attention-bias", "norm-bias", "output-bias")),
        )
    }
    facts = {
        "sum of contributions": measured.totals,
        "logit of the choice above the mean": measured.logits,
        "parts that give half": half(measured.own),
        "accuracy": measured.right,
        **of_part,
    }
    found = _means(sample, np.stack(list(facts.values()), 1), "contribution")
    table = pd.DataFrame(
        {
            "fact": list(facts),
            "value": found["contribution"],
            "lower": found["lower"],
            "upper": found["upper"],
        }
    )
    counts = {
        "parts": len(parts),
        "words": len(measured.own),
        **n_types,
        "documents": sample.n_clusters,
        "largest error of a sum": measured.error,
    }
    plain = pd.DataFrame({"fact": list(counts), "value": [float(n) for n in counts.values()]})
    return pd.concat([table, plain], ignore_index=True)


def half(values: Floats) -> Floats:
    """How many parts, the largest first, give half of all positive contributions.

    # [words, components] -> [words]
    """
    positive = np.sort(values.clip(min=0), axis=1)[:, ::-1]
    reached = positive.cumsum(1) >= positive.sum(1, keepdims=True) / 2
    answer: Floats = 1.0 + reached.argmax(1)
    return answer


def _caveats(opened: Reader, measured: _Measured) -> list[str]:
    texts = []
    if opened.of == "head input":
        texts.append(
            "The head of this model is not linear, so contributions are to its input, along the "
            "gradient of the logit. They do not sum to the logit, and their size cannot be "
            "compared with that of another model."
        )
    if len(opened.model.stacks) > 1 and not isinstance(opened.model.task_head, MixHead):
        texts.append(
            "The parts of the encoder write to no logit themselves: what they give is in the "
            "cross-attention of the decoder."
        )
    texts.append(
        "A contribution is direct: what later layers make of a part's output belongs to them. "
        "Scales of norms are held, so removing a part may change the logit by another amount."
    )
    if measured.error > 1e-2:
        texts.append(
            "Contributions differ from what they must sum to by up to "
            f"{percent(measured.error, 1)}: the precision of the model "
            f"({opened.model.precision}) is low."
        )
    return texts
