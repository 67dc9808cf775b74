"""Lessons: answers are those of the results, cards check answers, and files are not trusted."""

import json
import re
from pathlib import Path
from unittest.mock import patch

import pytest
from playwright.sync_api import Page, expect
from streamlit.runtime.state.query_params import QueryParams
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.app.pages import home, opened, said  # noqa: F401
from workbench import WorkbenchError
from workbench.app import choice
from workbench.app.frame import lessons
from workbench.app.frame.lessons import Lesson, Step, Task
from workbench.runs.run import builtin_names

TASKS = {
    name: [step.task for step in lesson.steps if step.task]
    for name, lesson in lessons.BUILT_IN.items()
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "lessons"


# --- built in -------------------------------------------------------------------------------------


def right(name: str) -> list[str]:
    return [task.answers[0] for task in TASKS[name]]


def result(name: str) -> wb.Run:
    return wb.open_run(f"built-in/{name}")


def test_answers_about_heads_are_those_of_the_results() -> None:
    heads = result("heads-mini-bert").tables["heads"].set_index(["layer", "head"])
    back, forth, positional, arcs, pruned = right("what-heads-do")
    first = heads.loc[0]
    looking_back = first[(first["offset"] == -1) & (first["offset_share"] > 0.9)].index
    looking_forth = first[(first["offset"] == 1) & (first["offset_share"] > 0.9)].index
    assert [f"1.{head + 1}" for head in looking_back] == [back]
    assert [f"1.{head + 1}" for head in looking_forth] == [forth]
    assert (heads["role"] == "positional").sum() == int(positional)
    best = result("heads-mini-bert").tables["best"].set_index(["relation", "direction"])
    iobj = best.loc[("iobj", "dependent-to-head")]
    assert (iobj["layer"], iobj["head"]) == (1, 2) and f"{iobj['accuracy']:.0%}" == f"{arcs}%"
    assert f"and {pruned} for 5 %" in result("head-pruning-mini-bert").findings[0].claim


def test_answers_about_layers_are_those_of_the_results() -> None:
    pos, unknown, edges, early = right("what-layers-know")
    edge = result("edge-probing-mini-bert")
    assert edge.tables["summary"].set_index("task").loc["pos", "best_layer"] == int(pos)
    assert f"not {unknown}" in edge.findings[0].claim
    trees = result("structural-probe-mini-bert").tables["summary"].set_index("metric")
    assert trees.loc["uuas", "best_layer"] == int(edges)
    claims = " ".join(each.claim for each in result("lens-mini-bert").findings)
    assert f"Predictions of {early} become final earlier" in claims


def test_answers_about_fine_tuning_are_those_of_the_results() -> None:
    helped, points, layer = right("what-fine-tuning-changes")
    delta = result("frozen-vs-finetuned-mini-bert").tables["delta"].set_index("task")
    assert delta["delta"].idxmax() == helped and (delta["verdict"] == "helps").sum() == 1
    assert f"{100 * delta.loc[helped, 'delta']:.1f}" == points
    drift = result("drift-mini-bert").tables["drift"].set_index("layer")
    assert drift["cka"].idxmin() == int(layer)


@pytest.mark.parametrize("name", lessons.BUILT_IN)
def test_views_are_there_and_answers_can_be_given(name: str) -> None:
    shown = lessons.found(name)
    assert shown and len(shown.steps) == len(lessons.BUILT_IN[name].steps) >= 4
    for step in shown.steps:
        run = step.address.get("run", "built-in/describe-primer")
        assert run.removeprefix("built-in/") in builtin_names()
        if step.task and step.task.choices:
            assert any(map(step.task.is_right, step.task.choices))
            assert not all(map(step.task.is_right, step.task.choices))


# --- tasks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    ["1.4", " 1.4 ", "head 1.4", "Head  1.4.", "1,4", "1.4 %", "1.4 heads", "1,4 Points.",
     "layer 1 head 4", "Layer 1, head 4."],
)  # fmt: skip
def test_an_answer_may_be_written_as_people_do(answer: str) -> None:
    task = Task(asks="Which?", answers=["1.4"])
    assert task.is_right(answer) and not task.is_right("1.3") and not task.is_right("")


CARD = """
from unittest.mock import patch
import streamlit as st
from workbench.app import navigation
from workbench.app.frame import lesson_card

st.query_params.update(ADDRESS)
with patch.object(navigation, "link"):  # there are no pages to link to
    lesson_card.draw("attention")
"""


def card(**address: str) -> AppTest:
    app = AppTest.from_string(CARD.replace("ADDRESS", repr(address)), default_timeout=60)
    return app.run()


def test_an_answer_is_checked_and_counted() -> None:
    app = card(lesson="what-heads-do", tour="1")
    assert "0 of 5 tasks solved" in said(app) and "Right." not in said(app)
    box, check = app.text_input[0], app.button[0]
    box.set_value("1.2"), check.click().run()
    assert "Not yet." in said(app) and "diagonal" in said(app)
    box.set_value("1.4"), check.click().run()
    assert "Right." in said(app) and not app.exception
    app.run()
    assert "1 of 5 tasks solved" in said(app)


def test_the_end_of_a_lesson_says_which_tasks_are_left() -> None:
    app = card(lesson="what-heads-do", tour="1")
    app.text_input[0].set_value("1.4"), app.button[0].click().run()
    (end,) = (each for each in app.button if each.label == "Leave the lesson")
    end.click().run()
    (toast,) = app.toast
    assert "1 of 5 tasks solved; left: steps 2, 3, 4 and 5." in toast.value


def test_back_never_shows_the_words_of_a_view_over_another_one() -> None:
    app = card(lesson="what-heads-do", tour="1")
    (forward,) = (each for each in app.button if each.label == "Next")
    addresses: list[dict[str, str]] = []
    keep = patch.object(
        QueryParams, "_send_query_param_msg", lambda self: addresses.append(self.to_dict())
    )
    with keep:
        forward.click().run()
    assert addresses[0]["tour"] == "2" and "red book" in addresses[0]["text"]


@pytest.mark.parametrize(
    "address",
    [{"tour": "99"}, {"tour": "-1"}, {"tour": "x"}, {"lesson": "../up", "tour": "1"},
     {"lesson": "none", "tour": "1"}, {"lesson": "\0", "tour": "1"}, {"lesson": "what-heads-do"}],
)  # fmt: skip
def test_an_address_of_no_step_shows_no_card(address: dict[str, str], own: Path) -> None:
    app = card(**address)
    assert not app.exception and "tasks solved" not in said(app) and not app.button
    assert bool(app.warning) == ("tour" in address), "a link with a step says that there is none"


# --- one's own ------------------------------------------------------------------------------------

LINK = "http://localhost:8501/attention?model=mini%3Abert&text=Birds+sing.&present=1&tour=2"


def test_a_view_is_added_by_its_link_and_opened_by_the_lesson(own: Path) -> None:
    app = opened("lessons")
    box = {each.label: each for each in [*app.text_input, *app.text_area]}
    box["Title of the new lesson"].set_value("My *first* lesson")
    box["Link of the view"].set_value(LINK)
    box["What is said of it"].set_value("Look at **this**.\n\nThen at that.")
    box["Task"].set_value("Which head?")
    box["Right answers, separated by ;"].set_value("1.4; 1.1")
    next(each for each in app.button if each.label == "Add the view").click().run()
    assert not app.exception and not app.error
    stored = lessons.read("my-first-lesson")
    (step,) = stored.steps
    assert step.page == "attention" and step.address == {
        "model": "mini:bert",
        "corpus": "primer",
        "text": "Birds sing.",
    }
    assert step.task and step.task.answers == ["1.4", "1.1"]
    assert r"My \*first\* lesson" in "".join(str(each.value) for each in app.markdown)
    assert "1 view, 1 task" in [each.value for each in app.caption]  # nobody said how long it takes
    app = card(lesson="my-first-lesson", tour="1")
    assert "\\*\\*this\\*\\*\\.  \nThen" in "".join(str(each.value) for each in app.markdown)
    lessons.remove("my-first-lesson")
    assert not lessons.own()


def add_view(app: AppTest, **texts: str) -> AppTest:
    box = {re.split("[ ,]", each.label)[0]: each for each in [*app.text_input, *app.text_area]}
    for label, text in texts.items():
        box[label].set_value(text)
    next(each for each in app.button if each.label == "Add the view").click().run()
    assert not app.exception
    return app


def test_a_view_under_the_same_title_is_added_to_the_lesson(own: Path) -> None:
    app = add_view(opened("lessons"), Title="Головы", Link=LINK, Task="Which?", Right="1.4")
    app = add_view(app, Link=LINK)
    assert "**2.** attention?model=" in said(app)  # nothing is said of it
    app.selectbox[0].set_value("a new lesson")
    app = add_view(app, Title="Головы", Link=LINK)
    (lesson,) = lessons.own().values()
    assert [step.task is not None for step in lesson.steps] == [True, False, False]
    assert lessons.name_of("Головы") != lessons.name_of("Слои") != ""


def test_views_are_changed_moved_removed_and_restored(own: Path) -> None:
    steps = [lessons.step_at(LINK).model_copy(update={"says": each}) for each in "abc"]
    lessons.write(Lesson(title="x", steps=steps))

    def order() -> str:
        return "".join(step.says for step in lessons.read("x").steps)

    app = opened("lessons")
    app.button(key="Up x 2").click().run()
    assert order() == "acb"
    app.button(key="remove x 1").click().run()
    assert order() == "ab"
    app.button(key="undo removal").click().run()
    assert order() == "acb"
    app.button(key="change x 1").click().run()
    next(each for each in app.text_area if each.value == "c").set_value("d")
    next(each for each in app.button if each.label == "Save the view").click().run()
    assert order() == "adb" and not app.exception
    app.button(key="remove x").click().run()
    assert not lessons.own()
    app.button(key="undo removal").click().run()
    assert order() == "adb" and not app.exception


def test_a_lesson_gets_another_title_that_no_other_has(own: Path) -> None:
    lessons.write(Lesson(title="x", steps=[lessons.step_at(LINK)]))
    lessons.write(Lesson(title="y"))
    app = opened("lessons")

    def change(title: str) -> None:
        next(each for each in app.text_input if each.label == "Title").set_value(title)
        next(each for each in app.button if each.label == "Change the title").click().run()
        assert not app.exception

    change("y"), change("What heads do"), change("")
    assert app.error and {each.title for each in lessons.own().values()} == {"x", "y"}
    change("Birds")
    assert len(lessons.read("birds").steps) == 1 and "x" not in lessons.own()


def test_a_view_of_a_new_lesson_needs_a_title(own: Path) -> None:
    app = add_view(opened("lessons"), Link=LINK)
    assert "no title" in app.error[0].value and not lessons.own()


@pytest.mark.parametrize(
    "task", [{"Task": "Which?"}, {"Right": "1.4"}, {"Task": "Which?", "Right": "1", "Choices": "2"}]
)
def test_a_task_that_cannot_be_solved_is_not_added(task: dict[str, str], own: Path) -> None:
    app = add_view(opened("lessons"), Title="x", Link=LINK, **task)
    assert "right answer" in app.error[0].value and not lessons.own()


@pytest.mark.parametrize("link", ["", "http://x/nowhere", "/../etc", "x" * 9_000, "javascript:1"])
def test_a_link_of_no_page_is_explained(link: str) -> None:
    with pytest.raises(WorkbenchError, match="opens no page"):
        lessons.step_at(link)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b"[" * 9_000, b'{"title": ""}', b'{"title": "x", "steps": [{}]}',
     b'{"title": "x", "more": 1}', b'{"title": 3}', b'{"title": "x \\ud800"}'],
)  # fmt: skip
def test_a_file_that_is_no_lesson_is_explained(content: bytes, own: Path) -> None:
    with pytest.raises(WorkbenchError, match="lesson-invalid"):
        lessons.parsed(content)
    own.mkdir(parents=True)
    (own / "bad.json").write_bytes(content)
    assert lessons.own() == {} and lessons.found("bad") is None


def test_a_file_brings_no_style_and_no_name_outside_its_folder(own: Path) -> None:
    evil = {"title": "../../x", "steps": [{"page": "home", "says": "", "outlined": "a{}b"}]}
    lesson = lessons.parsed(json.dumps(evil).encode())
    assert lesson.steps[0].outlined == ""
    assert lessons.write(lesson) == "x" and [each.name for each in own.iterdir()] == ["x.json"]
    for title in ("What heads do", "…", "-"):
        with pytest.raises(WorkbenchError, match="cannot be the title"):
            lessons.write(Lesson(title=title))
    with pytest.raises(WorkbenchError, match="at most 60 steps"):
        lessons.write(Lesson(title="long", steps=[Step(page="home", says="")] * 61))


def test_a_lesson_opens_with_its_model_whatever_was_chosen_before(own: Path) -> None:
    lessons.write(Lesson(title="x", steps=[lessons.step_at(LINK.replace("bert", "gpt"))]))
    script = CARD.replace("ADDRESS", "st.session_state.get('link', {})")
    app = AppTest.from_string(script, default_timeout=60).run()
    app.session_state["link"] = {"lesson": "x", "tour": "1"}
    with patch.object(choice, "choose_model") as chosen:
        app.run()
    chosen.assert_called_once_with("mini:gpt")


# --- in a browser ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_lesson_is_presented_with_keys(page: Page, app_url: str) -> None:
    page.goto(f"{app_url}/lessons")
    page.get_by_role("link", name="Present").first.click()
    expect(page.get_by_text("1 of 6.")).to_be_visible()
    page.locator("body").press("b")
    expect(page.locator("#workbench-blank")).to_be_visible()
    page.locator("body").press("b")
    page.locator("body").press("p")
    expect(page.locator("#workbench-pen")).to_be_visible()
    page.locator("body").press("p")
    expect(page.locator("#workbench-pen")).to_have_count(0)
    page.locator("body").press("PageDown")
    expect(page.get_by_text("2 of 6.")).to_be_visible()
    expect(page).to_have_url(re.compile("present=1"))
    sentence = page.get_by_role("textbox", name="Sentence to look at")
    sentence.fill("A cat sleeps.")
    sentence.press("Enter")
    expect(page).to_have_url(re.compile("A[+]cat"))
    sentence.press("PageUp")
    expect(page.get_by_text("1 of 6.")).to_be_visible()
    page.locator("body").press("c")
    page.get_by_role("link", name=re.compile("Turn head .* off")).click()
    page.get_by_text("off", exact=True).click()
    expect(page).to_have_url(re.compile("present=1.*edit"))
    page.get_by_role("link", name="Back to the lesson").click()
    expect(page).to_have_url(re.compile("tour=1"))
    expect(page).not_to_have_url(re.compile("edit"))
    page.locator("body").press("c")
    page.locator("body").press("Escape")
    expect(page.get_by_text("1 of 6.")).to_be_visible()
    page.get_by_role("button", name="Leave the lesson").click()
    expect(page).not_to_have_url(re.compile("lesson="))
    page.goto(f"{app_url}/?lesson=what-heads-do&tour=6&present=1")
    page.get_by_role("link", name="head 1.4").click()
    expect(page).to_have_url(re.compile("attention.*present=1"))
    page.get_by_role("link", name="Back to the lesson").click()
    expect(page.get_by_text("6 of 6.")).to_be_visible()


@pytest.mark.slow
def test_on_a_phone_nothing_covers_the_answer(page: Page, app_url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app_url}/?lesson=what-heads-do&tour=1")
    answer = page.get_by_role("textbox", name="Which head of layer 1")
    answer.fill("1.4")
    expect(page.get_by_test_id("InputInstructions")).to_have_text(re.compile("Enter"))
    expect(page.get_by_test_id("InputInstructions")).to_be_hidden()
    answer.press("Enter")
    expect(page.get_by_text("Right.")).to_be_visible()


@pytest.mark.slow
def test_the_next_step_opens_its_own_head(page: Page, app_url: str, app_folder: Path) -> None:
    text = "from=Your+own+text&text=The+cat+sleeps."
    steps = [
        lessons.step_at(f"/attention?model=mini:bert&{text}&head={head}") for head in ("1.4", "2.3")
    ]
    folder = app_folder / "home" / "lessons"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "heads.json").write_text(Lesson(title="heads", steps=steps).model_dump_json())
    page.goto(f"{app_url}/?lesson=heads&tour=1")
    expect(page.get_by_role("heading", name="Head 1.4")).to_be_visible()
    page.get_by_role("button", name="Next", exact=True).click()
    expect(page.get_by_role("heading", name="Head 2.3")).to_be_visible()
    expect(page).to_have_url(re.compile("head=2[.]3"))
