"""The examples of the README and of every page of docs/ do what they show."""

from pathlib import Path

import pytest

from tests import examples
from tests.examples import PAGES, ROOT

pytestmark = pytest.mark.usefixtures("warm_workers")
# These take longest without their slow examples: with -m slow. Tests of what they show are by day.
LONG = {
    ROOT / "docs" / page
    for page in (
        "analyses/compress.md", "analyses/contributions.md", "analyses/lens.md",
        "analyses/neighbours.md", "analyses/patching.md", "analyses/predict.md",
        "analyses/retrieve.md", "how-to/ci.md", "reports.md",
        "analyses/tokenization.md", "guides/predictions.md", "guides/words.md",
        "how-to/edits.md", "how-to/notebook.md", "how-to/own-model.md",
        "how-to/runs.md", "how-to/states.md",
    )
}  # fmt: skip


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages(slow: bool) -> list[Path]:
    """The pages with quick examples that are tried by day, or with others for the night."""
    return [
        page
        for page in PAGES
        if any(
            block.is_slow or page in LONG if slow else not block.is_slow and page not in LONG
            for block in examples.examples(page)
        )
    ]


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's own folder, with the files that it shows."""
    examples.write_files(request.getfixturevalue("page"), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WORKBENCH_RUNS", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("page", pages(slow=False), ids=name)
@pytest.mark.usefixtures("folder")
def test_quick_examples_print_what_the_page_shows(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples.run(page, False, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(slow=True), ids=name)
@pytest.mark.usefixtures("folder")
def test_all_examples_print_what_the_page_shows(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examples.run(page, True, monkeypatch, capsys)


def test_there_are_examples() -> None:
    assert len(pages(slow=False)) > 5 and len(pages(slow=True)) > 3
    shown = examples.blocks(ROOT / "docs" / "how-to" / "own-corpus.md")
    assert {"dog.conllu", "roles.jsonl", "cat.mrg", "pairs.tsv"} <= {each.file for each in shown}
