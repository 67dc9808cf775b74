"""Faithfulness has known answers on planted predictions, and a wrong map fails."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from spacy.tokens import Doc
from torch import Tensor

import workbench as wb
from tests.minis import shared
from workbench.analyses.attribution.faithfulness import (
    chance_correlation,
    distinct_orders,
    erasure,
    faithfulness,
    order_of,
    top_sizes,
    verdict_of_correlation,
)
from workbench.analyses.attribution.methods import Attribution, attribute_prediction
from workbench.analyses.attribution.removal import free_units
from workbench.analyses.predictions.prediction import Prediction, of_word
from workbench.analyses.predictions.target import Target, units_of
from workbench.core.errors import WorkbenchError
from workbench.core.stats import rank_correlation

TARGET = Target(1)
LOST = torch.tensor(4.0).sigmoid().item() - 0.5  # probability lost without the planted word


class Planted(Prediction):
    """Its logits depend on some words: each adds its weight if its vector is its own, else 0."""

    weights: dict[int, float]

    def logits_from(self, vectors: Any) -> Tensor:
        own, given = self.input_vectors()["encoder"], vectors["encoder"]
        total = torch.zeros(len(given))
        for piece, weight in self.weights.items():
            total += weight * (given[:, piece] == own[0, piece]).all(-1)
        return torch.stack([torch.zeros_like(total), total], 1)


@cache
def model() -> Any:
    return shared("mini:bert")


def planted(weights: dict[int, float], words: int = 10) -> Planted:
    vocabulary = next(wb.read("primer").docs("test", limit=1)).vocab
    names = ["dog", "cat", "sees", "the", "old", "house", "likes", "a", "boy", "and"]
    found = of_word(model(), Doc(vocabulary, words=[*names[: words - 1], "."]), words - 1)
    prediction = Planted(found.model, found.doc, found.kind, found.text, found.position)
    object.__setattr__(prediction, "weights", weights)
    return prediction


def a_map(prediction: Prediction, scores: dict[int, float]) -> Attribution:
    """A map by hand: scores by piece."""
    units = tuple(units_of(prediction))
    given = np.array([sum(scores.get(piece, 0.0) for piece in unit.pieces) for unit in units])
    return Attribution(prediction, TARGET, "occlusion", units, given, 0.0, baseline="zero")


def test_the_right_map_of_one_planted_word_loses_all_and_a_wrong_one_nothing() -> None:
    prediction = planted({3: 4.0})
    right = faithfulness(prediction, TARGET, a_map(prediction, {3: 1.0}))
    wrong = faithfulness(
        prediction, TARGET, a_map(prediction, {piece: 1.0 for piece in range(1, 11) if piece != 3})
    )
    assert right.comprehensiveness == pytest.approx(LOST, abs=1e-6)
    assert right.sufficiency == pytest.approx(0, abs=1e-6)
    assert wrong.comprehensiveness == pytest.approx(0, abs=1e-6)
    assert wrong.sufficiency == pytest.approx(LOST, abs=1e-6)
    assert right.gain >= right.random.gain.max() - 1e-9
    assert wrong.verdict == "no"
    # one word of nine is at the top of 11 % of random orders, so p cannot be small
    assert right.verdict == "undecided" and "as good" in right.reason


def test_the_right_map_of_several_words_is_faithful_beyond_random() -> None:
    weights = {1: 1.0, 2: 3.0, 4: 2.0, 6: -2.0, 7: -3.0}
    prediction = planted(weights)
    found = faithfulness(prediction, TARGET, a_map(prediction, weights))
    assert found.verdict == "yes" and "array(" not in repr(found)
    opposite = {piece: -weight for piece, weight in weights.items()}
    assert faithfulness(prediction, TARGET, a_map(prediction, opposite)).verdict == "no"


def test_occlusion_finds_planted_words() -> None:
    prediction = planted({2: 3.0, 5: -2.0})
    found = attribute_prediction(prediction, TARGET, "occlusion", baseline="zero")
    by_piece = {
        unit.pieces[0]: score for unit, score in zip(found.units, found.scores, strict=True)
    }
    assert by_piece[2] == pytest.approx(3) and by_piece[5] == pytest.approx(-2)


def test_a_prediction_that_depends_on_nothing_has_no_faithful_map() -> None:
    prediction = planted({})
    found = faithfulness(prediction, TARGET, a_map(prediction, {3: 1.0}))
    assert found.verdict == "no" and "hardly depends" in found.reason


def test_two_words_cannot_be_checked_and_four_cannot_be_significant() -> None:
    prediction = planted({1: 4.0}, words=3)
    found = faithfulness(prediction, TARGET, a_map(prediction, {1: 1.0}))
    assert found.verdict == "undecided" and "reads 2 words that can" in found.reason
    assert np.isnan(found.comprehensiveness) and found.n_units == 2
    prediction = planted({1: 4.0}, words=5)
    found = faithfulness(prediction, TARGET, a_map(prediction, {1: 1.0}))
    assert found.verdict == "undecided" and "4 units" in found.reason


def test_erasure_is_that_of_the_definition() -> None:
    """One set at a time, on a real prediction."""
    doc = next(wb.read("primer").docs("test", limit=2))
    prediction = of_word(model(), doc, 3)
    units = units_of(prediction)
    free = free_units(units)
    own = prediction.input_vectors()["encoder"]
    mask_id = torch.full_like(prediction.text.ids, model().symbols.mask)
    absent = model().input_vectors(replace(prediction.text, ids=mask_id))["encoder"]
    order = np.random.default_rng(3).permutation(len(free))
    with torch.no_grad():
        target = Target(int(prediction.logits().argmax()))

        def probability(gone: Any) -> float:
            vectors = own.clone()
            for index in gone:
                for piece in units[free[index]].pieces:
                    vectors[0, piece] = absent[0, piece]
            logits = prediction.logits_from({"encoder": vectors})
            return float(logits.softmax(-1)[0, target.choice])

        whole = probability([])
        sizes = top_sizes(len(free))
        without = np.mean([whole - probability(order[:size]) for size in sizes])
        only = np.mean([whole - probability(order[size:]) for size in sizes])
    found = erasure(prediction, target, units, order[None])
    assert found.comprehensiveness[0] == pytest.approx(without, abs=1e-6)
    assert found.sufficiency[0] == pytest.approx(only, abs=1e-6)


def test_top_units_are_rounded_up() -> None:
    assert top_sizes(3) == [1, 1, 1, 2] and top_sizes(20) == [2, 4, 6, 10]
    assert distinct_orders(4) == 4 * 3 and distinct_orders(3) == 3 * 2


def test_orders_are_by_score_and_a_constant_map_has_a_random_one() -> None:
    assert order_of(np.array([0.1, 3.0, -2.0])).tolist() == [1, 0, 2]
    assert order_of(np.zeros(12)).tolist() != list(range(12))


def test_the_correlation_with_random_weights_is_judged_by_chance() -> None:
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([1.0, 2, 9])) == pytest.approx(1)
    assert rank_correlation(np.ones(3), np.arange(3.0)) == 0
    n, draw = 10, np.random.default_rng(0)
    one, other = draw.random((2, 1000, n)).argsort(2).argsort(2) - (n - 1) / 2  # ranks around 0
    drawn = (one * other).sum(1) / (one**2).sum(1)
    assert chance_correlation(n, 1) == pytest.approx(np.quantile(drawn, 0.95), abs=0.05)
    assert chance_correlation([n] * 12, 2) < chance_correlation(n, 1) / 3
    assert [verdict_of_correlation(r, 0.2) for r in (0.1, 0.3, 0.6)] == [
        "destroyed", "partly kept", "kept",
    ]  # fmt: skip
    assert verdict_of_correlation(0.4, 0.9) == "undecided"


def test_the_same_weights_keep_a_map_and_random_weights_destroy_it() -> None:
    doc = list(wb.read("primer").docs("test", limit=3))[2]
    prediction = of_word(model(), doc, 5)
    target = Target(int(prediction.logits().argmax()))
    found = attribute_prediction(prediction, target, "occlusion")
    same = faithfulness(prediction, target, found, twins=[model().copy()])
    assert same.randomised is not None and same.randomised.correlation == pytest.approx(1)
    assert same.randomised.check == "kept"
    twins = [model().reinitialised(seed) for seed in range(2)]
    other = faithfulness(prediction, target, found, twins=twins)
    assert other.randomised is not None and other.randomised.check == "destroyed"
    assert other.attention is not None


def test_maps_of_other_units_are_refused() -> None:
    doc = next(  # a text with a word of several pieces
        doc
        for doc in wb.read("primer").docs("test")
        if len(shared("mini:t5").encode(wb.encode([doc])).ids[0]) > len(doc) + 4
    )
    t5 = shared("mini:t5")
    prediction = of_word(t5, doc, len(doc) - 2)
    target = Target(int(prediction.logits().argmax()))
    by_piece = attribute_prediction(prediction, target, "occlusion", by="piece")
    with pytest.raises(WorkbenchError, match="units"):
        faithfulness(prediction, target, by_piece)
    assert faithfulness(prediction, target, by_piece, by="piece").n_units > len(doc)
