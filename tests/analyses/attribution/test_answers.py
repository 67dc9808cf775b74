"""No function of predictions answers falsely: each names its measure, or says what is wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.analyses.attribution.test_faithfulness import a_map, planted
from tests.analyses.predictions.test_predict import LONG, model_of
from tests.minis import shared
from workbench import WorkbenchError
from workbench.analyses.attribution.faithfulness import _verdict, faithfulness
from workbench.analyses.predictions.edits import token_effects
from workbench.analyses.predictions.explained import choice_of, prediction_of
from workbench.analyses.predictions.prediction import of_word
from workbench.analyses.predictions.results import Generated, Labelled
from workbench.analyses.predictions.target import Target
from workbench.analyses.predictions.views.results import LISTED, Place, Side, top
from workbench.analyses.predictions.views.results import choice_of as page_choice_of
from workbench.corpora.encode import doc_of
from workbench.engine.task import Task
from workbench.models.output_heads.task_heads import MixHead, Scale

TEXT, HIDDEN = "Ben walks to the hill.", "Ben [MASK] to the hill."
TASKS = {
    "sentiment": Task("sentiment", "class", "sentiment", ("bad", "good"), False, "accuracy"),
    "relatedness": Task("relatedness", "score", "relatedness", (), True, "mse"),
    "questions": Task("questions", "answers", "questions", (), True, "f1"),
    "pos": Task("pos", "tags", "pos", ("NOUN", "VERB", "ADP"), False, "accuracy"),
}
SCALE = Scale(3.0, 2.0)


@pytest.fixture(scope="module")
def heads(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """mini:bert with a random task head, opened as a run's folder is."""
    opened: dict[str, Any] = {}
    body = model_of("mini:bert")

    def of(name: str) -> Any:
        if name not in opened:
            folder = tmp_path_factory.mktemp(name)
            head = MixHead(TASKS[name], body.stacks[0].layers, body.width, False, SCALE)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                for layer in head.linear:
                    torch.nn.init.normal_(layer.weight, std=0.05)
            body.with_task_head(head).save(folder)
            opened[name] = wb.load(str(folder), device="cpu")
        return opened[name]

    return of


# --- a score --------------------------------------------------------------------------------------


def test_a_score_is_explained_on_its_own_scale(heads: Any) -> None:
    model = heads("relatedness")
    predicted = wb.predict(model, TEXT, second="Ann sees a dog.")
    assert isinstance(predicted, Labelled)
    found = wb.attribute(model, TEXT, second="Ann sees a dog.", method="occlusion")
    assert f"{found.value:.3g}" == predicted.guess
    assert "score" in found.summary and "logit" not in found.summary
    unscaled = (found.value - SCALE.mean) / SCALE.spread
    head = found.prediction.head
    assert head is not None
    with torch.no_grad():
        plain = replace(found.prediction, kind="class").logits()[0, 0]
    assert unscaled == pytest.approx(float(plain), abs=1e-5)
    assert abs(found.scores).max() > 0
    total = wb.contributions(model, TEXT, second="Ann sees a dog.")
    assert total.logit == pytest.approx(found.value, abs=1e-5)
    assert total.table["contribution"].sum() == pytest.approx(total.total, abs=1e-4)


@pytest.mark.parametrize("measure", ["probability", "log-probability"])
def test_a_score_has_no_probability(heads: Any, measure: Any) -> None:
    with pytest.raises(WorkbenchError, match="score") as raised:
        wb.attribute(heads("relatedness"), TEXT, second=TEXT, measure=measure)
    assert "logit" in raised.value.remedy


def test_the_effect_on_a_score_is_printed_as_a_score(heads: Any) -> None:
    prediction, _ = prediction_of(heads("relatedness"), TEXT, second="Ann sees a dog.")
    effects = token_effects(prediction, "delete")
    assert effects.effects[0].before == pytest.approx(prediction.logits()[0, 0].item())
    assert repr(effects).startswith("Score") and "%" not in repr(effects)


# --- names of settings ----------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["probabilty", "", 5])
@pytest.mark.parametrize("name", ["measure", "method", "by"])
def test_a_misspelt_setting_is_an_error(name: str, wrong: Any) -> None:
    with pytest.raises(WorkbenchError, match=name) as raised:
        wb.attribute(model_of("mini:bert"), HIDDEN, **{name: wrong})
    assert raised.value.code == "setting-invalid"
    assert "Known" in raised.value.remedy


@pytest.mark.parametrize("wrong", ["", "maks"])
def test_a_misspelt_baseline_or_edit_is_an_error(wrong: Any) -> None:
    model = model_of("mini:bert")
    for method in ("occlusion", "attention"):
        with pytest.raises(WorkbenchError, match="baseline"):
            wb.attribute(model, HIDDEN, method=method, baseline=wrong)  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="what"):
        token_effects(prediction_of(model, HIDDEN)[0], wrong)


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda m: wb.contributions(m, TEXT, word=-1),
        lambda m: wb.attribute(m, TEXT, word=-1),
        lambda m: wb.patch(m, TEXT, "Ann walks to the hill.", word=-1),
        lambda m: wb.lens(m, TEXT, word=-1),
        lambda m: wb.predict(m, TEXT, hide=-1),
        lambda m: wb.fill(m, TEXT, hide=-1),
        lambda m: of_word(m, doc_of(TEXT), -1),
        lambda m: token_effects(of_word(m, doc_of(TEXT), 1), words=[-1]),
    ],
)
def test_there_is_no_word_before_the_first(call: Any) -> None:
    with pytest.raises(WorkbenchError, match=r"word-unknown|-1"):
        call(model_of("mini:bert"))


@pytest.mark.parametrize(
    ("name", "text", "word", "piece"),
    [
        ("mini:gpt", "Ben walks to the", "hill", "▁hill"),
        ("mini:gpt", "Ben walks to the", "walk", "▁walk"),
        ("mini:gpt", "Ann w", "her", "her"),  # within a word
        ("mini:t5", "Ben walks to the", "hill", "▁hill"),
    ],
)
def test_contributions_attributions_and_the_page_choose_the_same_piece(
    name: str, text: str, word: str, piece: str
) -> None:
    model = model_of(name)
    explained = wb.attribute(model, text, word, "gradient-x-input", measure="logit")
    contributed = wb.contributions(model, text, word)
    chosen = explained.prediction.names([explained.target.choice])[0]
    assert chosen == contributed.choice == piece
    assert explained.value == pytest.approx(contributed.logit, abs=1e-4)
    kind: Any = "next" if name == "mini:gpt" else "written"
    side = Side(name, model, doc_of(text), Place(kind, 0))
    assert page_choice_of(side, top(side, LISTED), word) == explained.target.choice


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    model = model_of("mini:bert")
    for kind in (np.int64, torch.tensor):
        assert wb.predict(model, TEXT, hide=kind(1)).first == wb.fill(model, TEXT, hide=1).first  # type: ignore[union-attr]
        own = wb.attribute(model, TEXT, kind(7), "gradient-x-input", word=kind(1))
        assert own.target == Target(7, measure="probability")
    with pytest.raises(WorkbenchError, match="hide"):
        wb.predict(model, TEXT, hide=np.float64(1))  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="hide"):
        wb.predict(model, TEXT, hide=np.array([1, 2]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda m: wb.attribute(m, HIDDEN, by="segment", segments=[]),
        lambda m: wb.attribute(m, HIDDEN, by="segment", segments=[(0,)]),
        lambda m: wb.attribute(m, HIDDEN, by="segment", segments=[(0, 1, 2)]),
        lambda m: wb.attribute(m, HIDDEN, by="segment", segments=[("a", "b")]),
        lambda m: wb.attribute(m, HIDDEN, method="random", seed=-1),
        lambda m: wb.attribute(m, HIDDEN, method="shapley", seed=2**70),
        lambda m: wb.generate(model_of("mini:gpt"), "Ben", 2, sample=True, seed=2**70),
        lambda m: wb.predict((each for each in [m]), HIDDEN),
        lambda m: wb.attribute((each for each in [m]), HIDDEN),
        lambda m: token_effects(prediction_of(m, HIDDEN)[0], choice=10**6),
        lambda m: token_effects(prediction_of(m, HIDDEN)[0], choice=-1),
        lambda m: token_effects(prediction_of(m, HIDDEN)[0], choice=1.5),
        lambda m: token_effects(prediction_of(m, HIDDEN)[0], words=["Ben"]),
    ],
)
def test_a_wrong_value_is_a_clear_error(call: Any) -> None:
    with pytest.raises(WorkbenchError) as raised:
        call(model_of("mini:bert"))
    assert raised.value.remedy


def test_the_followed_choice_of_an_edit_may_be_a_word() -> None:
    prediction, _ = prediction_of(model_of("mini:bert"), HIDDEN)
    effects = token_effects(prediction, choice="was")
    assert effects.choice_text == "was"


@pytest.mark.parametrize("text", ["", "  "])
@pytest.mark.parametrize("name", ["mini:t5", "mini:gpt"])
def test_an_empty_text_has_no_contributions(name: str, text: str) -> None:
    with pytest.raises(WorkbenchError, match="text-empty"):
        wb.contributions(model_of(name), text)


# --- one rule for models with a task head ---------------------------------------------------------


def test_a_task_head_answers_a_text_with_a_marker(heads: Any) -> None:
    model = heads("sentiment")
    predicted = wb.predict(model, HIDDEN)
    assert isinstance(predicted, Labelled)
    assert wb.attribute(model, HIDDEN, method="random").label == repr(predicted.guess)
    asked = wb.predict(heads("questions"), "Who [MASK] to the hill?", second=TEXT)
    assert isinstance(asked, Labelled) and asked.kind == "answers"


@pytest.mark.parametrize(
    "call",
    [
        lambda m: wb.predict(m, TEXT, hide=1),
        lambda m: wb.attribute(m, TEXT, word=1),
        lambda m: wb.contributions(m, TEXT, word="walks"),
    ],
)
def test_a_head_that_labels_a_text_predicts_no_word_of_it(heads: Any, call: Any) -> None:
    with pytest.raises(WorkbenchError, match="labels the text") as raised:
        call(heads("sentiment"))
    assert "Leave out" in raised.value.remedy


@pytest.mark.parametrize("function", [wb.predict, wb.attribute, wb.contributions])
def test_a_task_of_one_text_takes_one_and_one_of_two_takes_two(
    heads: Any, function: Callable[..., Any]
) -> None:
    with pytest.raises(WorkbenchError, match="two are given"):
        function(heads("sentiment"), TEXT, second=TEXT)
    for name in ("relatedness", "questions"):
        with pytest.raises(WorkbenchError, match="only one"):
            function(heads(name), TEXT)


@pytest.mark.parametrize("target", ["Who", 0])
def test_an_answer_is_not_in_the_question(heads: Any, target: Any) -> None:
    with pytest.raises(WorkbenchError, match="'Who'") as raised:
        wb.attribute(heads("questions"), "Who walks?", target, second=TEXT)
    assert raised.value.code == "target-unknown"
    prediction, _ = prediction_of(heads("questions"), "Who sees?", second=TEXT)
    assert choice_of(prediction, "hill") == 7


# --- what is not read -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("mini:bert", lambda m: wb.predict(m, LONG, hide=3)),
        ("mini:t5", lambda m: wb.predict(m, LONG, hide=3, max_pieces=1)),
        ("mini:gpt", lambda m: wb.predict(m, LONG)),
        ("mini:gpt", lambda m: wb.predict(m, f"{LONG} ___")),
        ("mini:gpt", lambda m: wb.generate(m, LONG, 1)),
        ("mini:bert", lambda m: wb.attribute(m, f"___ {LONG}", method="random")),
        ("mini:t5", lambda m: wb.attribute(m, LONG, method="random")),
        ("mini:gpt", lambda m: wb.attribute(m, f"{LONG} ___", method="random")),
        ("mini:bert", lambda m: wb.contributions(m, LONG, word=3)),
    ],
)
def test_a_note_says_once_that_a_text_was_cut(name: str, call: Any) -> None:
    notes = call(model_of(name)).notes
    assert sum("read" in note and "pieces of" in note for note in notes) == 1, notes


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("mini:gpt", lambda m: wb.predict(m, TEXT)),
        ("mini:gpt", lambda m: wb.attribute(m, LONG, word=3, method="random")),
        ("mini:bert", lambda m: wb.predict(m, TEXT, hide=3)),
    ],
)
def test_a_text_that_is_read_has_no_such_note(name: str, call: Any) -> None:
    assert not any("pieces of" in note for note in call(model_of(name)).notes)


def test_no_number_is_an_error(heads: Any, tmp_path: Path) -> None:
    for name, text in (("bert", HIDDEN), ("t5", "Ben walks")):
        model = shared(f"mini:{name}")
        model.save(tmp_path / name)
        broken: Any = wb.load(str(tmp_path / name), device="cpu")
        with torch.no_grad():
            for weights in broken.net.parameters():
                weights.fill_(torch.nan)
        calls = [lambda m, t: wb.predict(m, t), wb.attribute, wb.contributions]
        calls += [] if name == "bert" else [wb.generate]
        for call in calls:
            with pytest.raises(WorkbenchError, match="not a number"):
                call(broken, text)
        if name != "bert":
            with pytest.raises(WorkbenchError, match="not a number"):
                wb.generate(broken, text, 2, sample=True)
    assert isinstance(wb.generate(model_of("mini:gpt"), "Ben", 1, sample=True), Generated)


def test_a_task_head_that_gives_no_number_is_an_error(tmp_path: Path) -> None:
    body = model_of("mini:bert")
    for name in ("relatedness", "pos"):
        head = MixHead(TASKS[name], body.stacks[0].layers, body.width, False, SCALE)
        torch.nn.init.constant_(head.outer.bias, torch.nan)
        body.with_task_head(head).save(tmp_path / name)
        model = wb.load(str(tmp_path / name), device="cpu")
        second = TEXT if TASKS[name].pairs else None
        with pytest.raises(WorkbenchError, match="not a number"):
            wb.predict(model, TEXT, second=second)
        word = 1 if name == "pos" else None
        with pytest.raises(WorkbenchError, match="not a number"):
            wb.attribute(model, TEXT, second=second, word=word)


# --- what a map says of itself --------------------------------------------------------------------


def test_a_prediction_that_depends_on_all_words_alike_depends_on_them() -> None:
    """Any top units are as good as any others, so no order can gain anything."""
    prediction = planted({})
    object.__setattr__(prediction, "weights", dict.fromkeys(range(1, 10), 0.2))
    found = faithfulness(prediction, Target(1), a_map(prediction, {3: 1.0}))
    assert found.verdict == "undecided" and "hardly depends" not in found.reason
    assert found.comprehensiveness > 0.01
    options = {"p": 0.01, "better": 0.01, "gain": 0.001, "n_units": 400, "orders": 99}
    verdict, reason = _verdict(change=0.08, **options)  # type: ignore[arg-type]
    assert verdict == "no" and "hardly depends" not in reason and "next to nothing" in reason
    assert "by 0.01 or more" in _verdict(change=0.001, **options)[1]  # type: ignore[arg-type]


def test_layers_below_a_head_that_mixes_them_are_not_complete(heads: Any) -> None:
    found = wb.attribute(heads("sentiment"), TEXT, method="layer-conductance", max_steps=2)
    assert found.delta is None
    assert any("mix of all layers" in note for note in found.notes)


def test_shapley_values_of_few_words_are_those_of_all_orders() -> None:
    model, text = model_of("mini:bert"), "Ben [MASK] ."
    found = wb.attribute(model, text, method="shapley", samples=2_000)
    few = wb.attribute(model, text, method="shapley", samples=2, seed=3)
    np.testing.assert_allclose(found.scores, few.scores, atol=1e-6)
    assert any("all 2 orders" in note for note in found.notes)
    assert found.delta == pytest.approx(0, abs=1e-4)
    more = wb.attribute(model, HIDDEN, method="shapley", samples=3)
    assert any("3 random orders" in note for note in more.notes)


def test_no_note_speaks_of_nothing() -> None:
    for name in ("mini:bert", "mini:gpt"):
        found = wb.attribute(model_of(name), HIDDEN, method="attention")
        assert not any(note.startswith(("0", "-")) for note in found.notes)
