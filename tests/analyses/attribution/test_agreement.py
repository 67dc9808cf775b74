"""The method that is shown at first never contradicts what hiding a word does."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.analyses.predictions.known import KEY, planted
from tests.minis import shared
from tests.night import mostly
from workbench.analyses.attribution.agreement import (
    Compared,
    agreement,
    compared,
    headline,
    pair,
    top_unit,
)
from workbench.analyses.attribution.faithfulness import Erasure, Faithfulness
from workbench.analyses.attribution.methods import Attribution, attribute_prediction
from workbench.analyses.predictions.edits import token_effects
from workbench.analyses.predictions.explained import prediction_of
from workbench.analyses.predictions.prediction import Prediction, of_word
from workbench.analyses.predictions.target import Target
from workbench.core.errors import WorkbenchError

Verdict = Any  # of a check that is written by hand


def probability(prediction: Prediction) -> Target:
    return Target(int(prediction.logits()[0].detach().argmax()), measure="probability")


def of_key(text: str) -> tuple[Prediction, Target]:
    """The prediction of the planted model, whose hidden word is the only token that it reads."""
    prediction, _ = prediction_of(planted(), text)
    row = prediction.model.vocabulary[KEY]
    return prediction, Target(row, measure="probability")


@cache
def model_of(name: str) -> wb.Model:
    return shared(name)


MINIS = ("mini:bert", "mini:gpt", "mini:t5", "mini:elmo")


@pytest.mark.parametrize(
    ("name", "by"),
    mostly(
        [(name, by) for name in MINIS for by in ("word", "piece")],
        ("mini:bert", "piece"), ("mini:gpt", "word"), ("mini:elmo", "word"),
    ),
)  # fmt: skip
def test_leave_one_out_is_what_hiding_each_word_does(name: str, by: Any) -> None:
    for doc in wb.read("primer").docs("test", limit=1):
        prediction = of_word(model_of(name), doc, max(2, len(doc) - 3))
        target = probability(prediction)
        found = attribute_prediction(prediction, target, "leave-one-out", by=by)
        edit = "delete" if name == "mini:elmo" else "hide"
        effects = token_effects(prediction, edit, choice=target.choice)
        changes = {effect.word: effect.change for effect in effects.effects}
        pieces = prediction.inputs[found.units[0].stack].words[0].tolist()
        for unit, score in zip(found.units, found.scores, strict=True):
            is_whole = unit.word in changes and pieces.count(unit.word) == len(unit.pieces)
            if is_whole and not unit.fixed and unit.stack == found.units[0].stack:
                assert score == pytest.approx(-changes[unit.word], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("mini:bert", 1), *(pytest.param(name, 3, marks=pytest.mark.slow) for name in MINIS)],
)
def test_the_word_that_is_named_first_is_the_one_whose_hiding_changes_most(
    name: str, limit: int
) -> None:
    for doc in wb.read("primer").docs("test", limit=limit):
        prediction = of_word(model_of(name), doc, max(2, len(doc) - 3))
        target = probability(prediction)
        found = compared(prediction, target)
        edit = "delete" if name == "mini:elmo" else "hide"
        effects = token_effects(prediction, edit, choice=target.choice).effects
        most = max(effects, key=lambda effect: abs(effect.change))
        assert abs(most.change) > 0.01  # else nothing is named
        assert found.chosen.units[top_unit(found.chosen)].word == most.word
        assert f"“{most.text}” matters most" in headline(found.first)


def test_the_planted_word_is_named_by_all_methods() -> None:
    found = compared(*of_key(f"Ben {KEY} walks [MASK] to"))
    assert [each.units[top_unit(each)].text for each in found.maps] == [KEY] * 5
    assert headline(found.first).startswith(f"“{KEY}” matters most: without it, the probability")
    others = [
        s for u, s in zip(found.first.units, found.first.scores, strict=True) if u.text != KEY
    ]
    assert np.abs(others).max() < 1e-6
    assert agreement(found).startswith("Leave-one-out, ") and "name it first" in agreement(found)
    assert "by other methods" not in agreement(found)


def test_words_that_stand_in_for_each_other_are_found_by_pairs() -> None:
    """One of two copies can be missed: only without both the prediction changes much."""
    prediction, target = of_key(f"Ben {KEY} walks [MASK] to {KEY}")
    single = attribute_prediction(prediction, target, "leave-one-out")
    both = attribute_prediction(prediction, target, "leave-two-out")
    keys = [n for n, unit in enumerate(both.units) if unit.text == KEY]
    without = attribute_prediction(*of_key("Ben to walks [MASK] to to"), "leave-one-out").value
    assert both.without_two is not None
    assert both.without_two[keys[0], keys[1]] == pytest.approx(both.value - without, abs=1e-6)
    assert both.without_two[keys[0], keys[1]] > 1.2 * single.scores[keys].sum()
    assert set(np.argsort(-both.scores)[:2]) == set(keys)
    sentence = pair(compared(prediction, target))
    assert sentence.count(f"“{KEY}”") >= 2 and "change more together" in sentence


# --- which one is shown ---------------------------------------------------------------------------


def check(method: str, verdict: Verdict, gain: float = 0.0, p: float = 0.01) -> Faithfulness:
    nothing = Erasure(np.zeros(1), np.zeros(1))
    return Faithfulness(method, 5, gain, 0.0, nothing, p, verdict)


def by_hand(scores: dict[str, list[float]], verdicts: dict[str, Verdict]) -> Compared:
    """Maps of the same text whose scores are given, and their verdicts."""
    prediction, target = of_key(f"Ben {KEY} walks [MASK] to")
    first = attribute_prediction(prediction, target, "leave-one-out")
    free = [n for n, unit in enumerate(first.units) if not unit.fixed]

    def made(method: Any) -> Attribution:
        whole = np.zeros(len(first.units))
        whole[free] = scores[method]
        return replace(first, method=method, scores=whole)

    checks = tuple(check(method, verdicts[method], 0.1) for method in scores)
    return Compared(tuple(map(made, scores)), checks)


AGREES, DIFFERS = [0.1, 0.9, 0.2, 0.1], [0.9, 0.1, 0.2, 0.1]
IG = "integrated-gradients"


def test_the_most_faithful_map_is_shown_unless_it_names_another_word() -> None:
    def of(first: list[float], other: list[float], verdicts: tuple[str, str]) -> Compared:
        names = ("leave-one-out", IG)
        scores = dict(zip(names, (first, other), strict=True))
        return by_hand(scores, dict(zip(names, verdicts, strict=True)))

    shown = {
        "faithful": of(AGREES, AGREES, ("yes", "yes")),
        "same word": of(AGREES, AGREES, ("no", "yes")),
        "another": of(AGREES, DIFFERS, ("no", "yes")),
        "none": of(AGREES, AGREES, ("no", "no")),
        "no word": of([0.0] * 4, DIFFERS, ("no", "yes")),
    }
    assert {name: found.chosen.method for name, found in shown.items()} == {
        "faithful": "leave-one-out",
        "same word": IG,
        "another": "leave-one-out",
        "none": "leave-one-out",
        "no word": IG,
    }
    assert "first by other methods: “Ben” by integrated-gradients" in agreement(shown["another"])
    assert "Faithful for several words at once: integrated-gradients" in agreement(shown["another"])
    assert headline(shown["no word"].first).startswith("No single word matters")


def test_pairs_of_a_long_text_and_of_a_single_word_are_refused() -> None:
    model = model_of("mini:gpt")
    with pytest.raises(WorkbenchError, match="too many") as caught:
        wb.attribute(model, "Ben walks " * 30, method="leave-two-out")
    assert "leave-one-out" in str(caught.value.remedy)
    with pytest.raises(WorkbenchError, match="empty") as caught:
        wb.attribute(model, "Ben", method="leave-one-out")
    assert caught.value.code == "text-empty"


@pytest.mark.parametrize("name", mostly(["mini:bert", "mini:gpt"], "mini:bert"))
def test_python_chooses_as_the_page_does(name: str) -> None:
    model, text = model_of(name), "The girls did not walk because they ___ tall."
    found = wb.attribute(model, text)
    shown = compared(found.prediction, probability(found.prediction))
    assert found.method == shown.chosen.method and found.target.measure == "probability"
    np.testing.assert_allclose(found.scores, shown.chosen.scores, atol=1e-6)
    check = shown.checks[shown.maps.index(shown.chosen)]
    assert found.faithfulness.verdict == check.verdict
    assert found.faithfulness.gain == pytest.approx(check.gain, abs=1e-6)


def test_a_long_text_is_explained_by_leave_one_out_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.analyses.attribution.agreement.LONG", 3)
    found = wb.attribute(model_of("mini:bert"), "Ben [MASK] to the hill.")
    assert found.method == "leave-one-out"
