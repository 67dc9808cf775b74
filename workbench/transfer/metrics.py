"""How good a task's predictions are, as numbers of each text that add up.

A metric is numbers per text and a function of their sums, so that one thing serves for the score
of a whole set, for drawings of texts and for paired tests; the function takes the sums of any
number of draws at once. Where nothing was asked, and where one side of a correlation is constant,
the value is NaN; F1, precision, recall and Matthews' correlation are 0 where undefined, as in
scikit-learn. Costs one pass over the texts; what stays is three numbers a class (and as many for
answers that name none), or at most six.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from workbench.core.bio import Span
from workbench.core.errors import WorkbenchError
from workbench.core.stats import Floats, ratio

Ints = NDArray[np.int64]

ROUNDING = 1e-12  # a spread smaller than this, of the mean square, is no spread
ARTICLES = re.compile(r"\b(a|an|the)\b")
NONE = -1  # predicted: what was written is the name of no class
PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Metric:
    """What each text adds, and what is made of the sums."""

    counts: Floats  # [texts, numbers]
    measure: Callable[[Floats], Floats]  # [..., numbers] -> [...]

    def value(self) -> float:
        """Of all texts."""
        return float(self.measure(self.counts.sum(0)))


def class_metrics(
    gold: Ints, predicted: Ints, classes: int, positive: int = 1
) -> dict[str, Metric]:
    """Accuracy, F1 and Matthews' correlation.  # [texts], [texts]

    Of two classes, F1 is that of the `positive` one; of more, the mean over those that occur in
    gold or predictions (macro-F1), in a draw those that occur in the draw. A prediction may be
    `NONE`: it is wrong, and of a class of its own.
    """
    for what, said, least in (("gold", gold, 0), ("predicted", predicted, NONE)):
        outside = said[(said < least) | (said >= classes)]
        if outside.size:
            raise WorkbenchError(
                f"The {what} class {int(outside[0])} is not one of {classes}, counted from 0.",
                remedy="Texts without a known class cannot be scored; leave them out.",
            )
    named = [*range(classes), NONE]
    wanted, answered = (said[:, None] == named for said in (gold, predicted))
    counts = np.concatenate([wanted & answered, answered, wanted], axis=1).astype(np.float64)
    f1 = partial(_f1, which=positive) if classes == 2 else _macro_f1
    measures = {"accuracy": _accuracy, "f1": f1, "matthews": _matthews}
    return {name: Metric(counts, measure) for name, measure in measures.items()}


def score_metrics(gold: Floats, predicted: Floats) -> dict[str, Metric]:
    """Pearson's and Spearman's correlation and the mean squared error.  # [texts], [texts]

    Ranks (the mean rank, of ties) are those in the whole set, also where texts are drawn from it.
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
    """The share of words, over all texts, that have the right tag."""
    rows = [
        (sum(one == other for one, other in zip(wanted, said, strict=True)), len(wanted))
        for wanted, said in zip(gold, predicted, strict=True)
    ]
    counts = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return {"accuracy": Metric(counts, partial(_mean, which=0))}


def entity_metrics(
    gold: Sequence[AbstractSet[Span]], predicted: Sequence[AbstractSet[Span]]
) -> dict[str, Metric]:
    """Precision, recall and F1 of entities; right are those whose label and both ends agree."""
    rows = [
        (len(wanted & said), len(said), len(wanted))
        for wanted, said in zip(gold, predicted, strict=True)
    ]
    counts = np.array(rows, dtype=np.float64).reshape(-1, 3)  # as of a single class
    return {
        "precision": Metric(counts, partial(_share, of=1)),
        "recall": Metric(counts, partial(_share, of=2)),
        "f1": Metric(counts, partial(_f1, which=0)),
    }


def answer_metrics(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, Metric]:
    """SQuAD's exact match and F1, from 0 to 1; each text has the answers that are right."""
    rows = [(*answer_scores(own, said), 1) for own, said in zip(gold, predicted, strict=True)]
    counts = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return {
        "exact_match": Metric(counts, partial(_mean, which=0)),
        "f1": Metric(counts, partial(_mean, which=1)),
    }


def answer_scores(gold: Sequence[str], predicted: str) -> tuple[float, float]:
    """Exact match and F1 of words, each with the gold answer it is highest for.

    As in SQuAD 2.0's script, an answer of which normalising leaves nothing is none, and where there
    is no gold answer only no answer is right.
    """
    said = normalised(predicted)
    wanted = [words for words in map(normalised, gold) if words] or [[]]
    return float(said in wanted), max(_overlap(words, said) for words in wanted)


def normalised(answer: str) -> list[str]:
    """The words of an answer: in lower case, without punctuation, then without articles."""
    return ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split()


def _overlap(wanted: list[str], said: list[str]) -> float:
    """F1 of words, counted as often as they occur; of two that are empty, 1."""
    if not wanted or not said:
        return float(wanted == said)
    return 2 * (Counter(wanted) & Counter(said)).total() / (len(wanted) + len(said))


def _moments(gold: Floats, predicted: Floats) -> Floats:
    """About the whole set's mean, in its deviations, so that little is lost in subtracting sums."""
    one, other = ((side - side.mean()) / (side.std() or 1) for side in (gold, predicted))
    return np.stack([np.ones(len(one)), one, other, one**2, other**2, one * other], axis=1)


# --- from sums to values: all [..., numbers] -> [...] ---------------------------------------------


def _mean(sums: Floats, which: int) -> Floats:
    return ratio(sums[..., which], sums[..., -1], np.nan)


def _share(sums: Floats, of: int) -> Floats:
    return ratio(sums[..., 0], sums[..., of], 0)


def _pearson(sums: Floats) -> Floats:
    number, one, other, ones, others, both = np.moveaxis(sums, -1, 0)
    whole = np.ones_like(number)
    for total, squares in ((one, ones), (other, others)):
        spread = number * squares - total**2
        whole = whole * np.sqrt(np.where(spread > ROUNDING * number * squares, spread, 0))
    return np.clip(ratio(number * both - one * other, whole, np.nan), -1, 1)


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
    """R_K, which needs no more of the confusion matrix than its diagonal and its margins."""
    right, predicted, gold = np.split(sums, 3, axis=-1)
    number = gold.sum(-1)
    above = number * right.sum(-1) - (predicted * gold).sum(-1)
    spreads = [number**2 - np.square(margin).sum(-1) for margin in (predicted, gold)]
    return ratio(above, np.sqrt(spreads[0]) * np.sqrt(spreads[1]), 0)
