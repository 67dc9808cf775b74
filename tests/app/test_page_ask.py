"""The page Ask & write without a browser: what each kind of model does, addresses, and errors."""

import json
from pathlib import Path

import pytest

import workbench as wb
from tests.analyses.predictions.task_folders import with_head
from tests.app.pages import home, opened, said, well  # noqa: F401
from tests.night import mostly
from workbench.analyses.asking.source import attended
from workbench.analyses.asking.views import able
from workbench.app.cache import LONGEST
from workbench.models.scoring.prompts import Demonstration, PromptDesign, label_probabilities

pytestmark = pytest.mark.usefixtures("home")
SLOW = pytest.mark.slow
SHORT = {"source": "Ben walks to the", "pieces": "3"}
TEXTS = {
    "spaces": "  ",
    "right to left": "ذهبت الفتاة إلى النهر",
    "emoji": "\U0001f469\u200d\U0001f467 ❤️ 😀!",
    "2000 words": "girls walk. " * 1000,
    "too long": "x" * (LONGEST + 1),
}
DEMOS = [["The girls were old.", 0], ["Ben runs.", 1]]


def html_of(app: object) -> str:
    return "\n".join(each.proto.body for each in app.get("html"))  # type: ignore[attr-defined]


def labels_of(app: object) -> dict[str, list[float]]:
    """The probabilities in the component of the labels."""
    (drawn,) = (each for each in messages(app) if each[0]["name"] == "labels")
    return {each["name"]: [row["p"] for row in each["rows"]] for each in drawn[0]["lists"]}


def messages(app: object) -> list[list[dict[str, object]]]:
    found = app.get("bidi_component")  # type: ignore[attr-defined]
    return [json.loads(each.proto.json)["views"] for each in found]


@pytest.mark.parametrize("model", mostly(["mini:gpt", "mini:t5", "mini:elmo"], "mini:gpt"))
def test_what_is_shown_is_what_the_model_writes(model: str) -> None:
    app = opened("ask", view="Write", model=model, **SHORT)
    found = wb.generate(wb.load(model, device="cpu"), SHORT["source"], 3)
    assert not app.error and found.written in html_of(app).replace("↵", "\n")
    views = messages(app)[0]
    assert [each["t"] for each in views[0]["items"]] == [
        step.text.strip() or step.piece for step in found.steps
    ]
    assert len(views) == 2


def test_a_source_can_be_lit_up_by_cross_attention() -> None:
    query = {**SHORT, "by": "Cross-attention", "model": "mini:t5"}
    app = opened("ask", view="Write", **query)
    assert not app.error
    model = wb.load("mini:t5", device="cpu")
    pieces = [step.index for step in wb.generate(model, SHORT["source"], 3).steps]
    expected = attended(model, SHORT["source"], pieces).of_words()
    lit = messages(app)[0][1]
    scores = {item["i"]: item["score"] for item in lit["items"]}  # type: ignore[attr-defined]
    assert scores == pytest.approx({word: score / 3 for word, score in expected.items()})
    assert "Cross-attention on each word" in str(lit["note"])
    app = opened("ask", view="Write", **query | {"piece": "1"})
    assert "special pieces" in str(messages(app)[0][1]["note"])
    app = opened("ask", view="Write", **query | {"model": "mini:gpt"})  # which has none
    assert "log-probability" in str(messages(app)[0][1]["note"])


def test_a_model_that_cannot_is_named_with_those_that_can() -> None:
    app = opened("ask", view="Write", model="mini:bert", **SHORT)
    assert "mini:bert does not write text" in said(app) and able.STAND_IN in said(app)
    offered = [each.label for each in app.button if (each.key or "").startswith("choose ")]
    assert offered and "mini:bert" not in [each.replace("\\", "") for each in offered]
    app.button(key="choose mini:t5").click().run()
    assert "does not write" not in said(well(app)) and "mini:t5" in html_of(app)


@pytest.mark.parametrize(
    ("view", "name"),
    [  # by day each text in one tab
        pytest.param(view, name, marks=() if (view == "Write") == (name != "spaces") else SLOW)
        for view in ("Ask", "Write")
        for name in TEXTS
    ]
    + [pytest.param("Prompt", name, marks=SLOW) for name in TEXTS],
)
def test_any_text_is_answered_or_gets_a_sentence(view: str, name: str) -> None:
    text = TEXTS[name]
    query = {"passage": text, "source": text, "query": text, "pieces": "2"}
    app = opened("ask", view=view, model="mini:gpt", lit="false", **query)
    errors = [str(each.value).replace("\\", "") for each in app.error]
    if not text.strip():
        assert len(errors) == 1 and "is empty" in errors[0]
    elif len(text) > LONGEST:
        assert len(errors) == 1 and "the maximum is 20,000" in errors[0]
    elif view == "Prompt":
        assert all("longer than" in error for error in errors)
    else:
        assert not errors
        assert len(text) < 1000 or "words were read" in said(app)


# --- questions ------------------------------------------------------------------------------------


def test_a_head_for_answers_extracts_spans(home: Path) -> None:  # noqa: F811
    folder = str(home / "answers")
    with_head(wb.load("mini:bert", device="cpu"), Path(folder), "answers", pairs=True)
    question, passage = "Who walks?", "Ben walks to the hill. The girls were tall."
    app = opened("ask", model=folder, question=question, passage=passage)
    found = wb.answer(wb.load(folder, device="cpu"), question, passage)
    assert not app.error and found.guess in said(app)
    (answers,), (lit,) = messages(app)
    assert [row["t"] for row in answers["lists"][0]["rows"]] == [
        span.text or found.guess for span in found.spans
    ]
    best = max(lit["items"], key=lambda item: item["score"])
    assert any(best["t"] in span.text for span in found.spans)
    assert [item["t"] for item in lit["items"]][:3] == ["Ben", "walks", "to"]


def test_a_passage_is_found_in_the_corpus_and_chosen_in_the_address() -> None:
    query = {"passage_is": "of the corpus", "question": "Who walks to the hill?"}
    app = opened("ask", model="mini:gpt", corpus="primer:size=40", lit="false", **query)
    assert not app.error
    rows = messages(app)[0][0]["lists"][0]["rows"]
    assert rows[0]["is_open"] and {"walks", "hill"} & {row["word"] for row in rows}
    app = opened("ask", model="mini:gpt", corpus="primer:size=40", lit="false", found="1", **query)
    assert messages(app)[0][0]["lists"][0]["rows"][1]["is_open"]


# --- prompts --------------------------------------------------------------------------------------


def expected(demos: list[list[object]], text: str) -> dict[str, list[float]]:
    design = PromptDesign("{text} It was {label}.", {"good": "good", "bad": "bad"})
    shown = [Demonstration(str(each), ("good", "bad")[int(str(n))]) for each, n in demos]
    found = label_probabilities(wb.load("mini:gpt", device="cpu"), design, shown, [text])
    return {
        "Probability of the words": found.probabilities()[0].tolist(),
        "Contextual calibration": found.probabilities("contextual")[0].tolist(),
        "Domain-conditional calibration": found.probabilities("domain")[0].tolist(),
    }


def test_the_labels_follow_each_change_of_the_demonstrations() -> None:
    text = "The hill was big."
    app = opened("ask", view="Prompt", model="mini:gpt", query=text, demos=json.dumps(DEMOS))

    def press(name: str, n: int) -> None:
        keys = [each.key for each in app.button if (each.key or "").startswith(f"{name} demo ")]
        app.button(key=keys[n]).click().run()
        assert not well(app).error

    def now(*demos: list[object]) -> None:
        address = app.query_params["demos"]
        assert json.loads(address if isinstance(address, str) else address[0]) == [*demos]
        for name, shares in expected([*demos], text).items():
            assert labels_of(app)[name] == pytest.approx(shares, abs=1e-6)

    first, second = DEMOS
    press("flip", 1)
    now(first, [second[0], 0])
    changes = messages(app)[0][0]["lists"][0]["rows"][0]["change"]  # type: ignore[index]
    assert changes == pytest.approx(
        expected([first, [second[0], 0]], text)["Probability of the words"][0]
        - expected(DEMOS, text)["Probability of the words"][0], abs=1e-6
    )  # fmt: skip
    press("up", 1)
    now([second[0], 0], first)
    press("remove", 0)
    now(first)
    app.button(key="add demo").click().run()
    app.text_input(key=app.text_input[-2].key).set_value("Ben sees her.").run()
    now(first, ["Ben sees her.", 1])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"template": "no field"}, "template-invalid"),
        ({"words": "good"}, "label-words-invalid"),
        ({"words": ""}, "label-words-invalid"),
        ({"demos": json.dumps([["girls " * 100, 0]])}, "prompt-too-long"),
        ({"demos": '[["x"],{},[1,2],["y",-1]]'}, "after 0 demonstrations"),
        ({"demos": "nonsense"}, "after 0 demonstrations"),
    ],
)
def test_what_cannot_be_scored_is_said(query: dict[str, str], words: str) -> None:
    assert words in said(opened("ask", view="Prompt", model="mini:gpt", **query))
