"""The attention page without a browser: its choices, and what it says of what cannot be shown."""

from pathlib import Path

import pytest
from spacy.tokens import Doc

import workbench as wb
from tests.app.pages import home, opened, said  # noqa: F401
from tests.models import zoo
from workbench import WorkbenchError
from workbench.analyses.attention import capture, grids
from workbench.analyses.attention.browser.frames import _side
from workbench.analyses.attention.browser.scene import side_of
from workbench.analyses.attention.capture import CACHE, passes
from workbench.analyses.attention.edits import edited
from workbench.analyses.attention.grids import TOGETHER
from workbench.app import cache
from workbench.corpora.layers import vocabulary

pytestmark = pytest.mark.usefixtures("home")


def test_choices_change_the_view_and_never_run_the_model_again() -> None:
    CACHE.clear()
    before = passes()
    app = opened("attention", split="test", sentence="3")
    for together in TOGETHER:
        app.selectbox(key="together").set_value(together).run()
        assert not app.exception and not app.error
    app.selectbox(key="special").set_value("renormalised").run()
    app.selectbox(key="compare").set_value("value norms").run()
    assert not app.exception and not app.error
    assert passes() == before + 1
    app.number_input(key="sentence").set_value(4).run()
    assert not app.exception
    assert passes() == before + 2


def test_cross_attention_has_no_rollout_and_says_so() -> None:
    app = opened("attention", model="mini:t5", split="test", attention="decoder cross-attention")
    app.selectbox(key="together").set_value("rollout").run()
    assert "between two texts" in said(app)


def test_xlnet_is_seen_by_a_prediction_order(tmp_path: Path) -> None:
    query = {"model": str(zoo.make("xlnet", tmp_path / "xlnet")), "split": "test"}
    app = opened("attention", **query)
    assert "Prediction order" in app.selectbox(key="predicted").options[0]
    before = passes()
    app.selectbox(key="predicted").set_value("random").run()
    assert not app.exception and not app.error
    app.number_input(key="seed").set_value(3).run()
    app.button_group(key="attention").set_value("encoder query stream").run()
    assert not app.exception and not app.error
    assert passes() == before + 2  # both streams of an order are of one pass
    assert len(app.get("plotly_chart")) == 1  # both masks
    app.selectbox(key="compare").set_value("another text").run()
    assert not app.exception and not app.error
    app.selectbox(key="model").set_value("mini:bert").run()
    assert not app.exception and not app.error
    assert not [box for box in app.selectbox if box.key == "predicted"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"model": "mini:elmo"}, "LSTM"),
        ({"model": "nobody/nothing"}, "not been downloaded"),
        ({"model": "mini:nonsense"}, "no built-in model"),
        ({"corpus": "nowhere.conllu"}, "nowhere.conllu"),
        ({"corpus": "primer:size=200", "sentence": "123456789"}, "no sentence 123456789"),
        ({"from": "Your own text", "text": "  "}, "text-empty"),
        ({"text": "  "}, "text-empty"),  # whose it is need not be said
    ],
)
def test_what_cannot_be_shown_is_said(query: dict[str, str], words: str) -> None:
    assert words in said(opened("attention", **query))


def test_a_model_without_attention_leads_on_to_one_that_has_it() -> None:
    app = opened("attention", model="mini:elmo")
    assert "This model has no attention" in "".join(each.value for each in app.header)
    next(each for each in app.button if each.label == "Use mini:bert").click().run()
    assert not app.exception and not app.header and app.session_state["model"] == "mini:bert"


def test_choices_that_another_model_or_corpus_does_not_have_are_let_go(tmp_path: Path) -> None:
    app = opened("attention", split="dev", corpus="primer:size=200")
    app.button_group(key="layers").set_value(["3"]).run()
    app.button_group(key="heads").set_value(["1", "3"]).run()
    assert not app.exception and not app.error
    app.selectbox(key="model").set_value("mini:t5").run()
    assert not app.exception and not app.error
    app.button_group(key="attention").set_value("decoder cross-attention").run()
    app.selectbox(key="model").set_value("mini:gpt").run()
    assert not app.exception and not app.error
    (tmp_path / "one.txt").write_text("The dog barks.\n")  # it has no split named dev
    app.session_state["next corpus"] = str(tmp_path / "one.txt")
    app.run()
    assert not app.exception and not app.error
    split = app.selectbox(key="split")
    assert split.value in split.options and split.value != "dev"


@pytest.mark.parametrize(
    ("how", "text", "after"),
    [
        ("replace", "runs  <b>", "The dog runs <b>, Ann."),
        ("mask", "", "The dog [MASK], Ann."),
        ("delete", "", "The dog , Ann."),
        ("swap", "", "The dog ,barks Ann."),
    ],
)
def test_a_word_is_edited_in_its_text(how: str, text: str, after: str) -> None:
    doc = Doc(
        vocabulary("en"),
        words=["The", "dog", "barks", ",", "Ann", "."],
        spaces=[True, True, False, True, False, False],
    )
    assert edited(doc, 2, how, text, "[MASK]") == after
    with pytest.raises(WorkbenchError, match="request-invalid"):
        edited(doc, 5, "swap")


def test_the_word_in_the_box_of_an_edit_is_the_one_that_is_edited() -> None:
    """Pieces of the model are other parts of the text: `don`, `'`, `t`, or an unknown piece."""
    doc = cache.typed("I don't know the כלב.")
    maps = capture.attention(wb.load("mini:bert", device="cpu"), doc)
    side = side_of(maps, grids.groups(maps)[0], grids.Options(), doc)
    words = _side(side)["words"]
    assert words == ["I", "do", "n't", "know", "the", "כלב", "."]
    assert all(edited(doc, n, "replace", word) == doc.text for n, word in enumerate(words))


def test_a_text_in_another_script_says_which_words_are_not_known() -> None:
    app = opened("attention", **{"from": "Your own text", "text": "أنا أحب قراءة الكتب"})
    assert "mini:bert knows none of 4 words of this text" in said(app)
    assert "does not know" not in said(opened("attention", model="mini:bert"))
    app = opened("attention", **{"from": "Your own text", "text": "الكتب " * 150})
    assert "mini:bert knows none of 62 words that it reads of this text" in said(app)
    assert "88 words are cut off: beyond the maximum length of mini:bert" in said(app)
