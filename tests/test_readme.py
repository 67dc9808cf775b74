"""What the README says is so: its commands, its examples and what they print."""

import doctest
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from workbench import read, tiny_bert
from workbench.cli.main import app, main

pytestmark = pytest.mark.usefixtures("warm_workers")

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
FIRST_SCREEN = README.split("\n## ")[0]
TESTS = 'pip install -e ".[test]" && pytest'


def blocks(kind: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def example_files() -> dict[str, str]:
    """Every "`NAME`:" that ends a paragraph, with the block after it."""
    return dict(re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)^```$", README, re.DOTALL | re.MULTILINE))


def documented(command: Any, name: str) -> list[str]:
    """Every command there is, as one types it, and every option."""
    options = [option for parameter in command.params for option in parameter.opts]
    found = [option for option in options if option.startswith("--")]
    for sub, below in getattr(command, "commands", {}).items():
        found += [f"{name} {sub}", *documented(below, f"{name} {sub}")]
    return found


def test_first_screen_holds_the_two_commands_and_no_other() -> None:
    assert blocks("sh", FIRST_SCREEN) == ["pip install -e . && workbench demo\n", f"{TESTS}\n"]
    assert len(FIRST_SCREEN.splitlines()) < 24


def test_ci_runs_the_readmes_test_command() -> None:
    assert TESTS in (ROOT / ".ci" / "run").read_text().splitlines()


@pytest.mark.parametrize("name", sorted(set(documented(get_command(app), "workbench"))))
def test_every_command_and_option_is_documented(name: str) -> None:
    assert re.search(rf"`{name}\b", README)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the README's example files and its tiny model, for all its commands."""
    folder = tmp_path_factory.mktemp("study")
    for name, content in example_files().items():
        (folder / name).write_text(content)
    words = (token.text for doc in read("primer").docs("dev") for token in doc)
    for part in tiny_bert(words):
        part.save_pretrained(folder / "tiny-bert")
    return folder


@pytest.fixture
def folder(study: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(study)
    monkeypatch.setenv("WORKBENCH_HOME", str(study / "home"))
    return study


def test_there_are_examples(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"dog.conllu", "roles.jsonl", "cat.mrg", "pairs.tsv"} <= names
    assert len(blocks("console")) >= 5


def console() -> Iterator[Any]:
    """Every example; those that train or ask much are for the night."""
    for block in blocks("console"):
        first = block.split("\n")[0]
        slow = any(what in first for what in ("train", "--sweep", "edge-probing", "head"))
        yield pytest.param(block, id=first, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("example", list(console()))
def test_commands_print_what_the_readme_shows(
    example: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in example.removeprefix("$ ").split("\n$ "):
        command, _, shown = part.partition("\n")
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as end:
            main()
        printed, told = capsys.readouterr()
        assert end.value.code in (0, None), told
        assert re.fullmatch(pattern(shown.rstrip("\n")), printed.rstrip("\n"), re.DOTALL), printed


def pattern(shown: str) -> str:
    """What is shown, where an ellipsis stands for anything."""
    return ".*".join(map(re.escape, shown.split("…")))


def test_python_examples_give_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in example_files().items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    session = doctest.DocTestParser().get_doctest(
        "\n".join(blocks("pycon")), {}, "README.md", None, 0
    )
    assert len(session.examples) > 5
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(session, out=report.append)
    assert not report, "".join(report)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
