"""From an encoder without a head and a table of labelled texts to a smaller classifier, in a real
browser: every click counts, typing does not."""

import os
import random
import re
import zipfile
from pathlib import Path

import pytest
import transformers
from playwright.sync_api import Locator, Page, expect

import workbench as wb
from tests.app.drive import still
from tests.app.test_clicks import Clicks
from workbench.models.references import located

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MOST = 7  # clicks
TEXTS = {  # label: what its texts say
    "positive": ("lovely", "charming", "good", "fine"),
    "negative": ("awful", "boring", "bad", "sad"),
}
TUNED = 300_000  # milliseconds that a training may take on a busy machine


def encoder(folder: Path) -> Path:
    """A BERT without any head, as plain transformers saves it."""
    source = located("mini:bert")
    transformers.AutoModel.from_pretrained(source).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def table(file: Path, count: int = 300) -> Path:
    """A table with a column of texts and one of labels."""
    draw = random.Random(0)
    nouns = ("hat", "dog", "book", "house", "garden", "song")
    rows = []
    for number in range(count):
        label = list(TEXTS)[number % 2]
        rows.append(f"The {draw.choice(nouns)} of Anna is {draw.choice(TEXTS[label])},{label}")
    file.write_text("\n".join(["text,label", *rows, ""]), encoding="utf-8")
    return file


def removed_heads(folder: Path) -> int:
    """How many heads add nothing in the classifier that plain transformers opens."""
    net = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    heads = net.config.num_attention_heads
    return sum(
        not head.any()
        for layer in net.bert.encoder.layer
        for head in layer.attention.output.dense.weight.chunk(heads, dim=1)
    )


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"smaller-model-{name}.png", full_page=True)


def test_a_smaller_classifier_is_seven_clicks_away(
    page: Page, app_url: str, tmp_path: Path
) -> None:
    model, corpus = encoder(tmp_path / "my-encoder"), table(tmp_path / "reviews.csv")
    page.goto(app_url)
    expect(page.get_by_text("From your own texts to a smaller classifier")).to_be_visible()
    still(page)
    click = Clicks(page)
    picture(page, "0-home")

    def choose(label: str, path: Path) -> None:
        box: Locator = page.get_by_test_id("stMain").get_by_role("combobox", name=label, exact=True)
        click(box)
        box.fill(str(path))
        box.press("Enter")
        still(page)

    click(page.get_by_text("From your own texts to a smaller classifier"))
    still(page)
    picture(page, "1-form")
    choose("Model", model)
    choose("Corpus", corpus)
    picture(page, "2-filled")
    run = page.get_by_role("button", name="Run", exact=True)
    expect(run).to_be_enabled()
    click(run)
    still(page)
    picture(page, "3-running")
    prune = page.get_by_role("button", name="Prune its heads")
    expect(prune).to_be_visible(timeout=TUNED)
    still(page)
    picture(page, "4-tuned")
    click(prune)
    expect(page).to_have_url(re.compile("run=head-pruning-"))
    expect(page.locator(".st-key-context")).to_contain_text("finetune-")
    export = page.get_by_role("button", name="Export model")
    expect(export).to_be_visible(timeout=TUNED)
    still(page)
    picture(page, "5-pruned")
    click(export)
    save = page.get_by_role("button", name="Save zip")
    expect(save).to_be_visible()
    still(page)
    picture(page, "6-exported")
    with page.expect_download() as download:
        click(save)
    print(f"encoder and table to a smaller classifier: {click.count} clicks")
    expect(page.get_by_test_id("stException")).to_have_count(0)
    with zipfile.ZipFile(download.value.path()) as archive:
        archive.extractall(tmp_path / "out")
    (folder,) = (tmp_path / "out").iterdir()
    assert removed_heads(folder)
    task = wb.load(str(folder), device="cpu").predicts
    assert task is not None and task.names == ("negative", "positive")
    assert click.count <= MOST
