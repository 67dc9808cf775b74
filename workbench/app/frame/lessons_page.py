"""The page Lessons: what there is to learn and to teach, speaker notes, lessons of one's own.

A view is added to a lesson by its link. Costs: reading the files of the user's lessons.
"""

import json
from collections.abc import Mapping
from urllib.parse import urlencode

import streamlit as st

from workbench.app import glossary
from workbench.app.frame import lesson_card, lessons
from workbench.app.frame.lessons import Lesson, Step, Task
from workbench.app.text import errors_shown, plain
from workbench.core.errors import WorkbenchError
from workbench.core.findings import plural

NEW = "a new lesson"
LAST = "lesson that got a view"
NOTES = "notes"  # in the address: the lesson whose notes are shown


def draw() -> None:
    """Draw the page, or the notes of a lesson for a second window."""
    if NOTES in st.query_params:
        with errors_shown():
            _notes(st.query_params[NOTES])
        return
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
    with st.expander("Glossary: every term in two sentences", type="compact"):
        for term, text in glossary.terms().items():
            st.markdown(f"**{term}**: {text}")


def _lesson(name: str, lesson: Lesson, is_own: bool = False) -> None:
    """Draw one lesson: links to its first step, its notes, and what can be done with one's own."""
    with st.container(border=True, key=f"lesson {name}"):
        st.markdown(f"**{plain(lesson.title)}**  \n{plain(lesson.about)}")
        n_tasks = sum(step.task is not None for step in lesson.steps)
        counts = f"{plural(len(lesson.steps), 'view')}, {plural(n_tasks, 'task')}"
        st.caption(f"{counts}, about {lesson.minutes} minutes")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            lesson_card.begin(name, "Start", "play_arrow")
            lesson_card.begin(name, "Present", "present_to_all", present=True)
            st.link_button(
                "Notes in a second window",
                f"?{urlencode({NOTES: name})}",
                icon=":material/speaker_notes:",
                type="tertiary",
                help="What is said of each view, the answers and a clock. It follows the "
                "presentation in the same browser, and its keys step through it.",
            )
            with st.popover("Link for students", icon=":material/link:", type="tertiary"):
                app = str(st.context.url or "").partition("?")[0].removesuffix("lessons")
                st.code(f"{app}?{lessons.LESSON}={name}&{lessons.STEP}=1", None, wrap_lines=True)
                st.caption("Settings says how others can reach this app.")
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
                with st.popover("Remove", icon=":material/delete:", type="tertiary"):
                    if lesson.steps and st.button("The last view", f"remove {name} view"):
                        lessons.write(lesson.model_copy(update={"steps": lesson.steps[:-1]}))
                        st.rerun()
                    st.button(
                        "The whole lesson", f"remove {name}", on_click=lessons.remove, args=(name,)
                    )
        with st.expander("Speaker notes and answers", type="compact"):
            for number, step in enumerate(lesson.steps, 1):
                _note(number, step, is_own)


def _note(number: int, step: Step, is_own: bool) -> None:
    """Draw what is said of a step, and its answers."""
    said = plain(step.says) if is_own else step.says
    st.markdown(f"**{number}.** {said}")
    if step.notes:
        st.markdown(f"*{plain(step.notes)}*")
    if step.task:
        answers = " or ".join(step.task.answers)
        st.markdown(f"{plain(step.task.asks)} **{plain(answers)}**")


def _notes(name: str) -> None:
    """Draw the notes of a lesson: a clock, the current step and the next one, which follow."""
    lesson = lessons.found(name)
    if lesson is None or not name:
        raise WorkbenchError(
            f"there is no lesson {name[:60]!r}.",
            code="lesson-not-found",
            remedy="Choose one on the page Lessons.",
        )
    st.title(plain(lesson.title), anchor=False)
    st.html('<p id="stage-clock" role="timer">0:00</p>')
    for number, step in enumerate(lesson.steps, 1):
        with st.container(key=f"note-{number}"):
            _note(number, step, name not in lessons.BUILT_IN)
    st.caption("Page Up and Page Down here step through the presentation, B makes it black.")
    st.html(_FOLLOW.replace("LESSON", json.dumps(name)), unsafe_allow_javascript=True)


def _add(own: Mapping[str, Lesson]) -> None:
    """Draw the form that adds a view to a lesson of one's own; after each, its boxes are new."""
    n_views = sum(len(lesson.steps) for lesson in own.values())
    titles = [NEW, *(lesson.title for lesson in own.values())]
    last = st.session_state.get(LAST)
    with st.form(f"add a view after {n_views}", border=False), errors_shown():
        to = st.selectbox("Lesson", titles, titles.index(last) if last in titles else 0)
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
        if asks.strip() or _listed(answers):
            task = Task(asks=asks, answers=_listed(answers), choices=_listed(choices), hint=hint)
            if not asks.strip() or not any(map(task.is_right, task.choices or task.answers)):
                raise WorkbenchError(
                    "the task has no question, or no right answer.",
                    code="lesson-invalid",
                    remedy="Fill in both; where there are choices, one of them is right.",
                )
        update = {"says": says, "notes": notes, "task": task}
        step = lessons.step_at(link).model_copy(update=update)
        wanted = (title.strip() or "Lesson") if to == NEW else to
        before = own.get(lessons.name_of(wanted), Lesson(title=wanted))
        lessons.write(before.model_copy(update={"steps": [*before.steps, step]}))
        st.session_state[LAST] = before.title
        st.toast(f"View {len(before.steps) + 1} is in “{plain(before.title)}”.")
        st.rerun()


def _load() -> None:
    """Draw the box that takes a lesson that somebody else has saved."""
    file = st.file_uploader(
        "File of a lesson; it replaces one of the same title", "json", key="file of a lesson"
    )
    if file is not None and st.button("Add the lesson", icon=":material/add:"):
        lessons.write(lessons.parsed(file.getvalue()))
        st.rerun()


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


# The current step is large, the next one small and grey, all others hidden; the clock counts from
# the first step on. Until a presentation answers, all steps are in view.
_FOLLOW = """<style>
#stage-clock { font-size: 32px; font-variant-numeric: tabular-nums; margin: 0; }
[class*="st-key-note-"].now p { font-size: 24px; }
[class*="st-key-note-"].next { opacity: 0.7; border-top: 1px solid var(--shell-line); }
</style><script>
const isNew = !window.workbenchNotes;
window.workbenchNotes = LESSON;
if (isNew) {
  const stage = new BroadcastChannel("workbench-stage");
  let start = 0;
  stage.onmessage = ({ data }) => {
    if (data.lesson !== window.workbenchNotes || !data.step) return;
    start ||= Date.now();
    for (const note of document.querySelectorAll("[class*=st-key-note-]")) {
      const number = Number(/st-key-note-([0-9]+)/.exec(note.className)[1]);
      note.classList.toggle("now", number === data.step);
      note.classList.toggle("next", number === data.step + 1);
      note.style.display = number === data.step || number === data.step + 1 ? "" : "none";
    }
  };
  setInterval(() => {
    const clock = document.querySelector("#stage-clock");
    const seconds = start ? Math.floor((Date.now() - start) / 1000) : 0;
    const rest = String(seconds % 60).padStart(2, "0");
    if (clock) clock.textContent = `${Math.floor(seconds / 60)}:${rest}`;
  }, 500);
  document.addEventListener("keydown", (event) => {
    const isKnown = ["PageDown", "PageUp", "b", "."].includes(event.key);
    if (!isKnown || event.ctrlKey || event.metaKey || event.altKey) return;
    stage.postMessage({ key: event.key });
    event.preventDefault();
  });
  stage.postMessage({ where: true });
}
</script>"""
