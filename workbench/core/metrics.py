"""Metrics of a task's predictions, as counts per text that add up.

A metric is some numbers per text and a function of their sums. So the same object gives the score
of a whole set, of bootstrap samples and of paired tests; the function takes the sums of many
samples at once. The value is NaN without targets, and for a correlation with a constant; F1,
precision, recall and Matthews' correlation are 0 if undefined, as in scikit-learn. Costs: one pass
over the texts; memory for three numbers per text and class (and three for predictions of no class),
or at most six per text.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

import numpy as np

from workbench.core.arrays import Floats, Ints
from workbench.core.bio import Span
from workbench.core.errors import WorkbenchError
from workbench.core.stats import ratio

ROUNDING = 1e-12  # a variance below this fraction of the mean square counts as 0
ARTICLES = re.compile(r"\b(a|an|the)\b")
NONE = -1  # prediction of a text that is no class name
SPELT = {"f1": "F1", "exact_match": "exact match", "matthews": "Matthews correlation"}


def spelt(name: object) -> str:
    """Return the name of a metric as it is written in sentences and on axes.

    >>> spelt("f1"), spelt("accuracy")
    ('F1', 'accuracy')
    """
    return SPELT.get(str(name), str(name))


PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Metric:
    """Counts per text, and the function that turns their sums into the metric."""

    counts: Floats  # [texts, numbers]
    measure: Callable[[Floats], Floats]  # [..., numbers] -> [...]

    def value(self) -> float:
        """The metric over all texts."""
        return float(self.measure(self.counts.sum(0)))


def class_metrics(
    gold: Ints, predicted: Ints, classes: int, positive: int = 1
) -> dict[str, Metric]:
    """Accuracy, F1 and Matthews' correlation.  # [texts], [texts]

    With two classes, F1 is that of the `positive` class; with more, the mean over the classes that
    occur in gold or predictions (macro-F1), in a bootstrap sample those of the sample. A prediction
    may be `NONE`: it is wrong, and a class of its own.
    """
    for side, classes_of, lowest in (("gold", gold, 0), ("predicted", predicted, NONE)):
        outside = classes_of[(classes_of < lowest) | (classes_of >= classes)]
        if outside.size:
            raise WorkbenchError(
                f"the {side} class {int(outside[0])} is not between 0 and {classes - 1}.",
                code="class-unknown",
                remedy="Leave out texts without a known class; they cannot be scored.",
            )
    class_ids = [*range(classes), NONE]
    gold_one_hot, predicted_one_hot = (
        classes_of[:, None] == class_ids for classes_of in (gold, predicted)
    )
    counts = np.concatenate(
        [gold_one_hot & predicted_one_hot, predicted_one_hot, gold_one_hot], axis=1
    ).astype(np.float64)
    f1 = partial(_f1, which=positive) if classes == 2 else _macro_f1
    measures = {"accuracy": _accuracy, "f1": f1, "matthews": _matthews}
    return {name: Metric(counts, measure) for name, measure in measures.items()}


def score_metrics(gold: Floats, predicted: Floats) -> dict[str, Metric]:
    """Pearson's and Spearman's correlation and the mean squared error.  # [texts], [texts]

    Ranks (mean ranks for ties) are those of the whole set, also for bootstrap samples.
    """
    from scipy.stats import rankdata

    error = np.stack([np.square(gold - predicted), np.ones(len(gold))], axis=1)
    return {
        "pearson": Metric(_moments(gold, predicted), _pearson),
        "spearman": Metric(_moments(rankdata(gold), rankdata(predicted)), _pearson),
        "mse": Metric(error, partial(_mean, which=0)),
    }


def tag_metrics(
    gold: Sequence[Sequence[str | int]], predicted: Sequence[Sequence[str | int]]
) -> dict[str, Metric]:
    """The fraction of words, over all texts, with the right tag."""
    rows = [
        (
            sum(one == other for one, other in zip(gold_tags, predicted_tags, strict=True)),
            len(gold_tags),
        )
        for gold_tags, predicted_tags in zip(gold, predicted, strict=True)
    ]
    counts = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return {"accuracy": Metric(counts, partial(_mean, which=0))}


def entity_metrics(
    gold: Sequence[AbstractSet[Span]], predicted: Sequence[AbstractSet[Span]]
) -> dict[str, Metric]:
    """Precision, recall and F1 of entities; an entity is right if label and both ends agree."""
    rows = [
        (len(gold_entities & predicted_entities), len(predicted_entities), len(gold_entities))
        for gold_entities, predicted_entities in zip(gold, predicted, strict=True)
    ]
    counts = np.array(rows, dtype=np.float64).reshape(-1, 3)  # as for a single class
    return {
        "precision": Metric(counts, partial(_share, of=1)),
        "recall": Metric(counts, partial(_share, of=2)),
        "f1": Metric(counts, partial(_f1, which=0)),
    }


def answer_metrics(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, Metric]:
    """SQuAD's exact match and F1, from 0 to 1; each text has a list of right answers."""
    rows = [
        (*answer_scores(answers, answer), 1)
        for answers, answer in zip(gold, predicted, strict=True)
    ]
    counts = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return {
        "exact_match": Metric(counts, partial(_mean, which=0)),
        "f1": Metric(counts, partial(_mean, which=1)),
    }


def answer_scores(gold: Sequence[str], predicted: str) -> tuple[float, float]:
    """Exact match and word F1, each for the gold answer where it is highest.

    As in SQuAD 2.0's script, an answer that is empty after normalising counts as no answer; without
    a gold answer, only no answer is right.
    """
    predicted_words = normalised(predicted)
    gold_words = [words for words in map(normalised, gold) if words] or [[]]
    return float(predicted_words in gold_words), max(
        _overlap(words, predicted_words) for words in gold_words
    )


def normalised(answer: str) -> list[str]:
    """The words of an answer: in lower case, without punctuation, then without articles."""
    return ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split()


def _overlap(gold: list[str], predicted: list[str]) -> float:
    """F1 of the words with their counts; 1 for two empty answers."""
    if not gold or not predicted:
        return float(gold == predicted)
    return 2 * (Counter(gold) & Counter(predicted)).total() / (len(gold) + len(predicted))


def _moments(gold: Floats, predicted: Floats) -> Floats:
    """Moments of the standardised values, so that differences of sums stay accurate."""
    x, y = ((side - side.mean()) / (side.std() or 1) for side in (gold, predicted))
    return np.stack([np.ones(len(x)), x, y, x**2, y**2, x * y], axis=1)


# --- from sums to values: all [..., numbers] -> [...] ---------------------------------------------


def _mean(sums: Floats, which: int) -> Floats:
    return ratio(sums[..., which], sums[..., -1], np.nan)


def _share(sums: Floats, of: int) -> Floats:
    return ratio(sums[..., 0], sums[..., of], 0)


def _pearson(sums: Floats) -> Floats:
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spreads = np.ones_like(n)
    for total, squares in ((x, xx), (y, yy)):
        spread = n * squares - total**2
        spreads = spreads * np.sqrt(np.where(spread > ROUNDING * n * squares, spread, 0))
    return np.clip(ratio(n * xy - x * y, spreads, np.nan), -1, 1)


def _accuracy(sums: Floats) -> Floats:
    right, _, gold = np.split(sums, 3, axis=-1)  # each [..., classes and none], as all that follow
    return ratio(right.sum(-1), gold.sum(-1), np.nan)


def _f1(sums: Floats, which: int) -> Floats:
    right, predicted, gold = (part[..., which] for part in np.split(sums, 3, axis=-1))
    return ratio(2 * right, predicted + gold, 0)


def _macro_f1(sums: Floats) -> Floats:
    right, predicted, gold = (part[..., :-1] for part in np.split(sums, 3, axis=-1))
    each = ratio(2 * right, predicted + gold, 0)
    return ratio(each.sum(-1), (predicted + gold > 0).sum(-1), 0)


def _matthews(sums: Floats) -> Floats:
    """R_K, from the diagonal and the margins of the confusion matrix."""
    right, predicted, gold = np.split(sums, 3, axis=-1)
    n = gold.sum(-1)
    numerator = n * right.sum(-1) - (predicted * gold).sum(-1)
    spreads = [n**2 - np.square(margin).sum(-1) for margin in (predicted, gold)]
    return ratio(numerator, np.sqrt(spreads[0]) * np.sqrt(spreads[1]), 0)
