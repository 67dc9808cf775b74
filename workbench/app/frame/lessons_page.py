"""The page Lessons: what there is to learn and to teach, speaker notes, lessons of one's own.

A view is added to a lesson by its link. Costs: reading the files of the user's lessons.
"""

from collections.abc import Mapping

import streamlit as st

from workbench.app.frame import lesson_card, lessons
from workbench.app.frame.lessons import Lesson, Task
from workbench.app.text import errors_shown, plain

NEW = "a new lesson"


def draw() -> None:
    """Draw the page."""
    st.title("Lessons", anchor=False)
    st.markdown(
        "A lesson is a list of views with words and tasks, opened by a link. Answers are checked, "
        "and stay in the student's own browser. In a presentation, Page Down and Page Up step "
        "through it."
    )
    for name, lesson in lessons.BUILT_IN.items():
        _lesson(name, lesson)
    st.header("Your own", anchor=False)
    own = lessons.own()
    for name, lesson in own.items():
        _lesson(name, lesson, is_own=True)
    if not own:
        st.markdown("None yet. Open any view of the app, copy its address, and add it here.")
    add, load = st.tabs(["Add a view", "Load a file"])
    with add:
        _add(own)
    with load, errors_shown():
        _load()


def _lesson(name: str, lesson: Lesson, is_own: bool = False) -> None:
    """Draw one lesson: links to its first step, its notes, and what can be done with one's own."""
    with st.container(border=True, key=f"lesson {name}"):
        st.markdown(f"**{plain(lesson.title)}**  \n{plain(lesson.about)}")
        n_tasks = sum(step.task is not None for step in lesson.steps)
        st.caption(f"{len(lesson.steps)} views, {n_tasks} tasks, about {lesson.minutes} minutes")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            lesson_card.begin(name, "Start", "play_arrow")
            lesson_card.begin(name, "Present", "present_to_all", present=True)
            if is_own:
                st.download_button(
                    "Save as a file",
                    lesson.model_dump_json(indent=2),
                    f"{name}.json",
                    "application/json",
                    icon=":material/download:",
                    type="tertiary",
                    key=f"save {name}",
                )
                st.button(
                    "Remove",
                    icon=":material/delete:",
                    type="tertiary",
                    key=f"remove {name}",
                    on_click=lessons.remove,
                    args=(name,),
                )
        with st.expander("Speaker notes and answers", type="compact"):
            st.caption("Open this page in a second window while you present.")
            for number, step in enumerate(lesson.steps, 1):
                said = plain(step.says) if is_own else step.says
                st.markdown(f"**{number}.** {said}")
                if step.notes:
                    st.markdown(f"*{plain(step.notes)}*")
                if step.task:
                    answers = " or ".join(step.task.answers)
                    st.markdown(f"{plain(step.task.asks)} **{plain(answers)}**")


def _add(own: Mapping[str, Lesson]) -> None:
    """Draw the form that adds a view to a lesson of one's own."""
    with st.form("add a view", clear_on_submit=False, border=False), errors_shown():
        titles = {NEW: "", **{lesson.title: name for name, lesson in own.items()}}
        to = st.selectbox("Lesson", list(titles))
        title = st.text_input("Title of the new lesson", max_chars=120)
        link = st.text_input("Link of the view", placeholder="http://localhost:8501/attention?…")
        says = st.text_area("What is said of it", max_chars=2_000)
        notes = st.text_area("Speaker notes", max_chars=2_000)
        asks = st.text_input("Task", placeholder="Which head …?", max_chars=500)
        answers = st.text_input("Right answers, separated by ;", max_chars=500)
        choices = st.text_input("Choices, separated by ; (none: a text is typed)", max_chars=500)
        hint = st.text_input("Hint after a wrong answer", max_chars=500)
        if not st.form_submit_button("Add the view", icon=":material/add:"):
            return
        task = None
        if asks.strip() and _listed(answers):
            task = Task(asks=asks, answers=_listed(answers), choices=_listed(choices), hint=hint)
        update = {"says": says, "notes": notes, "task": task}
        step = lessons.step_at(link).model_copy(update=update)
        before = own.get(titles.get(to, ""), Lesson(title=title.strip() or "Lesson"))
        lessons.write(before.model_copy(update={"steps": [*before.steps, step]}))
        st.rerun()


def _load() -> None:
    """Draw the box that takes a lesson that somebody else has saved."""
    file = st.file_uploader("File of a lesson", "json", key="file of a lesson")
    if file is not None and st.button("Add the lesson", icon=":material/add:"):
        lessons.write(lessons.parsed(file.getvalue()))
        st.rerun()


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]
