"""Two sides: in step, and what is between them."""

import re

import pytest
from playwright.sync_api import expect

from tests.analyses.attention.browser.conftest import Show
from tests.analyses.attention.browser.making import Side, World, softmaxed, words

pytestmark = pytest.mark.browser

TOKENS = words(8)


def two(rows: int = 8, why: str = "") -> World:
    return World(
        [
            Side(softmaxed((2, 3), 8, 8), TOKENS, name="before"),
            Side(softmaxed((2, 3), rows, rows, seed=1), words(rows), name="after"),
        ],
        difference={"possible": not why, "why": why},
    )


def test_the_difference_is_one_minus_the_other(show: Show) -> None:
    shown = show(two())
    shown.open(1, 2)
    page = shown.page
    expect(page.locator(".panel")).to_have_count(3)
    one, other = (side.maps[1, 2] for side in shown.world.sides)
    step = float(one.max() + other.max()) / 255
    for i, j in [(0, 0), (3, 5), (6, 1)]:
        message = shown.hover(i, j, panel=2).split("\n")[1:]
        values = [
            float(line.split(": ")[-1].replace("−", "-").replace("≈ ", "")) for line in message
        ]
        expected = [one[i, j], other[i, j], one[i, j] - other[i, j]]
        assert values == pytest.approx(expected, abs=step + 1e-3)
    # Hovered in one panel, marked in all three.
    assert page.locator(".panel .map .pane svg g[pointer-events=none] rect").count() == 6
    shown.click(3, 5, panel=1)
    exact = page.locator(".exact").all_inner_texts()
    expect(page.locator(".exact").last).to_contain_text(f"{abs(one[3, 5] - other[3, 5]):#.3g}")
    assert len(exact) == 3
    expect(page.locator("rect.pin")).to_have_count(3)
    ends = page.locator(".legend").nth(2).locator("text").all_text_contents()
    assert ends[0].startswith("−") and ends[1] == "0" and ends[2].startswith("+")
    assert ends[0][1:] == ends[2][1:]


def test_where_there_is_no_difference_it_says_why(show: Show) -> None:
    why = "Word 3 is 'dog' here and 'dogs' there."
    shown = show(two(rows=6, why=why))
    shown.open(0, 0)
    page = shown.page
    expect(page.locator(".panel")).to_have_count(2)
    expect(page.locator(".why")).to_contain_text(why)
    shown.click(5, 2, panel=1)  # not in step: a pin is one side's own
    expect(page.locator("rect.pin")).to_have_count(1)
    value = shown.world.sides[1].maps[0, 0, 5, 2]
    expect(page.locator(".exact")).to_contain_text(f"{value:#.3g}")


def test_the_overview_shows_one_side_or_both(show: Show) -> None:
    shown = show(two())
    page = shown.page
    grids = page.locator("canvas.heads:visible")
    expect(grids).to_have_count(2)
    page.get_by_role("button", name="after").click()
    expect(grids).to_have_count(1)
    assert "after" in (grids.first.get_attribute("aria-label") or "")
    page.get_by_role("button", name="both").click()
    expect(grids).to_have_count(2)


@pytest.mark.parametrize("width", [1280, 390])
def test_panels_stand_beside_one_another_where_there_is_room(show: Show, width: int) -> None:
    shown = show(two(), width=width)
    shown.open(0, 1)
    lefts = [shown.map_box(k)["x"] for k in range(3)]
    assert len(set(map(round, lefts))) == (3 if width > 1000 else 1)
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    shown.page.get_by_role("button", name="Lines").click()
    expect(shown.page.locator(".share").last).to_contain_text("of the absolute difference")
    assert re.match(r"The lines carry \d", shown.page.locator(".share").first.inner_text())
    shown.shot(f"sides-{width}")


def test_only_heads_that_both_sides_have_are_opened(show: Show) -> None:
    small = Side(softmaxed((2, 2), 8, 8), TOKENS, name="small")
    large = Side(softmaxed((3, 4), 8, 8), TOKENS, name="large")
    shown = show(World([large, small], difference={"possible": True, "why": ""}))
    page = shown.page
    page.locator("canvas.heads").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".problem")).to_have_text("Only one side has this head.")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    shown.cell(1, 0)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    shown.cell(1, 1)
    assert page.get_by_label("Head", exact=True).locator("option").count() == 2


def test_grids_of_means_have_names_without_numbers(show: Show) -> None:
    world = World([Side(softmaxed((1, 1), 8, 8), TOKENS)])
    message = Side.message

    class Mean(Side):
        def message(self) -> dict[str, object]:
            grid = {
                "rows": ["all"], "columns": ["mean"], "layers": [], "heads": [],
                "row_word": "layers", "column_word": "",
            }  # fmt: skip
            return {**message(self), "grid": grid}

    world.sides = [Mean(world.sides[0].maps, TOKENS)]
    shown = show(world)
    shown.menu("Display")
    shown.page.get_by_label("Order").first.select_option("down")
    shown.page.locator("canvas.heads").focus()
    shown.page.keyboard.press("Enter")
    shown.cell(0, 0)
    expect(shown.page.locator("h3").first).to_have_text("All, mean")
