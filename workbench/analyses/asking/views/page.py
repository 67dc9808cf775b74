"""The page Ask & write: answers, prompts with demonstrations, and texts with their source.

Costs: those of the open tab.
"""

from collections.abc import Callable, Mapping

import streamlit as st

from workbench.analyses.asking.views import ask, prompt, write
from workbench.app import style
from workbench.app.text import errors_shown

TABS: Mapping[str, Callable[[], None]] = {
    "Ask": ask.draw,
    "Prompt": prompt.draw,
    "Write": write.draw,
}


def page() -> None:
    """Draw the page."""
    style.draw_text_page()
    st.title("Ask & write", anchor=False)
    drawn = st.tabs(list(TABS), key="view", bind="query-params")
    for tab, draw in zip(drawn, TABS.values(), strict=True):
        if tab.open:
            with tab, errors_shown():
                draw()
