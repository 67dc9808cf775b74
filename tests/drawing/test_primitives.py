"""Names of curves stand at their ends, and cells that are not significant are grey."""

import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench.drawing.primitives import (
    curve,
    ends,
    head_grid,
    heat_map,
    heat_maps,
    level,
    multiples,
    panels,
    plot,
    sign,
    spaced,
)
from workbench.drawing.theme import BASELINE, MODEL, SERIES


def line(name: str | None, last: float, colour: str | None = None) -> go.Scatter:
    return curve([0, 1], [0.0, last], "", name, colour=colour)


def labels(figure: go.Figure) -> dict[str, float]:
    return {each.text: each.y for each in figure.layout.annotations if each.xanchor == "left"}


def test_up_to_five_curves_have_their_names_at_their_ends() -> None:
    figure = plot([line(f"curve {n}", n / 5, MODEL) for n in range(5)], 400)
    assert labels(figure) == {f"curve {n}": n / 5 for n in range(5)}
    assert figure.layout.showlegend is False and figure.layout.margin.r > 50
    assert figure.layout.annotations[0].font.color == MODEL


def test_a_curve_without_a_colour_gets_one() -> None:
    figure = plot([line("a", 1), line("b", 2)], 400)
    assert [trace.line.color for trace in figure.data] == [*SERIES[:2]]


@pytest.mark.parametrize(
    "more",
    [
        [line(f"curve {n}", n) for n in range(5)],
        [sign("seed 1", line={"dash": "dot"})],
        [go.Bar(x=[1], y=[1], name="bars")],
        [curve([1, 2], ["a", "b"], "", "names")],
    ],
)
def test_other_figures_have_a_legend(more: list[go.Scatter]) -> None:
    figure = plot([line("a", 1), *more], 400)
    assert not labels(figure) and figure.layout.showlegend is None


def test_names_do_not_overlap() -> None:
    figure = plot([line("a", 1.0), line("b", 1.0), line("much\nlonger " * 4, 1.0)], 400)
    shifts = sorted(each.yshift for each in figure.layout.annotations)
    assert shifts[1] - shifts[0] >= 15 and shifts[2] - shifts[1] >= 15


def test_spaced_moves_labels_as_little_as_needed() -> None:
    assert spaced([50, 100], [10, 10], 200) == [50, 100]
    assert spaced([50, 50], [10, 10], 200) == [45, 55]
    assert spaced([50, 48, 52], [10, 10, 10], 200) == [50, 40, 60]
    assert spaced([0, 0], [10, 10], 200) == [5, 15]  # inside the panel
    assert spaced([200], [10], 200) == [195]


def test_panels_have_the_names_once() -> None:
    figure = panels([(task, [line("task", 1), line("control", 2)]) for task in "abcd"], 190, 2)
    named = [each for each in figure.layout.annotations if each.xanchor == "left"]
    assert [(each.text, each.yref) for each in named] == [("task", "y2"), ("control", "y2")]


def test_multiples_share_scales_and_repeat_the_references() -> None:
    reference = level([0, 1], 0.5, "", "majority", 1, colour=BASELINE)
    figure = multiples([(task, [line(None, 1)]) for task in "abcde"], [reference])
    assert [trace.name for trace in figure.data].count("majority") == 5
    assert [axis.matches for axis in figure.select_yaxes()][1:5] == ["y"] * 4
    assert labels(figure) == {"majority": 0.5}


WIDE = pd.DataFrame([[0.1, 0.9], [0.8, None]])


def test_cells_that_are_not_significant_are_grey() -> None:
    grey, coloured = heat_maps(WIDE, WIDE > 0.5, "%{z}", zmin=0, zmax=1)
    assert coloured.z[0, 1] == 0.9 and coloured.z[1, 0] == 0.8 and pd.isna(coloured.z[0, 0])
    assert grey.z[0, 0] == 0.1 and pd.isna(grey.z[0, 1])
    assert grey.zmax < 0 and not grey.showscale  # the scale of negative numbers is grey
    assert grey.hovertemplate == coloured.hovertemplate


def test_a_grid_of_heads_paints_heads_that_are_not_significant_grey() -> None:
    heads = pd.DataFrame([("encoder", "self", 0, head) for head in range(3)])
    heads.columns = pd.Index(["stack", "kind", "layer", "head"])
    values = pd.Series([0.1, 0.2, 0.9])
    grey, coloured = head_grid(heads, values, significant=values > 0.5, **ends(values)).data
    assert grey.z[0, 0] == 0.1 and coloured.z[0, 2] == 0.9


def test_one_scale_for_two_maps() -> None:
    assert ends([pd.Series([0.1]), pd.Series([0.4])]) == {"zmin": 0.0, "zmax": 0.4}
    assert ends([pd.Series([0.1]), pd.Series([-0.4])]) == {"zmin": -0.4, "zmax": 0.4}


def test_cells_have_text_only_if_it_fits() -> None:
    few, many = (pd.DataFrame([range(count)]) for count in (12, 40))
    assert heat_map(few, form="%{z:.2f}").texttemplate
    assert not heat_map(many, form="%{z:.2f}").texttemplate
    assert not heat_map(few, form="%{z:.2f}", width=300).texttemplate
