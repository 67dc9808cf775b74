"""Two fingers zoom maps and never the page; a double tap shows the whole map again."""

from collections.abc import Callable

import pytest
from playwright.sync_api import CDPSession

from tests.analyses.attention.browser.conftest import Show, Shown
from tests.analyses.attention.browser.making import Side, World, softmaxed, words

pytestmark = pytest.mark.browser
Point = tuple[float, float]


def fingers(session: CDPSession) -> Callable[[str, list[Point]], None]:
    def sent(kind: str, points: list[Point]) -> None:
        touches = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})

    return sent


def pinch(touch: Callable[[str, list[Point]], None], x: float, y: float, *gaps: float) -> None:
    touch("touchStart", [(x - gaps[0], y), (x + gaps[0], y)])
    for gap in gaps[1:]:
        touch("touchMove", [(x - gap, y), (x + gap, y)])
    touch("touchEnd", [])


def double_tap(touch: Callable[[str, list[Point]], None], x: float, y: float) -> None:
    for _ in range(2):
        touch("touchStart", [(x, y)])
        touch("touchEnd", [])


def size_of(shown: Shown, of: str) -> float:
    shown.page.wait_for_timeout(80)  # drawn once a frame
    box = shown.page.locator(of).first.bounding_box()
    assert box
    return box["height"]


@pytest.mark.parametrize(
    ("look", "drawing"),
    [
        pytest.param("map", ".map .pane svg", marks=pytest.mark.slow),  # as for lines
        ("lines", ".lineview .pane svg"),
        ("grid", "canvas.heads"),
    ],
)
def test_two_fingers_zoom_the_map_and_a_double_tap_resets_it(
    show: Show, look: str, drawing: str
) -> None:
    world = World([Side(softmaxed((3, 4), 16, 16), words(16))])
    world.state = {"cell": [0, 0], "pin": None, "look": "lines" if look == "grid" else look}
    shown = show(world, width=390)
    shown.cell(0, 0)
    page = shown.page
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    touch = fingers(session)
    page.locator(drawing).first.scroll_into_view_if_needed()
    first = size_of(shown, drawing)
    box = page.locator(drawing).first.bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + min(box["height"], 300) / 2
    pinch(touch, x, y, 30, 40, 50, 60)
    assert size_of(shown, drawing) > 1.6 * first
    assert page.evaluate("visualViewport.scale") == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    double_tap(touch, x, y)
    assert size_of(shown, drawing) == pytest.approx(first, abs=1)
    assert page.locator("section.edit").is_hidden()
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
