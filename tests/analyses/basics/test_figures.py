"""Figures of a corpus: drawn of tables alone, one for each layer there is."""

import pandas as pd
import pytest

from tests.report.making import HOSTILE, description
from workbench.analyses.basics.figures.corpus import FIGURES, LONGEST, MOST
from workbench.drawing.sanitize import harmless

TABLES = description(["the", "dog", *HOSTILE.values()])


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn_of_its_table_alone(name: str) -> None:
    figure = FIGURES[name]({name: TABLES[name]})
    assert figure.data and harmless(figure)["layout"]["height"] > 100


@pytest.mark.parametrize("name", FIGURES)
def test_a_layer_that_is_not_there_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError, match=name):
        FIGURES[name]({other: table for other, table in TABLES.items() if other != name})


@pytest.mark.parametrize("name", FIGURES)
def test_drawing_leaves_the_tables_as_they_are(name: str) -> None:
    table = TABLES[name].copy()
    FIGURES[name]({name: TABLES[name]})
    pd.testing.assert_frame_equal(TABLES[name], table)


@pytest.mark.parametrize("name", FIGURES)
def test_a_table_of_one_row_is_drawn(name: str) -> None:
    assert FIGURES[name]({name: TABLES[name].head(1)}).data


def test_relations_show_the_offset_with_its_sign_and_its_part_of_the_bar() -> None:
    at_offset, others = FIGURES["relations"](TABLES).data
    assert others.text[:2] == ("+1: 100 %", "−2: 50 %")
    assert others.x[0] == 0 and [*at_offset.x + others.x] == [*TABLES["relations"]["count"]]


def test_bars_have_one_height_in_all_panels_of_a_row() -> None:
    figure = FIGURES["tags"]({"tags": description(["a", "b", "c"])["tags"]})
    assert len({axis.range for axis in figure.select_yaxes()}) == 1


def test_a_panel_has_the_most_frequent_and_its_title_says_so() -> None:
    words = [f"word{place}" for place in range(MOST + 1)]
    figure = FIGURES["tags"]({"tags": description(words)["tags"]})
    assert len(figure.data[0].y) == MOST
    assert figure.layout.annotations[0].text == f"upos: the {MOST} most frequent"


def test_data_in_titles_is_no_markup() -> None:
    figure = FIGURES["labels"](TABLES)
    assert "<" not in figure.layout.annotations[1].text


def test_long_names_are_short_on_the_axis_and_whole_on_hovering() -> None:
    word = "x" * 100
    figure = FIGURES["relations"](description([word]))
    assert len(figure.layout.yaxis.ticktext[0]) == LONGEST
    assert figure.data[0].customdata[0] == word
