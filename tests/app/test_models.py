"""The page Models in a real browser: a person uploads a model and uses it."""

import io
import os
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
BERT = Path(__file__).parents[2] / "workbench" / "models" / "mini" / "bert"


def _settled(page: Page) -> None:
    expect(page.get_by_test_id("stSpinner")).to_have_count(0)
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.slow
def test_the_facts_of_a_model_and_where_its_parameters_are(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/models?model=mini:gpt")
    expect(page.get_by_test_id("stMetricValue").first).to_have_text("gpt2")
    expect(page.locator(".js-plotly-plot .ytick").first).to_be_visible()
    expect(page.get_by_text("the next piece, from the pieces before it (causal)")).to_be_visible()
    _settled(page)
    if folder := os.environ.get("WORKBENCH_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / "models.png", full_page=True)


def page_of_library(page: Page, title: str) -> None:
    page.get_by_test_id("stTopNavSection").filter(has_text="Library").click()
    page.get_by_role("menuitem", name=title, exact=True).click()


@pytest.mark.slow
def test_a_zip_becomes_a_model_that_other_pages_know(page: Page, app_url: str) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path in BERT.iterdir():
            archive.write(path, f"bert/{path.name}")
    page.goto(f"{app_url}/models")
    zipped = {"name": "my bert.zip", "mimeType": "application/zip", "buffer": made.getvalue()}
    page.locator("input[type=file]").set_input_files([zipped])  # type: ignore[list-item]
    page.get_by_role("button", name="Check and store").click()
    expect(page.get_by_text("Stored the model")).to_be_visible()
    expect(page.get_by_role("button", name="In use")).to_be_disabled()
    assert "model=my-bert" in page.url
    page_of_library(page, "Corpora")
    expect(page.get_by_role("heading", name="Corpora", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("corpora[?].*model=my-bert"))
    page_of_library(page, "Models")
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No uploads yet.")).to_be_visible()
    _settled(page)
