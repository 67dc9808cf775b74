"""`wb.attribute`: the prediction it finds, the targets it understands, and what it says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.minis import shared
from tests.night import mostly
from workbench.analyses.attribution.figures.one_prediction import attribution_map
from workbench.analyses.predictions.explained import choice_of, prediction_of
from workbench.analyses.predictions.target import units_of
from workbench.core.errors import WorkbenchError


def mini(name: str) -> Any:
    return shared(f"mini:{name}")


@pytest.mark.parametrize("name", mostly(["bert", "gpt", "t5", "elmo"], "bert", "t5"))
def test_the_default_target_is_the_first_choice(name: str) -> None:
    found = wb.attribute(mini(name), "Ben walks to ___ hill.", method="gradient-x-input")
    with torch.no_grad():
        assert found.target.choice == int(found.prediction.logits()[0].argmax())
    assert found.label in repr(found)
    assert len(found.table) == len(found.units)


@pytest.mark.parametrize(
    ("name", "text", "word", "shown"),
    [
        ("bert", "Ben ___ to the hill.", "walks", "walks"),
        ("gpt", "Ben walks to the", "hill", "▁hill"),
        ("gpt", "Ben walks to the", "▁hill", "▁hill"),
        ("gpt", "Ben walks to the", " hill", "▁hill"),
        ("t5", "Ben ___ to the hill.", "walk", "▁walk"),
        ("elmo", "Ben ___ to the hill.", "walks", "walks"),
    ],
)
def test_a_target_is_one_piece_at_the_beginning_of_a_word(
    name: str, text: str, word: str, shown: str
) -> None:
    prediction, _ = prediction_of(mini(name), text)
    assert prediction.names([choice_of(prediction, word)]) == (shown,)


def test_a_target_of_several_pieces_is_an_error_that_names_them() -> None:
    with pytest.raises(WorkbenchError) as raised:
        wb.attribute(mini("bert"), "Ben ___ to the hill.", "walkingly")
    assert raised.value.code == "target-unknown"
    assert "walking + ##ly" in str(raised.value) and "most probable" in str(raised.value)


def test_a_contrast_is_the_difference_of_two_attributions() -> None:
    model, text = mini("bert"), "Ben ___ to the hill."
    one, other = (wb.attribute(model, text, word, "gradient-x-input") for word in ("walks", "runs"))
    both = wb.attribute(model, text, "walks", "gradient-x-input", against="runs")
    np.testing.assert_allclose(both.scores, one.scores - other.scores, atol=1e-5)
    assert both.label == "'walks' rather than 'runs'"
    with pytest.raises(WorkbenchError, match="same"):
        wb.attribute(model, text, "walks", against="walks")


@pytest.mark.parametrize("name", mostly(["gpt", "t5", "elmo"], "t5"))
def test_a_written_piece_is_explained_by_the_text_and_the_pieces_before_it(name: str) -> None:
    model, text = mini(name), "Ben walks to the"
    steps = wb.generate(model, text, 3).steps
    found = wb.attribute(model, text, method="gradient-x-input", position=3)
    assert found.target.choice == steps[2].index
    assert abs(found.scores).sum() > 0
    read = [piece for unit in found.units for piece in unit.pieces]
    first = wb.attribute(model, text, method="gradient-x-input")
    assert len(read) == sum(len(unit.pieces) for unit in first.units) + 2


def test_each_of_three_hidden_words_is_explained() -> None:
    model, text = mini("bert"), "[MASK] walks to [MASK] [MASK]."
    positions = {
        wb.attribute(model, text, method="occlusion", position=n).prediction.position
        for n in (1, 2, 3)
    }
    assert len(positions) == 3
    with pytest.raises(WorkbenchError, match="position"):
        wb.attribute(model, text, position=4)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("bert", "Ben walks.", "marker-missing"),
        ("bert", "[MASK]", "text-empty"),
        ("bert", " ", "text-empty"),
        ("t5", "___", "text-empty"),
        ("elmo", "___", "text-empty"),
        ("gpt", "___", "model-unsupported"),
    ],
)
def test_what_cannot_be_explained_says_why(name: str, text: str, code: str) -> None:
    with pytest.raises(WorkbenchError) as raised:
        wb.attribute(mini(name), text)
    assert raised.value.code == code and raised.value.remedy


def test_one_token_gets_the_whole_change() -> None:
    found = wb.attribute(mini("gpt"), "Ben", method="integrated-gradients", measure="logit")
    assert found.baseline_value is not None
    assert found.scores.sum() == pytest.approx(found.value - found.baseline_value, abs=1e-2)


def test_segments_cover_the_text_once() -> None:
    text = "Ben walks home.\n\nAnn sees a dog.\n\nThen she"
    for segments in (None, ["Ann sees", (0, 9)]):
        prediction, _ = prediction_of(mini("gpt"), text)
        units = units_of(prediction, "segment", segments)
        pieces = sorted(piece for unit in units for piece in unit.pieces)
        assert pieces == list(range(prediction.text.ids.shape[1]))
    assert len(units_of(prediction, "segment")) == 3
    with pytest.raises(WorkbenchError, match="segment"):
        wb.attribute(mini("gpt"), text, by="segment", segments=["a cat"])
    with pytest.raises(WorkbenchError, match="share"):
        wb.attribute(mini("gpt"), text, by="segment", segments=["Ben walks", "walks home"])


def test_sums_of_pieces_are_the_scores_of_words_and_segments() -> None:
    model, text = mini("bert"), "Ben ___ home. Ann sees a dog."
    totals = [
        wb.attribute(model, text, method="integrated-gradients", by=by).scores.sum()
        for by in ("piece", "word", "segment")
    ]
    np.testing.assert_allclose(totals, totals[0], atol=1e-6)


def test_faithfulness_and_figure() -> None:
    found = wb.attribute(mini("bert"), "Ben ___ to the hill.")
    assert found.faithfulness.verdict in ("yes", "no", "undecided")
    figure = attribution_map(found.table, found.label)
    assert list(figure.data[0].x) == found.table.query("not fixed")["score"].tolist()
    assert "speaks most" in figure.layout.title.text


def test_layers_are_a_table() -> None:
    found = wb.attribute(mini("t5"), "Ben ___ to the hill.", method="head-conductance", max_steps=8)
    table = found.layer_table
    assert set(table["stack"]) == {"encoder", "decoder"}
    assert {"layer", "head", "unit", "score"} <= set(table)


def test_small_scores_are_printed_with_three_significant_digits() -> None:
    found = wb.attribute(mini("gpt"), "The girls", "tall", method="gradient-x-input")
    found = replace(found, scores=np.array([0.000123, -0.0000456]), value=0.00098)
    assert "probability 0.00098" in repr(found)
    assert "+0.000123" in repr(found) and "-0.000046" in repr(found)
