"""The documentation site builds, and its generated pages have everything that there is."""

import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.main import get_command

import workbench
from tests.examples import ROOT, site_hooks
from workbench.cli.main import commands as all_commands
from workbench.experiment.definition import EXPERIMENTS, built_in_experiments

EXAMPLES = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs/examples").glob("*.ipynb")]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    """The hooks, with each generated page made once for all tests."""
    module = site_hooks()
    for page in ("command_line", "settings", "tables", "python_api", "errors"):
        setattr(module, page, cache(getattr(module, page)))
    return module


LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([\w-]+))?\)")


def broken_links(pages: Mapping[str, str]) -> list[str]:
    """Links to no page, no file beside the pages, or no heading of a page."""
    broken = []
    for name, text in pages.items():
        for target, heading in LINK.findall(without_code(text)):
            path = os.path.normpath(Path(name).parent / target) if target else name
            is_there = path in pages or (ROOT / "docs" / name).parent.joinpath(target).exists()
            if not is_there or (heading and heading not in headings(pages.get(path, ""))):
                broken.append(f"{name}: {target}#{heading}")
    return broken


def without_code(text: str) -> str:
    return re.sub(r"^ *(```+)[^`]*$.*?^ *\1 *$", "", text, flags=re.MULTILINE | re.DOTALL)


@cache
def headings(text: str) -> set[str]:
    """The anchors of a page's headings, as Markdown makes them."""
    titles = re.findall(r"^#+ (.+)$", without_code(text), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)|[^\w\s-]", r"\1", title) for title in titles]
    return {re.sub(r"[-\s]+", "-", title.strip().lower()) for title in plain}


def test_links_lead_to_pages_and_headings(hooks: ModuleType) -> None:
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)): path.read_text("utf-8") for path in docs.rglob("*.md")}
    assert not broken_links(pages | hooks.pages())


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = "# One `two`, (three)\n[a](#one-two-three) [b](b.md#x) [c](no.md) [d](https://d.e)\n"
    page += "```\n[e](code.md)\n```\n[f](../g.md)\n"
    pages = {"a/a.md": page, "a/b.md": "## Y", "g.md": ""}
    assert broken_links(pages) == ["a/a.md: b.md#x", "a/a.md: no.md#"]


@pytest.mark.slow  # by day the links and the generated pages are looked at
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason='mkdocs is not installed: pip install -e ".[docs]"')
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert not (tmp_path / "hooks.py").exists()
    page = (tmp_path / "reference" / "python.html").read_text()
    missing = [name for name in workbench.__all__ if f">{name}<" not in page.replace("wb.", "")]
    assert missing in ([], ["__version__"])
    for path in EXAMPLES:
        code = html.unescape(
            re.sub(r"<[^>]+>", "", (tmp_path / path).with_suffix(".html").read_text())
        )
        assert "import workbench as wb" in code, path
    assert 'href="look-at-attention.html"' in (tmp_path / "examples/index.html").read_text()
    for path in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]+)"', path.read_text()
        )
        assert not loaded, path


def test_a_notebook_that_was_executed_has_its_outputs_where_its_cells_are(
    hooks: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "EXECUTED", tmp_path)
    path = hooks.notebooks()[0]
    assert "data-output" not in hooks.notebook_page(path)
    assert "run_notebooks.py" in hooks.notebook_page(path)
    book = json.loads(path.read_text())
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    shown = {"text/html": ["<b>one", "</b>"], "text/plain": "one"}
    cells[0]["outputs"] = [
        {"output_type": "stream", "name": "stderr", "text": "50 %"},
        {"output_type": "stream", "name": "stdout", "text": "1 < 2\n"},
        {"output_type": "execute_result", "data": shown},
    ]
    bar = {"text/plain": "50 %", "application/vnd.jupyter.widget-view+json": {}}
    cells[0]["outputs"].insert(1, {"output_type": "display_data", "data": bar})
    cells[1]["outputs"] = [{"output_type": "display_data", "data": {"image/png": "AAAA\n"}}]
    (tmp_path / path.name).write_text(json.dumps(book))
    page = hooks.notebook_page(path)
    at = [page.index(f'<div data-output="{n}"></div>') for n in range(3)]
    first, second, third = (page.index("".join(cell["source"])) for cell in cells[:3])
    assert first < at[0] < at[1] < second < at[2] < third

    class Shown:
        file = type("", (), {"src_uri": f"examples/{path.stem}.md"})

    built = hooks.on_post_page(page, page=Shown)
    assert "data-output" not in built and "50 %" not in built
    for output in ("<pre>1 &lt; 2\n</pre>", "<b>one</b>", 'src="data:image/png;base64,AAAA"'):
        assert built.count(output) == 1
    cells[0]["source"] = "another_cell()"  # what was executed is no longer the notebook
    (tmp_path / path.name).write_text(json.dumps(book))
    assert "data-output" not in hooks.notebook_page(path)


def commands(command: Any, name: str) -> list[str]:
    """Every command as one types it, and every option."""
    names = [name] if name else []
    for parameter in command.params:
        names += [option for option in parameter.opts if option.startswith("--")]
    for sub, below in getattr(command, "commands", {}).items():
        names += commands(below, f"{name} {sub}")
    return names


def test_every_command_and_option_is_in_the_reference(hooks: ModuleType) -> None:
    page = hooks.command_line()
    missing = [
        n for n in commands(get_command(all_commands()), "workbench") if f"`{n}`" not in page
    ]
    assert not missing


def test_every_setting_and_table_is_in_the_reference(hooks: ModuleType) -> None:
    settings, tables = hooks.settings(), hooks.tables()
    for name, experiment in EXPERIMENTS.items():
        shown = settings.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert all(f"`{field}`" in shown for field in experiment.settings.model_fields)
        shown = tables.split(f"\n## {name}\n")[1].split("\n## ")[0]
        assert all(f"`{table}`" in shown for table in experiment.tables)


def test_every_code_of_an_error_is_in_the_reference(hooks: ModuleType) -> None:
    raised = {
        code
        for path in (ROOT / "workbench").rglob("*.py")
        for code in re.findall(r'\bcode="([\w-]+)"', path.read_text("utf-8"))
    }
    assert raised and raised <= set(re.findall(r"^## `([\w-]+)`$", hooks.errors(), re.MULTILINE))


def test_every_name_of_the_package_is_in_the_reference_and_what_it_returns(
    hooks: ModuleType,
) -> None:
    shown = re.findall(r"heading: (\w+)", hooks.python_api())
    names = set(workbench.__all__) - {"__version__"}
    assert len(shown) == len(set(shown)) and names <= set(shown)
    below = {"LensReading", "Explanation", "Faithfulness", "AttentionMaps", "Grid", "Comparison"}
    assert below <= set(shown) - names


def test_every_experiment_has_a_page() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "analyses").glob("*.md")}
    without = sorted(set(built_in_experiments()) - pages)
    assert not without, f"write docs/analyses/NAME.md of {without}"
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    unlisted = sorted(page for page in pages if f" analyses/{page}.md\n" not in nav)
    assert not unlisted, f"add the pages of {unlisted} to `nav` of mkdocs.yml"
    readme = (ROOT / "README.md").read_text("utf-8")
    unnamed = sorted(page for page in pages if f"(docs/analyses/{page}.md)" not in readme)
    assert not unnamed, f"add the pages of {unnamed} to *What is supported* of README.md"


PARTS = ("Definition", "Finding", "How to read the figure", "Settings that matter", "Trap")


@pytest.mark.parametrize("path", [ROOT / f"docs/analyses/{n}.md" for n in built_in_experiments()])
def test_the_page_of_an_experiment_has_its_question_and_all_parts_in_order(path: Path) -> None:
    text = path.read_text("utf-8")
    assert re.match(r"# .+\n\n\*\*Question\.\*\* [^\n]+", text)
    titles = re.findall(r"^## (.+?)s?$", without_code(text), re.MULTILINE)
    assert [title for title in titles if title in PARTS] == [*PARTS]
