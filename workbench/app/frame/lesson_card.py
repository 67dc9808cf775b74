"""The card of a step of a lesson: what is said, a task with its check, and the way on.

A step is an address with `tour` in it, and `lesson` unless it is the tour: so a lesson can be left
at any time, and its link can be given to a class. Costs: nothing.
"""

from collections.abc import Mapping

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.app import choice, glossary, navigation, selection
from workbench.app.frame import lessons
from workbench.app.frame.lessons import LESSON, STEP, Lesson, Task
from workbench.app.text import plain, plain_lines
from workbench.core.findings import listing

_STEP_SEEN = "step of a lesson seen last"  # the name of the lesson, and the index
_IN_VIEW = "step of a lesson in view"  # the same; None on another page
_ENDED = "what is said of the lesson that was ended"


def step(shown: Lesson | None) -> int | None:
    """The step in the address, counted from 0; None if the lesson has no such step."""
    text = st.query_params.get(STEP, "")
    if shown and text.isascii() and text.isdecimal() and 1 <= int(text[:3]) <= len(shown.steps):
        return int(text) - 1
    return None


def offer() -> None:
    """Draw the link that begins the tour, and one to the lessons."""
    begin("", "Take the tour: five steps, under two minutes", "explore")
    navigation.link("lessons", "Lessons with tasks, and the glossary", icon=":material/school:")


def begin(name: str, label: str, icon: str, present: bool = False) -> None:
    """Draw a link to the first step of a lesson."""
    shown = lessons.found(name)
    if shown and shown.steps:
        query = address_of(name, shown, 0) | ({navigation.PRESENT: "1"} if present else {})
        page = shown.steps[0].page
        navigation.link(page, label, icon=f":material/{icon}:", query_params=query)


def address_of(name: str, shown: Lesson, number: int) -> dict[str, str]:
    """Return the query parameters of a step."""
    which = {LESSON: name} if name else {}
    return {**shown.steps[number].address, **which, STEP: str(number + 1), **navigation.presented()}


def draw(page: str) -> None:
    """Draw the card of the step in the address, and outline what it is about.

    An address of a step that is on another page, such as `/?tour=1`, opens that page.
    """
    if ended := st.session_state.pop(_ENDED, ""):
        st.toast(ended, icon=":material/school:", duration="long")
    if STEP not in st.query_params:  # as on nearly all pages
        _offer_return(page)
        return
    name = st.query_params.get(LESSON, "")
    shown = lessons.found(name)
    number = step(shown)
    if number is None or shown is None:
        st.warning(
            "This link opens no step of a lesson: it may be mistyped, or the lesson removed. "
            "*Library → Lessons* has all lessons."
        )
        return
    here = shown.steps[number]
    if here.page != page:
        navigation.switch(here.page, address_of(name, shown, number))
    if st.session_state.get(_IN_VIEW, (name, number)) != (name, number):
        _choose(here.address)
    st.session_state[_STEP_SEEN] = st.session_state[_IN_VIEW] = (name, number)
    outline = _OUTLINE.replace("SELECTOR", here.outlined) if here.outlined else ""
    st.html(f"<style>{_CARD}{outline}</style>")
    with st.container(key="tour-card"):
        fold = _FOLD.replace("WHERE", f"{number + 1} of {len(shown.steps)}")
        st.html(fold, unsafe_allow_javascript=True)
        says = plain_lines(here.says) if name not in ("", *lessons.BUILT_IN) else here.says
        task = here.task.asks if here.task else ""
        about = glossary.explained(f"{here.says} {task}")
        st.markdown(f"**{number + 1} of {len(shown.steps)}.** {says}", help=about)
        if here.task:
            _task(name, number, here.task)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if number > 0:
                before = address_of(name, shown, number - 1)
                _link(page, before, shown.steps[number - 1].page, "Back", "arrow_back")
            if number + 1 < len(shown.steps):
                after = address_of(name, shown, number + 1)
                _link(page, after, shown.steps[number + 1].page, "Next", "arrow_forward")
            what = "lesson" if name else "tour"
            is_last = number + 1 == len(shown.steps)
            st.button(
                f"{'End' if is_last else 'Leave' if name else 'Skip'} the {what}",
                type="tertiary",
                key="end of the tour",
                on_click=_end,
                args=(name, shown),
            )
            if solved := _solved(name, shown, names_open=is_last):
                st.caption(solved, width="content")


def _offer_return(page: str) -> None:
    """Draw the way back to a lesson that was left for another view, unless it was ended."""
    st.session_state[_IN_VIEW] = None
    name, number = st.session_state.get(_STEP_SEEN, ("", 0))
    shown = lessons.found(name) if name else None
    if shown is None or number >= len(shown.steps):
        return
    st.html(f"<style>{_RETURN}</style>")
    with st.container(key="tour-return"):
        address, to = address_of(name, shown, number), shown.steps[number].page
        _link(page, address, to, "Back to the lesson", "school")


def _task(name: str, number: int, task: Task) -> None:
    """Draw a task; say whether the answer is right once it is checked."""
    st.markdown(plain(task.asks))  # the name of the box is read aloud as it is, without Markdown
    with (
        st.form(f"task {name} {number}", border=False),
        st.container(horizontal=True, vertical_alignment="bottom", gap="small"),
    ):
        box = f"answer {name} {number}"
        if task.choices:
            shown = {plain(each): each for each in task.choices}
            picked = st.radio(
                task.asks, list(shown), None, key=box, horizontal=True, label_visibility="collapsed"
            )
            answer = shown.get(picked or "", "")
        else:
            answer = st.text_input(task.asks, key=box, max_chars=200, label_visibility="collapsed")
        is_checked = st.form_submit_button("Check", icon=":material/check:")
    key = _key(name, number)
    if is_checked and answer.strip():
        st.session_state[key] = task.is_right(answer)
    elif is_checked:
        st.session_state.pop(key, None)
        st.markdown(":orange[Give an answer first.]")
    if st.session_state.get(key):
        st.markdown(":green[:material/check_circle: Right.]")
    elif key in st.session_state:
        hint = plain(task.hint) or "Look at the page again, and change your answer."
        st.markdown(f":orange[:material/refresh: Not yet.] {hint}")


def _solved(name: str, shown: Lesson, names_open: bool = False) -> str:
    """How many tasks of a lesson were solved in this session, and which are left; "" for none."""
    tasks = [number for number, each in enumerate(shown.steps) if each.task]
    left = [str(number + 1) for number in tasks if not st.session_state.get(_key(name, number))]
    if not tasks:
        return ""
    solved = f"{len(tasks) - len(left)} of {len(tasks)} tasks solved"
    steps = f"step{'s' if len(left) > 1 else ''} {listing(left, len(left))}"
    return f"{solved}; left: {steps}" if left and names_open else solved


def _key(name: str, number: int) -> str:
    return f"right {name} {number}"


def _link(here: str, address: Mapping[str, str], page: str, label: str, icon: str) -> None:
    """Draw the way to another step. A link to the page that is open leaves its address as it is,
    so there a button goes on."""
    with st.container(key=f"lesson-{label.lower()}", width="content"):
        if page != here:
            navigation.link(page, label, icon=f":material/{icon}:", query_params=address)
        else:
            icon = f":material/{icon}:"
            st.button(label, icon=icon, type="tertiary", key=label, on_click=_go, args=(address,))


def _choose(address: Mapping[str, str]) -> None:
    """Choose the model and corpus of a step that comes into view: on the way to it, others may have
    been chosen, or heads turned off, and a link does not change that."""
    for key, chosen, choose in (
        (choice.MODEL, choice.model(), choice.choose_model),
        (choice.CORPUS, choice.corpus(), choice.choose_corpus),
    ):
        if address.get(key, chosen) != chosen:
            choose(address[key])


def _go(address: Mapping[str, str]) -> None:
    """Put the address of a step into that of the open page, as one step of Back; for callbacks.

    A choice that is bound to a box is set in the box.
    """
    _choose(address)
    context = get_script_run_ctx()
    if context is None:
        return
    free = {key: each for key, each in address.items() if key not in (choice.MODEL, choice.CORPUS)}
    with context.session_state.query_params() as known:
        boxes = {key: free.pop(key) for key in list(free) if known.is_bound(key)}
    for key, value in boxes.items():
        st.session_state[key] = value
    st.query_params.update(free)


def _end(name: str, shown: Lesson) -> None:
    selection.forget_opened()  # the text of an earlier step
    if name:
        said = [f"End of “{plain(shown.title)}”", _solved(name, shown, names_open=True)]
        said.append("The page Lessons has it")
        st.session_state[_ENDED] = f"{'. '.join(filter(None, said))}."
    st.session_state.pop(_STEP_SEEN, None)
    for key in (STEP, LESSON):
        st.query_params.pop(key, None)


# A folded card shows the figure behind it; the next step opens it. A new step begins at the top of
# its page, and the next Tab is in its card.
_FOLD = """<button id="fold-card" type="button" title="Fold the card, or open it (C)"
  aria-label="Fold the card, or open it"><span>WHERE</span></button><script>
if (!window.workbenchFold) {
  window.workbenchFold = true;
  document.addEventListener("click", ({ target }) => {
    if (target.closest?.("#fold-card")) document.body.classList.toggle("card-folded");
    else if (target.closest?.(".st-key-lesson-back, .st-key-lesson-next"))
      document.body.classList.remove("card-folded");
  }, true);
}
setTimeout(() => {
  document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);
  document.querySelector("#fold-card")?.focus({ preventScroll: true });
}, 100);
</script>"""
_CARD = """
#fold-card {
  border: 0; background: none; color: inherit; cursor: pointer; padding: 4px 8px; font: inherit;
}
#fold-card span { display: none; }
#fold-card::after { content: "▾"; }
.st-key-tour-card > :has(#fold-card) {
  position: absolute; top: 8px; right: 8px; width: auto; z-index: 1;
}
.st-key-tour-card { padding-right: 48px !important; }
.card-folded .st-key-tour-card {
  left: auto; right: 16px; transform: none; width: auto !important; padding: 4px !important;
}
.card-folded .st-key-tour-card > :not(:has(#fold-card)) { display: none; }
.card-folded .st-key-tour-card > :has(#fold-card) { position: static; }
.card-folded #fold-card span { display: inline; }
.card-folded #fold-card::after { content: " ▴"; }
.st-key-tour-card {
  position: fixed; bottom: 16px; left: 50%; transform: translateX(-50%); z-index: 999992;
  width: min(640px, calc(100vw - 32px)); padding: 16px; border-radius: 8px;
  background: var(--shell-page); border: 1px solid var(--shell-accent);
  box-shadow: 0 4px 24px rgba(0, 0, 0, 0.2);
}
[data-testid="stLayoutWrapper"]:has(> .st-key-tour-card) { position: absolute; }
[data-testid="stMainBlockContainer"] { padding-bottom: 18rem; }
/* the button Check says it; on a phone it covers the answer */
.st-key-tour-card [data-testid="InputInstructions"] { display: none; }
@media (max-width: 640px) { .st-key-tour-card { bottom: 72px; } }
"""
_RETURN = """
.st-key-tour-return {
  position: fixed; bottom: 16px; right: 16px; z-index: 999992; width: auto; padding: 4px 8px;
  border-radius: 8px; background: var(--shell-page); border: 1px solid var(--shell-accent);
}
[data-testid="stLayoutWrapper"]:has(> .st-key-tour-return) { position: absolute; }
@media (max-width: 640px) { .st-key-tour-return { bottom: 72px; } }
"""
_OUTLINE = """
:is(SELECTOR) { outline: 2px solid var(--shell-accent); outline-offset: 6px; border-radius: 4px; }
body:has(.st-key-leave-presentation) .st-key-result-top > :has(> :is(SELECTOR)) { order: -2; }
@media (max-width: 640px) { .st-key-result-top > :has(> :is(SELECTOR)) { order: -2 !important; } }
"""
