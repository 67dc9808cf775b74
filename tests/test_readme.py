"""The README: short, with the two commands first, true numbers, and links that exist."""

import re
from pathlib import Path

from tests.examples import ROOT, blocks
from tests.models import zoo

README = (ROOT / "README.md").read_text("utf-8")
FIRST_SCREEN = README.split("\n## ")[0]
TESTS = 'pip install -e ".[test,docs]" && pytest'
PAGES = ("README.md", "CONTRIBUTING.md", "AGENTS.md")


def test_first_screen_holds_the_two_commands_and_no_other() -> None:
    shown = [block.text for block in blocks(ROOT / "README.md") if block.text in FIRST_SCREEN]
    assert shown == ["pip install -e . && workbench demo\n", f"{TESTS}\n"]
    assert len(FIRST_SCREEN.splitlines()) < 24


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_ci_runs_the_readmes_test_command() -> None:
    assert TESTS in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_number_of_architectures_is_that_of_the_zoo() -> None:
    architectures = {recipe.model_type for recipe in zoo.RECIPES.values()}
    said = re.search(r"tested on (\d+) architectures", README)
    assert said and int(said[1]) == len(architectures)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", (ROOT / page).read_text()):
            assert (ROOT / target).exists(), f"{page}: {target}"


def test_pictures_are_small() -> None:
    pictures = [ROOT / path for path in re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)]
    assert len(pictures) == 5
    assert all(path.stat().st_size < 60_000 for path in pictures)


def test_the_citation_names_this_version() -> None:
    from workbench import __version__

    assert f"version: {__version__}\n" in Path(ROOT / "CITATION.cff").read_text()
