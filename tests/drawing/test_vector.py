"""The second renderer draws what the first draws: known figures, pixel by pixel."""

import io
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from workbench.core.errors import WorkbenchError
from workbench.drawing import shapes as shapes_module
from workbench.drawing.layout import Box, scene, with_filled_shares
from workbench.drawing.primitives import bars, curve, head_grid, level, panels, plot
from workbench.drawing.sanitize import harmless
from workbench.drawing.shapes import Disc, Shape, Words, text_width
from workbench.drawing.theme import BASELINE, MODEL
from workbench.drawing.vector import FORMATS, colours, inline_svg, page_style, picture

HOSTILE = "<script>alert(1)</script>&\"'"


def plain(*traces: Any, **layout: Any) -> dict[str, Any]:
    return harmless(go.Figure([*traces], layout))


def shapes(figure: dict[str, Any], fill: str) -> list[Box]:
    """The bounding boxes of the shapes of one colour."""
    found = []
    for each in scene(figure).elements:
        if isinstance(each, Shape) and each.look.fill == fill:
            x, y = zip(*(point for path in each.paths for point in path), strict=True)
            found.append(Box(min(x), min(y), max(x), max(y)))
    return found


def words(figure: dict[str, Any], width: float = 760) -> dict[str, Words]:
    return {
        " ".join(line.text for line in each.lines): each
        for each in scene(figure, width).elements
        if isinstance(each, Words)
    }


def discs(figure: dict[str, Any]) -> list[Disc]:
    return [each for each in scene(figure).elements if isinstance(each, Disc)]


def test_a_bar_is_as_long_as_its_value() -> None:
    figure = plain(bars([1, 2, 4], ["a", "b", "c"], "", colour="#123456"), xaxis={"range": [0, 4]})
    short, middle, long = shapes(figure, "#123456")
    assert middle.width == pytest.approx(2 * short.width)
    assert long.width == pytest.approx(4 * short.width)
    assert short.height == long.height == pytest.approx(0.75 * (short.top - middle.top))
    assert short.top > middle.top > long.top  # the first name is the lowest


def test_a_bar_stands_on_zero_at_its_place() -> None:
    trace = bars([0.25], ["a"], "", colour="#123456", upright=True)
    figure = plain(trace, height=340, yaxis={"range": [0, 1]}, margin={"t": 40, "b": 60})
    ((bar,), text) = shapes(figure, "#123456"), words(figure)
    assert bar.height == pytest.approx(0.25 * 240)  # of 340 without the margins
    assert bar.bottom == pytest.approx(text["0.0"].y)
    assert bar.bottom - text["1.0"].y == pytest.approx(240)
    assert (bar.left + bar.right) / 2 == pytest.approx(text["a"].x)


def test_bars_in_groups_and_in_stacks() -> None:
    traces = [bars([1, 2], ["a", "b"], "", colour=c, upright=True) for c in ("#111111", "#222222")]
    grouped, stacked = (plain(*traces, barmode=mode) for mode in ("group", "stack"))
    (one, _), (two, _) = (shapes(grouped, colour) for colour in ("#111111", "#222222"))
    assert one.right == pytest.approx(two.left) and one.bottom == two.bottom
    (one, _), (two, _) = (shapes(stacked, colour) for colour in ("#111111", "#222222"))
    assert one.left == two.left and one.top == pytest.approx(two.bottom)


def test_the_text_of_an_empty_part_stands_after_the_stack() -> None:
    text = bars([0], ["a"], "", text=["all"], textposition="outside")
    figure = plain(bars([4], ["a"], "", colour="#123456"), text, barmode="stack")
    (bar,) = shapes(figure, "#123456")
    assert words(figure)["all"].x > bar.right


@pytest.mark.parametrize("top", [0.3, 0.45, 0.64, 0.9, 1.7])
def test_a_short_colour_bar_has_several_labels(top: float) -> None:
    cells = go.Heatmap(z=[[0.0, top]], zmin=-top, zmax=top, colorbar={"tickformat": ".0%"})
    labels = [text for text in words(plain(cells, height=186)) if text.endswith("%")]
    assert 3 <= len(labels) <= 5 and "0%" in labels


@pytest.mark.parametrize("title", ["share", "share<br>of heads<br>in a layer"])
def test_the_title_of_a_colour_bar_is_inside_the_picture(title: str) -> None:
    image = pytest.importorskip("matplotlib.image")
    cells = go.Heatmap(z=[[0.0, 1.0]], colorbar={"title": {"text": title}})
    pixels = image.imread(io.BytesIO(picture(plain(cells), "png")))
    assert pixels[:3].min() == 1  # white


def test_a_mark_is_at_its_values() -> None:
    figure = plain(
        go.Scatter(x=[0, 5, 10], y=[100, 150, 200], mode="markers"),
        xaxis={"range": [0, 10]},
        yaxis={"range": [100, 200], "dtick": 50},
    )
    first, middle, last = discs(figure)
    text = words(figure)
    assert (first.x + last.x) / 2 == pytest.approx(middle.x)
    assert [first.y, middle.y, last.y] == [text[label].y for label in ("100", "150", "200")]
    assert [first.x, last.x] == [text[label].x for label in ("0", "10")]


def test_a_logarithmic_axis_and_a_reversed_one() -> None:
    marks = go.Scatter(x=[1, 10, 100], y=[1, 2, 3], mode="markers")
    low, middle, high = discs(plain(marks, xaxis={"type": "log"}, yaxis={"autorange": "reversed"}))
    assert middle.x - low.x == pytest.approx(high.x - middle.x)
    assert low.y < middle.y < high.y


def test_a_missing_value_breaks_the_line() -> None:
    figure = plain(curve([0, 1, 2, 3, 4], [1, 2, None, 2, 1], "", colour="#123456"))
    (line,) = [
        e for e in scene(figure).elements if isinstance(e, Shape) and e.look.line == "#123456"
    ]
    assert [len(path) for path in line.paths] == [2, 2]


def test_a_line_ends_at_the_range() -> None:
    trace = go.Scatter(x=[0, 2], y=[0, 2], mode="lines", line={"color": "#123456"})
    figure = plain(trace, xaxis={"range": [0, 1]}, yaxis={"range": [0, 2]})
    (line,) = [
        e for e in scene(figure).elements if isinstance(e, Shape) and e.look.line == "#123456"
    ]
    (start, end) = line.paths[0]
    top = words(figure)["2.0"].y
    assert (start[1] + top) / 2 == pytest.approx(end[1], abs=1)


def test_an_axis_has_room_for_a_reference_line() -> None:
    marks = go.Scatter(x=[5, 6], y=[0, 1], mode="markers")
    figure = harmless(go.Figure([marks]).add_vline(x=1, line={"color": "#123456"}))
    assert "1" in words(figure)
    (line,) = [
        e for e in scene(figure).elements if isinstance(e, Shape) and e.look.line == "#123456"
    ]
    assert line.paths[0][0][0] == pytest.approx(words(figure)["1"].x)


def test_error_bars_are_asymmetric() -> None:
    error = {
        "type": "data",
        "symmetric": False,
        "array": [2],
        "arrayminus": [1],
        "color": "#654321",
    }
    trace = go.Scatter(x=[1], y=[5], mode="markers", error_y=error)
    figure = plain(trace, yaxis={"range": [0, 10]})
    (bar,) = [
        e for e in scene(figure).elements if isinstance(e, Shape) and e.look.line == "#654321"
    ]
    (mark,) = discs(figure)
    (_, low), (_, high) = bar.paths[0]
    assert mark.y - high == pytest.approx(2 * (low - mark.y))


def test_cells_have_steps_of_the_scale_of_the_page() -> None:
    cells = go.Heatmap(z=[[0, 1], [0.5, None]], zmin=0, zmax=1, autocolorscale=True)
    (low,), (high,), (half,) = (shapes(plain(cells), f"seq-{n:02d}")[:1] for n in (0, 31, 16))
    assert low.left < high.left and low.top > half.top  # the first row is the lowest
    around = go.Heatmap(z=[[-1, 1]], autocolorscale=True, showscale=False)
    assert shapes(plain(around), "div-00") and shapes(plain(around), "div-31")


def test_heads_that_are_not_significant_are_grey() -> None:
    heads = pd.DataFrame([("encoder", "self", 0, head) for head in range(3)])
    heads.columns = pd.Index(["stack", "kind", "layer", "head"])
    values = pd.Series([0.1, 0.2, 0.9])
    figure = harmless(head_grid(heads, values, significant=values > 0.5, zmin=0, zmax=1))
    assert len(shapes(figure, "grey-cell")) == 2


def test_hover_texts() -> None:
    line = curve([1, 2], [0.5, 0.25], "layer %{x}: %{y:.0%} (%{text})", text=["a", "b"])
    assert [disc.tip for disc in discs(plain(line))] == ["layer 1: 50 % (a)", "layer 2: 25 % (b)"]
    cells = go.Heatmap(
        z=[[0.1234]], x=["x1"], y=["y1"], customdata=[[7]],
        hovertemplate="%{y} to %{x}: %{z:.1%} of %{customdata:,}<extra></extra>",
    )  # fmt: skip
    assert 'data-tip="y1 to x1: 12.3 % of 7"' in inline_svg(plain(cells))
    texts = [with_filled_shares(harmless(go.Figure(each))["data"][0]) for each in (line, cells)]
    assert texts[0]["hovertemplate"][1] == "layer %{x}: 25 % (%{text})<extra></extra>"
    assert (
        texts[1]["hovertemplate"] == "%{y} to %{x}: %{hovertext} of %{customdata:,}<extra></extra>"
    )
    assert texts[1]["hovertext"] == [["12.3 %"]]


def test_names_of_curves_are_at_their_ends() -> None:
    ends = level([0, 1], 0.25, "", "majority", 1, colour=BASELINE)
    figure = harmless(plot([curve([0, 1], [0, 1], "", "model", colour=MODEL), ends], 400))
    text = words(figure)
    assert text["model"].colour == "model" and text["majority"].colour == "baseline"
    assert text["model"].y < text["majority"].y and text["model"].across == "start"


def test_a_legend_has_the_marks_of_the_figure() -> None:
    traces = [bars([1, 2], ["a", "b"], "", name, colour="#123456") for name in ("one", "two")]
    figure = plain(*traces)
    assert {"one", "two"} <= set(words(figure)) and len(shapes(figure, "#123456")) == 6


def test_a_figure_with_a_menu_shows_its_choice() -> None:
    one, two = (go.Scatter(x=[1], y=[1], visible=shown) for shown in (True, False))
    menu = {"buttons": [{"label": "first", "method": "update"}, {"label": "second"}]}
    figure = plain(one, two, updatemenus=[menu])
    assert len(discs(figure)) == 1 and "first" in words(figure) and "second" not in words(figure)


def test_a_narrow_figure_has_two_panels_in_a_row() -> None:
    parts = [(name, [curve([0, 1], [0, 1], "")]) for name in "abc"]
    figure = harmless(panels(parts, 200, 3))
    wide, narrow = words(figure), words(figure, 380)
    assert wide["a"].y == wide["b"].y == wide["c"].y
    assert narrow["a"].y == narrow["b"].y < narrow["c"].y and narrow["a"].x == narrow["c"].x


def test_names_on_the_axis_stay_inside() -> None:
    long = "a name of forty characters, more or less"
    figure = plain(bars([1], [long], ""))
    assert "\n" not in long and scene(figure).width == 760
    assert any(text.startswith("a name") for text in words(figure, 380))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("columns", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_the_same_picture_twice_has_the_same_bytes(kind: Any, columns: int) -> None:
    figure = plain(bars([1], ["a"], "%{x}"))
    one, two = (picture(figure, kind, title="Claim.", columns=columns) for _ in range(2))
    assert one == two and one[:4] in (b"\x89PNG", b"%PDF", b"<?xm")
    assert b"2026" not in one[:2000] and b"Date" not in one


def test_a_picture_does_not_change_what_is_drawn_next() -> None:
    given = plain(bars([1, 2], ["a long name", "another → one"], "", name="all"))
    text_width.cache_clear()
    shapes_module._ascii_width.cache_clear()
    before = inline_svg(given)
    picture(given, "pdf")
    text_width.cache_clear()
    shapes_module._ascii_width.cache_clear()
    assert inline_svg(given) == before


def test_a_picture_is_as_wide_as_the_columns_of_a_paper() -> None:
    widths = []
    for columns in (1, 2):
        svg = picture(plain(bars([1], ["a"], "")), "svg", columns=columns).decode()
        widths.append(float(re.search(r'width="([\d.]+)pt"', svg)[1]))  # type: ignore[index]
    assert widths == pytest.approx([8.5 / 2.54 * 72, 17 / 2.54 * 72], abs=0.1)


def test_a_picture_shows_title_and_bar() -> None:
    image = pytest.importorskip("matplotlib.image")
    figure = plain(bars([1, 1], ["a", "b"], "", colour="#ff0000"), xaxis={"range": [0, 1]})
    pixels = image.imread(io.BytesIO(picture(figure, "png", title="A claim.")))[..., :3]
    red = (pixels == np.array([1.0, 0.0, 0.0])).all(axis=-1)
    rows = np.flatnonzero(red.any(axis=1))
    assert red.mean() > 0.3 and pixels[: rows[0] - 20].min() < 0.5  # a title above the bars
    assert b"A claim." in picture(figure, "svg", title="`A` claim.")


def test_data_is_escaped() -> None:
    trace = curve([0, 1], [0, 1], "%{customdata}", HOSTILE, customdata=[HOSTILE] * 2)
    figure = harmless(
        plot([trace, bars([1], [HOSTILE], "%{y}")], 300, {"title": "x"}, {"type": "category"})
    )
    svg = inline_svg(figure)
    assert "<script" not in svg and "&lt;script&gt;" in svg
    tips = [each.get("data-tip") for each in ElementTree.fromstring(svg).iter()]
    assert HOSTILE in tips
    ElementTree.fromstring(picture(figure, "svg", title=HOSTILE))


def test_control_characters_and_text_from_right_to_left() -> None:
    trace = bars([1, 2], ["a\x00\u202eb", "שלום"], "%{y}")
    svg = inline_svg(harmless(plot([trace], 300)))
    assert "\x00" not in svg and "\u202e" not in svg and "⟨U+202E⟩" in svg
    assert "\u2068שלום\u2069" in svg and svg.count("\u2068") == svg.count("\u2069")
    ElementTree.fromstring(svg)
    assert picture(harmless(plot([trace], 300)), "png")


@pytest.mark.parametrize("draw", [inline_svg, lambda figure: picture(figure, "svg")])
def test_an_unknown_trace_raises_with_a_remedy(draw: Any) -> None:
    with pytest.raises(WorkbenchError, match="indicator") as caught:
        draw(plain(go.Indicator(value=1)))
    assert "scatter" in caught.value.remedy


@pytest.mark.parametrize("wrong", [{"kind": "gif"}, {"kind": "svg", "columns": 3}])
def test_a_wrong_format_or_width_raises(wrong: Any) -> None:
    with pytest.raises(WorkbenchError, match=r"gif|columns"):
        picture(plain(bars([1], ["a"], "")), **wrong)


def test_an_empty_figure_is_drawn() -> None:
    assert "<svg" in inline_svg(plain()) and "<svg" in inline_svg(plain(go.Scatter(x=[], y=[])))
    assert picture(plain(go.Heatmap(z=[])), "pdf")


def test_the_page_gives_the_colours() -> None:
    svg = inline_svg(plain(curve([0, 1], [0, 1], "", colour=MODEL)))
    style = page_style()
    assert f"var(--fig-model,{colours('light')['model']})" in svg
    assert f"--fig-model:{colours('dark')['model']}" in style
    assert "prefers-color-scheme:dark" in style and "@media print" in style
    used = set(re.findall(r"var\((--[\w-]+)", svg))
    assert used <= set(re.findall(r"(--[\w-]+):", style))


def test_figures_of_a_page_are_small() -> None:
    heads = pd.DataFrame(
        [("encoder", "self", layer, head) for layer in range(12) for head in range(12)],
        columns=["stack", "kind", "layer", "head"],
    )
    grid = head_grid(
        heads, pd.Series(np.linspace(0, 1, 144)), form="%{z:.2f}",
        hover="layer %{y}, head %{x}: change of loss %{z:.3f} nats",
    )  # fmt: skip
    assert len(inline_svg(harmless(grid))) < 60_000
    lines = [curve([*range(13)], np.linspace(n, 1, 13), "%{x}: %{y:.1%}", f"{n}") for n in range(4)]
    assert len(inline_svg(harmless(plot(lines, 400)))) < 25_000
