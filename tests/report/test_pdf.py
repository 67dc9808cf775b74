"""A report as PDF: text stays text, whatever it holds, and no file of the user is read."""

import re
import sys
import warnings
from collections.abc import Sequence
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
from workbench import Run, WorkbenchError
from workbench.experiment import Caveat, Table
from workbench.report import pdf, write_report
from workbench.report.content import content
from workbench.report.format import FEWER, grid
from workbench.runs.run import SHIPPED

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
TYPST = (  # what would read a file, stop, or be markup
    '#read("/etc/passwd")', '#image("/etc/x.png")', '#include "/x.typ"', '#import "@preview/x:1.0"',
    "@reference <label> $x^2$ *bold* _slanted_", "\\", '\\"', '"; #panic("no") "',
    '");#panic("', "= heading", "- item", "+ item", "/ term: text", "/* comment", "// comment",
    "#{", "]", "[", ")", "~ -- --- ... 'quoted'", "https://evil.example/#x",
)  # fmt: skip
SCRIPTS = ("中文字符", "हिन्दी", "ไทย", "한국어", "Ελληνικά", "ქართული", "🙂")
NAMES = (*HOSTILE.values(), CONTROLS, LONG_WORD, *TYPST, *SCRIPTS)


def report_of(folder: Path, names: Sequence[str], **more: object) -> Run:
    """A run with these names wherever a run has text."""
    return made(
        folder,
        tables=words_and_sizes(names),
        caveats=[Caveat(name, ("words",)) for name in names],
        findings=[found(f"It is {name[:60]}.", figure="w", measure=name) for name in names],
        figures={"w": bars(names)},
        models=tuple(model(name) for name in names[:3]),
        settings={"text": names[0], "other": names[-1]},
        facts={"about": f"What is {names[1]}?"},
    )


def source(run: Run, names: Sequence[str]) -> str:
    return pdf.source_of(content([run], title=names[0], notes="\n\n".join(names[:5])))[0]


def strings(markup: str) -> list[str]:
    """The strings of Typst, as it reads them."""
    return [
        re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), each)
        for each in STRING.findall(markup)
    ]


def test_the_markup_is_the_same_whatever_the_text_holds(tmp_path: Path) -> None:
    plain = [f"w{len(name) * 'o'}rd{index}" for index, name in enumerate(NAMES)]
    hostile, harmless = (
        source(report_of(tmp_path / place, names), names)
        for place, names in (("hostile", NAMES), ("harmless", plain))
    )
    assert STRING.sub('""', hostile) == STRING.sub('""', harmless)
    assert not re.search("[\0-\x08\x0b-\x1f\u202e]", hostile)


def test_hostile_text_is_whole(tmp_path: Path) -> None:
    shown = [
        each.replace(pdf._BREAK, "") for each in strings(source(report_of(tmp_path, NAMES), NAMES))
    ]
    for name in TYPST + SCRIPTS:
        assert name in shown, name
    assert HOSTILE["lines"].replace("\t", " ") in shown


def test_hostile_reports_are_typeset_the_same_each_time_without_a_date(tmp_path: Path) -> None:
    runs = [report_of(tmp_path / "a", NAMES), described(tmp_path / "b")]
    first, second = (
        write_report(runs, tmp_path / name, title=TYPST[7], notes="\n\n".join(NAMES)).read_bytes()
        for name in ("first.pdf", "second.pdf")
    )
    assert first == second and first.startswith(b"%PDF")
    assert b"CreationDate" not in first and b"ModDate" not in first and b"CreateDate" not in first


@pytest.mark.parametrize(
    "markup",
    ['#read("/etc/passwd")', '#read("../x")', '#image("/x.svg")', '#include "/x.typ"',
     '#import "@local/x:1.0.0"'],
)  # fmt: skip
def test_typst_reads_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, markup: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("x", "x.svg", "x.typ"):
        (tmp_path / name).write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    monkeypatch.setattr(pdf, "source_of", lambda content: (markup, {}))
    with pytest.raises(WorkbenchError, match="cannot be typeset") as caught:
        write_report(made(tmp_path), tmp_path / "report.pdf")
    assert caught.value.code == "typesetting-failed" and ".html" in caught.value.remedy
    assert not (tmp_path / "report.pdf").exists()


def test_without_typst_it_says_how_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(WorkbenchError, match="pip install typst") as caught:
        write_report(made(tmp_path), tmp_path / "report.pdf")
    assert caught.value.code == "package-missing"
    assert not (tmp_path / "report.pdf").exists()


def test_findings_come_first_and_papers_last(tmp_path: Path) -> None:
    run = made(tmp_path, experiment="minimal-pairs", version=2, models=(model(),), settings={},
               findings=[found("Words: 100.")])  # fmt: skip
    markup = pdf.source_of(content([run]))[0]
    order = [
        "Findings",
        "Words: 100.",
        "Key numbers",
        "Method",
        "Tables",
        "Reproduce",
        "References",
    ]
    places = [markup.index(f'#"{each}"') for each in order]
    assert places == sorted(places)
    assert "Workbench 0.1.0, 21 November 2026" in markup
    assert markup.count('label("kauf-2023-better")') == 2  # cited, and in the list


def test_numbers_are_at_the_right_and_long_tables_repeat_their_head(tmp_path: Path) -> None:
    words = words_and_sizes([f"w{n}" for n in range(99)])
    markup = pdf.source_of(content([made(tmp_path, tables=words)], most=FEWER))[0]
    assert "rows(9.0, 3, (left, right, right, )," in markup
    assert "59" in strings(markup)  # rows that are not in the file


def test_broad_tables_get_smaller_letters_then_a_turned_page_then_none() -> None:
    def fit(columns: int) -> tuple[float, bool] | None:
        return pdf.fitted(
            grid("t", pd.DataFrame({f"column_{n}": ["seven of"] for n in range(columns)}))
        )

    assert fit(3) == (9.0, False)
    sizes = [fit(columns) for columns in range(3, 40)]
    turned = [each[1] for each in sizes if each]
    assert turned == sorted(turned) and True in turned
    assert sizes[-1] is None
    assert fit(11) and fit(11)[0] < 9  # type: ignore[index]


def test_long_cells_and_broad_tables_are_typeset(tmp_path: Path) -> None:
    tables = {
        "long": (
            pd.DataFrame({"text": ["many words " * 60, LONG_WORD], "n": [1.5, 2.0]}),
            Table("", ()),
        ),
        "broad": (pd.DataFrame({f"column_{n}": [1.25] for n in range(20)}), Table("", ())),
        "broadest": (pd.DataFrame({f"column_{n}": [1.25] for n in range(90)}), Table("", ())),
        "empty": (pd.DataFrame({"n": []}), Table("", ())),
    }
    run = made(tmp_path, tables=tables)
    markup = pdf.source_of(content([run]))[0]
    assert markup.count("#page(flipped: true)") == 1
    assert f"workbench export {run.name} broadest --out broadest.csv" in markup.replace(
        pdf._BREAK, ""
    )
    assert write_report(run, tmp_path / "report.pdf").stat().st_size > 5_000


def test_missing_letters_of_a_figure_are_no_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_report(made(tmp_path, figures={"w": bars(SCRIPTS)}), tmp_path / "report.pdf")


@pytest.mark.slow
def test_every_built_in_result_is_typeset(tmp_path: Path) -> None:
    runs = [Run(path) for path in sorted(SHIPPED.iterdir()) if path.is_dir()]
    for run in runs:
        assert write_report(run, tmp_path / f"{run.path.name}.pdf").stat().st_size > 20_000
    assert write_report(runs, tmp_path / "all.pdf").stat().st_size > 1_000_000
