"""The pages of the app: their place in the bar, which one shows an experiment, and links to them.

The app has some of its own; the others are announced by analyses. A link to a page that is not
there is not drawn. Costs: importing the page of an analysis, when one of its results is shown.
"""

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.string_util import is_material_icon

from workbench.core import analysis
from workbench.core.analysis import Analysis, Page, announced
from workbench.core.machine import app_file
from workbench.core.registry import imported

PRESENT = "present"  # in the address: whether the page is shown to an audience
ANY = "experiments"  # the page of experiments that have none of their own
HOME = Page("home", "Home", icon="home", on_phone=True, is_typed=True, selection=("text", "at"))
QUESTIONS = Page("questions", "Questions", icon="contact_support", on_phone=True)
STARTS = (HOME, QUESTIONS)  # in the bar, in no group
LIBRARY = tuple(
    Page(name, title, "Library", icon, order=order)
    for order, (name, title, icon) in enumerate(
        (
            ("models", "Models", "deployed_code"),
            ("corpora", "Corpora", "menu_book"),
            ("runs", "Runs", "list"),
            ("lessons", "Lessons", "school"),
            ("settings", "Settings", "settings"),
        )
    )
)
HIDDEN = (Page(ANY, "Experiments"),)  # opened by links
GROUPS = ("Understand", "Measure")  # first in the bar, before those of other analyses


def groups() -> Mapping[str, list[Page]]:
    """The pages of the bar by group, in order."""
    announced = [page for _, page in analysis.pages()]
    names = dict.fromkeys([*GROUPS, *(page.group for page in announced), "Library"])
    found = {
        name: sorted(
            (page for page in (*announced, *LIBRARY) if page.group == name),
            key=lambda page: page.order,
        )
        for name in names
    }
    return {name: pages for name, pages in found.items() if pages}


def named(name: str) -> Page | None:
    """The page of this name, if it is there."""
    return next((page for page in members() if page.name == name), None)


def members() -> tuple[Page, ...]:
    """All pages."""
    return (*STARTS, *HIDDEN, *(page for group in groups().values() for page in group))


def streamlit_page(page: Page, **look: Any) -> Any:
    """The page for Streamlit: its file in `pages/`, or what draws it, imported when it is drawn."""
    if (guest := _guest(page)) is None:
        return st.Page(_file(page), title=page.title, **look)

    def draw() -> None:
        drawn = guest.imported(page.draw)
        getattr(drawn, "page", drawn)()

    return st.Page(draw, title=page.title, url_path=page.name, **look)


def _guest(page: Page) -> Analysis | None:
    """The analysis that announces a page without a file in `pages/`; None for one with a file."""
    owner = next((each for each, own in analysis.pages() if own is page), None)
    return None if owner is None or (app_file().parent / _file(page)).is_file() else owner


def _file(page: Page) -> str:
    return f"pages/{page.name}.py"


def bar() -> dict[str, list[Any]]:
    """The pages for Streamlit by group; the first group, without a name, is the first page."""
    first = streamlit_page(HOME, default=True, url_path="")  # so that `/home` can lead there
    found = {"": [first, streamlit_page(QUESTIONS)]}
    for group, members in groups().items():
        found[group] = [streamlit_page(page) for page in members]
    found[""] += [streamlit_page(page, visibility="hidden") for page in HIDDEN]
    return found


def _target(page: Page) -> Any:
    return _file(page) if _guest(page) is None else streamlit_page(page)


def presented() -> dict[str, str]:
    """The part of an address that keeps a presentation going; empty outside of one."""
    return {PRESENT: "1"} if is_presenting() else {}


def is_presenting() -> bool:
    """Whether the page is shown to an audience."""
    return st.query_params.get(PRESENT) == "1"


def icon_of(page: Page) -> str | None:
    """The icon of a page for Streamlit; None if it is no Material symbol."""
    return f":material/{page.icon}:" if is_material_icon(page.icon) else None


def link(name: str, label: str, **look: Any) -> None:
    """Draw a link to a page, if it is there. A presentation goes on there."""
    if (page := named(name)) is not None:
        if on := presented():
            look["query_params"] = {**(look.get("query_params") or {}), **on}
        st.page_link(_target(page), label=label, **look)


def switch(name: str, query: Mapping[str, str] | None = None) -> None:
    """Go to a page."""
    if (page := named(name)) is not None:
        st.switch_page(_target(page), query_params=dict(query or {}))


def page_of(experiment: str) -> str:
    """The name of the page that shows results of an experiment."""
    return analysis.page_of(experiment) or ANY


def result_page_of(experiment: str) -> Any:
    """The `ResultPage` that shows results of an experiment."""
    home = announced("results").get(experiment, "workbench.app.runs.result_page:PLAIN")
    return imported(home, f"the page of {experiment}")
