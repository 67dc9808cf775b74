"""One table or figure as a file of its own, with every digit."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import plotly.io
import pytest

from tests.night import mostly
from tests.report.making import COUNTS, HOSTILE, bars, described, made
from workbench import Run, WorkbenchError, export
from workbench.experiment import Table
from workbench.report.export import export_figure, export_table

WORDS = ["-1", "-", "=", "=1+1", "@me", "-LRB-", "+49", "", *HOSTILE.values()]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    table = pd.DataFrame(
        {
            "word": WORDS,
            "share": np.linspace(-1, 1, len(WORDS)) / 3,
            "n": pd.array([None, *range(len(WORDS) - 1)], dtype="Int64"),
            "sure": [place % 2 == 0 for place in range(len(WORDS))],
        }
    )
    return made(tmp_path, tables={"words": (table, COUNTS)}, figures={"words": bars(["a<b"])})


def test_csv_holds_every_digit_and_no_formula_that_could_run(run: Run, tmp_path: Path) -> None:
    found = pd.read_csv(export_table(run, "words", tmp_path / "w.csv"), keep_default_na=False)
    assert found["share"].tolist() == run.tables["words"]["share"].tolist()
    formula = HOSTILE["formula"]
    assert found["word"].tolist() == [f"'{w}" if w == formula else w for w in WORDS]


def test_parquet_is_the_table_with_what_it_is_about(run: Run, tmp_path: Path) -> None:
    found = pd.read_parquet(export_table(run, "words", tmp_path / "w.parquet"))
    pd.testing.assert_frame_equal(found, run.tables["words"])
    assert found.attrs == {"about": COUNTS.about, "keys": ["word"]}


def test_json_holds_records_with_keys_and_null_for_what_is_missing(
    run: Run, tmp_path: Path
) -> None:
    found = json.loads(export_table(run, "words", tmp_path / "w.json").read_text())
    assert found["about"] == COUNTS.about and found["keys"] == ["word"] and found["run"] == run.name
    assert [row["word"] for row in found["rows"]] == WORDS
    assert found["rows"][0] == {"word": "-1", "share": -1 / 3, "n": None, "sure": True}


def test_json_has_words_for_numbers_that_it_has_no_numbers_for(tmp_path: Path) -> None:
    table = pd.DataFrame({"word": ["a", "b"], "x": [np.nan, -np.inf], "many": [[1, 2.5], [3.5]]})
    run = made(tmp_path, tables={"words": (table, COUNTS)})
    rows = json.loads(export_table(run, "words", tmp_path / "w.json").read_text())["rows"]
    assert [row["x"] for row in rows] == [None, "-inf"]
    assert [row["many"] for row in rows] == [[1.0, 2.5], [3.5]]


def test_a_column_may_not_be_a_formula_either(tmp_path: Path) -> None:
    table = pd.DataFrame({"=cmd|' /C calc'!A0": [1]})
    run = made(tmp_path, tables={"words": (table, Table("", ()))})
    assert export_table(run, "words", tmp_path / "w.csv").read_text().startswith("'=cmd")


def test_a_figure_as_json_can_be_read_by_plotly(run: Run, tmp_path: Path) -> None:
    found = plotly.io.read_json(export_figure(run, "words", tmp_path / "w.json"))
    assert found.data[0].y == ("a&lt;b",)


def test_unknown_names_and_endings_say_what_is_near(run: Run, tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="Did you mean 'words'"):
        export_table(run, "word", tmp_path / "w.csv")
    with pytest.raises(WorkbenchError, match="Did you mean 'words'"):
        export_figure(run, "word", tmp_path / "w.html")
    with pytest.raises(WorkbenchError, match=r"cannot be written as '.xlsx'"):
        export_table(run, "words", tmp_path / "w.xlsx")
    with pytest.raises(WorkbenchError, match=r"Did you mean '.png'"):
        export_figure(run, "words", tmp_path / "w.pngg")
    for name in ("word", "w.pdf"):  # the file is not the only thing that may be wrong
        with pytest.raises(WorkbenchError, match="no table or figure") as raised:
            export(run, name, tmp_path / "w.pdf")
        assert str(raised.value.remedy).endswith("Known: words.")  # a table and a figure
    assert list(tmp_path.glob("w.*")) == []


STARTS = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}


@pytest.mark.parametrize("ending", mostly(STARTS, ".svg"))  # test_vector has each of them twice
def test_pictures_need_no_browser_and_are_the_same_bytes_each_time(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    run = described(tmp_path)
    first, second = (
        export_figure(run, "words", tmp_path / f"{name}{ending}").read_bytes() for name in "ab"
    )
    assert first.startswith(STARTS[ending]) and first == second
    if ending == ".svg":
        assert b"&lt;script" in first and b"<script" not in first and b"<a " not in first


def test_a_picture_has_one_or_two_columns(run: Run, tmp_path: Path) -> None:
    narrow, wide = (
        export(run, "words", tmp_path / f"{n}.svg", columns=n).read_text() for n in (1, 2)
    )
    assert 'width="240.9' in narrow and 'width="481.8' in wide
    with pytest.raises(WorkbenchError, match="3 columns"):
        export(run, "words", tmp_path / "w.svg", columns=3)


def test_any_figure_is_written_as_a_picture(tmp_path: Path) -> None:
    drawn = go.Figure(go.Bar(x=["a", "b"], y=[1, 2]))
    for ending, start in STARTS.items():
        assert export(drawn, tmp_path / f"drawn{ending}").read_bytes().startswith(start)
    with pytest.raises(WorkbenchError, match="csv"):
        export(drawn, out=tmp_path / "drawn.csv")
    page = export(drawn.update_layout(title="B is 2"), tmp_path / "drawn.html").read_text()
    assert "<title>B is 2</title>" in page and "of the run" not in page


def test_marks_that_only_plotly_draws_are_exported_as_a_page(tmp_path: Path) -> None:
    pie = go.Figure(go.Pie(labels=["a"], values=[1]))
    run = made(tmp_path, figures={"shares": pie})
    with pytest.raises(WorkbenchError, match="pie") as caught:
        export_figure(run, "shares", tmp_path / "shares.pdf")
    assert ".html" in caught.value.remedy and not (tmp_path / "shares.pdf").exists()
    assert export_figure(run, "shares", tmp_path / "shares.html").exists()
