"""The page Predict & explain, driven as a person would: type, click, edit, explain, save."""

import re
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest
from playwright.sync_api import Locator, Page, expect

import workbench as wb
from tests.app.drive import downloads_opened, still, typed
from workbench.analyses.predictions.prediction import of_word
from workbench.corpora.encode import doc_of

pytestmark = pytest.mark.browser
TEXT = "The girls did not visit it because they were tall."
HOSTILE = "The <img src=x onerror=alert(1)> dog \u202eis ![x](http://evil.example/x.png) old."


def opened(page: Page, app_url: str, query: str = "") -> None:
    page.goto(f"{app_url}/predict?{query}")
    expect(page.get_by_role("button", name="were", exact=True).first).to_be_visible()
    still(page)


def first_choice(page: Page) -> Locator:
    return page.locator(".tokens .list .choice .t").first


def map_of(page: Page) -> Locator:
    """The strip of coloured words."""
    return page.get_by_role("group", name=re.compile("^Attribution to what"))


@pytest.mark.slow  # by day test_page_predict has it without a browser
def test_a_visitor_types_clicks_edits_explains_and_saves(
    page: Page, app_url: str, tmp_path: Path
) -> None:
    opened(page, app_url)
    model, doc = wb.load("mini:bert", device="cpu"), doc_of(TEXT)
    shares = of_word(model, doc, 8).logits()[0].detach().softmax(-1)
    expect(first_choice(page)).to_have_text("were")
    expect(page.locator(".tokens .list .choice .number").first).to_have_text(
        f"{100 * float(shares.max()):.1f} %"
    )
    expect(map_of(page).get_by_text("they")).to_be_visible()
    expect(page.get_by_text("matters most")).to_be_visible()
    expect(page.get_by_text(re.compile("faithful|undecided")).first).to_be_visible()

    strip = page.get_by_role("group", name="The text. Choose the place")
    strip.get_by_role("button", name="visit").click()  # another word, by mouse
    expect(page.get_by_text("in the place of “visit”")).to_be_visible()
    expect(page).to_have_url(re.compile(r"at=word\.4"))
    still(page)
    page.keyboard.press("ArrowRight")  # and by keyboard
    page.keyboard.press("Enter")
    expect(page.get_by_text("in the place of “it”")).to_be_visible()
    still(page)

    box = page.get_by_label("Text", exact=True)
    box.press_sequentially(" Ben [MASK] to the hill.")  # while one types, without Enter
    expect(page.get_by_text("mini:bert: hidden word 1")).to_be_visible()
    box.fill(TEXT)
    expect(page.get_by_text("in the place of “were”")).to_be_visible()
    still(page)

    page.locator(".tokens .choice").nth(1).click()  # explain the second choice
    expect(page).to_have_url(re.compile("target="))
    still(page)
    downloads_opened(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    download.value.save_as(tmp_path / "map.csv")
    assert "they" in set(pd.read_csv(tmp_path / "map.csv")["unit"])

    page.get_by_role("tab", name="What if?").click()
    edits = page.get_by_role("group", name="The text. Choose a word to edit")
    page.get_by_role("button", name="Replace").click()
    edits.get_by_role("button", name="they").click()
    word = page.get_by_label("New word")
    word.fill("he")
    word.press("Enter")
    after = page.get_by_role("list", name="Predictions of mini:bert, after")
    expect(after.locator(".t").first).to_have_text("was")
    expect(page.get_by_text("Each word in turn")).to_be_visible()
    still(page)

    page.get_by_role("tab", name="When?").click()
    lens = page.get_by_role("table", name="What each layer would predict")
    expect(
        lens.get_by_role("row", name=re.compile("^4 after MLP")).get_by_text("were")
    ).to_be_visible()
    expect(page.get_by_text("is the prediction from layer")).to_be_visible()
    still(page)
    page.get_by_role("tab", name="Who?").click()
    heads = page.get_by_role("table", name="Contributions of heads and MLPs")
    expect(heads.get_by_role("button")).to_have_count(4 * 5)
    expect(page.get_by_text("head is not linear")).to_be_visible()
    still(page)
    page.get_by_role("tab", name="Where?").click()  # the counterfactual is the edited text
    expect(page.get_by_text("rather than “was”").first).to_be_visible()
    states = page.get_by_role("table", name="Effects of restored states")
    expect(
        states.get_by_role("button", name="embeddings, he ← they: 100.0 % restored")
    ).to_be_visible()


def test_hostile_text_stays_text_and_a_word_is_chosen_by_keyboard(page: Page, app_url: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail("a script of the text ran"))
    page.goto(f"{app_url}/predict?view=When%3F&text={quote(HOSTILE)}")
    strip = page.get_by_role("group", name="The text. Choose the place")
    strip.get_by_role("button", name="dog", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"at=word\.\d"))
    still(page)
    assert page.locator("img[src=x]").count() == 0
    assert not [url for url in asked if url.startswith("http://evil")]


@pytest.mark.slow  # by day test_page_predict breaks out of no file that is saved
def test_hostile_text_stays_text_where_it_is_explained_and_saved(
    page: Page, app_url: str, tmp_path: Path
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail("a script of the text ran"))
    page.goto(f"{app_url}/predict?text={quote(HOSTILE)}")
    strip = page.get_by_role("group", name="The text. Choose the place")
    expect(strip.get_by_text("dog")).to_be_visible()
    still(page)
    expect(page.get_by_text("matters most")).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    still(page)
    downloads_opened(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML", exact=True).click()
    saved = tmp_path / "map.html"
    download.value.save_as(saved)
    page.goto(saved.as_uri())
    expect(page.get_by_text("dog").first).to_be_visible()
    assert page.locator("img").count() == 0
    assert not [url for url in asked if url.startswith("http://evil")]


@pytest.mark.slow
def test_a_text_is_continued_and_two_models_stand_side_by_side(page: Page, app_url: str) -> None:
    opened(page, app_url, "model=mini:gpt&model2=mini:elmo&text=The+girls+were")
    expect(page.get_by_text("mini:gpt: after the text")).to_be_visible()
    expect(page.get_by_text("mini:elmo: after the text")).to_be_visible()
    expect(map_of(page)).to_have_count(2)
    page.get_by_role("button", name="Continue the text").click()
    expect(page.get_by_role("group", name="The continuation, piece by piece")).to_have_count(2)
    continued = wb.generate(wb.load("mini:gpt", device="cpu"), "The girls were", max_pieces=20)
    expect(page.get_by_text(continued.written.strip().splitlines()[0]).first).to_be_visible()


@pytest.mark.slow
def test_the_address_is_the_view(page: Page, app_url: str) -> None:
    query = (
        "model=mini:t5&text=The+girls+were+tall.&at=word.1&method=occlusion&by=piece&view=Why%3F"
        "&against=%E2%96%81boys"
    )
    page.goto(f"{app_url}/predict?{query}")
    expect(page.get_by_text("mini:t5: in the place of “girls”")).to_be_visible()
    expect(page.get_by_text("What the decoder writes for the text as it stands")).to_be_visible()
    expect(map_of(page).first).to_be_visible()
    still(page)
    expect(page.get_by_text(re.compile(r"^Why .* rather than “\sboys”"))).to_be_visible()
    assert page.get_by_role("combobox", name="Method").input_value() == "occlusion"


@pytest.mark.slow
def test_a_counterfactual_is_typed_and_is_in_the_address(page: Page, app_url: str) -> None:
    texts = "text=The+girls+were+tall.&at=word.2"
    page.goto(f"{app_url}/predict?model=mini:t5&{texts}&view=Where%3F&restore=heads")
    grids = page.get_by_role("table", name=re.compile("^Effects of restored heads"))
    expect(grids).to_have_count(3)
    still(page)
    typed(page, "Counterfactual", "The old girl was tall.")
    expect(page).to_have_url(re.compile(r"corrupt=The\+old\+girl"))
    expect(page.get_by_text("only in the corrupt text: old")).to_be_visible()
    expect(page.get_by_text(re.compile(r"rather than “\sis”")).first).to_be_visible()
    page.get_by_text("states", exact=True).click()
    states = page.get_by_role("table", name="Effects of restored states of the encoder")
    expect(states.get_by_role("button", name=re.compile("girl ← girls")).first).to_be_visible()
    typed(page, "Counterfactual", "Boys")
    expect(page.get_by_text("texts-not-aligned")).to_be_visible()


@pytest.mark.slow
def test_the_page_fits_a_phone(page: Page, app_url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, app_url)
    for view in ("Why?", "What if?", "When?", "Who?", "Where?"):
        page.get_by_role("tab", name=view).click()
        still(page)
        wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
        assert wide <= 390, view
