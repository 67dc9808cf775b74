"""The selection that all pages share: carried by the bar, undone by Back, compared in words."""

from collections.abc import Mapping

import pytest
from streamlit.testing.v1 import AppTest

from workbench.app.selection import agreement

PAGES = """
import streamlit as st
from workbench.app import selection
from workbench.app.text_boxes import text_in_address
from workbench.core.analysis import Page

page = st.session_state.get("page", "predict")
shown = {
    "predict": Page("predict", "", selection=("text", "at", "mark", "head")),
    "heads": Page("heads", "", selection=("head",)),
    "runs": Page("runs", ""),
}[page]
selection.carry(shown)
if page == "predict":
    st.text(text_in_address("Text", "The default.", "text", selection.OF_TEXT))
    st.button("word", on_click=lambda: selection.select(mark=2))
    st.button("cell", on_click=lambda: selection.select(mark=1, layer=3))
    st.text(f"word {selection.word(4)} layer {selection.layer(9)}")
st.text(f"head {selection.named(selection.HEAD, ['encoder self 1.1', '2.3'])!r}")
"""


def app(**address: str) -> AppTest:
    made = AppTest.from_string(PAGES, default_timeout=60)
    for key, value in address.items():
        made.query_params[key] = value
    return made.run()


def address(made: AppTest) -> dict[str, str]:
    found = made.query_params.items()
    return {key: value if isinstance(value, str) else value[-1] for key, value in found}


def on(made: AppTest, page: str, **query: str) -> AppTest:
    """The page as the bar opens it: without an address, or with that which Back reaches."""
    made.session_state["page"] = page
    made.query_params.clear()
    for key, value in query.items():
        made.query_params[key] = value
    return made.run()


def said(made: AppTest) -> str:
    assert not made.exception
    return "\n".join(str(each.value) for each in made.text)


def test_a_page_of_the_bar_begins_with_the_selection_of_the_page_before() -> None:
    all_of_it = {"text": "Birds sing.", "at": "word.1", "mark": "0", "head": "2.3"}
    made = app(**all_of_it)
    assert "Birds sing." in said(made)
    assert address(on(made, "heads")) == {"head": "2.3"}
    assert address(on(made, "runs")) == {}
    assert address(on(made, "predict")) == all_of_it
    assert made.text_input[0].value == "Birds sing." and "word 0" in said(made)
    assert address(on(made, "heads", head="1.1")) == {"head": "1.1"}, "a link has its own"
    assert address(on(made, "predict"))["head"] == "1.1", "a head that is opened anywhere"


def test_another_text_forgets_what_was_selected_in_it_and_back_brings_it() -> None:
    made = app(at="word.1", mark="1", head="2.3")
    made.text_input[0].set_value("Birds sing.").run()
    assert address(made) == {"text": "Birds sing.", "head": "2.3"}
    on(made, "predict", at="word.1", mark="1", head="2.3")  # as Back does
    assert made.text_input[0].value == "The default." and "word 1" in said(made)


def test_the_same_word_again_is_no_longer_selected() -> None:
    made = app(mark="2")
    made.button[0].click().run()
    assert address(made) == {} and "word None" in said(made)
    made.button[1].click().run()
    assert address(made) == {"mark": "1", "layer": "3"} and "word 1 layer 3" in said(made)


@pytest.mark.parametrize("wrong", ["-1", "4", "x", "", "9" * 99, "²", "1.5"])
def test_an_address_of_no_word_selects_none(wrong: str) -> None:
    assert "word None" in said(app(mark=wrong))


@pytest.mark.parametrize(
    ("head", "found"),
    [("2.3", "2.3"), ("encoder self 2.3", "2.3"), ("1.1", "encoder self 1.1"), ("9.9", ""),
     ("", "")],
)  # fmt: skip
def test_a_head_is_the_same_with_and_without_its_stack(head: str, found: str) -> None:
    assert f"head {found!r}" in said(app(head=head))


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"hiding": "“not”"}, ""),
        ({"hiding": "“not”", "gradients": "“not”"},
         "Hiding and gradients agree: the most important word is “not”."),
        ({"rollout": "“the”", "hiding": "“not”", "gradients": "“not”"},
         "Most important word: “not” by hiding and gradients; “the” by rollout."),
    ],
)  # fmt: skip
def test_words_say_where_methods_agree(named: Mapping[str, str], words: str) -> None:
    assert agreement("word", named) == words
