"""The notebooks in `docs/examples/`: each runs from top to bottom and draws what it finds."""

import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")

from docs.run_notebooks import EXAMPLES, executed  # noqa: E402  # it imports nbclient

LIMIT = 180  # seconds on two cores
LARGEST = 2_000_000  # characters of an output


def test_there_are_examples_without_outputs() -> None:
    assert len(EXAMPLES) == 7
    for path in EXAMPLES:
        book = nbformat.read(path, as_version=4)
        nbformat.validate(book)
        assert book.cells[0].cell_type == "markdown" and book.cells[0].source.startswith("# ")
        assert all(not cell.get("outputs") for cell in book.cells)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws_itself(path: Path, tmp_path: Path) -> None:
    start = time.monotonic()
    book = executed(path, tmp_path, LIMIT)
    assert time.monotonic() - start < LIMIT
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    drawn = [output.data for output in outputs if "text/html" in output.get("data", {})]
    assert len(drawn) >= 3
    assert all(len(data["text/html"]) <= LARGEST and data["text/plain"] for data in drawn)


@pytest.mark.slow
@pytest.mark.browser
def test_attention_in_an_exported_notebook_works_offline(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbconvert = pytest.importorskip("nbconvert", reason="pip install nbconvert")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES[0].parents[2]))
    load = 'import workbench as wb\nbert = wb.load("mini:bert", device="cpu")'
    shown = 'wb.attention(bert, "The old dog sees Mary.")'
    cells = [nbformat.v4.new_code_cell(source) for source in (load, shown, shown)]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=LIMIT).execute()
    page_of, _ = nbconvert.HTMLExporter(embed_images=True).from_notebook_node(book)
    (tmp_path / "exported.html").write_text(page_of)
    page = browser.new_context(offline=True).new_page()
    page.goto((tmp_path / "exported.html").as_uri(), wait_until="commit")
    first, second = (page.locator("[id^=workbench]").nth(n) for n in (0, 1))
    first.get_by_role("button", name="Map").click()
    panel = first.locator(".map .pane svg").first
    panel.hover(position={"x": 30, "y": 30})
    expect(first.locator(".tip")).to_be_visible()
    panel.click(position={"x": 30, "y": 30})
    expect(first.locator("aside.pinned")).to_contain_text("attends to")
    expect(second.locator("aside.pinned")).not_to_contain_text("attends to")
    page.context.close()
