"""How many clicks and seconds a result takes in a real browser, with a model and corpus of one's
own: each step is one click or one typed line."""

import re
import shutil
import time
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import workbench as wb
from tests.app.drive import still

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MINI = Path(wb.__file__).parent / "models" / "mini" / "bert"
CONLLU = """1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2\t{0}\t{0}\tNOUN\t_\t_\t3\tnsubj\t_\t_
3\tsees\tsee\tVERB\t_\t_\t0\troot\t_\t_
4\ta\ta\tDET\t_\t_\t5\tdet\t_\t_
5\t{1}\t{1}\tNOUN\t_\t_\t3\tobj\t_\t_

"""
NOUNS = ("dog", "cat", "girl", "boy", "horse", "farmer", "teacher", "bird")


class Clicks:
    """Counts what a user clicks."""

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def __call__(self, target: Locator) -> None:
        target.click()
        self.count += 1
        self.page.wait_for_timeout(300)  # until a menu or a list is open


def own_inputs(folder: Path) -> tuple[Path, Path]:
    """A model folder and a corpus file, as a user has them."""
    shutil.copytree(MINI, folder / "my-bert")
    corpus = folder / "mine.conllu"
    corpus.write_text(
        "".join(CONLLU.format(a, b) for a in NOUNS for b in NOUNS for _ in range(3)),
        encoding="utf-8",
    )
    return folder / "my-bert", corpus


def ask_for_a_preview(page: Page, click: Clicks, model: Path, corpus: Path) -> None:
    """Fill in a new run of probing, up to the button that starts it."""
    click(page.get_by_role("button", name="New run"))
    for label, path in (("Model", model), ("Corpus", corpus)):
        box = page.get_by_role("dialog").get_by_role("combobox", name=label)
        click(box)
        box.fill(str(path))
        box.press("Enter")
        still(page)
    click(page.get_by_text("Preview", exact=True))
    still(page)


def test_a_probing_curve_of_ones_own_model_and_corpus_is_six_clicks_away(
    page: Page, app_url: str, tmp_path: Path
) -> None:
    model, corpus = own_inputs(tmp_path)
    page.goto(f"{app_url}/probing")
    expect(page.get_by_text("F1 by layer (each layer)")).to_be_visible()  # the built-in result
    still(page)
    click, began = Clicks(page), time.monotonic()
    ask_for_a_preview(page, click, model, corpus)
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    click(page.get_by_role("button", name="Run", exact=True))
    expect(page).to_have_url(re.compile("run=edge-probing-"))
    expect(page.get_by_role("heading", name="Edge probing of my-bert on mine")).to_be_visible()
    expect(page.get_by_text("F1 by layer (each layer)")).to_be_visible()
    print(
        f"own model and corpus to a curve: {click.count} clicks, {time.monotonic() - began:.0f} s"
    )
    assert click.count <= 6
    still(page)
    expect(page.locator(".st-key-context")).to_contain_text("my-bert")
    expect(page.locator(".st-key-context")).to_contain_text("mine.conllu")

    click, began = Clicks(page), time.monotonic()
    click(page.get_by_role("button", name="Export"))
    with page.expect_download() as download:
        click(page.get_by_role("button", name="PDF", exact=True).first)
    assert Path(download.value.path()).read_bytes().startswith(b"%PDF")
    print(f"curve to PDF: {click.count} clicks, {time.monotonic() - began:.0f} s")
    assert click.count <= 2
    expect(page.get_by_test_id("stException")).to_have_count(0)
