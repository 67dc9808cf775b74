"""The page Questions without a browser: what is asked for, a start, and answers that exist."""

from pathlib import Path
from typing import Any

import pytest

from tests.analyses.slices import test_which
from tests.app.pages import home, opened, said, titles  # noqa: F401
from tests.report.making import corpus, made, model
from workbench.analyses.slices.experiments import TABLES, Errors
from workbench.app.runs import questions, run_form
from workbench.core.analysis import recipes

pytestmark = pytest.mark.usefixtures("home")


def test_every_question_is_there_and_opens_by_a_click() -> None:
    app = opened("questions")
    assert titles(app) == [questions.TITLE]
    labels = {each.label for each in app.button}
    assert {f"**{recipe.question}**" for _, recipe in recipes().values()} <= labels
    app.button(key="ask layer").click().run()
    assert titles(app) == ["What does this layer know?"]
    assert "layer" in app.query_params["question"]


def test_an_address_has_the_answer_that_was_computed() -> None:
    app = opened("questions", question="layer", layer="1", model="mini:bert")
    assert "Layer 1 knows POS" in said(app)
    assert "Compared with the embeddings, layer 1 is better on" in said(app)
    assert app.query_params["layer"] == "1"
    app = opened("questions", question="head", head="1.2", model="mini:bert")
    assert "Head 1.2 has no role (measured on 8,465 words)." in said(app)


def test_the_link_to_share_has_the_question_and_its_choices() -> None:
    app = opened("questions", question="layer", layer="3", model="mini:bert")
    (link,) = [each.value for each in app.code if "run=" in each.value]
    assert link.endswith("?question=layer&layer=3&run=built-in/edge-probing-mini-bert")
    app = opened("questions", question="grammar", other="mini:elmo", corpus="primer/acceptability")
    (link,) = [each.value for each in app.code if "run=" in each.value]
    assert "?question=grammar&other=mini%3Aelmo&run=" in link


def test_an_address_that_somebody_wrote_is_said_to_be_wrong() -> None:
    app = opened("questions", question="everything")
    assert "There is no question everything" in said(app) and titles(app) == [questions.TITLE]
    app = opened("questions", question="layer", layer="99", model="mini:bert")
    assert "Layer 2 knows" in said(app)
    app = opened("questions", question="cut", keep="much", model="mini:bert")
    assert app.text_input(key="keep").value == "99%" and not app.error


def test_a_table_of_unknown_columns_has_the_way_to_choose_them(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("note,topic\na boat,sea\na hill,land\n")
    app = opened("questions", question="cut", model="mini:bert", corpus=str(tmp_path / "own.csv"))
    assert "none of the columns" in app.error[0].value
    (link,) = [each.proto for each in app.get("page_link") if each.proto.page == "corpora"][-1:]
    assert link.label == "Choose its columns"


def test_a_page_that_is_reloaded_while_a_run_is_started_waits_for_it() -> None:
    with run_form._starting("errors"):
        app = opened("questions", question="better", model="mini:gpt", other="mini:llama")
        assert "Starting …" in said(app)
    assert "Starting …" not in said(app.run())


def test_a_start_has_what_is_asked_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []

    def begin(arguments: run_form.RequestArguments) -> str:
        begun.append(arguments)
        return "errors-none"

    monkeypatch.setattr(run_form, "begin", begin)
    app = opened(
        "questions", question="better", model="mini:gpt", other="mini:llama",
        corpus="primer:size=40",
    )  # fmt: skip
    assert said(app).count("workbench run errors") == 2
    (quick,) = [each for each in app.button if each.label.startswith("Quick look")]
    app.session_state["corpus"] = "primer"  # a browser may send an older choice with a click
    quick.click().run()
    assert [each[:3] for each in begun] == [
        ("errors", (ref,), ("primer:size=40",)) for ref in ("mini:gpt", "mini:llama")
    ]
    assert begun[0][3] == {"max_sentences": 200}


def test_training_is_started_from_the_model_before_to_that_of_the_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(run_form, "begin", lambda arguments: begun.append(arguments) or "none")
    app = opened(
        "questions", question="change", model="mini:gpt", other="mini:gpt@random",
        corpus="primer:size=40",
    )  # fmt: skip
    app.session_state["model"] = "mini:bert"  # as above
    next(each for each in app.button if each.label.startswith("Quick look")).click().run()
    assert begun[0][1:3] == (("mini:gpt@random", "mini:gpt"), ("primer:size=40",))


def test_a_new_run_has_the_inputs_that_its_form_showed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(run_form, "begin", lambda arguments: begun.append(arguments) or "none")
    app = opened("experiments", experiment="errors", model="mini:gpt", corpus="primer:size=40")
    app.session_state["corpus"] = "primer"  # as above
    app.session_state["model"] = "mini:bert"
    next(each for each in app.button if each.label in ("Run", "Show result")).click().run()
    assert begun[0][:3] == ("errors", ("mini:gpt",), ("primer:size=40",))


def test_a_new_run_reads_the_columns_that_the_run_shown_did(tmp_path: Path) -> None:
    rows = "".join(f"fine words {n},{'ab'[n % 2]}\n" for n in range(8))
    (tmp_path / "mails.csv").write_text(f"message,kind\n{rows}")
    columns = {"text": ["message"], "labels": ["kind"]}
    run = made(
        tmp_path / "runs", experiment="errors", tables={}, findings=[],
        models=(model("mini:gpt", ref="mini:gpt"),),
        corpora=(corpus("mails", ref=str(tmp_path / "mails.csv"), options=columns),),
        settings=Errors().model_dump(mode="json"),
    )  # fmt: skip
    app = opened("experiments", run=run.name, new="1")
    assert not app.error
    assert next(each for each in app.button if each.label == "Run").disabled is False


def test_a_label_is_to_be_chosen_before_anything_is_wrong(tmp_path: Path) -> None:
    rows = "".join(f"fine words {n},{'ab'[n % 2]},{'xy'[n % 2]}\n" for n in range(8))
    (tmp_path / "two.csv").write_text(f"text,kind,mood\n{rows}")
    app = opened("questions", question="cut", corpus=str(tmp_path / "two.csv"))
    assert "several labels: kind, mood. Choose the one to predict." in said(app)
    assert not app.error and not [each for each in app.button if each.label.startswith("Try it")]


def test_two_runs_are_answered_together(tmp_path: Path) -> None:
    for ref, seed in (("mini:gpt", 0), ("mini:llama", 1)):
        frame = test_which.texts(test_which.noise(seed) - seed)
        found = test_which.tables(frame)
        made(
            tmp_path / "runs", experiment="errors",
            tables={name: (table, TABLES[name]) for name, table in found.items()},
            models=(model(ref, ref=ref),), corpora=(corpus(),), findings=[],
            settings=Errors().model_dump(mode="json"),
        )  # fmt: skip
    app = opened("questions", question="better", model="mini:gpt", other="mini:llama")
    assert "mini:llama is better on 120 texts" in said(app)
    assert any(each.label.startswith("Ask again") for each in app.expander)


@pytest.mark.parametrize(
    ("first", "second"),
    [("mini:bert", "mini:modernbert"), ("novels:bert", "novels:bert@random")],
)
def test_the_second_model_can_be_compared_with_the_first(first: str, second: str) -> None:
    app = opened("questions", question="better", model=first)
    (box,) = (each for each in app.selectbox if each.label == "Second model")
    assert box.value == second


def test_what_training_changed_is_asked_from_before_to_after() -> None:
    app = opened("questions", question="change", model="mini:bert")
    boxes = {each.label: each.value for each in app.selectbox}
    assert boxes["Model before training"] == "mini:bert@random"
    assert boxes["Model after training"] == "mini:bert"
    assert "forgets" not in said(app) and "CKA" in said(app)  # the built-in result, in this order


def test_models_with_different_tokenizers_are_refused_before_they_run() -> None:
    app = opened("questions", question="better", model="mini:bert", other="novels:bert")
    assert "have different tokenizers" in said(app)
    assert not [each for each in app.button if each.label.startswith(("Start", "Quick look"))]
    app.button(key="example better").click().run()
    assert [each for each in app.button if each.label.startswith("Start")] and not app.error


def test_what_a_model_lacks_is_said_and_another_is_offered() -> None:
    app = opened("questions", question="cut", model="mini:elmo", corpus="primer:size=40")
    assert "attention heads" in said(app)
    (start,) = [each for each in app.button if each.label.startswith("Start")]
    assert start.disabled
    app.button(key="example cut").click().run()
    assert app.session_state["model"] == "mini:bert"
    assert app.session_state["corpus"] == "primer/sentiment:size=600"


def test_words_come_before_methods() -> None:
    app = opened("questions", question="words", model="mini:bert")
    words = said(app)
    assert words.index("By part of speech") < words.index("are the most faithful")


def test_runs_that_failed_say_why_and_can_be_started_again(tmp_path: Path) -> None:
    names = [
        made(
            tmp_path / "runs", experiment="errors", state="failed", tables={},
            models=(model(ref, ref=ref),), corpora=(corpus(),),
            settings=Errors().model_dump(mode="json"),
        ).name
        for ref in ("mini:gpt", "mini:llama")
    ]  # fmt: skip
    app = opened("questions", question="better", run=names)
    assert app.session_state["model"] == "mini:gpt"
    labels = [each.label for each in app.button]
    assert labels.count("Resume") == 2 and any(each.startswith("Start") for each in labels)
