"""Attributions that are known: of linear models, of planted tokens, by brute force, by hand."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import factorial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.analyses.predictions.by_hand import FUNCTIONS
from tests.analyses.predictions.known import KEY, linear, planted
from tests.analyses.predictions.refusals import NAMES, REFUSALS, outcome, table
from tests.minis import shared
from tests.models import headed
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench.analyses.attribution.methods import (
    LAYER_METHODS,
    METHODS,
    Method,
    attribute_prediction,
)
from workbench.analyses.predictions.prediction import Prediction, of_word
from workbench.analyses.predictions.target import Target, baseline_vectors

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench import Model

ADDITIVE: tuple[Method, ...] = ("integrated-gradients", "deeplift", "occlusion", "shapley")
COMPLETE = 1e-3  # of the change of the output


@cache
def doc() -> "Doc":
    return next(wb.read("primer").docs("test", limit=1))


@cache
def model_of(name: str) -> "Model":
    return shared(name) if ":" in name else headed.made(name, HEADED[name], False)


def explained(name: str, word: int = 3) -> tuple[Prediction, Target]:
    """A word of the text and the most probable choice there."""
    prediction = of_word(model_of(name), doc(), word)
    with torch.no_grad():
        return prediction, Target(int(prediction.logits()[0].argmax()))


# --- linear models --------------------------------------------------------------------------------


@pytest.mark.parametrize("baseline", ["mean", "zero"])
@pytest.mark.parametrize("method", ADDITIVE)
def test_a_linear_model_has_the_contribution_of_each_word(
    method: Method, baseline: Any, tmp_path: Path
) -> None:
    prediction, target = linear(tmp_path), Target(0, against=1)
    direction = prediction.weights[:, 0] - prediction.weights[:, 1]
    (own,) = prediction.input_vectors().values()
    (absent,) = baseline_vectors(prediction, baseline).values()
    expected = ((own - absent)[0] @ direction).numpy()
    found = attribute_prediction(prediction, target, method, baseline=baseline, samples=2)
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)


def test_gradient_x_input_of_a_linear_model(tmp_path: Path) -> None:
    prediction = linear(tmp_path)
    (own,) = prediction.input_vectors().values()
    found = attribute_prediction(prediction, Target(1), "gradient-x-input")
    np.testing.assert_allclose(found.scores, (own[0] @ prediction.weights[:, 1]).numpy(), atol=1e-5)


# --- a planted token ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("random", "deeplift")])
@pytest.mark.parametrize(
    "text",
    mostly(
        [f"Ben {KEY} walks [MASK] to", f"{KEY} Ben walks to [MASK]"], f"Ben {KEY} walks [MASK] to"
    ),
)
def test_the_only_token_that_is_read_is_first(method: Method, text: str) -> None:
    found = wb.attribute(planted(), text, KEY, method, measure="logit")
    others = [
        score for unit, score in zip(found.units, found.scores, strict=True) if unit.text != KEY
    ]
    assert found.units[int(found.scores.argmax())].text == KEY
    assert found.scores.max() > 1.05 * max(others)
    if method in ADDITIVE:
        assert np.abs(others).max() < 1e-4 * found.scores.max()


# --- completeness ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    # T5's kinks take many thousand steps; by day BART is the one with two stacks
    mostly(NAMES, "mini:bert", "bart-3-2", "mini:elmo"),
)
def test_integrated_gradients_are_complete(name: str) -> None:
    prediction, target = explained(name)
    found = attribute_prediction(prediction, target, max_steps=20_000)
    assert found.baseline_value is not None
    change = found.value - found.baseline_value
    assert found.delta == pytest.approx(change - found.scores.sum(), abs=1e-9)
    assert abs(change - found.scores.sum()) <= max(COMPLETE * abs(change), 1e-4)
    assert not found.notes


def test_an_incomplete_attribution_says_so() -> None:
    found = attribute_prediction(*explained("mini:gpt"), max_steps=2)
    assert found.steps == 2 and found.delta is not None
    assert abs(found.delta) > 0.01
    assert "max_steps" in found.notes[0]


@pytest.mark.parametrize("name", mostly(["mini:bert", "mini:gpt"], "mini:gpt"))
def test_layers_are_nearly_complete(name: str) -> None:
    for method in ("layer-integrated-gradients", "layer-conductance"):
        found = attribute_prediction(*explained(name), method)  # type: ignore[arg-type]
        assert found.by_layer is not None and found.baseline_value is not None
        change = found.value - found.baseline_value
        tolerance = 1e-3 if method == "layer-integrated-gradients" else 0.1
        np.testing.assert_allclose(found.by_layer.sum(1), change, rtol=tolerance)
        assert len(found.layers) == model_of(name).stacks[0].layers


# --- by brute force -------------------------------------------------------------------------------


def test_occlusion_is_the_change_without_each_word() -> None:
    prediction, target = explained("mini:bert")
    found = attribute_prediction(prediction, target, "occlusion")
    mask = prediction.model.symbols.mask
    for unit, score in zip(found.units, found.scores, strict=True):
        ids = prediction.text.ids.clone()
        if not unit.fixed:
            ids[0, list(unit.pieces)] = mask
        with torch.no_grad():
            value = target.value(prediction.logits(replace(prediction.text, ids=ids)))
        assert score == pytest.approx(found.value - float(value), abs=1e-4)


SAMPLES = 50  # orders of the units


def test_shapley_values_are_those_of_all_coalitions() -> None:
    prediction, target = explained("mini:bert")
    found = attribute_prediction(prediction, target, "shapley", samples=SAMPLES)
    free = [n for n, unit in enumerate(found.units) if not unit.fixed]
    assert len(free) <= 6
    (own,), (absent,) = prediction.input_vectors().values(), baseline_vectors(prediction).values()

    @cache
    def value(kept: frozenset[int]) -> float:
        vectors = absent.clone()
        for n in kept:
            vectors[0, list(found.units[n].pieces)] = own[0, list(found.units[n].pieces)]
        with torch.no_grad():
            return float(target.value(prediction.logits_from({found.units[0].stack: vectors})))

    for n in free:
        rest = [other for other in free if other != n]
        gains = [
            (
                factorial(size) * factorial(len(rest) - size) / factorial(len(free)),
                value(frozenset({*part, n})) - value(frozenset(part)),
            )
            for size in range(len(rest) + 1)
            for part in combinations(rest, size)
        ]
        exact = sum(share * gain for share, gain in gains)
        variance = sum(share * (gain - exact) ** 2 for share, gain in gains)  # of a random order
        assert abs(found.scores[n] - exact) <= 4 * (variance / SAMPLES) ** 0.5 + 1e-4
    one, again = (attribute_prediction(prediction, target, "shapley", samples=2) for _ in range(2))
    np.testing.assert_array_equal(one.scores, again.scores)


def test_rollout_is_the_product_of_the_maps() -> None:
    prediction, target = explained("mini:bert")
    seen = wb.Capture()
    with torch.no_grad():
        prediction.model.forward(prediction.text, taps=[seen], hidden=False)
    flow = np.eye(prediction.text.ids.shape[1])
    for site in prediction.model.sites:
        maps = seen.maps[site][0][0].double().mean(0).numpy()
        flow = (maps + np.eye(len(maps))) / 2 @ flow
    found = attribute_prediction(prediction, target, "attention-rollout", by="piece")
    expected = [
        0 if unit.fixed else flow[prediction.position, unit.pieces[0]] for unit in found.units
    ]
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)


# --- captum by hand -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", mostly(["mini:bert", "mini:gpt", "mini:t5"], "mini:bert", "mini:t5")
)
def test_scores_are_captums_by_hand(name: str) -> None:
    prediction, target = explained(name)
    for method, by_hand in FUNCTIONS.items():
        expected = by_hand(prediction, target)
        found = attribute_prediction(prediction, target, method, max_steps=16)  # type: ignore[arg-type]
        np.testing.assert_allclose(found.scores[: len(expected)], expected, atol=1e-5, rtol=1e-5)


# --- every family ---------------------------------------------------------------------------------


# one of each kind of refusal, and of each kind of model
@pytest.mark.parametrize(
    "name", mostly(NAMES, "mini:bert", "mini:elmo", "bart-3-2", "xlnet", "openai-gpt")
)
def test_every_method_runs_or_is_refused_in_one_sentence(name: str) -> None:
    prediction, target = explained(name)
    for method in METHODS:
        found = outcome(prediction, target, method)
        assert found == ("refused" if method in REFUSALS.get(name, ()) else "runs"), method


def test_one_piece_less_than_the_maximum_fits_into_memory() -> None:
    model = model_of("bert")
    words = ["the"] * 600
    from spacy.tokens import Doc

    long = Doc(doc().vocab, words=words)
    prediction = of_word(model, long, 1)
    found = attribute_prediction(prediction, Target(5), max_steps=16)
    assert sum(len(unit.pieces) for unit in found.units) == model.max_pieces
    assert np.isfinite(found.scores).all()


def test_unknown_methods_are_errors() -> None:
    prediction, target = explained("mini:bert")
    with pytest.raises(wb.WorkbenchError, match="method"):
        attribute_prediction(prediction, target, "lime")  # type: ignore[arg-type]
    assert set(LAYER_METHODS) < set(METHODS)


def test_the_table_of_families_in_the_docs_is_this_one() -> None:
    page = Path(__file__).parents[3] / "docs" / "decisions" / "attribution.md"
    assert table() in page.read_text("utf-8")
