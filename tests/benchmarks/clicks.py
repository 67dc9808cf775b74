"""How many clicks and seconds the app takes to answer, in Chromium at 1280 x 800.

    python -m tests.benchmarks.clicks

starts the app in a folder of its own, gives it time to prepare its pages, and does what a visitor
does: types a sentence, opens heads, takes the tour, changes pages, probes a model and a corpus of
one's own, and saves the PDF. A click is one press of the mouse; typing a line is none. Costs: about
three minutes on two quiet cores.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.app.drive import still
from tests.app.test_clicks import Clicks, ask_for_a_preview, own_inputs
from tests.benchmarks.app_pages import GROUPS, LATER, App, clicked, spread
from tests.benchmarks.browser import opened
from workbench.core.files import atomic_write

RESULTS = Path(__file__).parent / "results" / "clicks.json"
HERE = Path(__file__).parents[2]
SENTENCES = ("Birds sing.", "The cats near the dog are happy.", "She gave him a book.")
ROUNDS = 3
_OTHER_MAPS = """before => {
    const map = document.querySelector('[aria-label="Attention of all heads"] img');
    return map && map.src !== before;
}"""


@contextmanager
def tab(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(120_000)
    page.goto(address, wait_until="commit")
    yield page
    page.close()


def home_useful(browser: Browser, home: str) -> dict[str, Any]:
    """Seconds from the address to the heads, and to the predictions of the example."""
    heads, predictions = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with tab(browser, home) as page:
            page.get_by_role("link", name="head 4.4").wait_for()
            heads.append(time.perf_counter() - began)
            page.get_by_text("in the place of").wait_for()
            predictions.append(time.perf_counter() - began)
    return {"all heads": spread(heads), "predictions": spread(predictions)}


def own_sentence(browser: Browser, home: str) -> dict[str, Any]:
    """Seconds from the end of typing to all heads, to one head after a click, and to another."""
    all_heads, others = [], []
    with tab(browser, home) as page:
        page.get_by_text("in the place of").wait_for()
        maps = page.locator('[aria-label="Attention of all heads"] img').first
        for sentence in SENTENCES * ROUNDS:
            before = maps.get_attribute("src")
            page.get_by_role("textbox", name="Your sentence").fill(sentence)
            began = time.perf_counter()
            page.wait_for_function(_OTHER_MAPS, arg=before)
            all_heads.append(time.perf_counter() - began)
        still(page)
        click, began = Clicks(page), time.perf_counter()
        page.get_by_role("link", name="head 3.2").click()
        click.count += 1
        page.get_by_role("heading", name="Head 3.2").wait_for()
        one = time.perf_counter() - began
        still(page)
        page.locator("section.cell").focus()
        for number in range(2 * ROUNDS):
            name = "Head 3.3" if number % 2 == 0 else "Head 3.2"
            began = time.perf_counter()
            page.keyboard.press("ArrowRight" if number % 2 == 0 else "ArrowLeft")
            page.get_by_role("heading", name=name).wait_for()
            others.append(time.perf_counter() - began)
    return {
        "all heads after the text": spread(all_heads),
        "clicks to one head": click.count,
        "one head after the click": round(one, 3),
        "another head": spread(others),
    }


def probing(browser: Browser, home: str, folder: Path) -> dict[str, Any]:
    """Clicks and seconds from the page Probing to a curve of one's own inputs, and to its PDF."""
    model, corpus = own_inputs(folder)
    with tab(browser, f"{home}/probing") as page:
        page.get_by_text("F1 by layer (each layer)").wait_for()
        still(page)
        curve, began = Clicks(page), time.perf_counter()
        ask_for_a_preview(page, curve, model, corpus)
        curve(page.get_by_role("button", name="Run", exact=True))
        page.get_by_role("heading", name="Edge probing of my-bert on mine").wait_for()
        page.get_by_text("F1 by layer (each layer)").wait_for()
        to_curve = time.perf_counter() - began
        still(page)
        pdf, began = Clicks(page), time.perf_counter()
        pdf(page.get_by_role("button", name="Export"))
        with page.expect_download() as download:
            pdf(page.get_by_role("button", name="PDF", exact=True).first)
        if not Path(download.value.path()).read_bytes().startswith(b"%PDF"):
            raise RuntimeError("the download is no PDF")
        to_pdf = time.perf_counter() - began
    return {
        "clicks to the curve": curve.count,
        "curve": round(to_curve, 1),
        "clicks to the PDF": pdf.count,
        "PDF": round(to_pdf, 1),
    }


def tour(browser: Browser, home: str) -> float:
    """Seconds of all five steps for a visitor who reads nothing."""
    with tab(browser, home) as page:
        page.get_by_role("link", name="Take the tour").click()
        began = time.perf_counter()
        for number in range(1, 6):
            page.get_by_text(f"{number} of 5.").wait_for()
            still(page)
            if number < 5:
                page.get_by_role("link", name="Next", exact=True).click()
        return round(time.perf_counter() - began, 1)


def page_changes(browser: Browser, home: str) -> dict[str, Any]:
    """Seconds from a click in the bar to a page that is drawn, its script ended, by round."""
    rounds: list[list[float]] = []
    with tab(browser, home) as page:
        page.get_by_text("in the place of").wait_for()
        still(page)
        for _ in range(ROUNDS):
            rounds.append([])
            for path in [*GROUPS, ""]:
                rounds[-1].append(clicked(page, path))
                print(path or "home", round(rounds[-1][-1], 2), flush=True)
                page.wait_for_timeout(300)
    later = [seconds for each in rounds[1:] for seconds in each]
    return {"first visits": spread(rounds[0]), "later visits": spread(later)}


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        app = App(HERE, Path(temporary))
        with app.served() as home, sync_playwright() as playwright:
            browser = opened(playwright)
            with tab(browser, home) as page:
                page.get_by_text("in the place of").wait_for()
            time.sleep(LATER)
            (own := Path(temporary) / "own").mkdir()
            results = {
                "load": [round(os.getloadavg()[0], 1)],
                "page changes": page_changes(browser, home),
                "home": home_useful(browser, home),
                "own sentence": own_sentence(browser, home),
                "tour": tour(browser, home),
                "probing": probing(browser, home, own),
            }
            results["load"].append(round(os.getloadavg()[0], 1))
            browser.close()
    text = json.dumps(results, indent=1) + "\n"
    print(text)
    with atomic_write(RESULTS) as path:
        path.write_text(text)


if __name__ == "__main__":
    main()
