"""What the README says is so: its commands, its examples and what they print."""

import doctest
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from workbench.cli import app, main

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's example files."""
    for name, content in example_files().items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_examples(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {"dog.conllu", "roles.jsonl", "cat.mrg", "pairs.tsv"} <= names
    assert len(blocks("console")) >= 5


@pytest.mark.parametrize("example", blocks("console"), ids=lambda block: block.split("\n")[0])
def test_commands_print_what_the_readme_shows(
    example: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, shown = example.partition("\n")
    monkeypatch.setattr(sys, "argv", shlex.split(command.removeprefix("$ ")))
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    assert capsys.readouterr().out.rstrip("\n") == shown.rstrip("\n")


def test_python_examples_give_what_the_readme_shows(folder: Path) -> None:
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
