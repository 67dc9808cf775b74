"""The notebooks in `docs/examples/`: each runs from top to bottom and draws what it finds."""

import time
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")

EXAMPLES = sorted((Path(__file__).parents[1] / "docs" / "examples").glob("*.ipynb"))
LIMIT = 180  # seconds on two cores
LARGEST = 2_000_000  # characters of an output


def test_there_are_examples_without_outputs() -> None:
    assert len(EXAMPLES) == 6
    for path in EXAMPLES:
        book = nbformat.read(path, as_version=4)
        nbformat.validate(book)
        assert book.cells[0].cell_type == "markdown" and book.cells[0].source.startswith("# ")
        assert all(not cell.get("outputs") for cell in book.cells)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws_itself(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PYTHONPATH", str(path.parents[2]))
    book = nbformat.read(path, as_version=4)
    start = time.monotonic()
    nbclient.NotebookClient(
        book, timeout=LIMIT, resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert time.monotonic() - start < LIMIT
    outputs = [output for cell in book.cells for output in cell.get("outputs", ())]
    drawn = [output.data for output in outputs if "text/html" in output.get("data", {})]
    assert len(drawn) >= 3
    assert all(len(data["text/html"]) <= LARGEST and data["text/plain"] for data in drawn)
