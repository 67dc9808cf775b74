"""The pages Models and Corpora without a browser: what they show, for any address."""

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.pages import home, opened, said, well  # noqa: F401
from workbench.app.library.uploads import name_of_files
from workbench.app.uploaded_files import uploads
from workbench.core import machine
from workbench.corpora import read
from workbench.report.content import command
from workbench.report.prose import title_of
from workbench.runs.request import make_request
from workbench.runs.spec import with_given_names

pytestmark = pytest.mark.usefixtures("home")
MINI = Path(__file__).parents[2] / "workbench" / "models" / "mini"


def _press(app: AppTest, label: str) -> AppTest:
    return well(next(button for button in app.button if button.label == label).click().run())


def _chosen(app: AppTest, label: str) -> str:
    return str(next(box for box in app.selectbox if box.label == label).value)


def _zip(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def _bert() -> dict[str, bytes]:
    return {f"bert/{path.name}": path.read_bytes() for path in (MINI / "bert").iterdir()}


# --- models ---------------------------------------------------------------------------------------


def test_a_model_without_attention_says_what_there_is() -> None:
    app = opened("models", model="mini:elmo")
    assert [metric.value for metric in app.metric] == ["elmo", "1.46 M", "256", "no limit"]
    assert "no attention" in said(app)


@pytest.mark.parametrize(
    "ref", ["mini:nonsense", "/no/such/folder", "train-nope", "elmo:x", "a\0b"]
)
def test_a_model_that_is_none_is_an_error_with_a_remedy(ref: str) -> None:
    app = opened("models", model=ref)
    assert app.error and not app.metric
    assert any(button.label == "Use this model" for button in app.button)


def test_the_network_is_used_on_a_click_only() -> None:
    app = opened("models", model="nobody/has-this-model")
    assert "can download it" in said(app) and not app.error
    app = _press(app, "Download from the hub")
    assert "cannot be reached" in said(app)


def test_what_is_typed_becomes_the_choice_of_all_pages() -> None:
    app = opened("models")
    app.text_input(key="typed-model").input("mini:gpt").run()
    app = _press(app, "Use this model")
    assert _chosen(app, "Model") == "mini:gpt" and app.metric[0].value == "gpt2"


def test_a_zip_of_a_model_is_kept_used_and_removed() -> None:
    app = opened("models")
    app.file_uploader[0].upload("my <b>bert.zip", _zip(_bert()), "application/zip").run()
    app = _press(app, "Check and store")
    (kept,) = uploads("models")
    assert _chosen(app, "Model") == str(kept.path)
    assert app.metric[0].value == "bert" and "Stored the model" in said(app)
    assert app.query_params["model"] == kept.name == "my <b>bert"
    app = _press(app, "Remove")
    assert uploads("models") == [] and _chosen(app, "Model") == "mini:bert"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (_zip({"../evil.json": b"{}"}), "leave the folder"),
        (_zip({"config.json": b"{}", "pytorch_model.bin": b"x"}), "run any code"),
        (b"only text", "not a valid zip file"),
        (_zip({"config.json": b'{"model_type": "bert"}'}), "tokenizer"),
        (_zip({"config.json": b"{", "tokenizer.json": b"{}"}), "["),
        (_zip({**_bert(), "bert/model.safetensors": b"damaged"}), "["),
    ],
    ids=["path", "pickle", "text", "no tokenizer", "no json", "damaged"],
)
def test_what_is_no_model_is_refused_and_leaves_nothing(content: bytes, word: str) -> None:
    app = opened("models")
    app.file_uploader[0].upload("bad.zip", content, "application/zip").run()
    app = _press(app, "Check and store")
    assert word in said(app) and ".draft" not in said(app)
    assert list((machine.home() / "uploads" / "models").iterdir()) == []
    assert _chosen(app, "Model") == "mini:bert"


# --- corpora --------------------------------------------------------------------------------------


def test_the_box_of_splits_follows_a_corpus_without_the_split_that_was_chosen() -> None:
    def controls() -> None:
        import streamlit as st

        from workbench.app.library.corpus_browser import draw_controls

        st.session_state["split"] = "train"  # of the corpus before
        draw_controls(["dev", "test"], is_other=True)

    app = AppTest.from_function(controls).run()
    box = app.selectbox(key="split")
    assert not app.exception and box.value == "dev"
    assert box.proto.set_value, "the browser is told, else it shows the split of before"


def test_a_text_column_is_asked_for_until_one_is_chosen() -> None:
    def controls() -> None:
        from workbench.app.library.uploads import draw_columns

        draw_columns(["Body", "Topic"], (), ("Topic",), "here")

    app = AppTest.from_function(controls).run()
    assert "Choose the text column" in app.info[0].value
    app.multiselect[0].select("Body").run()
    assert not app.info


def test_sentences_are_browsed_found_and_opened() -> None:
    app = opened("corpora", corpus="primer:size=200", split="dev", sentence="12")
    assert app.number_input(key="sentence").value == 12
    assert "Sentences 10 to 19 of 20" in said(app)
    app = _press(app, "Previous")
    assert app.number_input(key="sentence").value == 0
    app = well(app.button(key="open-4").click().run())
    assert app.number_input(key="sentence").value == 4
    app.text_input(key="find").input("zzzz").run()
    assert "No matches in all 20 sentences" in said(app)
    app.text_input(key="find").input("the").run()
    assert "in all 20 sentences" in said(well(app))


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"corpus": "primer:size=x"}, "must be a whole number"),
        ({"corpus": "/no/such.conllu"}, "no corpus 'such.conllu'"),
        ({"corpus": "a\0b"}, "["),
        ({"split": "nonsense"}, "has no split nonsense"),
        ({"sentence": "999999"}, "There is no sentence 999,999"),
        ({"sentence": "-3"}, "is not a sentence number"),
        ({"sentence": "<b>"}, "is not a sentence number"),
        ({"sentence": "9" * 30}, "is not a sentence number"),
    ],
)
def test_bad_values_in_the_address_are_said(query: dict[str, str], word: str) -> None:
    app = opened("corpora", **{"corpus": "primer:size=200", **query})
    assert word in said(app).replace("\\", "")
    assert any(button.label == "Use this corpus" for button in app.button)


def test_a_chosen_table_without_a_known_column_is_stored_with_chosen_ones(tmp_path: Path) -> None:
    (tmp_path / "mail.csv").write_text("message,topic\nfine words,a\nmore,b\n")
    app = well(opened("corpora", corpus=str(tmp_path / "mail.csv")))
    app.multiselect[0].select("message").run()
    app = _press(well(app), "Check and store")
    (kept,) = uploads("corpora")
    assert _chosen(app, "Corpus") == str(kept.path)
    assert list(app.table[0].value["sentences"]) == ["2"]


def test_a_hub_corpus_waits_for_a_click() -> None:
    app = opened("corpora", corpus="hub:nobody/nothing")
    assert any(button.label == "Download from the hub" for button in app.button)


def _uploaded(name: str, content: str) -> AppTest:
    app = opened("corpora", corpus="primer:size=200")
    app.file_uploader[0].upload(name, content.encode(), "text/plain").run()
    return well(app)


def test_conllu_with_three_faults_lists_their_lines() -> None:
    good = "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    bad = good.replace("NOUN", "NOON")
    app = _press(_uploaded("bad.conllu", good + bad + good + bad + "1\ta\n\n"), "Check and store")
    lines = [element.value for element in app.text]
    assert [fault.split(":")[0] for fault in lines[:3]] == ["Line 3", "Line 7", "Line 9"]
    tag, columns = lines[3:]  # what to do, once for all that are alike
    assert tag.startswith("Did you mean 'NOUN'?") and columns.startswith("Separate columns")
    assert list(app.dataframe[-1].value["line"]) == [3, 7, 9]
    shown = list(app.main)
    button = next(each for each in app.button if each.label == "Check and store")
    assert shown.index(app.error[0]) < shown.index(button), "in sight in the box of the top bar"
    assert uploads("corpora") == [] and _chosen(app, "Corpus") == "primer:size=200"


@pytest.mark.parametrize(
    ("name", "content", "sentences"),
    [  # tests/corpora reads each format by day
        ("dev.conllu", "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n", "1"),
        ("a.csv", "text,label\nfine words,1\nmore,0\n", "2"),
        pytest.param("a.tsv", "sentence\tlabel\nfine\t1\n", "1", marks=pytest.mark.slow),
        pytest.param("a.jsonl", '{"text": "fine", "label": "x"}\n', "1", marks=pytest.mark.slow),
        pytest.param("a.txt", "One sentence. And another.\n", "2", marks=pytest.mark.slow),
        pytest.param("a.mrg", "(S (NP (NN cats)) (VP (VBP sleep)))\n", "1", marks=pytest.mark.slow),
    ],
)
def test_every_format_is_kept_and_in_use(name: str, content: str, sentences: str) -> None:
    app = _press(_uploaded(name, content), "Check and store")
    (kept,) = uploads("corpora")
    assert _chosen(app, "Corpus") == str(kept.path) and kept.name == Path(name).stem
    assert list(app.table[0].value["sentences"]) == [sentences]
    app = _press(app, "Remove")
    assert uploads("corpora") == [] and _chosen(app, "Corpus") == "primer"


FILES = [(f"{name}.conllu", "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n") for name in ("dev", "train")]


def _uploading(*files: tuple[str, str]) -> AppTest:
    """Several files in the box, and the name that is proposed for them."""
    app = opened("corpora", corpus="primer:size=200")
    for name, text in files:
        app.file_uploader[0].upload(name, text.encode(), "text/plain")
    return well(app.run())


def _name_box(app: AppTest, words: str = "name of upload") -> Any:
    return next(box for box in app.text_input if str(box.key).startswith(words))


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["dev.conllu", "train.conllu"], "dev + train"),
        (["en_ewt-dev.conllu", "en_ewt-train.conllu"], "en_ewt"),
        (["children-train.conllu", "children-test.conllu"], "children"),
        (["gum1.conllu", "gum2.conllu"], "gum"),
        (["a/my texts.csv"], "my-texts"),
        (["train.csv", "dev.csv", "test.csv"], "train + dev + test"),
    ],
)
def test_the_name_of_an_upload_is_from_all_its_files(files: list[str], name: str) -> None:
    assert name_of_files(files) == name


def test_a_name_is_asked_for_said_everywhere_and_changed() -> None:
    app = _uploading(*FILES)
    assert _name_box(app).value == "dev + train"
    _name_box(app).input("My treebank").run()
    app = _press(app, "Check and store")
    (kept,) = uploads("corpora")
    assert kept.name == "My treebank" == app.query_params["corpus"]
    request = make_request("describe", corpora=[kept.path]).spec
    assert title_of(request) == "Statistics of My treebank"
    assert "--corpus='local:My treebank'" in command(request).replace("'--corpus=", "--corpus='")
    assert str(kept.path) not in said(app)
    _name_box(app, f"name of the corpus {kept.path} in the list").input("Second").run()
    assert app.query_params["corpus"] == "Second" and "Second" in said(well(app))
    assert title_of(with_given_names(request)) == "Statistics of Second"
    assert read("local:My treebank").name == read("local:Second").name == "Second"
    for link in ("Second", "My treebank", "local:My treebank", str(kept.path)):
        app = opened("corpora", corpus=link)
        assert _chosen(app, "Corpus") == str(kept.path), link
        assert app.query_params["corpus"] == "Second"


def test_a_name_belongs_to_one_corpus() -> None:
    app = _press(_uploading(*FILES), "Check and store")
    app = _uploading(FILES[0])
    assert _name_box(app).value == "dev"
    _name_box(app).input("dev + train").run()
    app = _press(app, "Check and store")
    assert "the name 'dev + train' is, or was, that of another corpus" in said(app)
    assert len(uploads("corpora")) == 1 and "'dev + train (2)'" in said(app)


def test_an_empty_file_is_named_and_refused() -> None:
    app = _press(_uploading(FILES[0], ("train.conllu", "")), "Check and store")
    assert "train.conllu: This file has no sentences" in said(app)
    assert "Remove it from the upload" in said(app) and uploads("corpora") == []


def test_unknown_columns_are_to_be_chosen() -> None:
    app = _uploaded("odd.csv", "words,mark\nfine words,good\nbad ones,bad\n,bad\n")
    button = next(button for button in app.button if button.label == "Check and store")
    assert button.disabled and "The first row must name the columns" in said(app)
    app.multiselect[0].select("words").run()
    app.multiselect[1].select("mark").run()
    app = _press(app, "Check and store")
    (kept,) = uploads("corpora")
    assert [path.name for path in kept.path.iterdir()] == ["odd.spacy"]
    assert "mark: **good**" in said(app)
    assert "1 row has no text in column 'words', and is left out" in said(app)
    (note, *_) = (doc.user_data.get("left_out") for doc in read(kept.path).docs())
    assert "1 row has no text" in note


def test_unknown_columns_of_a_typed_path_are_to_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text("words,mark\nfine words,good\nbad ones,bad\n,bad\n")
    app = opened("corpora", corpus="primer:size=200")
    app.text_input(key="typed-corpus").set_value(str(tmp_path / "odd.csv")).run()
    app = _press(app, "Use this corpus")
    assert _chosen(app, "Corpus") == "primer:size=200"
    app.multiselect[0].select("words").run()
    app = _press(app, "Check and store")
    (kept,) = uploads("corpora")
    assert _chosen(app, "Corpus") == str(kept.path) and "1 row has no text" in said(app)


def test_a_spreadsheet_is_to_be_saved_as_csv() -> None:
    assert "Save a spreadsheet as CSV" in said(_uploaded("messages.xlsx", "PK"))


def test_hostile_words_are_words() -> None:
    evil = "<img/src=x/onerror=alert(1)> ![a](http://evil/x.png) :red[b] $x$ `code`"
    app = _press(_uploaded("a.txt", f"{evil}\n{evil} again\n"), "Check and store")
    labels = [button.label for button in app.button if str(button.key).startswith("open-")]
    assert labels and not any(re.search(r"(?<!\\)[!<\[$`]", label) for label in labels)
    assert r"\<img\/src\=x\/onerror\=alert\(1\)\>" in "".join([said(app), *labels])


def test_two_visitors_do_not_see_each_others_choices() -> None:
    one, two = opened("corpora", corpus="primer:size=200"), opened("corpora")
    assert _chosen(one, "Corpus") == "primer:size=200" and _chosen(two, "Corpus") == "primer"
