"""The page Predict & explain without a browser: edits, addresses, and what it says of errors."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.analyses.predictions.task_folders import with_head
from tests.app.pages import home, opened, said, well  # noqa: F401
from tests.night import mostly
from workbench.analyses.predictions.prediction import of_word
from workbench.analyses.predictions.views.edits import Edit, Slot, edited_doc, slots
from workbench.analyses.predictions.views.page import usual_side
from workbench.analyses.predictions.views.results import top
from workbench.app import cache
from workbench.app.token_views.component import message_of, standalone
from workbench.app.token_views.views import Token, index_in, strip
from workbench.corpora.encode import doc_of
from workbench.runs.run import SHIPPED

WORDS = "The girls did not visit it .".split()
DOC = doc_of("The girls did not visit it .")
SLOW = pytest.mark.slow
OF_A_DAY = {  # other tabs of bert and gpt are opened below
    "bert": ("What if?", "When?", "Who?", "Where?"),
    "gpt": ("Why?",),
    "t5": ("What if?", "Where?"),
    "elmo": ("Who?",),
}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("model", "view"),
    [
        pytest.param(f"mini:{name}", view, marks=() if view in tabs else SLOW)
        for name, tabs in OF_A_DAY.items()
        for view in ("Why?", "What if?", "When?", "Who?", "Where?", "Which direction?")
    ],
)
def test_every_kind_of_model_has_every_tab_or_a_reason(model: str, view: str) -> None:
    app = opened("predict", model=model, text="The girls were tall.", view=view)
    reasons = "\n".join(str(error.value) for error in app.error)
    if (model, view) == ("mini:elmo", "Who?"):
        assert "model-unsupported" in reasons.replace("\\", "")
    else:
        assert not reasons


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("model", "found"), [("mini:gpt", "pairs of words"), ("mini:bert", "Erasing the labels")]
)
def test_directions_have_their_built_in_results(model: str, found: str) -> None:
    app = opened("predict", model=model, text="The girls", view="Which direction?")
    assert found in said(app) and said(app).count(f"{model}: no result yet") == 1
    assert "beyond random" in said(app) or "than erasing random" in said(app)


def test_a_direction_over_another_corpus_than_the_chosen_one_is_shown_with_its_corpus(
    home: Path,  # noqa: F811
) -> None:
    asked = {"model": "mini:gpt", "text": "The girls", "view": "Which direction?"}
    app = opened("predict", **asked, corpus="primer:size=40")
    assert said(app).count("mini:gpt: no result yet") == 2
    shutil.copytree(SHIPPED / "steering-mini-gpt", home / "runs" / "steering-0123456789abcdef")
    app = opened("predict", **asked, corpus="primer:size=40")
    assert "mini:gpt on primer/counterfactuals" in said(app)
    assert said(app).count("mini:gpt: no result yet") == 1  # of erasure


@pytest.mark.usefixtures("home")
def test_no_word_is_the_most_important_where_none_matters() -> None:
    text = "The girls did not visit it."
    app = opened("predict", model="mini:bert@random", text=text, view="What if?")
    app.query_params["view"] = "Why?"
    app.session_state["view"] = "Why?"
    assert "No single word matters" in said(app.run())
    assert "most important word" not in said(app).lower()


@pytest.mark.usefixtures("home")
def test_hiding_each_word_waits_to_be_chosen_where_it_is_costly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {"model": "mini:bert", "text": "The girls were tall.", "view": "Why?"}
    assert "would take minutes" not in said(opened("predict", **asked))
    monkeypatch.setattr("workbench.analyses.attribution.agreement.COSTLY", 0.0)
    app = opened("predict", **asked)
    assert "would take minutes" in said(app) and "matters most" not in said(app)
    assert "Method: gradient-x-input" in said(app)
    app = opened("predict", **asked, method="leave-one-out")
    assert "would take minutes" not in said(app) and "matters most" in said(app)


@pytest.mark.usefixtures("home")
def test_a_direction_of_a_result_is_added_to_the_model() -> None:
    """Then the page predicts what the edited model does in Python, to the last digit."""
    app = opened("predict", model="mini:gpt", text="The girl", view="Which direction?")
    app.number_input(key="strength mini:gpt").set_value(-2.0)
    well(app.run())
    app.button(key="steer mini:gpt").click()
    ref = str(well(app.run()).session_state["model"])
    assert ref == "mini:gpt@edit:4.steering-mini-gpt=-2"
    found = wb.predict(wb.load(ref, device="cpu"), "The girl").table["probability"].tolist()
    shown = top(usual_side(ref, "The girl"), len(found))
    assert list(shown.probabilities) == found
    assert shown.texts != top(usual_side("mini:gpt", "The girl"), len(found)).texts
    app = opened("layer", model=ref, layer="4", text="The girl")
    chip = next(each for each in app.button if each.label.startswith("direction of"))
    assert chip.label == "direction of steering-mini-gpt at layer 4: × -2"
    chip.click()
    assert well(app.run()).session_state["model"] == "mini:gpt"
    assert "there is no run steering-gone" in said(
        opened("predict", model="mini:gpt@edit:4.steering-gone=2", text="The girl")
    )


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("lens", mostly(["the chosen place", "every word"], "every word"))
def test_the_layers_of_a_score_are_shown(tmp_path: Path, lens: str) -> None:
    """A score has neither a rank nor a probability."""
    with_head(wb.load("mini:bert", device="cpu"), tmp_path / "model", "score")
    app = opened("predict", model=str(tmp_path / "model"), view="When?", lens=lens)
    assert "the score of each layer" in said(app) and not app.error


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"text": "   "}, "text-empty"),
        ({"model": "vectors:nowhere.txt"}, "nowhere.txt"),
        ({"target": "no such word at all"}, "not one choice of mini:bert"),
        ({"target": "girls", "against": "girls"}, "same choice"),
        ({"model": "mini:gpt", "text": "a ___ b ___ c"}, "one hidden word"),
        ({"text": "[MASK]"}, "reads no word"),
        ({"view": "Where?", "corrupt": "The girls were tall."}, "texts-not-different"),
        ({"view": "Where?", "corrupt": "Boys run."}, "texts-not-aligned"),
        ({"view": "Where?", "text": "a ___ ___", "at": "gap.1", "corrupt": "b ___"}, "number 2"),
    ],
)
def test_what_cannot_be_predicted_is_said(query: dict[str, str], words: str) -> None:
    assert words in said(opened("predict", **{"text": "The girls were tall.", **query}))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("text", ["[MASK] girls [MASK] very [MASK].", "tall"])
def test_one_word_and_three_masks_are_predicted(text: str) -> None:
    app = opened("predict", text=text)
    assert not [error for error in app.error if "internal" in str(error.value)]
    about = " ".join(caption.value for caption in app.caption)
    assert ("predicts the hidden words" in about) == ("[MASK]" in text)
    assert ("reads the text without it" in about) == ("[MASK]" not in text)


@pytest.mark.usefixtures("home")
def test_nonsense_in_the_address_leaves_a_page_that_works() -> None:
    nonsense = {"at": "word.99999", "edits": '[["hide",99,""],["x"],{}]', "method": "none",
                "by": "letters", "view": "Nowhere", "model2": "", "measure": "9"}  # fmt: skip
    app = opened("predict", **nonsense)
    assert not app.error
    assert "Why" in said(app)


@pytest.mark.usefixtures("home")
def test_a_model_is_not_compared_with_itself() -> None:
    app = opened("predict", model="mini:bert", model2="mini:bert", view="What if?")
    assert not app.error and "is the model itself" in said(app)


@pytest.mark.usefixtures("home")
def test_next_to_a_task_head_each_model_predicts_what_it_can(home: Path) -> None:  # noqa: F811
    folder = str(home / "score")
    with_head(wb.load("mini:bert", device="cpu"), Path(folder), "score", pairs=False)
    app = opened("predict", model="mini:bert", model2=folder, text="The girls were tall.")
    assert not app.error and [metric.label.split(":")[0] for metric in app.metric] == [
        "Predicted score"]  # fmt: skip
    assert "Why this score?" in said(app)
    app = opened("predict", model=folder, text="The girls were tall.", view="What if?",
                 edits='[["delete",1,""]]')  # fmt: skip
    assert not app.error and "Measure" not in [box.label for box in app.selectbox]
    assert len(app.metric) == 2 and "its change without the word" in said(app)


@pytest.mark.usefixtures("home")
def test_a_long_text_and_the_names_of_settings_are_said() -> None:
    app = opened("predict", text="girls walk " * 300, view="When?")
    assert "of the 600 words of this text are read" in said(app)
    app = opened("predict", model="mini:gpt", text="Ben walks", view="When?")
    assert "max_steps" not in said(app)
    app.button(key="continue").click().run()
    assert not app.exception


# --- edits ----------------------------------------------------------------------------------------


def test_edits_add_up_and_hiding_twice_shows_the_word_again() -> None:
    edits = [Edit("delete", 3), Edit("swap", 2), Edit("replace", 1, "boys"), Edit("hide", 4)]
    found = slots(WORDS, edits)
    assert [slot.text for slot in found if slot.mark != "deleted"] == [
        "The", "boys", "visit", "did", "it", "."]  # fmt: skip
    assert [slot.mark for slot in found] == ["", "changed", "hidden", "deleted", "moved", "", ""]
    assert slots(WORDS, [Edit("hide", 4), Edit("hide", 4)]) == slots(WORDS, [])


@given(
    st.lists(
        st.builds(
            Edit,
            st.sampled_from(["hide", "delete", "swap", "replace"]),
            st.integers(0, 9),
            st.text(min_size=1, max_size=3).map(str.strip).filter(bool),
        ),
        max_size=12,
    )
)
def test_no_word_is_lost_by_edits_and_the_doc_has_what_is_shown(edits: list[Edit]) -> None:
    found = slots(WORDS, edits)
    assert sorted(slot.origin for slot in found) == list(range(len(WORDS)))
    kept = [slot for slot in found if slot.mark != "deleted"]
    if kept:
        assert [token.text for token in edited_doc(DOC, found)] == [slot.text for slot in kept]


def test_a_deleted_word_leaves_the_others() -> None:
    assert slots(["a", "b"], [Edit("delete", 0)]) == [Slot(0, "a", "deleted"), Slot(1, "b")]


# --- data of the views ----------------------------------------------------------------------------


def test_a_stand_alone_page_cannot_be_broken_out_of() -> None:
    token = Token("</script><script>alert(1)</script>", 0, score=float("nan"))
    page = standalone("<b>title</b>", [("<i>", [strip("s", "<label>", [token])])]).decode()
    assert "<script>alert" not in page and "<b>title" not in page and "<i>" not in page
    assert "default-src 'none'" in page
    data = page.split('<script type="application/json">')[1].split("</script>")[0]
    assert json.loads(data)["views"][0]["items"][0]["t"] == token.t


def test_what_a_browser_sends_is_an_index_or_nothing() -> None:
    for value in (-1, 5, 1.5, float("inf"), True, "1", None, [1]):
        assert index_in({"i": value}, "i", 5) is None
    assert index_in({"i": 4}, "i", 5) == 4
    assert index_in({"i": 2.0}, "i", 5) == 2


def test_choices_of_other_tokens_are_not_taken() -> None:
    one, other = ([strip("s", "", [Token(text, 0)])] for text in ("a", "b"))
    assert message_of(one)["id"] != message_of(other)["id"]
    assert message_of(one)["id"] == message_of([{**one[0], "selected": 0}])["id"]


@pytest.mark.usefixtures("home")
def test_an_edited_model_is_a_model_of_the_app() -> None:
    """The chip names it, and the page predicts what Python does, to the last digit."""
    ref = "mini:bert@edit:2.1=2,3.2=0"
    app = opened("predict", model="mini:bert@edit:3.2=0,2.1=2", text="The girls were tall.")
    assert not app.error and ref in app.query_params["model"]
    found = of_word(cache.model_of_machine(ref), DOC, 2).logits()
    python = wb.load("mini:bert", device="cpu").edited("3.2=0,2.1=2")
    assert found.equal(of_word(python, DOC, 2).logits())
