"""The attention page, driven as a person would: look, move, pin, compare, save, come back."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import workbench as wb
from workbench import Run, attention

pytestmark = pytest.mark.browser


def opened(page: Page, app_url: str, query: str = "") -> Locator:
    """The attention browser, painted."""
    page.goto(f"{app_url}/attention?{query}")
    browser = page.locator("[data-painted]")
    expect(browser).to_be_visible()
    return browser


def overview(browser: Locator) -> Locator:
    return browser.locator("canvas").first


def passes(browser: Locator) -> int:
    return int(browser.get_attribute("data-passes") or 0)


def test_a_pinned_cell_has_the_exact_value_and_heads_are_walked_by_keys_in_one_pass(
    page: Page, app_url: str
) -> None:
    browser = opened(page, app_url, "split=test&sentence=0&head=2.3&pin=3.2.row&look=map")
    doc = next(iter(wb.read("primer").docs("test")))
    found = attention(wb.load("mini:bert", device="cpu"), doc)
    value = next(m for s, m in found.maps.items() if s.layer == 1)[2, 3, 2]
    exact = browser.locator(".exact")
    expect(exact).to_contain_text(f"{value:#.3g}")
    assert float(exact.get_attribute("data-value") or 0) == pytest.approx(float(value), rel=2e-5)
    box = overview(browser).bounding_box()
    assert box and box["y"] < 200  # the grid is what one sees first

    before = passes(browser)
    assert before >= 1
    overview(browser).focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(browser.get_by_role("heading", name="Head 2.2")).to_be_visible()
    expect(page).to_have_url(re.compile("head=2[.]2"))
    for key, name in (
        ("ArrowRight", "Head 2.3"),
        ("ArrowDown", "Head 3.3"),
        ("ArrowLeft", "Head 3.2"),
        ("ArrowUp", "Head 2.2"),
    ):
        page.keyboard.press(key)
        expect(browser.get_by_role("heading", name=name)).to_be_visible()
        expect(browser.locator("svg image").first).to_be_visible()
    assert passes(browser) == before
    browser.get_by_role("button", name="Find similar").click()
    hits = browser.locator(".similar .sentence")
    expect(hits.first).to_be_visible()
    weights = [float(text) for text in hits.locator(".number").all_inner_texts()]
    assert weights == sorted(weights, reverse=True)
    overview(browser).focus()
    page.keyboard.press("Escape")  # the pin
    expect(page).not_to_have_url(re.compile("pin="))
    page.keyboard.press("Escape")
    expect(overview(browser)).to_be_focused()


@pytest.mark.slow
def test_the_address_is_the_view(page: Page, browser: Browser, app_url: str) -> None:
    query = "model=mini:gpt&split=dev&sentence=2&unit=words&head=3.2&pin=3.1.row&look=map"
    here = opened(page, app_url, query)
    expect(here.get_by_role("heading", name="Head 3.2")).to_be_visible()
    doc = list(wb.read("primer").docs("dev", 3))[2]
    expect(page.get_by_role("textbox", name="Sentence to look at")).to_have_value(doc.text)
    exact = re.compile(r"[(]1[)]: [\d.]{4,}")
    expect(here.get_by_text(exact)).to_be_visible()
    context = browser.new_context()
    there = opened(context.new_page(), app_url, page.url.partition("?")[2])
    expect(there.get_by_role("heading", name="Head 3.2")).to_be_visible()
    expect(there.get_by_text(exact)).to_be_visible()
    for shown in (here, there):  # the predictions come after the maps
        expect(shown.locator(".predictions")).to_contain_text("%")
    assert there.inner_text() == here.inner_text()
    context.close()


@pytest.mark.slow  # by day test_page_attention has it, and test_cell draws hostile tokens
def test_what_one_types_is_looked_at(page: Page, app_url: str) -> None:
    browser = opened(page, app_url, "from=Your+own+text")
    box = page.get_by_role("textbox", name="Sentence to look at")
    box.fill("Mary saw <img src=x onerror=alert(1)> the dog.")
    box.press("Enter")
    expect(browser.locator(".caption")).to_contain_text("onerror=alert(1)")
    assert page.locator("img[src=x]").count() == 0
    box.fill("   ")
    box.press("Enter")
    expect(page.get_by_text("text-empty")).to_be_visible()


@pytest.mark.slow
def test_encoder_decoder_and_cross_attention(page: Page, app_url: str) -> None:
    browser = opened(page, app_url, "model=mini:t5&split=test")
    for name, title in (
        ("decoder causal attention", "decoder causal self-attention"),
        ("decoder cross-attention", "decoder cross-attention"),
        ("encoder self-attention", "encoder self-attention"),
    ):
        page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name)).click()
        expect(browser.get_by_text(title).first).to_be_visible()


@pytest.mark.slow  # by day test_page_attention has it without a browser
def test_elmo_has_no_attention_and_the_page_leads_on(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/attention?model=mini:elmo")
    expect(page.get_by_text("This model has no attention")).to_be_visible()
    expect(page.get_by_text("LSTM")).to_be_visible()
    page.get_by_role("button", name="Use mini:bert").click()
    expect(page.locator("[data-painted]")).to_be_visible()


@pytest.mark.slow
def test_two_models_in_step_with_their_difference(page: Page, app_url: str) -> None:
    query = "compare=another+model&model2=mini:gpt&unit=words&special=hidden&split=test&head=2.2"
    query += "&look=map"
    browser = opened(page, app_url, query)
    expect(browser.get_by_text("Difference: mini:bert minus mini:gpt").first).to_be_visible()
    assert browser.locator("svg image").count() == 3
    browser = opened(page, app_url, query.replace("unit=words", "unit=pieces&special=shown"))
    expect(browser.get_by_text("do not align").first).to_be_visible()


@pytest.mark.slow
def test_saving_what_is_seen(page: Page, app_url: str, tmp_path: Path) -> None:
    browser = opened(page, app_url, "split=test&sentence=0&head=1.2&look=map")
    browser.locator("summary", has_text="Export").click()
    expect(browser.locator("svg image").first).to_be_visible()
    saved = {}
    for form in ("SVG", "PNG", "CSV", "NPZ", "HTML"):
        with page.expect_download() as download:
            browser.get_by_role("button", name=f"Save as {form}").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        saved[form] = path
    doc = next(iter(wb.read("primer").docs("test")))
    found = attention(wb.load("mini:bert", device="cpu"), doc)
    exact = next(iter(found.maps.values()))[1]
    np.testing.assert_allclose(np.load(saved["NPZ"])["map"], exact, atol=1e-6)
    values = pd.read_csv(saved["CSV"])["value"].to_numpy().reshape(exact.shape)
    np.testing.assert_allclose(values, exact, atol=1e-6)
    assert saved["PNG"].read_bytes().startswith(b"\x89PNG")
    assert "[CLS]" in saved["SVG"].read_text()
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto(saved["HTML"].as_uri())
    expect(page.locator("[data-painted]")).to_be_visible()
    assert [url for url in urls if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.slow
def test_heads_are_sorted_by_the_table_of_a_run(
    page: Page, app_url: str, runs: Callable[..., Run]
) -> None:
    done = wb.run("attention-averages", model="mini:bert", corpus="primer", max_sentences=20)
    browser = opened(page, app_url, f"badges={done.name}:+heads")
    browser.locator("summary", has_text="Display").click()
    choice = browser.get_by_label("Score", exact=True)
    name = f"best_offset_attention ({done.name}: heads)"
    choice.select_option(label=name)
    browser.get_by_label("Order").filter(visible=True).select_option(index=1)
    table = done.tables["heads"].sort_values("best_offset_attention", ascending=False)
    first = table.iloc[0]
    overview(browser).focus()
    page.keyboard.press("Enter")
    heading = f"Head {first['layer']}-{first['head']}"
    expect(browser.get_by_role("heading", name=heading)).to_be_visible()


@pytest.mark.slow
def test_nonsense_in_the_address_leaves_a_page_that_works(page: Page, app_url: str) -> None:
    query = "head=99.99&pin=a.b.c&unit=zzz&together=nothing&sentence=-4&look=x&layers=77&compare=9"
    browser = opened(page, app_url, query)
    expect(overview(browser)).to_be_visible()
    page.goto(f"{app_url}/attention?sentence=99999999")
    expect(page.get_by_text("sentence-not-found")).to_be_visible()
    page.goto(f"{app_url}/attention?model=../../etc")
    expect(page.get_by_test_id("stAlert").first).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.slow
def test_two_browsers_do_not_see_one_anothers_choices(browser: Browser, app_url: str) -> None:
    contexts = [browser.new_context() for _ in range(2)]
    pages = [context.new_page() for context in contexts]
    for page, ref in zip(pages, ("mini:bert", "mini:gpt"), strict=True):
        page.goto(f"{app_url}/attention?model={ref}&split=test&head=1.1")
    found = [page.locator("[data-painted]") for page in pages]
    expect(found[0].get_by_text("mini:bert: encoder self-attention").first).to_be_visible()
    expect(found[1].get_by_text("mini:gpt: decoder causal self-attention").first).to_be_visible()
    overview(found[0]).focus()
    pages[0].keyboard.press("ArrowRight")
    pages[0].keyboard.press("Enter")
    expect(found[0].get_by_role("heading", name="Head 1.2")).to_be_visible()
    expect(pages[0]).to_have_url(re.compile("head=1[.]2"))
    assert "head=1.1" in pages[1].url
    expect(found[1].get_by_role("heading", name="Head 1.1")).to_be_visible()
    for context in contexts:
        context.close()


@pytest.mark.slow  # by day the first test finds similar ones, and test_notebook edits a word
def test_a_word_is_hidden_in_place_and_similar_sentences_are_found(
    page: Page, app_url: str
) -> None:
    browser = opened(page, app_url, "split=test&sentence=3&head=1.3&pin=3.4.row&look=map")
    before = passes(browser)
    browser.get_by_role("button", name="Find similar").click()
    hits = browser.locator(".similar .sentence")
    expect(hits.first).to_be_visible()
    weights = [float(text) for text in hits.locator(".number").all_inner_texts()]
    assert weights == sorted(weights, reverse=True)
    browser.get_by_role("button", name="Edit word").click()
    expect(browser.locator(".choice")).to_have_count(5)
    browser.get_by_role("button", name="Mask").click()
    box = page.get_by_role("textbox", name="Sentence to look at")
    expect(box).to_have_value("The mouse [MASK] watched.")
    expect(browser.locator(".about, .note").first).to_contain_text("change")
    assert passes(browser) == before + 1  # the text before has been read already
    expect(page).to_have_url(re.compile("before=The[+]mouse"))
    marked = browser.locator(".choice").first.locator("bdi")
    word = marked.inner_text()
    marked.click()
    expect(box).to_have_value(f"The mouse {word} watched.")


@pytest.mark.slow
def test_a_similar_sentence_opens_with_its_pair_and_heads_are_added(
    page: Page, app_url: str
) -> None:
    query = "split=test&sentence=3&head=1.3&pin=2.3.row&unit=words&special=hidden"
    browser = opened(page, app_url, query)
    browser.get_by_role("button", name="Find similar").click()
    hit = browser.locator(".similar .sentence").nth(1)
    expect(browser.locator(".found progress")).to_be_hidden()
    words = hit.locator("mark").all_inner_texts()
    text = hit.locator("bdi").first.inner_text()
    hit.click()
    expect(page.get_by_role("textbox", name="Sentence to look at")).to_have_value(text)
    for word in words:
        expect(browser.locator(".exact")).to_contain_text(word)
    overview(browser).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(browser.locator(".chip")).to_have_count(2)
    expect(page).to_have_url(re.compile("also="))
    page.get_by_role("button", name="Next sentence").click()
    expect(page).to_have_url(re.compile("sentence="))
    expect(browser.locator(".chip")).to_have_count(2)
