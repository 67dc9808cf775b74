"""The experiment `erasure`: does a model use what a linear probe finds? (Amnesic probing.)

A probe shows what is in a state, not what is used. So what tells the labels of predicted words
apart is removed from the state that predicts each word (LEACE), and the cost in log-probability of
the word is compared with that of random subspaces of as many directions (Elazar et al. 2021).
Directions are fitted on other documents than costs are measured on. The control adds the mean of
what was removed from words of the same label: if the label was all that was lost, this restores the
prediction. Costs: a pass for each word, and for each measured word and layer a row for each random
subspace.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from workbench.analyses.predictions.prediction import Prediction, of_word, words_to_predict
from workbench.analyses.predictions.target import Target
from workbench.analyses.steering.experiments import Erasure, Label
from workbench.analyses.steering.leace import Eraser, Whitened, fitted, random_eraser
from workbench.analyses.steering.moved import (
    Against,
    Moving,
    clusters_in_half,
    layers_of,
    open_states,
)
from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.findings import plural
from workbench.corpora.splits import FEW
from workbench.engine.model import Model
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

MIN_LABEL = 8  # fitted words of a label; rarer labels are left out
OnWords = Callable[[int, int, str], object]  # words that were read, of all, and what is done
BY_DOC = 6, 2  # words of a document to fit on, and to measure


@dataclass(frozen=True, eq=False)
class Labelled:
    """A word that is predicted, its label and its document."""

    moving: Moving
    label: str
    document: int

    @property
    def prediction(self) -> Prediction:
        return self.moving.prediction


@dataclass(frozen=True, eq=False)
class Sample:
    """Words to fit on and words to measure, with the labels of both."""

    fit: Sequence[Labelled]
    test: Sequence[Labelled]
    labels: tuple[str, ...]

    def states(self, words: Sequence[Labelled], layer: int) -> Tensor:
        """# [words, width]"""
        return torch.stack([each.moving.states[layer] for each in words])

    def indices(self, words: Sequence[Labelled]) -> Tensor:
        """# [words]"""
        return torch.tensor([self.labels.index(each.label) for each in words])


def run(inputs: Inputs, settings: Erasure, progress: Progress) -> Result:
    """Compute the tables of `erasure`."""
    model = inputs.model
    sizes = settings.max_words, settings.max_predictions
    sample = sampled(model, list(inputs.docs()), settings.label, sizes, inputs.seed, progress)
    points = sample.test[0].moving.points
    layers = layers_of(points)
    shape = len(sample.test), len(layers)
    effects, injected = np.zeros(shape), np.zeros(shape)
    random = np.zeros((shape[0], settings.random_directions, shape[1]))
    about = []
    for layer in range(len(layers)):
        states, labels = sample.states(sample.fit, layer), sample.indices(sample.fit)
        space = Whitened.of(states)
        eraser = fitted(states, labels, space)
        generator = torch.Generator().manual_seed(inputs.seed)
        others = [
            random_eraser(space, eraser.rank, generator) for _ in range(settings.random_directions)
        ]
        removed = states - eraser.erased(states)
        means = torch.stack([removed[labels == n].mean(0) for n in range(len(sample.labels))])
        for row, word in enumerate(sample.test):
            numbers = costs(word, layer, eraser, others, means[sample.labels.index(word.label)])
            effects[row, layer], injected[row, layer] = numbers[:2]
            random[row, :, layer] = numbers[2:]
            progress(layer * shape[0] + row + 1, shape[0] * shape[1], "erasing")
        about.append(probed(sample, layer, eraser))
    clusters = ClusterSample.of(np.array([word.document for word in sample.test]), inputs.seed)
    rows = Against(effects, random, clusters).rows()
    table = pd.DataFrame(
        [
            {
                "stack": point.stack, "layer": point.layer, **row,
                "injected": injected[:, n].mean(), **facts,
                "n": shape[0], "documents": clusters.n_clusters,
            }
            for n, (point, row, facts) in enumerate(zip(layers, rows, about, strict=True))
        ]
    )  # fmt: skip
    counts = [Counter(word.label for word in words) for words in (sample.fit, sample.test)]
    labels_table = pd.DataFrame(
        [
            {"label": name, "fitted": counts[0][name], "measured": counts[1][name]}
            for name in sample.labels
        ]
    )
    tables = {"layers": table, "labels": labels_table, "objective": objective_table(model.predicts)}
    return Result(tables, caveats=tuple(map(Caveat, _caveats(clusters.n_clusters, sample, model))))


def sampled(
    model: Model,
    docs: "Sequence[Doc]",
    kind: Label,
    sizes: tuple[int, int],
    seed: int,
    on_progress: OnWords = lambda done, total, doing: None,
) -> Sample:
    """Words of two halves of the documents, with labels that are frequent in the first half.

    `sizes` are the maximum numbers of words to fit on and to measure.
    """
    is_fitted = clusters_in_half([f"{n:09}" for n in range(len(docs))], seed)
    random = np.random.default_rng([seed, len(docs)])
    points = None
    halves: tuple[list[Labelled], list[Labelled]] = ([], [])
    for n in random.permutation(len(docs)).tolist():
        half = 0 if is_fitted[n] else 1
        room = sizes[half] - len(halves[half])
        if not room or all(len(h) >= most for h, most in zip(halves, sizes, strict=True)):
            continue
        known = [w for w in words_to_predict(model, docs[n]) if label_of(docs[n][w], kind)]
        for word in random.permutation(known)[: min(BY_DOC[half], room)].tolist():
            prediction = of_word(model, docs[n], word)
            points = points or open_states(model, prediction)
            label = label_of(docs[n][word], kind)
            halves[half].append(Labelled(Moving.of(points, prediction), label, n))
        on_progress(sum(map(len, halves)), sum(sizes), "reading words")
    counts = Counter(word.label for word in halves[0])
    names = tuple(sorted(name for name, count in counts.items() if count >= MIN_LABEL))
    fit, test = ([word for word in half if word.label in names] for half in halves)
    if len(names) < 2 or len(test) < 2:
        raise WorkbenchError(
            f"too few words to erase {kind}: {plural(len(names), 'label')} with "
            f"{MIN_LABEL} words, and {plural(len(test), 'word')} to measure.",
            code="too-few-sentences",
            where=model.name,
            remedy="Use more sentences, or a corpus with more labels.",
        )
    return Sample(fit, test, names)


def label_of(token: "Token", label: str) -> str:
    """The label of a word; "" if it has none."""
    return str(token.pos_ if label == "pos" else token.tag_)


def costs(
    word: Labelled, layer: int, eraser: Eraser, others: Sequence[Eraser], mean: Tensor
) -> Floats:
    """Log-probability lost by erasing, with the label's mean injected, and by each other eraser."""
    gold = word.prediction.gold
    assert gold is not None, "words of a text are known"
    value = Target(gold, measure="log-probability").value
    own = word.moving.states[layer][None]
    erased = eraser.erased(own)
    rows = [erased, erased + mean, *(each.erased(own) for each in others)]
    return word.moving.number(value) - word.moving.numbers(layer, torch.cat(rows), value)


def probed(sample: Sample, layer: int, eraser: Eraser) -> dict[str, float]:
    """The accuracy of a linear probe on other documents, before and after."""
    fit, test = (sample.states(words, layer) for words in (sample.fit, sample.test))
    gold, other = (sample.indices(words).numpy() for words in (sample.fit, sample.test))
    scores = []
    for one, two in ((fit, test), (eraser.erased(fit), eraser.erased(test))):
        mean, spread = one.mean(0), one.std().clamp(min=1e-6)
        probe = LogisticRegression(C=0.1, max_iter=300)
        probe.fit(((one - mean) / spread).cpu().numpy(), gold)
        scores.append(float(probe.score(((two - mean) / spread).cpu().numpy(), other)))
    frequent = np.bincount(gold).argmax()
    return {
        "probe": scores[0],
        "probe_erased": scores[1],
        "majority": float((other == frequent).mean()),
        "rank": eraser.rank,
    }


def _caveats(n_documents: int, sample: Sample, model: Model) -> Iterator[str]:
    if n_documents < FEW:
        yield (
            f"The words are of only {plural(n_documents, 'document')}: with fewer than {FEW}, "
            "intervals are too narrow."
        )
    if len(sample.fit) < 2 * model.width:
        yield (
            f"Directions were fitted on {plural(len(sample.fit), 'word')} of {model.width} numbers "
            "each: with so few, some of the label is left in other documents (probe_erased)."
        )
