"""The page of one layer without a browser: the switch, its tabs, every kind of model."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.app.pages import home, opened, said, titles, well  # noqa: F401
from workbench.corpora.typed import readable
from workbench.models.references import split_ref

pytestmark = pytest.mark.usefixtures("home")
TEXT = "The girls did not visit it because they were tall."


def switched(app: AppTest, label: str, state: str) -> AppTest:
    next(each for each in app.button_group if each.label == label).set_value(state)
    return well(app.run())


def edit_of(app: AppTest) -> str:
    return split_ref(str(app.session_state["model"])).edit


def test_the_switches_edit_the_layer_and_its_parts() -> None:
    app = opened("layer", layer="3", text=TEXT)
    assert titles(app) == ["Layer 3 of mini:bert"]
    switched(app, "Turn it off", "off")
    assert edit_of(app) == "3.attention=0,3.mlp=0" and "goes from 97.9 % to" in said(app)
    switched(app, "Its attention", "on")
    assert edit_of(app) == "3.mlp=0"
    switched(app, "Turn it off", "halve")
    assert edit_of(app) == "3.attention=0.5,3.mlp=0.5"
    switched(app, "Turn it off", "on")
    assert edit_of(app) == ""


def test_what_it_writes_is_what_taps_read() -> None:
    model = wb.load("mini:bert", device="cpu")
    read = wb.Read(["block 2", "block 3", "block 3 mlp"])
    wb.forward(model, wb.encode([readable(TEXT)]), taps=[read])
    before, after, mlp = (read[name][0].double() for name in read.names)
    share = (mlp.norm(dim=-1) / before.norm(dim=-1)).mean()
    kept = (before * after).sum(-1) / before.norm(dim=-1) / after.norm(dim=-1)
    shown = said(opened("layer", layer="3", text=TEXT, view="What it writes"))
    assert f"MLP adds {share:.2f} times" in shown and f"a cosine of {kept.mean():.2f}" in shown


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("After it", "is number 1 of all choices after layer 2 and number 1 after layer 3"),
        ("Probes", "is the best for: constituents, coreference"),
    ],
)
def test_every_tab_of_a_layer(view: str, words: str) -> None:
    app = opened("layer", layer="3", text=TEXT, view=view)
    assert not app.error and words in said(app)


def test_its_heads_are_links_with_roles() -> None:
    app = opened("layer", layer="3", text=TEXT, view="Its heads")
    links = [each.proto for each in app.get("page_link") if each.proto.label.startswith("3.")]
    assert [each.label for each in links][1] == "3.2: syntactic"
    assert "head=3.2" in links[1].query_string


def test_the_loss_without_the_layer_is_that_of_the_edit() -> None:
    app = opened("layer", layer="3", view="Loss without it", corpus="primer:size=40")
    next(each for each in app.button if each.label.startswith("Loss without the layer")).click()
    well(app.run())
    assert [each.label for each in app.metric] == ["Loss", "Accuracy"]
    assert float(app.metric[0].delta.split()[0]) > 0


@pytest.mark.parametrize(
    ("model", "layer", "edit"),
    [  # the layers of a stack alone: the switches above
        pytest.param("mini:gpt", "2", "2.attention=0,2.mlp=0", marks=pytest.mark.slow),
        ("mini:t5", "decoder 2", "2.cross=0,decoder.2.attention=0,decoder.2.mlp=0"),
        pytest.param("mini:t5", "1", "1.attention=0,1.mlp=0", marks=pytest.mark.slow),
        ("mini:elmo", "2", "2=0"),
    ],
)
def test_a_layer_of_every_kind_of_model_is_turned_off(model: str, layer: str, edit: str) -> None:
    app = opened("layer", model=model, layer=layer, text="Ben walks to the hill.")
    assert not app.error and titles(app)[0].endswith(f"{layer} of {model}")
    assert edit_of(switched(app, "Turn it off", "off")) == edit
    assert not app.error and "goes from" in said(app)


@pytest.mark.parametrize("view", ["After it", "Its heads", "Probes"])
def test_a_model_without_heads_says_so(view: str) -> None:
    app = opened("layer", model="mini:elmo", layer="1", view=view)
    assert not app.error and "no attention heads" in said(app)


@pytest.mark.parametrize(
    ("query", "words"),
    [({"layer": "9"}, "has no layer 9. Its layers are 1 to 4"), ({"layer": "<b>"}, "no layer <b>")],
)
def test_a_bad_address_gets_a_sentence(query: dict[str, str], words: str) -> None:
    assert words in said(opened("layer", **query))


def test_static_vectors_have_no_layers(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("Ben 0.5 1.0\nhill 1.0 0.25\n")
    app = opened("layer", model=f"vectors:{tmp_path / 'v.txt'}")
    assert [each.value for each in app.header] == ["This model has no layers"]


def test_an_encoder_without_a_head_shows_what_it_writes(tmp_path: Path) -> None:
    from transformers import BertModel

    model = wb.load("mini:bert", device="cpu")
    model.save(tmp_path / "bare")
    BertModel.from_pretrained(tmp_path / "bare").save_pretrained(tmp_path / "bare")
    app = opened("layer", model=str(tmp_path / "bare"), layer="2")
    assert "predicts nothing" in said(app) and "the length of the state" in said(app)
