"""The page of one head without a browser: the switch, what is edited, tabs, and bad addresses."""

import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.app.pages import home, opened, said, titles, well  # noqa: F401
from tests.night import mostly
from workbench.analyses.editing.views.switch import in_words
from workbench.analyses.predictions.views.choices import Place
from workbench.analyses.predictions.views.results import Side, top
from workbench.app import cache
from workbench.models.edit_terms import terms_of
from workbench.models.references import split_ref

pytestmark = pytest.mark.usefixtures("home")
TEXT = "The girls did not visit it because they were tall."


def switched(app: AppTest, state: str) -> AppTest:
    (box,) = (each for each in app.button_group if str(each.key).startswith("switch "))
    box.set_value(state)
    return well(app.run())


def edit_of(app: AppTest) -> str:
    return split_ref(str(app.session_state["model"])).edit


def test_the_switch_edits_the_model_and_a_button_takes_it_back() -> None:
    app = opened("head", head="3.3", text=TEXT)
    assert titles(app) == ["Head 3.3 of mini:bert"]
    assert "Turn the head off" in said(app)
    switched(app, "off")
    assert edit_of(app) == "3.3=0" and "mini:bert@edit:3.3=0" in app.query_params["model"]
    assert "goes from 97.9 % to" in said(app)
    switched(app, "mean")
    assert edit_of(app) == "3.3=mean"
    switched(app, "halve")
    app.button(key="remove 3.3=0.5").click()
    assert edit_of(well(app.run())) == ""


def test_several_parts_are_edited_at_once() -> None:
    app = opened("head", head="3.3", model="mini:bert@edit:1.mlp=0.5")
    switched(app, "off")
    assert edit_of(app) == "1.mlp=0.5,3.3=0"
    (box,) = (each for each in app.text_input if each.label == "Parts and their values")
    box.set_value("3.n45=mean, 2.1=2, 3.3=0.0")
    well(app.run())
    assert edit_of(app) == "1.mlp=0.5,2.1=2,3.3=0,3.n45=mean"
    (box,) = (each for each in app.text_input if each.label == "Parts and their values")
    box.set_value("9.1=0")
    well(app.run())
    assert "has no layer 9" in said(app) and edit_of(app) == "1.mlp=0.5,2.1=2,3.3=0,3.n45=mean"
    app.button(key="remove all").click()
    assert edit_of(well(app.run())) == ""
    codes = [in_words(term) for term in terms_of("1.mlp=0.5,2.1=2,3.n45=mean,4.2=-1")]
    assert codes == [
        "layer 1 MLP: halved",
        "head 2.1: doubled",
        "neuron 3.45: mean",
        "head 4.2: × -1",
    ]


def test_the_page_predicts_what_python_does_to_the_last_digit() -> None:
    """The command line too: `tests/cli/test_predict.py`."""
    ref, text = "mini:bert@edit:1.mlp=0.5,3.3=0", "The girls [MASK] tall."
    found = wb.fill(wb.load("mini:bert", device="cpu").edited("3.3=0,1.mlp=0.5"), text)
    model = cache.model_of_machine(ref)
    from workbench.analyses.predictions.views.results import with_gaps

    doc, _ = with_gaps(model, cache.typed(text))
    shown = top(Side(ref, model, doc, Place("gap", 0)), 5)
    assert list(shown.probabilities) == found.table["probability"].tolist()[:5]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"head": "99.99"}, "has no head 99.99"),
        ({"head": "abc"}, "has no head abc"),
        ({"head": "<script>", "at": "word.999999999999"}, "has no head <script>"),
        ({"model": "mini:bert@edit:3.9=0"}, "The last head of this layer is 3.4"),
        ({"model": "mini:bert@edit:nonsense"}, "is not an edit of a model"),
        ({"model": "mini:bert@edit:3.n999999=0"}, "neuron"),
        ({"model": "mini:elmo"}, "This model has no attention"),
    ],
)
def test_a_bad_address_gets_a_sentence(query: dict[str, str], words: str) -> None:
    app = opened("head", **query)
    assert words in said(app) + "".join(each.value for each in app.header)


@pytest.mark.parametrize(
    ("model", "head", "title", "place"),
    mostly(
        (
            ("mini:t5", "decoder cross 2.1", "Head decoder cross 2.1 of mini:t5", "2.cross.1"),
            ("mini:t5", "2.1", "Head encoder self 2.1 of mini:t5", "2.1"),
            ("mini:t5", "decoder causal 1.2", "Head decoder causal 1.2 of mini:t5", "decoder.1.2"),
            ("mini:gpt", "2.4", "Head 2.4 of mini:gpt", "2.4"),
        ),
        ("mini:t5", "decoder cross 2.1", "Head decoder cross 2.1 of mini:t5", "2.cross.1"),
    ),
)
def test_a_head_of_every_stack_is_turned_off(model: str, head: str, title: str, place: str) -> None:
    app = opened("head", model=model, head=head, text="Ben walks to the hill.")
    assert titles(app) == [title] and not app.error
    assert edit_of(switched(app, "off")) == f"{place}=0"
    assert not app.error and "goes from" in said(app)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("On the corpus", "Relations"),
        ("What it writes", "number 1 by size of 16 heads"),
        ("Loss without it", "n = "),
        ("Find heads", ""),
    ],
)
def test_every_tab_of_a_head(view: str, words: str) -> None:
    app = opened("head", head="3.3", text=TEXT, view=view, at="word.8")
    assert not app.error and words in said(app) + "".join(each.value for each in app.subheader)


def test_a_positional_role_counts_the_words_that_have_a_word_at_its_offset() -> None:
    assert "(offset −1: 94.5 %, n = 7,465)" in said(opened("head", head="1.4", text=TEXT))


def test_the_loss_with_an_edit_is_measured() -> None:
    app = opened(
        "head", model="mini:bert@edit:3.3=0", view="Loss without it", corpus="primer:size=40"
    )
    next(each for each in app.button if each.label.startswith("Loss with the edit")).click()
    well(app.run())
    assert [each.label for each in app.metric] == ["Loss", "Accuracy"]
    assert float(app.metric[0].delta.split()[0]) > 0


def test_a_model_without_a_result_offers_to_compute_the_roles() -> None:
    app = opened("head", model="mini:bert@random", head="1.1")
    assert any(button.label == "Run" for button in app.button)
