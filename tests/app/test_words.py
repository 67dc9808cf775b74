"""The page Words, driven as a person would: click, search, read the map, follow a tokenizer."""

import re
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pytest
from playwright.sync_api import Locator, Page, expect

import workbench as wb
from tests.app.drive import downloads_opened, still

pytestmark = pytest.mark.browser
CORPUS = "primer:size=200"
TEXT = "Ben walks to the hill."
HOSTILE = "The <img src=x onerror=alert(1)> dog \u202eis ![x](http://evil.example/x.png) old."


def opened(page: Page, app_url: str, query: str = "") -> None:
    page.goto(f"{app_url}/words?corpus={quote(CORPUS)}&text={quote(TEXT)}&text2=&{query}")
    expect(words_of(page).get_by_role("button", name="walks")).to_be_visible()


def words_of(page: Page) -> Locator:
    """The words of the text."""
    return page.get_by_role("group", name="The text. Choose a word")


def neighbours(page: Page, name: str) -> Locator:
    """The sentences of a layer."""
    return page.get_by_role("list", name=name, exact=True).locator(".sentence")


@pytest.mark.slow  # by day test_page_words has it without a browser
def test_a_visitor_searches_reads_a_map_and_follows_tokenizers(
    page: Page, app_url: str, app_folder: Path
) -> None:
    opened(page, app_url)
    expect(neighbours(page, "layer 4")).to_have_count(10)
    words_of(page).get_by_role("button", name="to", exact=True).click()  # a word, by mouse
    model = wb.load("mini:bert", device="cpu")
    index = wb.occurrences(model, wb.read(CORPUS), home=app_folder / "home" / "words")
    found = wb.neighbours(model, index, TEXT, 2, k=1, layers=4).table.iloc[0]
    nearest = neighbours(page, "layer 4").first
    expect(nearest.locator("mark")).to_have_text(found["form"])
    expect(nearest).to_have_attribute("title", found["sentence"])
    expect(nearest.locator(".number")).to_have_text(f"{found['similarity']:.2f}")
    expect(nearest.locator(".tag")).to_have_text(found["tag"])
    still(page)
    nearest.focus()  # a sentence, by keyboard
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Search from here")).to_be_visible()
    expect(page).to_have_url(re.compile(r"at=2&.*open=\d+"))

    page.get_by_role("tab", name="Senses").click()
    expect(page.get_by_text("The clusters fit the tag (ADP, PART)")).to_be_visible()
    still(page)
    page.get_by_role("slider", name="Layer").press("ArrowLeft")
    expect(page.get_by_text("layer 3 of 4")).to_be_visible()
    still(page)
    before = page.url
    page.locator(".points path").first.click(force=True)  # a mark of the map
    expect(page).not_to_have_url(before)
    expect(page).to_have_url(re.compile(r"open=\d+"))

    page.get_by_role("tab", name="Tokenizers").click()
    table = page.get_by_role("table", name="Pieces of each word by each model")
    expect(table.get_by_role("row").nth(2).locator("td").first).to_have_text("Ben")
    box = page.get_by_label("Text", exact=True)
    box.fill("It was unlocked.")  # while one types, without Enter
    steps = page.get_by_role("group", name="Steps of mini:gpt")
    pieces = wb.tokenizations("It was unlocked.", "mini:gpt").results[0].by_word[2]
    expect(steps.locator("li").last.locator(".box")).to_have_text([piece.piece for piece in pieces])
    n_steps = steps.locator("li").count()
    expect(steps.get_by_text(f"step {n_steps} of {n_steps}")).to_be_visible()
    steps.focus()
    page.keyboard.press("ArrowLeft")
    expect(steps.get_by_text(f"step {n_steps - 1} of {n_steps}")).to_be_visible()
    still(page)
    table.get_by_role("button", name="was").click()
    expect(page.get_by_text("Step by step: was")).to_be_visible()


@pytest.mark.slow
def test_tables_and_pictures_are_saved(page: Page, app_url: str, tmp_path: Path) -> None:
    opened(page, app_url, "at=2")
    for view in ("Neighbours", "Senses", "Tokenizers"):
        page.get_by_role("tab", name=view).click()
        shown = page.get_by_role("tabpanel", name=view)
        expect(shown.get_by_text("Table and downloads")).to_be_visible()
        still(page)
        downloads_opened(shown)
        for ending in ("CSV", "SVG", "PNG", "HTML"):
            with page.expect_download() as download:
                shown.get_by_role("button", name=ending, exact=True).click()
            download.value.save_as(tmp_path / f"{view}.{ending}")
            assert (tmp_path / f"{view}.{ending}").stat().st_size > 400
        assert len(pd.read_csv(tmp_path / f"{view}.CSV"))


@pytest.mark.slow
def test_hostile_text_stays_text(page: Page, app_url: str, tmp_path: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail("a script of the text ran"))
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    corpus = tmp_path / "evil.txt"
    corpus.write_text(f"{HOSTILE}\n" * 8)
    for view in ("Neighbours", "Senses", "Tokenizers"):
        page.goto(
            f"{app_url}/words?view={view}&text={quote(HOSTILE)}&text2={quote(HOSTILE)}"
            f"&corpus={quote(str(corpus))}&form=dog"
        )
        expect(page.get_by_text("dog").first).to_be_visible()
        still(page)
        expect(page.get_by_role("progressbar")).to_have_count(0)
        downloads_opened(page)
        with page.expect_download() as download:
            page.get_by_role("button", name="HTML", exact=True).click()
        download.value.save_as(tmp_path / f"{view}.html")
        assert page.locator("img[src=x]").count() == 0
        page.goto((tmp_path / f"{view}.html").as_uri())
        expect(page.get_by_text("dog").first).to_be_visible()
        assert page.locator("img").count() == 0
    assert not [url for url in asked if url.startswith("http://evil")]


@pytest.mark.slow
def test_two_texts_and_two_models_stand_below_each_other(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/words?corpus={quote(CORPUS)}&model2=mini:elmo&k=5")
    expect(neighbours(page, "layer 4")).to_have_count(2 * 5)
    expect(neighbours(page, "embeddings")).to_have_count(4 * 5)
    # static vectors: the neighbours are the same in both texts
    expect(
        page.get_by_text("mini:elmo: “play” in the two texts shares all 5 neighbours at the emb")
    ).to_be_visible()
    page.get_by_role("tab", name="Senses").click()
    page.get_by_role("button", name="that", exact=True).click()
    expect(page.get_by_text(re.compile("occurrences of “that”"))).to_have_count(2)


@pytest.mark.slow
def test_an_occurrence_becomes_the_text(page: Page, app_url: str) -> None:
    opened(page, app_url)
    still(page)
    first = neighbours(page, "layer 4").first
    sentence = first.get_attribute("title")
    word = first.locator("mark").inner_text()
    first.click()
    page.get_by_role("button", name="Search from here").click()
    expect(page.get_by_label("Text", exact=True)).to_have_value(str(sentence))
    chosen = words_of(page).locator("button[aria-pressed=true]")
    expect(chosen).to_have_text(word)
    still(page)
    page.reload()  # the address is the view
    expect(chosen).to_have_text(word)
    expect(page.get_by_label("Text", exact=True)).to_have_value(str(sentence))


@pytest.mark.slow
def test_an_index_can_be_cancelled_and_made_after_all(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/words?corpus={quote('primer:seed=9')}&text={quote(TEXT)}&most=250000")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("was not made")).to_be_visible()
    page.goto(
        f"{app_url}/words?corpus={quote('primer:seed=9')}&text={quote(TEXT)}&text2=&most=10000"
    )
    expect(neighbours(page, "layer 4")).to_have_count(10)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(page: Page, app_url: str, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, app_url, "at=2")
    for view in ("Neighbours", "Senses", "Tokenizers"):
        page.get_by_role("tab", name=view).click()
        still(page)
        wide = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
        assert wide <= 390, view


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_long_text_scrolls_within_a_few_lines(page: Page, app_url: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    text = "the old man saw a dog " * 100
    page.goto(f"{app_url}/words?corpus={quote(CORPUS)}&text={quote(text)}&text2=&at=400")
    chosen = words_of(page).locator("button[aria-pressed=true]")
    expect(chosen).to_be_in_viewport()
    expect(page.get_by_role("tab", name="Senses")).to_be_in_viewport()
    box = words_of(page).bounding_box()
    assert box is not None and box["height"] <= 180
    still(page)
    chosen.focus()  # words further on are reached by keyboard
    for _ in range(60):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("at=460"))
    expect(words_of(page).locator("button[aria-pressed=true]")).to_be_in_viewport()
