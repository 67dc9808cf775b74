"""What surrounds every page: the top bar with its pages, the model, the corpus and running jobs.

The bar has the groups of pages on the left, and chips for the model, the corpus and the jobs on the
right; a phone has a bar of pages at the bottom instead. `present` in the address draws larger text
and nothing around a page. Costs: listing the folders of runs and uploads.
"""

from collections.abc import Mapping

import streamlit as st

from workbench.app import choice, guided_tour, jobs, picker
from workbench.app.style import draw as draw_style
from workbench.app.style import draw_present
from workbench.app.tables_and_figures import PRESENT

KEYS = "Keys: ← → other tabs, Page Up and Page Down other figures, Esc leaves."
HOME = ("home", "Home", "home")
GROUPS: Mapping[str, tuple[tuple[str, str, str], ...]] = {  # file, title, icon
    "Understand": (
        ("attention", "Attention", "visibility"),
        ("heads", "Heads", "grid_view"),
        ("predict", "Predict & explain", "psychology"),
        ("words", "Words", "text_fields"),
    ),
    "Measure": (
        ("probing", "Probing", "stacked_line_chart"),
        ("pruning", "Pruning", "content_cut"),
        ("transfer", "Transfer", "compare_arrows"),
    ),
    "Library": (
        ("models", "Models", "deployed_code"),
        ("corpora", "Corpora", "menu_book"),
        ("runs", "Runs", "list"),
        ("settings", "Settings", "settings"),
    ),
}
HIDDEN = (("experiments", "Experiments"),)  # opened by links
PHONE = ("home", "attention", "predict", "probing")  # pages of the bar at the bottom


def pages() -> dict[str, list[st.Page]]:
    """The pages by group; the first group, without a name, is the first page."""
    file, title, _ = HOME
    groups = {"": [st.Page(f"pages/{file}.py", title=title, default=True)]}
    for group, members in GROUPS.items():
        groups[group] = [st.Page(f"pages/{name}.py", title=title) for name, title, _ in members]
    groups[""] += [
        st.Page(f"pages/{name}.py", title=title, visibility="hidden") for name, title in HIDDEN
    ]
    return groups


def draw(page: str) -> None:
    """Draw what surrounds a page, which is named as its file."""
    draw_style()
    guided_tour.draw(page)
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


def _phone_bar() -> None:
    """Draw the bar at the bottom of a phone: some pages, and all others behind More."""
    members = (HOME, *(member for group in GROUPS.values() for member in group))
    with st.container(key="phone-bar", horizontal=True, gap="xxsmall"):
        for name, title, icon in members:
            if name in PHONE:
                st.page_link(f"pages/{name}.py", label=title.split()[0], icon=f":material/{icon}:")
        with st.popover("More"):
            for name, title, icon in members:
                if name not in PHONE:
                    st.page_link(f"pages/{name}.py", label=title, icon=f":material/{icon}:")


def is_presenting() -> bool:
    """Whether the page is shown to an audience."""
    return st.query_params.get(PRESENT) == "1"


def present(on: bool = True) -> None:
    """Begin or end the presentation."""
    if on:
        st.query_params[PRESENT] = "1"
    else:
        st.query_params.pop(PRESENT, None)
