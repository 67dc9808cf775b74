"""What is asked of Python: the latest wish counts, nothing is asked twice, what is lost comes."""

import pytest
from playwright.sync_api import expect

from tests.view.browser.conftest import Show
from tests.view.browser.making import Side, World, softmaxed, words

pytestmark = pytest.mark.browser

TOKENS = words(6)


def small(**more: object) -> World:
    return World([Side(softmaxed((4, 4), 6, 6), TOKENS)], **more)  # type: ignore[arg-type]


BEGAN = {"look": "map", "score": "confidence", "order": "grid", "over": []}


def test_requests_are_as_agreed(show: Show) -> None:
    shown = show(small())
    shown.open(1, 2)
    shown.click(3, 4)
    expect(shown.page.locator(".exact")).not_to_contain_text("±")
    cell, exact = shown.asked("cell")[0], shown.asked("exact")[0]
    assert cell == {
        "id": cell["id"], "view": "v1", "what": "cell", "row": 1, "column": 2,
        "state": {"cell": [1, 2], "pin": None, **BEGAN},
    }  # fmt: skip
    assert exact == {
        "id": cell["id"] + 1, "view": "v1", "what": "exact", "row": 1, "column": 2, "i": 3, "j": 4,
        "state": {"cell": [1, 2], "pin": {"i": 3, "j": 4, "axis": "row"}, **BEGAN},
    }  # fmt: skip


def test_going_back_asks_for_nothing(show: Show) -> None:
    shown = show(small())
    shown.open(0, 0)
    for key, at in [("ArrowRight", (0, 1)), ("ArrowLeft", (0, 0)), ("ArrowRight", (0, 1))]:
        shown.page.keyboard.press(key)
        shown.cell(*at)
    assert [(r["row"], r["column"]) for r in shown.asked("cell")] == [(0, 0), (0, 1)]


def test_under_a_slow_host_the_last_wish_is_what_is_seen(show: Show) -> None:
    shown = show(small())
    page = shown.page
    shown.open(0, 0)
    page.evaluate("() => { window.slow = 250; }")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    shown.cell(2, 3)
    expect(page.locator(".facts")).to_have_text("layer 2, head 3: entropy 0.32")
    assert len(shown.asked("cell")) <= 4  # those in between were never asked for
    page.wait_for_timeout(600)
    shown.cell(2, 3)


def test_a_lost_answer_is_asked_for_again(show: Show) -> None:
    shown = show(small(deaf=2), patience=200)
    shown.open(1, 1)
    asked = shown.asked("cell")
    assert len(asked) == 3 and len({request["id"] for request in asked}) == 1


def test_at_last_it_says_so_and_enter_tries_anew(show: Show) -> None:
    shown = show(small(deaf=4), patience=150)
    page = shown.page
    page.locator("canvas.heads").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".problem")).to_have_text("no answer; press Enter to try again")
    page.keyboard.press("Enter")
    shown.cell(0, 0)
    expect(page.locator(".problem")).to_be_hidden()


def test_a_problem_is_a_quiet_line_and_the_rest_stays(show: Show) -> None:
    shown = show(small(problems={"exact": "The model is gone."}))
    shown.open(0, 0)
    shown.click(1, 1)
    expect(shown.page.locator(".problem")).to_have_text("The model is gone.")
    expect(shown.page.locator(".exact")).to_contain_text("±")
    shown.page.keyboard.press("ArrowRight")
    shown.cell(0, 1)


def test_a_state_from_the_address_is_where_it_begins(show: Show) -> None:
    state = {"cell": [2, 1], "pin": {"i": 1, "j": 2, "axis": "column"}, "look": "map"}
    shown = show(small(state=state), first=small(state=state).overview())
    shown.cell(2, 1)
    value = shown.world.sides[0].maps[2, 1, 1, 2]
    expect(shown.page.locator(".exact")).to_contain_text(f"{value:#.6g}")
    expect(shown.page.locator("aside h4")).to_contain_text("is looked at by")


def test_a_pin_goes_with_its_tokens_when_special_ones_are_hidden(show: Show) -> None:
    shown = show(small())
    shown.open(1, 1)
    shown.click(2, 3)
    maps = softmaxed((2, 2), len(TOKENS) - 1, len(TOKENS) - 1)
    shown.world.sides = [Side(maps, TOKENS[1:], shift=1)]  # [CLS] is hidden
    shown.world.view = "v2"
    shown.give(shown.world.overview())
    shown.page.wait_for_selector(".attention[data-view=v2]")
    expect(shown.page.locator("rect.pin")).to_have_count(1)
    shown.cell(1, 1)
    expect(shown.page.locator(".exact")).not_to_contain_text("±")
    exact = shown.asked("exact")[-1]
    assert (exact["i"], exact["j"]) == (1, 2)


def test_a_new_view_keeps_the_cell_and_a_smaller_grid_lets_it_go(show: Show) -> None:
    shown = show(small())
    shown.open(3, 3)
    shown.click(2, 2)
    shown.world.view = "v2"
    shown.give(shown.world.overview())
    shown.page.wait_for_selector(".attention[data-view=v2]")
    shown.cell(3, 3)
    assert shown.asked("cell")[-1]["view"] == "v2"
    expect(shown.page.locator("rect.pin")).to_have_count(1)
    shown.world.sides = [Side(softmaxed((2, 2), 6, 6), TOKENS)]
    shown.world.view = "v3"
    shown.give(shown.world.overview())
    expect(shown.page.locator("canvas.heads")).to_be_visible()
    shown.give(shown.world.overview())  # the same again changes nothing
    expect(shown.page.locator(".count")).to_have_text("4 of 4 heads shown")


def test_mounted_anew_with_a_stray_answer_it_asks_for_the_overview(show: Show) -> None:
    world = small()
    stray = world.cell({"id": 5, "view": "v1", "kind": "cell"}, {"row": 0, "column": 0})
    shown = show(world, first=stray)
    shown.painted()
    assert [request["what"] for request in world.asked] == ["overview"]


def test_cleared_away_it_ends_unless_it_comes_back(show: Show) -> None:
    shown = show(small())
    page = shown.page
    page.evaluate("() => window.clear()")
    shown.give(shown.world.overview())
    page.wait_for_timeout(500)
    expect(page.locator("canvas.heads")).to_be_visible()
    page.evaluate("() => window.clear()")
    expect(page.locator(".attention")).to_have_count(0)


def test_the_state_is_told_after_a_moment_and_once(show: Show) -> None:
    shown = show(small())
    shown.open(0, 0)
    page = shown.page
    for look in ("Lines", "Map", "Lines"):
        page.get_by_role("button", name=look).click()
    page.wait_for_timeout(500)
    assert [request["state"]["look"] for request in shown.asked("state")] == ["lines"]
    page.get_by_role("button", name="All heads").click()
    page.wait_for_timeout(500)
    assert shown.asked("state")[-1]["state"]["cell"] is None
