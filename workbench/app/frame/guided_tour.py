"""A tour of the app in five steps, in place, on built-in results; it ends with one's own sentence.

A step is an address with `tour` in it: a page, what is looked at there, and one sentence about it.
So the tour can be left at any time, and its link can be given to a class. Costs: nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import streamlit as st

from workbench.app import navigation

KEY = "tour"  # in the address: the number of the step


@dataclass(frozen=True)
class Step:
    """A step: the page with its address, the part that is outlined, and what is said of it."""

    page: str
    says: str
    outlined: str  # a CSS selector
    address: Mapping[str, str] = field(default_factory=dict)


MODEL = {"model": "mini:bert", "corpus": "primer"}
STEPS = (
    Step(
        "attention",
        "Each small map is one attention head: rows are tokens that look, columns are tokens that "
        "are looked at. A dark diagonal is a head that looks at a neighbour.",
        '[data-testid="stBidiComponentIsolated"]',
        {**MODEL, "from": "Your own text", "text": "The girls did not visit it because they "
        "were tall."},
    ),
    Step(
        "heads",
        "Over a whole corpus, heads get roles: some look at a fixed offset, some follow a "
        "syntactic relation. A role counts only where it beats every simple rule.",
        '[data-testid="stMarkdownContainer"] ol',
        {**MODEL, "run": "built-in/heads-mini-bert"},
    ),
    Step(
        "probing",
        "Probes are small classifiers that read labels from one layer. The curve shows where the "
        "model knows parts of speech, syntax or coreference, and what baselines know.",
        ".st-key-result-figure",
        {**MODEL, "run": "built-in/edge-probing-mini-bert"},
    ),
    Step(
        "pruning",
        "Many heads can go: they are removed one after another, the least important first, and "
        "the model is scored after each step, against random orders.",
        '[data-testid="stMarkdownContainer"] ol',
        {**MODEL, "run": "built-in/head-pruning-mini-bert"},
    ),
    Step(
        "home",
        "Now your own sentence: type it here. Heads and predictions follow while you type.",
        '[data-testid="stTextInput"]',
    ),
)  # fmt: skip


def steps() -> tuple[Step, ...]:
    """The steps whose pages are there."""
    return tuple(each for each in STEPS if navigation.named(each.page) is not None)


def step() -> int | None:
    """The step in the address, counted from 0; None without a tour."""
    text = st.query_params.get(KEY, "")
    if text.isascii() and text.isdecimal() and 1 <= int(text[:3]) <= len(steps()):
        return int(text) - 1
    return None


def offer() -> None:
    """Draw the link that begins the tour."""
    first = steps()[0]
    navigation.link(
        first.page,
        "Take the tour: five steps, under two minutes",
        icon=":material/explore:",
        query_params=address_of(0),
    )


def address_of(number: int) -> dict[str, str]:
    """Return the query parameters of a step."""
    return {**steps()[number].address, KEY: str(number + 1)}


def draw(page: str) -> None:
    """Draw the card of the step in the address, and outline what it is about.

    An address of a step that is on another page, such as `/?tour=1`, opens that page.
    """
    number = step()
    if number is None:
        return
    here = steps()[number]
    if here.page != page:
        navigation.switch(here.page, address_of(number))
    st.html(f"<style>{_OUTLINE.replace('SELECTOR', here.outlined)}</style>")
    with st.container(key="tour-card"):
        st.markdown(f"**{number + 1} of {len(steps())}.** {here.says}")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if number > 0:
                _link(number - 1, "Back", "arrow_back")
            if number + 1 < len(steps()):
                _link(number + 1, "Next", "arrow_forward")
            st.button(
                "End the tour" if number + 1 == len(steps()) else "Skip the tour",
                type="tertiary",
                key="end of the tour",
                on_click=_end,
            )


def _link(number: int, label: str, icon: str) -> None:
    navigation.link(
        steps()[number].page,
        label,
        icon=f":material/{icon}:",
        query_params=address_of(number),
    )


def _end() -> None:
    st.query_params.pop(KEY, None)


_OUTLINE = """
.st-key-tour-card {
  position: fixed; bottom: 16px; left: 50%; transform: translateX(-50%); z-index: 999992;
  width: min(640px, calc(100vw - 32px)); padding: 16px; border-radius: 8px;
  background: var(--shell-page); border: 1px solid var(--shell-accent);
  box-shadow: 0 4px 24px rgba(0, 0, 0, 0.2);
}
[data-testid="stLayoutWrapper"]:has(> .st-key-tour-card) { position: absolute; }
[data-testid="stMainBlockContainer"] { padding-bottom: 14rem; }
@media (max-width: 640px) { .st-key-tour-card { bottom: 72px; } }
:is(SELECTOR) { outline: 2px solid var(--shell-accent); outline-offset: 6px; border-radius: 4px; }
"""
