"""The page Probing in a real browser: ask, look at every side, cancel, resume, bring targets."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.conftest import _environment
from tests.app.drive import still, typed
from workbench.runs.launch import cancel
from workbench.runs.run import all_runs

pytestmark = pytest.mark.browser
EVIL = "<img/src=x/onerror=window.evil=1>"
VIEWS = {
    "Pipeline": "in the order of the published pipeline|There is no mix",
    "Mix": "in the learned mix of all layers",
    "Confusion": "Confusion matrix",
    "Examples": "right at layer|gets no target right|No layer predicts",
    "Controls": "Selectivity by layer",
    "Summary": "of the best layer, and of the baselines",
}


@pytest.fixture
def ended(app_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test leaves under way is ended."""
    yield
    for name, value in _environment(app_folder).items():
        monkeypatch.setenv(name, value)
    for run, now in all_runs():
        if now.under_way and now.experiment == "edge-probing":
            cancel(run)


def choose_task(page: Page, name: str) -> None:
    box = page.get_by_role("combobox", name=re.compile("Tasks"))
    box.click()
    page.get_by_role("option", name=name, exact=True).click()
    page.keyboard.press("Escape")
    still(page)


def keep(page: Page, name: str) -> None:
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"probing-{name}.png", full_page=True)


@pytest.mark.slow  # each view without a browser is in test_pages_probing, the page in test_pages
def test_a_run_is_started_and_every_view_of_it_opened(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/probing?corpus=primer:size%3D200")
    expect(page.get_by_text("Ready to run")).to_be_visible()
    page.get_by_text("Advanced").click()
    choose_task(page, "pos")
    typed(page, "Maximum number of sentences of each split", "30")
    typed(page, "Seeds, once for each of which a probe is trained", "0")
    typed(page, "Maximum number of epochs", "1")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("F1 by layer (each layer)")).to_be_visible()
    expect(page).to_have_url(re.compile("run=edge-probing-"))
    keep(page, "layers")

    page.get_by_text("mix up to each layer", exact=True).click()
    expect(page.get_by_text("F1 by layer (mix up to each layer)")).to_be_visible()
    for view, words in VIEWS.items():
        still(page)
        page.get_by_role("tab", name=view).click()
        expect(page.get_by_text(re.compile(words)).first).to_be_visible()
        if view != "Summary":  # the first tab, which the address leaves out
            expect(page).to_have_url(re.compile(f"view={view}"))
    still(page)
    page.get_by_role("tab", name="Confusion").click()
    expect(page).to_have_url(re.compile("view=Confusion"))
    still(page)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_text("Confusion matrix: pos")).to_be_visible()
    expect(page.get_by_role("tab", name="Confusion")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.slow  # as on the page Experiments, which is tested each time
def test_a_long_run_is_cancelled_and_can_be_resumed(page: Page, app_url: str, ended: None) -> None:
    page.goto(f"{app_url}/probing?corpus=primer&new=1")
    expect(page.get_by_text("Ready to run")).to_be_visible()
    page.get_by_text("Advanced").click()
    typed(page, "Maximum number of epochs", "1000")
    typed(
        page, "Epochs without gain on dev before early stopping", "1000"
    )  # it cannot end before it is cancelled
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    expect(page.locator("[class*=st-key-run-under-way]")).to_contain_text(
        re.compile("Reading|Encoding|pos")
    )
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def upload(page: Page, name: str, content: str) -> None:
    file = {"name": name, "mimeType": "text/plain", "buffer": content.encode()}
    page.locator("input[type=file]").set_input_files([file])  # type: ignore[list-item]
    page.get_by_role("button", name="Check and store").click()


def row(noun: str, verb: str, label: str, end: int = 1) -> str:
    return (
        f'{{"text": "the {noun} {verb}", "targets": [{{"span1": [1, {end + 1}], '
        f'"span2": [2, 3], "label": "{label}"}}]}}\n'
    )


@pytest.mark.slow
def test_ones_own_targets_are_named_by_line_where_they_are_wrong_and_probed_where_not(
    page: Page, app_url: str
) -> None:
    nouns = ("dog", "cat", "cow", "man", EVIL)
    good = "".join(
        row(noun, verb, label)
        for noun in nouns
        for verb, label in (("sleeps", "ARG1"), ("eats", "ARG0"), ("sees", "ARG0"))
        for _ in range(4)
    )
    page.goto(f"{app_url}/probing")
    page.get_by_text("Upload your own targets").click()
    upload(page, "srl-mine.jsonl", row("dog", "sleeps", "ARG1") + row("cat", "eats", "A", 7) + "{")
    expect(page.get_by_text("Line 2: ")).to_be_visible()
    expect(page.get_by_text("Line 3: ")).to_be_visible()
    keep(page, "faults")
    page.reload()
    page.get_by_text("Upload your own targets").click()
    upload(page, "srl-mine.jsonl", good)
    expect(page.get_by_text("Stored the corpus")).to_be_visible()
    expect(page.get_by_text("Ready to run")).to_be_visible()
    page.get_by_text("Preview", exact=True).click()
    still(page)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("F1 by layer (each layer)")).to_be_visible()
    expect(page.get_by_text("Preview: closed").first).to_be_visible()
    expect(page.get_by_role("tab", name="Examples")).to_be_visible()
    page.get_by_role("tab", name="Examples").click()
    expect(page.get_by_text(re.compile(VIEWS["Examples"])).first).to_be_visible()
    assert page.evaluate("window.evil") is None
    assert page.locator("img[src=x]").count() == 0
    expect(page.get_by_test_id("stException")).to_have_count(0)
    keep(page, "own")
