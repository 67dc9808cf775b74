"""The page Lessons: what there is to learn and to teach, speaker notes, lessons of one's own.

A view is added to a lesson by its link. Costs: reading the files of the user's lessons.
"""

import json
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import streamlit as st

from workbench.app import glossary
from workbench.app.frame import lesson_card, lessons
from workbench.app.frame.lessons import Lesson, Step, Task
from workbench.app.text import errors_shown, plain, plain_lines
from workbench.core.errors import WorkbenchError
from workbench.core.findings import plural

NEW = "a new lesson"
LAST = "lesson that got a view"
CHANGED = "view that is changed"  # the name of its lesson, and its index
REMOVED = "what was removed from lessons"  # where it was, its title, and the lesson before
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
        "are sent to nobody, and are forgotten when a student closes or reloads the tab. In a "
        "presentation, Page Down and Page Up step through it."
    )
    for name, lesson in lessons.BUILT_IN.items():
        _lesson(name, lesson)
    st.header("Your own", anchor=False)
    own = lessons.own()
    _undo("")
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
        st.caption(counts if is_own else f"{counts}, about {lesson.minutes} minutes")
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
                if st.button("Remove", f"remove {name}", icon=":material/delete:", type="tertiary"):
                    lessons.remove(name)
                    st.session_state[REMOVED] = ("", lesson.title, lesson)
                    st.rerun()
        label = "Views, speaker notes and answers" if is_own else "Speaker notes and answers"
        with st.expander(label, type="compact", key=f"views {name}"):
            for number, step in enumerate(lesson.steps):
                if is_own:
                    _view(name, lesson, number)
                else:
                    _note(number + 1, step, is_own)
            _undo(f"{name} {len(lesson.steps)}")
            if is_own:
                _rename(name, lesson)


def _view(name: str, lesson: Lesson, number: int) -> None:
    """Draw a view of one's own lesson, with buttons that change, move or remove it."""
    steps, key = lesson.steps, f"{name} {number}"
    _undo(key)
    if st.session_state.get(CHANGED) == (name, number):
        with st.form(f"change {key}"), errors_shown():
            filled = _boxes(steps[number])
            with st.container(horizontal=True):
                is_saved = st.form_submit_button("Save the view", icon=":material/check:")
                is_left = st.form_submit_button("Cancel", type="tertiary")
            if is_saved:
                _write(lesson, [*steps[:number], filled(), *steps[number + 1 :]])
            if is_saved or is_left:
                st.session_state.pop(CHANGED, None)
                st.rerun()
        return
    _note(number + 1, steps[number], is_own=True)
    with st.container(horizontal=True, gap="small"), errors_shown():
        if st.button("Change", f"change {key}", icon=":material/edit:", type="tertiary"):
            st.session_state[CHANGED] = (name, number)
            st.rerun()
        for label, icon, to in (("Up", "upward", number - 1), ("Down", "downward", number + 1)):
            icon = f":material/arrow_{icon}:"
            is_end = not 0 <= to < len(steps)
            if st.button(label, f"{label} {key}", icon=icon, type="tertiary", disabled=is_end):
                moved = [*steps[:number], *steps[number + 1 :]]
                moved.insert(to, steps[number])
                _write(lesson, moved)
                st.rerun()
        if st.button("Remove", f"remove {key}", icon=":material/delete:", type="tertiary"):
            _write(lesson, [*steps[:number], *steps[number + 1 :]])
            st.session_state[REMOVED] = (key, f"view {number + 1} of {lesson.title}", lesson)
            st.rerun()


def _rename(name: str, lesson: Lesson) -> None:
    """Draw the box with the title of a lesson of one's own; another title is another link."""
    with st.form(f"rename {name}", border=False), errors_shown():
        with st.container(horizontal=True, vertical_alignment="bottom"):
            title = st.text_input(
                "Title",
                lesson.title,
                max_chars=120,
                help="The link for students is made of it, so it changes too.",
            ).strip()
            is_wanted = st.form_submit_button("Change the title")
        if is_wanted and title != lesson.title:
            lessons.rename(name, lesson, title)
            st.session_state.pop(REMOVED, None)
            st.session_state.pop(CHANGED, None)
            st.rerun()


def _write(lesson: Lesson, steps: list[Step]) -> None:
    """Store a lesson with other views. What was removed before cannot be restored any more."""
    lessons.write(lesson.model_copy(update={"steps": steps}))
    st.session_state.pop(CHANGED, None)
    st.session_state.pop(REMOVED, None)


def _undo(place: str) -> None:
    """Draw what was removed last, if it was here, with a button that restores it."""
    where, title, before = st.session_state.get(REMOVED, (None, "", None))
    if where != place:
        return
    with (
        st.container(border=True, horizontal=True, vertical_alignment="center"),
        errors_shown(),
    ):
        st.text(f"Removed: {title}", width="stretch")
        if st.button("Undo", icon=":material/undo:", key="undo removal"):
            _write(before, before.steps)
            st.rerun()


def _note(number: int, step: Step, is_own: bool) -> None:
    """Draw what is said of a step, and its answers."""
    said = plain_lines(step.says or lessons.link_to(step)) if is_own else step.says
    st.markdown(f"**{number}.** {said}")
    if step.notes:
        st.markdown(f"*{plain_lines(step.notes)}*")
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
        filled = _boxes()
        if not st.form_submit_button("Add the view", icon=":material/add:"):
            return
        step = filled()
        wanted = title.strip() if to == NEW else to
        if not wanted:
            raise WorkbenchError(
                "the new lesson has no title.",
                code="lesson-invalid",
                remedy="Fill it in, or choose one of your lessons above.",
            )
        before = own.get(lessons.name_of(wanted), Lesson(title=wanted))
        _write(before, [*before.steps, step])
        st.session_state[LAST] = before.title
        st.toast(f"View {len(before.steps) + 1} is in “{plain(before.title)}”.")
        st.rerun()


def _boxes(step: Step | None = None) -> Callable[[], Step]:
    """Draw the boxes of a view, with those of `step` in them; return what reads and checks them."""
    known = step or Step(page="", says="")
    task = known.task or Task(asks="", answers=[])
    link = st.text_input(
        "Link of the view",
        lessons.link_to(step) if step else "",
        placeholder="http://localhost:8501/attention?…",
    )
    says = st.text_area("What is said of it", known.says, max_chars=2_000)
    notes = st.text_area("Speaker notes", known.notes, max_chars=2_000)
    asks = st.text_input("Task", task.asks, placeholder="Which head …?", max_chars=2_000)
    answers = st.text_input(
        "Right answers, separated by ;", "; ".join(task.answers), max_chars=2_000
    )
    choices = st.text_input(
        "Choices, separated by ; (none: a text is typed)",
        "; ".join(task.choices),
        max_chars=2_000,
    )
    hint = st.text_input("Hint after a wrong answer", task.hint, max_chars=2_000)

    def filled() -> Step:
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
        return lessons.step_at(link).model_copy(update=update)

    return filled


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
