"""Figures of neighbours and senses: drawn from tables alone, whatever the words are."""

import numpy as np
import pandas as pd
import pytest

from tests.night import mostly
from workbench.analyses.words.figures.neighbours import FIGURES
from workbench.drawing.sanitize import harmless

EVIL = "<img/src=x/onerror=window.evil=1>"


def tables_of(
    stacks: tuple[str, ...] = ("encoder",), layers: int = 3, random: float = 0.2
) -> dict[str, pd.DataFrame]:
    """Tables of a run; the second form and its sense are markup."""
    points = [(stack, layer) for stack in stacks for layer in range(layers)]
    properties = ("form", "lemma", "tag", "relation", "position", "document")
    neighbours = [
        (*point, candidates, name, 0.2 * point[1], 0.1 * point[1], 0.3 * point[1], 0.1, random)
        for point in points
        for candidates in ("all words", "other forms")
        for name in properties
        if name != "form" or candidates == "all words"
    ]
    separation = [
        (*point, measure, 0.3 * point[1], 0.2 * point[1], 0.4 * point[1], 0.1, random)
        for point in points
        for measure in ("v_measure", "accuracy")
    ]
    forms = ("play", EVIL)
    return {
        "neighbours": pd.DataFrame(neighbours, columns=[
            "stack", "layer", "candidates", "property", "share", "lower", "upper", "chance",
            "random",
        ]),
        "separation": pd.DataFrame(separation, columns=[
            "stack", "layer", "measure", "value", "lower", "upper", "chance", "random",
        ]),
        "senses": pd.DataFrame(
            [(form, *point, 0.3 * point[1], 0.5) for form in forms for point in points],
            columns=["form", "stack", "layer", "accuracy", "chance"],
        ),
        "map": pd.DataFrame(
            [(form, stacks[0], 1, n, n, -n, ("NOUN", EVIL)[n % 2], n % 3, f"[{form}] {EVIL}")
             for form in forms for n in range(6)],
            columns=["form", "stack", "layer", "occurrence", "x", "y", "sense", "cluster",
                     "context"],
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    "stacks", mostly([["encoder"], ["encoder", "decoder"]], ["encoder", "decoder"])
)
def test_each_figure_is_drawn_for_one_stack_and_for_two_and_nothing_is_markup(
    name: str, stacks: list[str]
) -> None:
    figure = FIGURES[name](tables_of(tuple(stacks)))
    assert figure.data
    drawn = str(harmless(figure))
    assert "<img" not in drawn and "&amp;lt;" not in drawn  # escaped once


def test_curves_have_their_values_and_grey_lines_of_chance_and_random_weights() -> None:
    figure = FIGURES["shares"](tables_of())
    curves = [trace for trace in figure.data if trace.name]
    assert [trace.name for trace in curves[:3]] == ["the model", "chance", "random weights"]
    np.testing.assert_allclose(curves[0].y, [0, 0.2, 0.4])
    assert [note.text for note in figure.layout.annotations[:3]] == [
        "part of speech", "dependency relation", "lemma",
    ]  # fmt: skip
    without = FIGURES["shares"](tables_of(random=float("nan")))
    assert "random weights" not in {trace.name for trace in without.data}


def test_an_occurrence_has_its_sentence_on_hover_and_a_form_its_own_map() -> None:
    figure = FIGURES["sense_map"](tables_of())
    assert figure.layout.updatemenus[0].buttons[0].label == "play, layer 1"
    first = figure.data[0]
    assert first.visible and not figure.data[-1].visible
    assert all(text.startswith("[play]") for text in first.customdata)
    assert len(set(first.marker.symbol)) > 1  # clusters


def test_tables_without_senses_draw_no_figure_of_senses() -> None:
    tables = {name: table.head(0) for name, table in tables_of().items()}
    for name in FIGURES:
        with pytest.raises(KeyError):
            FIGURES[name](tables)
