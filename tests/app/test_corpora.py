"""The page Corpora in a real browser: a person browses, finds, uploads, goes on to attention."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser
EVIL = "<img/src=x/onerror=window.evil=1>"


def _upload(page: Page, name: str, content: str) -> None:
    file = {"name": name, "mimeType": "text/plain", "buffer": content.encode()}
    page.locator("input[type=file]").set_input_files([file])  # type: ignore[list-item]
    page.get_by_role("button", name="Check and store").click()


def _arcs(page: Page) -> int:
    """How wide the picture of the arcs is, once it is drawn."""
    picture = page.get_by_role("group", name="Dependency arcs").locator("img").first
    expect(picture).to_be_visible()
    page.wait_for_function("image => image.complete", arg=picture.element_handle())
    return int(picture.evaluate("image => image.naturalWidth"))


@pytest.mark.slow
def test_a_sentence_in_the_address_opens_with_its_arcs(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/corpora?corpus=primer:size%3D200&split=dev&sentence=3")
    assert _arcs(page) > 300
    expect(page.get_by_text("Sentences 0 to 9 of 20")).to_be_visible()
    expect(page.locator("mark").first).to_be_visible()
    box = page.get_by_role("group", name="Dependency arcs").bounding_box()
    assert box is not None and box["x"] + box["width"] <= 1280
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Sentences 10 to 19 of 20")).to_be_visible()
    expect(page).to_have_url(re.compile("sentence=10"))
    expect(page).to_have_url(re.compile("split=dev"))
    page.get_by_role("textbox", name="Find a word").fill("the")
    page.get_by_role("textbox", name="Find a word").press("Enter")
    expect(page.get_by_text("in all 20 sentences")).to_be_visible()
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "corpora.png", full_page=True)


@pytest.mark.slow
def test_a_sentence_leads_to_its_attention(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/corpora?corpus=primer:size%3D200&split=dev&sentence=3")
    page.get_by_role("link", name="Show attention on this sentence").click()
    expect(page).to_have_url(re.compile("/attention"))
    expect(page.get_by_role("button", name="dev 3")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="dev 3")).to_be_visible()


@pytest.mark.slow
def test_faults_are_listed_and_what_is_sound_is_used(page: Page, app_url: str) -> None:
    good = (
        "1\tcats\tcat\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tsleep\tsleep\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    )
    page.goto(f"{app_url}/corpora?corpus=primer:size%3D200")
    expect(page.get_by_role("heading", name="Sentences")).to_be_visible()
    _upload(page, "bad.conllu", good + good.replace("NOUN", "NOON") + "1\tcats\n\n")
    expect(page.get_by_text("Line 4: ")).to_be_visible()
    expect(page.get_by_text("Line 7: ")).to_be_visible()
    page.reload()
    hostile = good.replace("cats", EVIL).replace("NOUN\t_", f"NOUN\t{EVIL}")
    _upload(page, "hostile.conllu", hostile.replace("nsubj", EVIL) + good)
    expect(page.get_by_text("Stored the corpus")).to_be_visible()
    assert _arcs(page) > 100
    expect(page.get_by_text(f"{EVIL} sleep").first).to_be_visible()
    assert page.evaluate("window.evil") is None
    assert page.locator("img[src=x]").count() == 0
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No uploads yet.")).to_be_visible()


@pytest.mark.slow
def test_two_browsers_choose_for_themselves(browser: Browser, app_url: str) -> None:
    one, two = browser.new_context().new_page(), browser.new_context().new_page()
    one.goto(f"{app_url}/corpora?corpus=primer:size%3D200")
    two.goto(f"{app_url}/corpora?corpus=primer/sentiment:size%3D100")
    expect(one.get_by_role("heading", name="primer:size=200")).to_be_visible()
    expect(two.get_by_role("heading", name="primer/sentiment:size=100")).to_be_visible()
    one.context.close()
    two.context.close()
