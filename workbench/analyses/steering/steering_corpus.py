"""The experiment `steering`: does the difference of two sets of texts move what a model predicts?

Counterfactual pairs give two sets of texts for each two words: those after which the one word is
right, and those after which the other is. Their mean states differ at the place that predicts. This
difference, of half of the exchanges of words, is added to the states of texts of the other half
(Turner et al. 2023, Panickssery et al. 2023). The effect is the change of the difference of the two
words' logits towards the other word. The null adds random directions of the same length; what else
an addition breaks is the divergence of predictions of unrelated texts. The differences are stored,
so that an edit of a model can add them (`models.directions`). Costs: a pass for each text,
and for each text and layer as many rows as there are strengths and random directions.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.patching.patch import MARGIN
from workbench.analyses.patching.patching_corpus import aligned
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Target
from workbench.analyses.steering.experiments import Steering
from workbench.analyses.steering.moved import (
    HIGH,
    Against,
    Moving,
    clusters_in_half,
    layers_of,
    open_states,
    random_directions,
)
from workbench.core.arrays import Floats
from workbench.core.cluster_sample import ClusterSample
from workbench.core.errors import WorkbenchError
from workbench.core.findings import plural
from workbench.core.stats import SIGNIFICANT, permutation_p_values_of_means
from workbench.corpora.counterfactuals import Counterfactual, counterfactual_pairs
from workbench.corpora.splits import FEW
from workbench.engine.model import Model
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.directions import NAME
from workbench.models.interventions.patching import PatchPoints, Point

Flags = NDArray[np.bool_]
STRENGTHS = (-1.0, 0.5, 1.0, 2.0, 4.0)  # 1 is the difference itself
FEWER = 10  # random directions at each strength, and for what breaks
MIN_TEXTS = 4  # of each set in each half
UNRELATED = 8  # texts whose predictions are compared


@dataclass(frozen=True, eq=False)
class Side:
    """A text of one of two sets, whose word is right after it."""

    prediction: Prediction
    choice: int  # the word that is right
    other: int
    context: str  # the words that its pair exchanges


@dataclass(frozen=True, eq=False)
class Words:
    """Two words, and the texts after which each is right."""

    name: str
    sides: tuple[Side, ...]
    first: int  # the choice of the first word

    @property
    def is_first(self) -> Flags:
        """Whether the first word is right.  # [texts]"""
        return np.array([side.choice == self.first for side in self.sides], dtype=np.bool_)

    def fitted(self, seed: int) -> Flags:
        """Whether the difference is fitted on a text: half of the exchanges.  # [texts]"""
        return clusters_in_half([side.context for side in self.sides], seed)


@dataclass(frozen=True, eq=False)
class Effects:
    """What the difference of two sets of texts does to the texts of other exchanges of words."""

    words: Words
    layers: Sequence[Point]
    vectors: Tensor  # [layers, width]
    contexts: Sequence[str]  # [texts], of the measured ones
    by_strength: Floats  # [texts, layers, strengths]
    random: Floats  # [texts, directions, layers]
    random_by_strength: Floats  # [texts, layers, strengths, fewer directions]
    gap: float  # difference of logits between the two sets
    divergence: Floats  # [layers, 2], of unrelated predictions: the difference, random ones

    @property
    def effects(self) -> Floats:
        """At strength 1.  # [texts, layers]"""
        return self.by_strength[:, :, STRENGTHS.index(1.0)]

    @property
    def keys(self) -> list[dict[str, object]]:
        return [
            {"words": self.words.name, "stack": point.stack, "layer": point.layer}
            for point in self.layers
        ]


def run(inputs: Inputs, settings: Steering, progress: Progress) -> Result:
    """Compute the tables of `steering`."""
    model = inputs.model
    groups, n_untested = word_pairs(model, inputs, settings)
    points = open_states(model, groups[0].sides[0].prediction)
    unit = random_directions(settings.random_directions, model.width, inputs.seed)
    measured = []
    done, total = 0, sum(int((~group.fitted(inputs.seed)).sum()) for group in groups)

    def on_text() -> None:
        nonlocal done
        done += 1
        progress(done, total, "steering texts")

    for group in groups:
        others = [side for each in groups if each is not group for side in each.sides]
        unrelated = _drawn(others or list(group.sides), inputs.seed)
        measured.append(effects_of(group, points, unit, unrelated, inputs.seed, on_text))
    table = directions_table(measured, inputs.seed)
    tables = {
        "directions": table,
        "strengths": strengths_table(measured),
        "objective": objective_table(model.predicts),
    }
    directions = torch.stack([each.vectors for each in measured]).cpu().numpy()
    return Result(tables, {NAME: directions}, tuple(map(Caveat, _caveats(table, n_untested))))


def effects_of(
    group: Words,
    points: PatchPoints,
    unit: Tensor,
    unrelated: Sequence[Side],
    seed: int,
    on_text: Callable[[], object],
) -> Effects:
    """Add the difference of two sets of texts to the texts of other exchanges of words.

    `unit` are random directions, [directions, width].
    """
    layers, fitted, is_first = layers_of(points), group.fitted(seed), group.is_first
    moving = [Moving.of(points, side.prediction) for side in group.sides]
    states = torch.stack([each.states for each in moving])  # [texts, layers, width]
    one, other = (
        states[torch.from_numpy(fitted & own).to(states.device)].mean(0)
        for own in (is_first, ~is_first)
    )
    vectors = one - other  # [layers, width]
    tested = np.flatnonzero(~fitted).tolist()
    n_some = min(FEWER, len(unit))
    by_strength = np.zeros((len(tested), len(layers), len(STRENGTHS)))
    random = np.zeros((len(tested), len(unit), len(layers)))
    some = np.zeros((len(tested), len(layers), len(STRENGTHS), n_some))
    plain = np.zeros(len(tested))  # logit of the right word minus that of the other
    for row, text in enumerate(tested):
        side, own = group.sides[text], moving[text]
        value = Target(side.other, side.choice).value
        before = own.number(value)
        plain[row] = -before
        for layer, vector in enumerate(vectors):
            moves = _moves(-vector if is_first[text] else vector, unit)
            numbers = own.numbers(layer, own.states[layer] + moves, value) - before
            n = len(STRENGTHS), len(STRENGTHS) + len(unit)
            by_strength[row, layer], random[row, :, layer] = numbers[: n[0]], numbers[n[0] : n[1]]
            some[row, layer] = numbers[n[1] :].reshape(n[0], n_some)
        on_text()
    own_first = is_first[tested]
    gap = float(plain[own_first].mean() + plain[~own_first].mean())
    return Effects(
        group, layers, vectors, [group.sides[n].context for n in tested], by_strength, random,
        some, gap, _divergences(points, unrelated, vectors, unit),
    )  # fmt: skip


def _moves(vector: Tensor, unit: Tensor) -> Tensor:
    """What is added in each row: the vector at each strength, random directions of its length.

    # [strengths + directions + strengths * fewer, width]
    """
    strengths = torch.tensor(STRENGTHS, device=vector.device)[:, None]
    random = unit.to(vector) * vector.norm()
    scaled = (strengths[:, :, None] * random[:FEWER]).flatten(0, 1)
    return torch.cat([strengths * vector, random, scaled])


def _divergences(
    points: PatchPoints, unrelated: Sequence[Side], vectors: Tensor, unit: Tensor
) -> Floats:
    """By layer, how much unrelated predictions change, in nats: by the difference, by random ones.

    # [layers, 2]
    """
    totals = np.zeros((len(vectors), 2))
    for side in unrelated:
        own = Moving.of(points, side.prediction)
        with torch.no_grad():
            before = own.prediction.logits()[0].log_softmax(-1)

        def value(logits: Tensor, before: Tensor = before) -> Tensor:
            return (before.exp() * (before - logits.log_softmax(-1))).sum(-1)

        for layer, vector in enumerate(vectors):
            random = unit[:FEWER].to(vector) * vector.norm()
            moves = torch.cat([vector[None], -vector[None], random])
            numbers = own.numbers(layer, own.states[layer] + moves, value)
            totals[layer] += numbers[:2].mean(), numbers[2:].mean()
    return totals / max(len(unrelated), 1)


# --- texts ----------------------------------------------------------------------------------------


def word_pairs(model: Model, inputs: Inputs, settings: Steering) -> tuple[list[Words], int]:
    """The pairs of words with the most counterfactual pairs, if a model can use enough of them.

    The number is of further pairs of words that have enough, beyond `max_words`.
    """
    pairs, _ = counterfactual_pairs(inputs.docs())
    order = np.random.default_rng([inputs.seed, len(pairs)]).permutation(len(pairs))
    by_words: dict[tuple[str, ...], list[Counterfactual]] = defaultdict(list)
    for pair in (pairs[n] for n in order.tolist()):
        words = pair.clean[pair.word].text, pair.corrupt[pair.corrupt_word].text
        by_words[tuple(sorted(words))].append(pair)
    groups: list[Words] = []
    n_untested = 0
    for own in sorted(by_words.values(), key=len, reverse=True):
        if len(own) < 2 * MIN_TEXTS:
            break
        if len(groups) == settings.max_words:
            n_untested += 1
            continue
        group = _words(model, own, settings.max_texts)
        if group is not None and _is_enough(group, inputs.seed):
            groups.append(group)
    if not groups:
        raise WorkbenchError(
            f"no two words have enough texts that {model.name} can use: in each half of the "
            f"exchanges of words {MIN_TEXTS} after which each of them is right.",
            code="too-few-sentences",
            where=inputs.corpus.name,
            remedy="Use a corpus with more counterfactual pairs of the same two words, such as "
            "primer/counterfactuals.",
        )
    return groups, n_untested


def _words(model: Model, pairs: Sequence[Counterfactual], most: int) -> Words | None:
    """The texts of counterfactual pairs of two words, both texts of each pair."""
    sides: dict[str, Side] = {}  # by its pieces
    names: dict[int, str] = {}  # of the words, by their piece that is predicted
    for pair in pairs:
        found = aligned(model, pair)
        if isinstance(found, str) or found.target.against is None:
            continue
        words = pair.clean[pair.word].text, pair.corrupt[pair.corrupt_word].text
        both = (found.clean, found.corrupt)
        for prediction, other, word in zip(both, both[::-1], words, strict=True):
            assert prediction.gold is not None and other.gold is not None, "words of a text"
            side = Side(prediction, prediction.gold, other.gold, found.exchanges[0])
            sides.setdefault(str(prediction.text.ids.tolist()), side)
            names.setdefault(side.choice, word)
        if len(sides) >= 2 * most:  # enough to choose as many of each set
            break
    if not sides:
        return None
    one = next(iter(sides.values()))
    first, last = sorted((one.choice, one.other))
    name = f"{names[first]} / {names[last]}"
    return Words(name, tuple(balanced([*sides.values()], first, most)), first)


def balanced(sides: Sequence[Side], first: int, most: int) -> list[Side]:
    """At most so many texts, as many of each set as possible."""
    of_first = [side for side in sides if side.choice == first]
    others = [side for side in sides if side.choice != first]
    n = min(len(of_first), len(others), most // 2)
    return [*of_first[:n], *others[:n]]


def _is_enough(group: Words, seed: int) -> bool:
    fitted, own = group.fitted(seed), group.is_first
    sets = ((half & one).sum() for half in (fitted, ~fitted) for one in (own, ~own))
    return all(n >= MIN_TEXTS for n in sets)


def _drawn(sides: Sequence[Side], seed: int) -> list[Side]:
    order = np.random.default_rng([seed, len(sides)]).permutation(len(sides))
    return [sides[n] for n in order[:UNRELATED].tolist()]


# --- tables ---------------------------------------------------------------------------------------


def directions_table(measured: Sequence[Effects], seed: int) -> pd.DataFrame:
    """One row for each two words and layer, with one test for all of them."""
    p_values = permutation_p_values_of_means(
        np.concatenate([each.effects.mean(0) for each in measured]),
        np.concatenate([each.random.mean(0) for each in measured], 1),
    )
    rows: list[dict[str, object]] = []
    for each in measured:
        sample = ClusterSample.of(each.contexts, seed)
        against = Against(each.effects, each.random, sample).rows()
        for layer, (keys, row) in enumerate(zip(each.keys, against, strict=True)):
            p = float(p_values[len(rows)])
            steers = p < SIGNIFICANT and row["lower"] > 0 and each.gap > MARGIN
            rows.append(
                {
                    **keys, **row, "p": p, "significant": bool(steers), "gap": each.gap,
                    "share": row["effect"] / each.gap if each.gap > MARGIN else np.nan,
                    "norm": float(each.vectors[layer].norm()),
                    "divergence": each.divergence[layer, 0],
                    "random_divergence": each.divergence[layer, 1],
                    "n": len(each.contexts), "exchanges": sample.n_clusters,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def strengths_table(measured: Sequence[Effects]) -> pd.DataFrame:
    """One row for each strength of each two words and layer."""
    rows = []
    for each in measured:
        for layer, keys in enumerate(each.keys):
            for index, strength in enumerate(STRENGTHS):
                random = each.random_by_strength[:, layer, index].mean(0)
                low, high = np.percentile(random, [100 - HIGH, HIGH])
                rows.append(
                    {
                        **keys, "strength": strength,
                        "effect": each.by_strength[:, layer, index].mean(),
                        "random": random.mean(), "random_low": low, "random_high": high,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def _caveats(table: pd.DataFrame, n_untested: int) -> Iterator[str]:
    if n_untested:
        yield (
            f"{plural(n_untested, 'further pair of words was', 'further pairs of words were')} not "
            "tested: max_words takes those with the most texts."
        )
    few = table.loc[table["exchanges"] < FEW, "words"].unique()
    if len(few):
        yield (
            f"{plural(len(few), 'pair of words has', 'pairs of words have')} fewer than {FEW} "
            "exchanges of words to test on: their intervals are too narrow."
        )
    if table["words"].nunique() == 1:
        yield "There is one pair of words, so divergences are those of its own texts."
