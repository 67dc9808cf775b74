"""What five people come for, played in a browser at three sizes, light and dark, and by keyboard.

Clicks are counted; by keyboard, a click is Enter or Space on what Tab has reached. Seconds are
printed. A curve of one's own model is in test_clicks too, a smaller classifier
in test_smaller_model.
"""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.drive import still
from tests.app.test_clicks import CONLLU, Clicks, own_inputs
from workbench.app.frame import lessons

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SCREENS = (
    (1280, 800, "light", "mouse"),
    (1920, 1080, "dark", "mouse"),
    (390, 844, "dark", "mouse"),
    (1280, 800, "light", "keys"),
)
TABS = 150  # presses of Tab after which something counts as out of reach
DONE = 600_000  # milliseconds that a run may take on a busy machine
_HAS_FOCUS = """node => {
    let own = document.activeElement;
    while (own?.shadowRoot?.activeElement) own = own.shadowRoot.activeElement;
    return node.contains(own) || own.closest("a, button, label")?.contains(node);
}"""


class Keys(Clicks):
    """Counts what is pressed by keyboard: each is reached by Tab, and by arrows within a group."""

    def __call__(self, target: Locator) -> None:
        self.reach(target)
        group = target.evaluate("node => node.getAttribute('role') || node.type || ''")
        self.page.keyboard.press("Space" if group in ("radio", "checkbox", "tab") else "Enter")
        self.count += 1
        self.page.wait_for_timeout(300)

    def reach(self, target: Locator) -> None:
        expect(target).to_be_visible()
        for _ in range(TABS):
            if target.evaluate(_HAS_FOCUS):
                return
            self.page.keyboard.press("Tab")
        pytest.fail(f"{target} is not reached by {TABS} presses of Tab")


@pytest.fixture(params=SCREENS, ids=lambda screen: f"{screen[0]}-{screen[2]}-{screen[3]}")
def seen(request: pytest.FixtureRequest, page: Page) -> Iterator[Page]:
    """A page in a window of this size, in this theme."""
    width, height, scheme, _ = request.param
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    began = time.monotonic()
    yield page
    print(f"{request.node.name}: {time.monotonic() - began:.0f} s")


@pytest.fixture
def click(request: pytest.FixtureRequest, seen: Page) -> Clicks:
    """The visitor's hand: a mouse, or a keyboard."""
    is_mouse = request.node.callspec.params["seen"][3] == "mouse"
    return Clicks(seen) if is_mouse else Keys(seen)


def typed_into(click: Clicks, box: Locator, text: str) -> None:
    """Type into a box and press Enter; by keyboard, Tab reaches it first."""
    if isinstance(click, Keys):
        click.reach(box)
        click.page.keyboard.press("ControlOrMeta+a")
        click.page.keyboard.type(text)
        click.page.keyboard.press("Enter")
    else:
        box.fill(text)
        box.press("Enter")


def looked_at(page: Page, name: str) -> None:
    """Nothing failed and nothing is wider than the window; a picture if one is wanted."""
    still(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    wide = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    assert wide <= 1, f"{wide} pixels beyond the window"
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        size = page.viewport_size or {"width": 0}
        page.screenshot(path=Path(folder) / f"visit-{name}-{size['width']}.png")


def test_a_visitor_turns_a_head_off_within_four_clicks(
    seen: Page, app_url: str, click: Clicks
) -> None:
    seen.goto(app_url)
    still(seen)
    typed_into(click, seen.get_by_role("textbox", name="Your sentence"), "The girls did not see.")
    expect(seen.get_by_text("in the place of").first).to_be_visible()
    looked_at(seen, "sentence")
    click(seen.get_by_role("link", name="head 1.1").first)
    expect(seen.get_by_role("heading", name="Head 1.1")).to_be_visible()
    looked_at(seen, "head")
    assert click.count <= 4


def test_a_lecturer_presents_a_lesson_with_one_click_and_keys(
    seen: Page, app_url: str, click: Clicks
) -> None:
    seen.goto(f"{app_url}/lessons")
    still(seen)
    click(seen.get_by_role("link", name="Present").first)
    steps = len(lessons.HEADS.steps)
    for number in range(1, steps + 1):
        expect(seen.get_by_text(f"{number} of {steps}.")).to_be_visible()
        looked_at(seen, f"lecture-{number}")
        if number < steps:
            seen.locator("body").press("PageDown")
    assert click.count == 1


def test_a_student_solves_a_lesson_that_was_given_as_a_link(
    seen: Page, app_url: str, click: Clicks
) -> None:
    seen.goto(f"{app_url}/?lesson=what-heads-do&tour=1")
    steps, solved = lessons.HEADS.steps, 0
    for number, step in enumerate(steps, 1):
        expect(seen.get_by_text(f"{number} of {len(steps)}.")).to_be_visible()
        still(seen)
        if task := step.task:
            card = seen.locator(".st-key-tour-card")
            if task.choices:
                choose(
                    click, card.get_by_role("radio"), card.get_by_text(task.answers[0], exact=True)
                )
            else:
                typed_into(click, card.get_by_role("textbox"), task.answers[0])
            click(card.get_by_role("button", name="Check"))
            expect(card.get_by_text("Right.")).to_be_visible()
            solved += 1
            expect(card.get_by_text(re.compile(f"{solved} of 5 tasks solved"))).to_be_visible()
            looked_at(seen, f"student-{number}")
        if number < len(steps):
            click(seen.locator(".st-key-lesson-next").locator("a, button"))
    assert click.count <= 2 * len(steps)


def choose(click: Clicks, options: Locator, own: Locator) -> None:
    """Choose one of several options; by keyboard, with arrows."""
    if not isinstance(click, Keys):
        own.click()
        return
    click.reach(options.first.locator("xpath=ancestor::*[@role='radiogroup'][1]"))
    for _ in range(options.count()):
        if own.locator("xpath=ancestor-or-self::*[.//input or @role='radio'][1]").evaluate(
            _HAS_FOCUS
        ):
            break
        click.page.keyboard.press("ArrowDown")
    click.page.keyboard.press("Space")


def test_a_researcher_sees_a_new_checkpoint(
    seen: Page, app_url: str, click: Clicks, tmp_path: Path
) -> None:
    """A folder: its first view, a head with its switch, a curve of the own corpus, its PDF."""
    model, corpus = own_inputs(tmp_path)
    with corpus.open("a") as lines:  # else all sizes ask for the same run, which is made once
        lines.write(CONLLU.format(tmp_path.name, "dog"))
    seen.goto(f"{app_url}/?model={model}")
    expect(seen.get_by_text("in the place of").first).to_be_visible()
    looked_at(seen, "checkpoint")
    click(seen.get_by_role("link", name="head 1.1").first)
    expect(seen.get_by_role("heading", name="Head 1.1")).to_be_visible()
    still(seen)
    click(seen.get_by_role("link", name="Turn head 1.1 off"))
    expect(seen.get_by_text("Turn the head off, and")).to_be_visible()
    looked_at(seen, "checkpoint-head")
    seen.goto(f"{app_url}/probing?{urlencode({'model': model, 'corpus': corpus})}")
    form = seen.get_by_test_id("stMain")  # there is no result of it yet
    expect(form.get_by_role("combobox", name="Model")).to_have_value("my-bert")
    expect(form.get_by_role("combobox", name="Corpus")).to_have_value("mine.conllu")
    choose(click, form.get_by_role("radio"), form.get_by_text("Preview", exact=True))
    still(seen)
    looked_at(seen, "checkpoint-form")
    click(form.get_by_role("button", name="Run", exact=True))
    expect(seen).to_have_url(re.compile("run=edge-probing-"), timeout=DONE)
    expect(seen.get_by_text("F1 by layer (each layer)")).to_be_visible(timeout=DONE)
    looked_at(seen, "checkpoint-curve")
    click(seen.get_by_role("button", name="Export").first)
    with seen.expect_download() as download:
        click(seen.get_by_role("button", name="PDF", exact=True).first)
    assert Path(download.value.path()).read_bytes().startswith(b"%PDF")
    assert click.count <= 6


def test_an_engineer_cuts_a_model_to_the_end(seen: Page, app_url: str, click: Clicks) -> None:
    # each size asks for a run of its own, since the same request is one run
    width = seen.evaluate("innerWidth")
    size = 600 + width // 10 + isinstance(click, Keys)
    seen.goto(f"{app_url}/cut?model=mini:bert&corpus=primer/sentiment:size%3D{size}")
    choose(click, seen.get_by_role("radio"), seen.get_by_text("Quick", exact=True))
    still(seen)
    looked_at(seen, "cut-form")
    click(seen.get_by_role("button", name="Run", exact=True))
    report = seen.get_by_role("button", name="Report of one page")
    expect(report).to_be_visible(timeout=DONE)
    looked_at(seen, "cut-result")
    with seen.expect_download() as download:
        click(report)
    assert "What was lost" in Path(download.value.path()).read_text()
    click(seen.get_by_role("button", name="Export model"))
    expect(seen.get_by_role("button", name="Save zip")).to_be_visible()
    assert click.count <= 4
