"""The attention page without a browser: its choices, and what it says of what cannot be shown."""

import pytest

from tests.app.pages import home, opened, said  # noqa: F401
from workbench.maps.grids import TOGETHER
from workbench.maps.look import KEPT, passes

pytestmark = pytest.mark.usefixtures("home")


def test_choices_change_the_view_and_never_run_the_model_again() -> None:
    KEPT.clear()
    before = passes()
    app = opened("attention", split="test", sentence="3")
    for together in TOGETHER:
        app.selectbox(key="together").set_value(together).run()
        assert not app.exception and not app.error
    app.selectbox(key="special").set_value("renormalised").run()
    app.selectbox(key="beside").set_value("value norms").run()
    assert not app.exception and not app.error
    assert passes() == before + 1
    app.number_input(key="sentence").set_value(4).run()
    assert not app.exception
    assert passes() == before + 2


def test_cross_attention_has_no_rollout_and_says_so() -> None:
    app = opened("attention", model="mini:t5", split="test", attention="decoder cross-attention")
    app.selectbox(key="together").set_value("rollout").run()
    assert "cross-attention joins two" in said(app)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"model": "mini:elmo"}, "bi-LSTM"),
        ({"model": "nobody/nothing"}, "has not been fetched"),
        ({"model": "mini:nonsense"}, "no built-in model"),
        ({"corpus": "nowhere.conllu"}, "This did not work"),
        ({"sentence": "123456789"}, "no sentence 123456789"),
        ({"from": "Your own text", "text": "  "}, "there is no text"),
    ],
)
def test_what_cannot_be_shown_is_said(query: dict[str, str], words: str) -> None:
    assert words in said(opened("attention", **query))
