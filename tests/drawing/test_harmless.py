"""What is data in a figure shows as text; what would load is not there."""

import base64
import json

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.drawing.sanitize import LONGEST, escaped, harmless, is_right_to_left, visible


def test_strings_in_lists_are_data_and_lose_their_markup() -> None:
    figure = go.Figure(go.Bar(x=["<b>a</b>", "a & b"], y=[1, 2], customdata=[["<i>"], ["x"]]))
    (bar,) = harmless(figure)["data"]
    assert bar["x"] == ["&lt;b&gt;a&lt;/b&gt;", "a &amp; b"]
    assert bar["customdata"] == [["&lt;i&gt;"], ["x"]]


def test_a_figures_own_words_keep_breaks_and_emphasis_and_nothing_more() -> None:
    own = "<b>a</b><br>b<sub>1</sub>%{x}<extra></extra>"
    figure = go.Figure(go.Bar(hovertemplate=own, x=[1]), layout={"title": {"text": own}})
    found = harmless(figure)
    assert found["data"][0]["hovertemplate"] == found["layout"]["title"]["text"] == own
    figure.update_layout(title='<a href="javascript:alert(1)">x</a><span style="x">')
    title = harmless(figure)["layout"]["title"]["text"]
    assert title == '&lt;a href="javascript:alert(1)">x&lt;/a>&lt;span style="x">'


def test_numbers_and_places_stay_what_they_are() -> None:
    figure = go.Figure(go.Scatter(x=np.arange(3.0), y=[1, None, 2]))
    figure.add_annotation(x="<a>", text="here")
    found = harmless(figure)
    packed = found["data"][0]["x"]
    assert np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"]).tolist() == [0, 1, 2]
    assert found["data"][0]["y"] == [1, None, 2]
    assert found["layout"]["annotations"][0]["x"] == "&lt;a&gt;"


@pytest.mark.parametrize(
    "address",
    [
        "http://evil.example/a.png",
        "//evil.example/",
        "file:///etc/passwd",
        "data:image/svg+xml,<svg/>",
    ],
)
def test_pictures_come_from_nowhere_but_the_figure_itself(address: str) -> None:
    figure = go.Figure().add_layout_image(source=address)
    assert address not in json.dumps(harmless(figure))
    kept = "data:image/png;base64,AAAA"
    assert kept in json.dumps(harmless(go.Figure().add_layout_image(source=kept)))


def test_maps_are_not_drawn() -> None:
    assert harmless(go.Figure(go.Choropleth(locations=["FRA"], z=[1])))["data"] == []


def test_points_are_drawn_without_webgl_which_would_need_eval() -> None:
    (points,) = harmless(go.Figure(go.Scattergl(x=[1], y=[2])))["data"]
    assert points["type"] == "scatter"


def test_the_template_is_the_pages_own() -> None:
    assert "template" not in harmless(go.Figure(go.Bar(x=[1])))["layout"]


def test_endless_labels_are_cut() -> None:
    (bar,) = harmless(go.Figure(go.Bar(x=["a" * 5000])))["data"]
    assert len(bar["x"][0]) == LONGEST


def test_marks_of_word_starts_are_spaces() -> None:
    pieces = {
        "▁the": "\u00a0the",
        "the": "the",
        "##ing": "##ing",
        "▁": "␣",
        "▁▁▁": "␣␣␣",
        "▁▁def": "\u00a0\u00a0def",
        "rather than “▁boys”": "rather than “\u00a0boys”",
        "“▁”": "“␣”",
        "▁ Y v on": "␣ Y v on",
        "a_b": "a_b",
        "Ġenna": "Ġenna",  # a letter: byte-level pieces are stored with ▁
    }
    assert {piece: visible(piece) for piece in pieces} == pieces
    figure = harmless(go.Figure(go.Bar(x=["▁the", "▁"], y=[1, 2]), layout={"title": "“▁the”"}))
    assert figure["data"][0]["x"] == ["\u00a0the", "␣"]
    assert figure["layout"]["title"]["text"] == "“\u00a0the”"


def test_a_command_keeps_marks_of_word_starts() -> None:
    command = "workbench lens --target ▁the"
    assert visible(command, lines=True, marks=True) == command


def test_invisible_characters_are_shown_by_number() -> None:
    assert visible("a\0b\u202ec\ud800") == "a⟨U+0000⟩b⟨U+202E⟩c⟨U+D800⟩"
    assert visible("a\nb\tc\r", lines=True) == "a\nb\tc⟨U+000D⟩"


@given(st.text())
def test_escaped_text_has_no_markup_and_no_controls(text: str) -> None:
    shown = escaped(text)
    assert not {"<", ">", "\0", "\n", "\u202e"} & set(shown)
    shown.encode()


def test_right_to_left_is_seen_and_framed() -> None:
    assert is_right_to_left("a שלום") and not is_right_to_left("naïve 中文")
    (bar,) = harmless(go.Figure(go.Bar(x=["שלום"])))["data"]
    assert bar["x"] == ["\u2068שלום\u2069"]
