"""The first page without a browser: a typed sentence, and models without attention."""

import re
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.analyses.attention.test_grids import GROUP, made
from tests.app.pages import SECONDS, home, opened, said, well
from workbench.analyses.attention.grids import Options, grid_of
from workbench.analyses.attention.views.home import head_maps
from workbench.app import choice
from workbench.app.text import prose
from workbench.core.machine import app_file

__all__ = ["home"]
pytestmark = pytest.mark.usefixtures("home")
SLOW = pytest.mark.slow


def test_a_typed_sentence_is_looked_at_and_linked(home: Path) -> None:
    app = opened("home", text="One.")
    (maps,) = [
        str(each.proto.body) for each in app.get("html") if "Attention of all" in each.proto.body
    ]
    assert "text=One." in maps
    assert "rows are tokens that look" in said(app)  # there are more of them than words


@pytest.mark.parametrize(
    ("query", "model", "read"),
    [
        ({}, "novels:bert", "has read 189 English novels"),
        ({"text": "One."}, "mini:bert", "generated sentences"),  # links keep their model
        pytest.param({"model": "mini:gpt"}, "mini:gpt", "generated sentences", marks=SLOW),
        pytest.param(
            {"model": "novels:gpt", "text": "One."}, "novels:gpt", "English novels", marks=SLOW
        ),
    ],
)
def test_it_opens_with_a_model_that_has_read_english(
    query: dict[str, str], model: str, read: str
) -> None:
    """Without a link; and says what the model has read."""
    app = AppTest.from_file(str(app_file()), default_timeout=SECONDS)
    for key, value in query.items():
        app.query_params[key] = value
    app = well(app.run())
    assert app.session_state["model"] == model
    assert read in said(app)


def _bar() -> None:
    import streamlit as st

    from workbench.app import choice

    choice.begin_with(is_typed="typed" in st.session_state)
    if "next model" in st.session_state:  # as `choose` does
        st.session_state["model"] = st.session_state.pop("next model")


def test_a_page_says_once_that_it_has_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    app = AppTest.from_function(_bar, default_timeout=SECONDS)
    models, says = [], []
    for page, is_typed in (("home", True), ("heads", False), ("home", True), ("heads", False)):
        monkeypatch.setattr(choice, "open_page", lambda page=page: page)
        if is_typed:
            app.session_state["typed"] = True
        elif "typed" in app.session_state:
            del app.session_state["typed"]
        app.query_params.clear()
        app = well(app.run())
        models.append(app.session_state["model"])
        says.append([re.sub(r"[\\]|,.*", "", each.value) for each in app.toast])
    assert models == ["novels:bert", "mini:bert", "novels:bert", "mini:bert"]
    here = "Here the model is"
    assert says == [[], [f"{here} mini:bert"], [f"{here} novels:bert"], []]


@pytest.mark.parametrize(
    ("layers", "heads", "across", "first"),
    [(4, 4, 4, ["1.1", "1.2"]), (12, 32, 32, ["1.1", "1.2"]), (30, 9, 30, ["1.1", "2.1"])],
)
def test_maps_of_heads_have_at_least_24_pixels(
    layers: int, heads: int, across: int, first: list[str]
) -> None:
    maps = np.ones((layers, heads, 1, 1), dtype=np.float32)
    grid = grid_of(made(maps, [0], [False], ["a"]), GROUP, Options())
    html = head_maps(grid, "light", {"text": "a"})
    assert f"repeat({across},minmax(24px,1fr))" in html
    assert re.findall(r"head=([\d.]+)", html)[:2] == first
    assert html.count("<a ") == layers * heads


def test_an_empty_text_is_said() -> None:
    assert "text-empty" in said(opened("home", text=" "))


def test_a_long_text_is_said_to_be_cut() -> None:
    assert "words are cut off" in said(opened("home", text="The cat sat on the mat. " * 40))


def test_a_model_without_attention_has_its_predictions() -> None:
    assert "no token attends to another" in said(opened("home", model="mini:elmo"))


def test_names_in_a_sentence_are_code_and_data_is_escaped() -> None:
    assert prose("Head 1.2 follows `obj` in *all*.") == r"Head 1\.2 follows `obj` in \*all\*\."
    assert "`" not in prose("one ` of the data").replace(r"\`", "")
