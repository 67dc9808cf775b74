"""Figures of several runs side by side have the same scales."""

import plotly.graph_objects as go
import pytest

from workbench.drawing.axes import axes_of
from workbench.drawing.sanitize import harmless
from workbench.drawing.shapes import shown_traces
from workbench.drawing.shared import on_shared_scales


def plain(figure: go.Figure) -> dict[str, object]:
    return harmless(figure)


def test_axes_have_room_for_the_data_of_all() -> None:
    small = plain(go.Figure(go.Bar(x=[0.1, 0.2], y=["a", "b"], orientation="h")))
    large = plain(go.Figure(go.Bar(x=[-1.0, 3.0], y=["a", "c"], orientation="h")))
    ranges = [each["layout"]["xaxis"]["range"] for each in on_shared_scales([small, large])]
    assert ranges[0] == ranges[1]
    low, high = ranges[0]
    assert low <= -1 and high >= 3


def test_rows_have_the_order_of_the_first() -> None:
    """Each figure may sort its rows by value; a row is at the same place in all."""
    first = plain(go.Figure(go.Bar(x=[3, 2, 1], y=["a", "b", "c"], orientation="h")))
    other = plain(
        go.Figure(go.Bar(x=[9, 8, 7], y=["c", "d", "a"], orientation="h"), {"height": 500})
    )
    both = on_shared_scales([first, other])
    assert [each["layout"]["yaxis"]["categoryarray"] for each in both] == [["a", "b", "c", "d"]] * 2
    assert [each["layout"]["height"] for each in both] == [500, 500]
    places = [axes_of(shown_traces(each), each["layout"])["y"].unit("a") for each in both]
    assert places[0] == places[1]
    unrelated = plain(go.Figure(go.Bar(x=[1], y=["z"], orientation="h")))
    assert all("yaxis" not in each["layout"] for each in on_shared_scales([first, unrelated]))


def test_reversed_axes_stay_reversed() -> None:
    figures = [
        plain(go.Figure(go.Scatter(x=[0, 1], y=[0, top]), {"yaxis": {"autorange": "reversed"}}))
        for top in (2, 5)
    ]
    (high, low), other = (each["layout"]["yaxis"]["range"] for each in on_shared_scales(figures))
    assert high >= 5 > 0 >= low and [high, low] == other


def test_colours_have_the_same_ends() -> None:
    figures = [plain(go.Figure(go.Heatmap(z=[[0.1, top]]))) for top in (0.35, 1.0)]
    ends = [
        (each["data"][0]["zmin"], each["data"][0]["zmax"]) for each in on_shared_scales(figures)
    ]
    assert ends == [(0.1, 1.0)] * 2


def test_the_figures_themselves_do_not_change() -> None:
    figures = [plain(go.Figure(go.Heatmap(z=[[0.1, top]]))) for top in (0.35, 1.0)]
    on_shared_scales(figures)
    assert all("zmin" not in trace for each in figures for trace in each["data"])  # type: ignore[attr-defined]


def test_an_axis_that_one_lacks_stays_its_own() -> None:
    one = plain(go.Figure(go.Scatter(x=[0], y=[1])))
    two = plain(go.Figure([go.Scatter(x=[0], y=[1]), go.Scatter(x=[0], y=[9], yaxis="y2")]))
    _, after = on_shared_scales([two, one])
    assert "yaxis2" not in after["layout"]
    with pytest.raises(Exception, match="pie"):
        on_shared_scales([plain(go.Figure(go.Pie(values=[1])))])
