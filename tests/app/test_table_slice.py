"""A slice of a data table: what its address says, whatever that is, and nothing else."""

import json

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.app.pages import home, opened, said  # noqa: F401
from workbench.app import table_slice
from workbench.app.table_slice import Slice, as_text, kind_of, means, parsed, sliced
from workbench.app.uploaded_files import uploads
from workbench.runs.builtin import builtin_run

TABLE = pd.DataFrame(
    {
        "layer": [0, 0, 1, 1],
        "tag": ["NOUN", "VERB", None, "<b>$x$</b>"],
        "score": [0.5, np.nan, 2.5, 1.5],
        "text": ["a (b", "A [c", "d", "e"],
    }
)


def test_conditions_order_and_means() -> None:
    where = {"layer": ["1"], "tag": ["<b>$x$</b>", table_slice.MISSING], "no such column": ["x"]}
    assert list(sliced(TABLE, Slice(where)).index) == [2, 3]
    assert list(sliced(TABLE, Slice(sort="score", descending=True)).index) == [2, 3, 0, 1]
    found = means(TABLE, "layer")
    assert list(found.columns) == ["layer", "rows", "score"]
    assert found["score"].tolist() == [0.5, 2.0] and found["rows"].tolist() == [2, 2]


def test_numbers_have_a_range_and_texts_contain_words_not_patterns() -> None:
    long = pd.DataFrame({"x": np.arange(300_000) / 10, "t": [f"t{n} (" for n in range(300_000)]})
    assert (kind_of(long["x"]), kind_of(long["t"])) == ("number", "text")
    assert len(sliced(long, Slice({"x": [1, 2]}))) == 11
    assert len(sliced(long, Slice({"x": [None, 0.5]}))) == 6
    assert len(sliced(long, Slice({"t": "T29999 ("}))) == 1


@pytest.mark.parametrize(
    "address", [None, "", "{", "[1]", "7", '{"where": 3}', '{"where": {"score": "x"}}', "[" * 9_999]
)
def test_an_address_that_is_no_slice_is_ignored(address: str | None) -> None:
    assert len(sliced(TABLE, parsed(address))) == len(TABLE)


def test_the_address_reproduces_the_slice() -> None:
    chosen = Slice({"tag": ["<b>$x$</b>"], "score": [None, 2]}, "score", True, "layer")
    assert parsed(as_text(chosen)) == chosen
    assert as_text(Slice()) == ""


@pytest.mark.usefixtures("home")
def test_a_link_shows_the_slice_and_a_change_is_in_the_address() -> None:
    run = builtin_run("heads-mini-bert")
    address = json.dumps({"where": {"relation": ["nsubj"]}, "by": "layer"})
    app = opened("runs", run=run.name, tables="true", table="relations", slice=address)
    expected = run.tables["relations"].query("relation == 'nsubj'")
    assert f"Means over {len(expected):,} of" in said(app)
    (by,) = [box for box in app.selectbox if box.label == "Mean by"]
    by.set_value("head").run()
    assert not app.exception and "rows, by head." in said(app)
    address = app.query_params[table_slice.SLICE]
    chosen = address if isinstance(address, str) else address[0]
    assert json.loads(chosen) == {"where": {"relation": ["nsubj"]}, "by": "head"}


@pytest.mark.usefixtures("home")
def test_the_texts_of_a_slice_are_a_corpus() -> None:
    run = builtin_run("edge-probing-mini-bert")
    address = json.dumps({"where": {"text": "Ben"}})
    app = opened("runs", run=run.name, tables="true", table="gains", slice=address)
    next(box for box in app.text_input if str(box.key).startswith("name of texts")).set_value(
        "with Ben"
    )
    next(button for button in app.button if str(button.key).startswith("save texts")).click().run()
    assert not app.exception and not app.error
    (upload,) = uploads("corpora")
    texts = [doc.text for doc in wb.read(str(upload.path)).docs()]
    gains = run.tables["gains"]
    expected = gains.loc[gains["text"].str.contains("Ben", case=False), "text"].unique()
    assert sorted(texts) == sorted(expected) and upload.name == "with Ben"
