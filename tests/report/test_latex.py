"""A report as LaTeX: every brace closed, every sign escaped, whatever the text holds."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.report.making import CONTROLS, HOSTILE, LONG_WORD, bars, described, made, words_and_sizes
from workbench import Caveat, WorkbenchError
from workbench.report import images, write_report
from workbench.report.text_formats import latex as text


@pytest.fixture(autouse=True)
def without_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise WorkbenchError("there is no browser.", remedy="Run: apt-get install chromium")

    monkeypatch.setattr(images, "pictures", none)


def latex(*runs: object, to: Path) -> str:
    return write_report(list(runs), to / "report.tex").read_text(encoding="utf-8")  # type: ignore[arg-type]


def hostile_run(folder: Path) -> object:
    hostile = [*HOSTILE.values(), CONTROLS, LONG_WORD, "[1] *", "a -- b --- c ,, d"]
    return made(
        folder,
        tables=words_and_sizes(hostile),
        caveats=[Caveat(one) for one in hostile],
        settings={"text": HOSTILE["tex"]},
    )


def assert_closed(source: str) -> None:
    """Braces and environments open and close in their order; no sign of TeX is left bare."""
    plain = re.sub(r"\\[\\{}$&#%_]", "", source)
    depth = 0
    for sign in plain:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    open_ones: list[str] = []
    for act, name in re.findall(r"\\(begin|end)\{(\w+)\}", plain):
        if act == "begin":
            open_ones.append(name)
        else:
            assert open_ones.pop() == name
    assert open_ones == []


def test_hostile_text_is_escaped_and_all_is_closed(tmp_path: Path) -> None:
    source = latex(hostile_run(tmp_path), described(tmp_path), to=tmp_path)
    assert_closed(source)
    body = source.split(r"\begin{document}")[1]
    assert not re.search(r"\\(input|write|include)\b", body)
    assert not re.search(r"(?<!\\)[#%$^~_]", re.sub(r"\\letter\{\w+\}\{.\}", "", body))
    assert not re.search("[\0-\x08\x0e-\x1f\u202e]", source)


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ("50% of $5 & #1_a", r"50\% of \$5 \& \#1\_a"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("a--b ,,c", "a-{}-b ,{},c"),
        ("−1", r"\ensuremath{-}1"),
        ("naïve", "naïve"),
        ("中", r"\letter{4E2D}{中}"),
        ("[x]", "{[}x{]}"),
    ],
)
def test_signs_are_typed_as_tex_wants_them(given: str, typed: str) -> None:
    assert text(given) == typed


def test_long_words_may_break() -> None:
    assert max(map(len, text(LONG_WORD).split(r"\allowbreak{}"))) <= 24


def test_rows_have_as_many_cells_as_the_head(tmp_path: Path) -> None:
    source = latex(hostile_run(tmp_path), to=tmp_path)
    for body in re.findall(r"\\toprule(.*?)\\end\{(?:tabular|longtable)\}", source, re.DOTALL):
        rows = [line for line in body[0:].splitlines() if line.endswith(r"\tabularnewline")]
        assert len({len(re.split(r"(?<!\\)&", row)) for row in rows}) == 1


def test_long_tables_break_across_pages_and_broad_ones_are_turned(tmp_path: Path) -> None:
    short = latex(made(tmp_path / "a"), to=tmp_path)
    assert "longtable}{" not in short and r"\begin{tabular}" in short
    long = latex(
        made(tmp_path / "b", tables=words_and_sizes([f"w{n}" for n in range(99)])), to=tmp_path
    )
    assert r"\begin{longtable}" in long and r"\endhead" in long


def test_it_says_how_to_have_figures(tmp_path: Path) -> None:
    source = latex(made(tmp_path, figures={"words": bars(["a"])}), to=tmp_path)
    assert "Figures are left out" in source and "includegraphics" not in source


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pdflatex", "lualatex"])
def test_it_is_typeset(tmp_path: Path, engine: str) -> None:
    if shutil.which(engine) is None:
        pytest.skip(f"no {engine}; on Debian: apt-get install texlive-latex-recommended")
    latex(hostile_run(tmp_path), made(tmp_path, seed=3), described(tmp_path), to=tmp_path)
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-3000:]
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
