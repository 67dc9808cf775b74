"""What surrounds every page: the top bar with its pages, the model, the corpus and running jobs.

The bar has the groups of pages on the left, and chips for the model, the corpus and the jobs on the
right; a phone has a bar of pages at the bottom instead. `present` in the address draws larger text
and nothing around a page. Costs: listing the folders of runs and uploads.
"""

import streamlit as st

from workbench.app import choice, navigation, selection
from workbench.app.frame import jobs, lesson_card
from workbench.app.library import picker
from workbench.app.navigation import PRESENT, is_presenting
from workbench.app.style import draw as draw_style
from workbench.app.style import draw_present
from workbench.app.text import tab_named

KEYS = (
    "Keys: ← → other tabs, Page Up and Page Down other figures or steps of a lesson, B a black "
    "screen, P a pen, C folds the card of a lesson, Esc leaves."
)


def draw(page: str) -> None:
    """Draw what surrounds a page, which is named as its file."""
    draw_style()
    lesson_card.draw(page)
    shown = navigation.named(page)
    selection.carry(shown)
    choice.begin_with(is_typed=shown is not None and shown.is_typed)
    if is_presenting():
        draw_present()
        st.button(
            "Leave the presentation",
            icon=":material/close_fullscreen:",
            key="leave presentation",
            type="tertiary",
            help=KEYS,
            on_click=present,
            args=(False,),
        )
        with st.container(key="context"):
            choice.choose(picker.draw)
        return
    with st.container(key="context", horizontal=True, gap="small"):
        choice.choose(picker.draw)
        jobs.draw()
        st.button(
            "Present",
            icon=":material/present_to_all:",
            key="present",
            type="tertiary",
            help=f"Larger text, and nothing but the page. {KEYS}",
            on_click=present,
        )
    _phone_bar()


def name_tab(page: str) -> None:
    """Name the tab of the browser after the page and what it is about."""
    shown = navigation.named(page)
    if shown is None:
        tab_named("Page not found")
        return
    about = ""
    if page == "corpora":
        about = choice.name_of(choice.corpus(), "corpora")
    elif page == "models" or shown.group in navigation.GROUPS:
        about = choice.name_of(choice.model(), "models")
    tab_named(*filter(None, (shown.title, about)))


def _phone_bar() -> None:
    """Draw the bar at the bottom of a phone: some pages, and all others behind More."""
    groups = navigation.groups().values()
    members = [*navigation.STARTS, *(page for group in groups for page in group)]
    with st.container(key="phone-bar", horizontal=True, gap="xxsmall"):
        for page in members:
            if page.on_phone:
                navigation.link(page.name, page.title.split()[0], icon=navigation.icon_of(page))
        with st.popover("More"):
            for page in members:
                if not page.on_phone:
                    navigation.link(page.name, page.title, icon=navigation.icon_of(page))


def present(on: bool = True) -> None:
    """Begin or end the presentation."""
    if on:
        st.query_params[PRESENT] = "1"
    else:
        st.query_params.pop(PRESENT, None)
