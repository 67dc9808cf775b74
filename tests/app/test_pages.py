"""Every page: nothing leaves the machine, nothing fails, nothing is wider than a phone."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

pytestmark = pytest.mark.browser

PAGES = {  # by address: what is there when it is drawn
    "": "This machine",
    "models": "Where the parameters are",
    "corpora?split=test&sentence=1": "Dependencies",
    "attention?split=test&cell=1.1&pin=2.1.row": "looks at",
    "heads": "It fits",
    "pruning": "It fits",
    "probing": "It fits",
    "transfer": "It fits",
    "experiments?experiment=profile": "It fits",
    "runs": "There are no runs yet|Tick one to open it",
    "doctor": "How to move them",
}
ALIKE = ("heads", "transfer")  # of the same parts as pruning and probing
VIEWS = ((1280, "light"), (390, "dark"))


def views() -> Iterator[Any]:
    """Every page in both; by day each in one of them, in turn."""
    for place, address in enumerate(PAGES):
        for number, (width, scheme) in enumerate(VIEWS):
            by_day = place % 2 == number and address not in ALIKE
            marks = [] if by_day else [pytest.mark.slow]
            yield pytest.param(address, width, scheme, marks=marks)


@pytest.mark.parametrize(("address", "width", "scheme"), list(views()))
def test_a_page_stays_on_the_machine_and_within_the_screen(
    browser: Browser, app_url: str, address: str, width: int, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    asked: set[str | None] = set()
    wrong: list[str] = []
    page.on("request", lambda request: asked.add(urlsplit(request.url).hostname))
    page.on("websocket", lambda socket: asked.add(urlsplit(socket.url).hostname))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{app_url}/{address}")
    expect(page.get_by_text(re.compile(PAGES[address])).first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert asked - {None} == {"localhost"}  # None: pictures inside the page itself
    assert not wrong
    expect(page.get_by_test_id("stException")).to_have_count(0)
    for part in ("html", "[data-testid=stMain]"):
        wide, room = page.eval_on_selector(part, "node => [node.scrollWidth, node.clientWidth]")
        assert wide <= room + 1, part
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        name = f"{address.partition('?')[0] or 'start'}-{width}-{scheme}.png"
        page.screenshot(path=Path(folder) / name, full_page=True)
    context.close()
