"""The first page without a browser: a typed sentence, and models without attention."""

from pathlib import Path

import pytest

from tests.app.pages import home, opened, said
from workbench.app.text import prose

__all__ = ["home"]
pytestmark = pytest.mark.usefixtures("home")


def test_a_typed_sentence_is_looked_at_and_linked(home: Path) -> None:
    app = opened("home", text="One.")
    (maps,) = [
        str(each.proto.body) for each in app.get("html") if "Attention of all" in each.proto.body
    ]
    assert "text=One." in maps


def test_an_empty_text_is_said() -> None:
    assert "text-empty" in said(opened("home", text=" "))


def test_a_long_text_is_said_to_be_cut() -> None:
    assert "words are cut off" in said(opened("home", text="The cat sat on the mat. " * 40))


def test_a_model_without_attention_has_its_predictions() -> None:
    assert "no token attends to another" in said(opened("home", model="mini:elmo"))


def test_names_in_a_sentence_are_code_and_data_is_escaped() -> None:
    assert prose("Head 0-1 follows `obj` in *all*.") == r"Head 0\-1 follows `obj` in \*all\*\."
    assert "`" not in prose("one ` of the data").replace(r"\`", "")
