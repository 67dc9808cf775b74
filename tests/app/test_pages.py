"""Every page: nothing leaves the machine, nothing fails, nothing is wider than a phone."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as TooSlow

from tests.night import mostly
from workbench.app import navigation

pytestmark = pytest.mark.browser

PAGES = {  # by address: what is there when it is drawn; without a result, the form of one
    "": "in the place of",
    "questions": "Which words decide",
    "models": "Parameters by part",
    "corpora?corpus=primer:size%3D200&split=test&sentence=1": "Dependencies",
    "attention?corpus=primer:size%3D200&split=test&head=2.2&pin=2.1.row": "attends to",
    "words?corpus=primer:size%3D200&text=Ben+walks+to+the+hill.": "layer 4",
    "heads": "Attention heads of mini:bert|Ready to run",
    "head?head=3.3&model=mini:bert@edit:3.3%3D0": "goes from 97.9",
    "layer?layer=3&model=mini:bert@edit:3.attention%3D0": "goes from 97.9",
    "word?word=hill&model=mini:bert&corpus=primer:size%3D200": "Read as 1 piece",
    "pruning": "Importance of the attention heads|Ready to run",
    "cut": "What can I cut",
    "probing": "Edge probing of mini:bert|Ready to run",
    "transfer": "Frozen and fine-tuned mini:bert|Ready to run",
    "experiments": "What do you want to know",
    "runs": "There are no runs yet|Click one to open it",
    "lessons": "What heads do",
    "settings": "Move a folder",
}
GROUPS = {group: [page.name for page in members] for group, members in navigation.groups().items()}
VIEWS = ((1280, "light"), (390, "dark"))
BY_DAY = "attention?corpus=primer:size%3D200&split=test&head=2.2&pin=2.1.row"  # a component too
LOADED = (  # by their addresses; others by the links
    "",
    "questions",  # in no group
    "corpora",
    "attention",
    "words",
    "head",
    "layer",
    "word",
    "experiments",
)


@dataclass
class Visit:
    """A page in the browser, the hosts it contacted and its errors."""

    page: Page
    hosts: set[str | None] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def stays_well(self, address: str, width: int, at_rest: bool = True) -> None:
        """Once it is drawn, nothing has failed, left the machine, or is wider than the screen.

        `at_rest`: wait until the network is silent; hosts are noted from the first request on.
        """
        expect(self.page.get_by_text(re.compile(PAGES[address])).first).to_be_visible()
        if at_rest:
            self.page.wait_for_load_state("networkidle")
        assert self.hosts - {None} == {"localhost"}  # None: pictures inside the page itself
        assert not self.wrong
        expect(self.page.get_by_test_id("stException")).to_have_count(0)
        for part in ("html", "[data-testid=stMain]"):
            wide, room = self.page.eval_on_selector(
                part, "node => [node.scrollWidth, node.clientWidth]"
            )
            assert wide <= room + 1, part
        if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
            name = f"{address.partition('?')[0] or 'start'}-{width}.png"
            self.page.screenshot(path=Path(folder) / name, full_page=True)


@contextmanager
def visited(browser: Browser, width: int, scheme: Any) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    visit = Visit(context.new_page())
    visit.page.on("request", lambda request: visit.hosts.add(urlsplit(request.url).hostname))
    visit.page.on("websocket", lambda socket: visit.hosts.add(urlsplit(socket.url).hostname))
    visit.page.on("pageerror", lambda error: visit.wrong.append(str(error)))
    visit.page.on("console", lambda m: visit.wrong.append(m.text) if m.type == "error" else None)
    yield visit
    context.close()


@pytest.fixture(scope="module")
def visit(browser: Browser) -> Iterator[Visit]:
    """One visitor, who sees every page on a wide light screen and on a narrow dark one."""
    with visited(browser, *VIEWS[0]) as one:
        yield one


@pytest.mark.parametrize("address", mostly(PAGES, BY_DAY))
def test_a_page_stays_on_the_machine_and_within_the_screen(
    visit: Visit, app_url: str, address: str
) -> None:
    name, page = address.partition("?")[0], visit.page
    if name in LOADED or page.url == "about:blank":
        page.goto(f"{app_url}/{address}")
    else:
        page.wait_for_timeout(300)  # until the links are laid out for the wide screen
        group = next(title for title, members in GROUPS.items() if name in members)
        for _ in range(3):  # Streamlit forgets a click if a fragment reruns by itself before it
            page.get_by_test_id("stTopNav").get_by_text(group).click()
            page.get_by_role("menuitem", name=name.capitalize(), exact=True).click()
            with suppress(TooSlow):
                page.wait_for_url(re.compile(f"/{name}"), timeout=20_000)
                break
        expect(page).to_have_url(re.compile(f"/{name}"))
    visit.stays_well(address, 1280, at_rest=False)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_timeout(300)  # until it is laid out again
    visit.stays_well(address, 390)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.slow  # by day what was drawn on the wide screen is looked at on the narrow one
@pytest.mark.parametrize("address", PAGES)
@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_a_page_is_so_when_it_is_opened_by_its_address(
    browser: Browser, app_url: str, address: str, width: int, scheme: str
) -> None:
    with visited(browser, width, scheme) as one:
        one.page.goto(f"{app_url}/{address}")
        one.stays_well(address, width)
