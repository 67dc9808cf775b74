"""Figures of several runs side by side have the same scales."""

import plotly.graph_objects as go
import pytest

from workbench.figures.sanitize import harmless
from workbench.figures.shared import on_shared_scales


def plain(figure: go.Figure) -> dict[str, object]:
    return harmless(figure)


def test_axes_have_room_for_the_data_of_all() -> None:
    small = plain(go.Figure(go.Bar(x=[0.1, 0.2], y=["a", "b"], orientation="h")))
    large = plain(go.Figure(go.Bar(x=[-1.0, 3.0], y=["a", "c"], orientation="h")))
    ranges = [each["layout"]["xaxis"]["range"] for each in on_shared_scales([small, large])]
    assert ranges[0] == ranges[1]
    low, high = ranges[0]
    assert low <= -1 and high >= 3
    assert all("yaxis" not in each["layout"] for each in on_shared_scales([small, large]))


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
