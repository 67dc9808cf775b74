"""The examples of a page (README or docs), run in order in a folder of the page's own.

A `console` block is commands and what they print, a `pycon` block a Python session; `…` stands for
any text in both. A paragraph that ends with "`NAME`:" makes a file of the block after it. Commands
run in this process. Costs: what the commands cost; slow blocks run only with `-m slow`.
"""

import doctest
import importlib.util
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from workbench.cli.main import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
QUICK = ("describe", "profile")  # experiments that take a second; all others are slow
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"`([\w./-]+\.\w+)`:\s*\Z")


def site_hooks() -> ModuleType:
    """`docs/hooks.py`, which generates the reference pages."""
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str  # the fence's language
    text: str
    line: int
    file: str = ""  # the file it shows
    marked: bool = False  # follows `<!-- slow -->`

    @property
    def is_slow(self) -> bool:
        run = re.findall(r"^\$ workbench run ([\w-]+)", self.text, flags=re.MULTILINE)
        trains = "$ workbench train" in self.text or "train-parser" in self.text
        return self.marked or trains or "--sweep" in self.text or not {*run} <= {*QUICK}


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(
            found[1],
            found[2],
            text[: found.start()].count("\n") + 1,
            file[1] if (file := _FILE.search(text[: found.start()])) else "",
            text[: found.start()].rstrip().endswith("<!-- slow -->"),
        )
        for found in _FENCE.finditer(text)
    ]


def examples(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.kind in ("console", "pycon")]


def write_files(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, "utf-8")


def add_files(
    page: Path, package: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Add the files that a page shows to a package; of nothing else a line is changed."""
    write_files(page, folder)
    more = folder.joinpath(*package.__name__.split("."))
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(more)])
    for file in more.glob("*.py"):  # forgotten again after the test
        monkeypatch.setitem(sys.modules, f"{package.__name__}.{file.stem}", None)
        del sys.modules[f"{package.__name__}.{file.stem}"]


def run(
    page: Path, slow: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run a page's examples in order; the slow ones too if `slow` is true."""
    names: dict[str, object] = {}
    for block in examples(page):
        if block.is_slow and not slow:
            continue
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.kind == "pycon":
            _run_python(block.text, names, where, block.line)
        else:
            _run_commands(block.text, where, monkeypatch, capsys)


def _run_commands(
    text: str, where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in text.removeprefix("$ ").split("\n$ "):
        command, _, shown = part.partition("\n")
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as end:
            main()
        printed, errors = capsys.readouterr()
        assert end.value.code in (0, None), f"{where}: {command}\n{errors}"
        assert matches(shown, printed), f"{where}: {command}\n{printed}"


def _run_python(text: str, names: dict[str, object], where: str, line: int) -> None:
    session = doctest.DocTestParser().get_doctest(text, names, where, where, line)
    report: list[str] = []
    runner = doctest.DocTestRunner(_Checker(), verbose=False)
    runner.run(session, out=report.append, clear_globs=False)
    names.update(session.globs)
    assert not report, "".join(report)


class _Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(want, got, optionflags) or matches(want, got)


def matches(shown: str, printed: str) -> bool:
    """Whether this was printed, where `…` stands for anything."""
    pattern = ".*".join(map(re.escape, shown.rstrip("\n").split("…")))
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None
