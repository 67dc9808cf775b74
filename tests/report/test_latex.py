"""A report as LaTeX: every brace closed, every sign escaped, whatever the text holds."""

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from tests.report.making import (
    CONTROLS,
    HOSTILE,
    LONG_WORD,
    bars,
    described,
    found,
    made,
    model,
    words_and_sizes,
)
from workbench.experiment import Caveat, Table
from workbench.report import drawn, write_report
from workbench.report.text_formats import latex as text


@pytest.fixture(autouse=True)
def with_pictures(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "slow" not in request.keywords:
        monkeypatch.setattr(drawn, "picture", lambda plain, kind, **look: kind.encode())


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
    rest = re.sub(r"\\letter\{\w+\}\{.\}|\\includegraphics\S+", "", body)
    assert not re.search(r"(?<!\\)[#%$^_]", rest)
    assert not re.search("[\0-\x08\x0e-\x1f\u202e]", source)


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ("50% of $5 & #1_a", r"50\% of \$5 \& \#1\_a"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("a--b ,,c", "a-{}-b ,{},c"),
        ("−1", r"\ensuremath{-}1"),
        ("naïve", "naïve"),
        ("a~b", r"a\textasciitilde{}b"),
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


def test_broad_tables_are_scaled_to_the_page(tmp_path: Path) -> None:
    wide = pd.DataFrame({f"a column of words {n}": range(50) for n in range(12)})
    source = latex(made(tmp_path, tables={"words": (wide, Table("", ()))}), to=tmp_path)
    assert source.count(r"\begin{fitted}") == 2 and source.count(r"\begin{landscape}") == 1


def test_figures_have_their_claims_as_captions(tmp_path: Path) -> None:
    run = made(tmp_path, findings=[found("Half (50 %).", figure="w")], figures={"w": bars(["a"])})
    source = latex(run, to=tmp_path)
    assert (
        r"\includegraphics[width=\linewidth," in source and "{report_files/run-1-w.pdf}" in source
    )
    assert r"\caption{Half (50~\%).}" in source
    assert (tmp_path / "report_files" / "run-1-w.pdf").read_bytes() == b"pdf"


def test_the_papers_of_the_method_are_cited_and_lie_beside_it(tmp_path: Path) -> None:
    run = made(tmp_path, experiment="minimal-pairs", version=2, models=(model(),), settings={})
    source = latex(run, to=tmp_path)
    assert r"\citealp{kauf-2023-better}" in source
    assert r"For the methods, see \citet{salazar-2020-masked}." in source
    assert r"\bibliography{report}" in source
    entries = (tmp_path / "report.bib").read_text()
    assert re.findall(r"^@\w+\{(.*),", entries, re.MULTILINE) == [
        "kauf-2023-better", "salazar-2020-masked", "warstadt-2020-blimp",
    ]  # fmt: skip
    assert "bibliography" not in latex(made(tmp_path), to=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["pdflatex", "lualatex"])
def test_it_is_typeset(tmp_path: Path, engine: str) -> None:
    if shutil.which(engine) is None:
        pytest.skip(f"no {engine}; on Debian: apt-get install texlive-latex-recommended")
    pairs = made(tmp_path, experiment="minimal-pairs", version=2, models=(model(),), settings={})
    runs = hostile_run(tmp_path), made(tmp_path, seed=3), described(tmp_path), pairs
    latex(*runs, to=tmp_path)
    for command in (engine, "bibtex", engine, engine):
        tex = command == engine
        given = ["-interaction=nonstopmode", "-halt-on-error", "report.tex"] if tex else ["report"]
        done = subprocess.run([command, *given], cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-3000:]
    assert b"undefined" not in done.stdout
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
