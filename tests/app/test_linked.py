"""Pages that know of each other, in a browser: one word and one head everywhere, and Back."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.app.drive import still
from workbench.app.frame import lessons

pytestmark = [pytest.mark.browser, pytest.mark.slow]
TEXT = "The girls saw the hill that they liked."
# the smallest text in px that is in view, in shadow roots too, with its words
SMALLEST = """() => {
  const found = [];
  const look = (root) => root.querySelectorAll("*").forEach((node) => {
    if (node.shadowRoot) look(node.shadowRoot);
    const text = [...node.childNodes].filter((child) => child.nodeType === 3).map((c) => c.data);
    const box = node.getBoundingClientRect();
    if (!text.join("").trim() || !box.width || box.bottom < 0 || box.top > innerHeight ||
        node.closest("style, script, .st-key-leave-presentation, [data-testid=stIconMaterial]") ||
        !node.checkVisibility({ visibilityProperty: true })) return;
    let size = parseFloat(getComputedStyle(node).fontSize);
    for (let at = node; at; at = at.parentElement ?? at.getRootNode().host) {
      size *= Number(getComputedStyle(at).zoom) || 1;
    }
    found.push([size, text.join(" ").trim()]);
  });
  look(document);
  return found.sort((one, other) => one[0] - other[0])[0];
}"""


def bar(page: Page, name: str) -> None:
    page.get_by_test_id("stTopNavSection").filter(has_text="Understand").click()
    page.get_by_role("menuitem", name=name, exact=True).click()
    still(page)


def test_a_word_and_a_head_are_the_same_on_all_pages_and_back_undoes_them(
    page: Page, app_url: str
) -> None:
    page.goto(f"{app_url}/predict?model=mini:bert&at=word.8")
    box, chosen = page.get_by_role("textbox", name="Text", exact=True), page.locator(".chosen")
    expect(page.get_by_text("in the place of “were”").first).to_be_visible()
    still(page)
    box.fill(TEXT)
    expect(page).to_have_url(re.compile("text=The[+]girls[+]saw"))
    still(page)
    page.get_by_role("button", name="hill", exact=True).first.click()
    expect(page.get_by_text("in the place of “hill”").first).to_be_visible()
    page.get_by_role("button", name=re.compile("^girls: ")).click()
    expect(page).to_have_url(re.compile("mark=1"))
    for tab in ("What if?", "When?", "Where?", "Who?"):
        page.get_by_role("tab", name=tab).click()
        expect(chosen.first).to_have_text("girls")
        still(page)
    page.get_by_role("button", name=re.compile("layer 2, head 3")).click()
    expect(page.locator(".cell.final")).to_have_count(1)
    bar(page, "Attention")
    expect(page.get_by_role("heading", name="Head 2.3")).to_be_visible()
    expect(page.get_by_label("pinned cell")).to_contain_text("girls")
    bar(page, "One head")
    expect(page.get_by_role("heading", name="Head 2.3 of mini:bert")).to_be_visible()
    expect(box).to_have_value(TEXT)
    bar(page, "Predict & explain")
    expect(chosen.first).to_have_text("girls")
    page.goto(f"{app_url}/predict?model=mini:bert")
    still(page)
    box.fill(TEXT)
    expect(page).to_have_url(re.compile("text=The[+]girls[+]saw"))
    still(page)
    page.go_back()
    expect(box).to_have_value(re.compile("^The girls did not"))
    page.go_forward()
    expect(box).to_have_value(TEXT)


@pytest.mark.parametrize("size", [(1920, 1080), (3840, 2160), (1920, 1200), (1080, 1920)])
def test_an_audience_reads_nothing_under_24_px_and_the_text_can_be_edited(
    page: Page, app_url: str, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(f"{app_url}/predict?present=1&model=mini:bert&at=word.8")
    expect(page.get_by_text("in the place of “were”").first).to_be_visible()
    still(page)
    for name in ("the text and the predictions", "the open tab"):
        smallest, text = page.evaluate(SMALLEST)
        assert smallest >= 23.9, f"{name}: {text!r} has {smallest} px"
        assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 1
        page.locator("body").press("PageDown")
        page.wait_for_timeout(1000)
    box = page.get_by_role("textbox", name="Text", exact=True)
    box.fill("The girls were tall.")
    expect(page).to_have_url(re.compile("present=1.*text=The[+]girls|text=The[+]girls.*present=1"))


def test_notes_in_a_second_window_follow_and_lead(
    page: Page, visitor: BrowserContext, app_url: str
) -> None:
    steps = lessons.HEADS.steps
    page.goto(f"{app_url}/?present=1&lesson=what-heads-do&tour=1")
    expect(page.get_by_text(f"1 of {len(steps)}.")).to_be_visible()
    notes = visitor.new_page()
    notes.goto(f"{app_url}/lessons?notes=what-heads-do")
    shown = notes.locator("[class*=st-key-note-]:visible")
    expect(shown).to_have_count(2, timeout=60_000)
    expect(shown.first).to_contain_text(steps[0].notes)
    notes.locator("body").press("PageDown")
    expect(page.get_by_text(f"2 of {len(steps)}.")).to_be_visible()
    expect(shown.first).to_contain_text(steps[1].says)
    notes.locator("body").press("b")
    expect(page.locator("#workbench-blank")).to_be_visible()
    notes.close()
