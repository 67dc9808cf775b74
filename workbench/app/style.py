"""The style of what surrounds a page: chips in the top bar, the bar of a phone, and presentations.

Streamlit's own elements keep the style of its theme; here are only places and sizes that a theme
cannot set. Costs: nothing.
"""

import streamlit as st

from workbench.app.tables_and_figures import kind
from workbench.figures.theme import FAINT, PAPER, Kind

_LINE: dict[Kind, str] = {"light": "#d5dce3", "dark": "#3a4551"}  # as in .streamlit/config.toml
_ACCENT: dict[Kind, str] = {"light": "#1f6fa8", "dark": "#6bb3ea"}  # of links and outlines
_ALWAYS = """<style>
:root { font-variant-numeric: tabular-nums; }
/* contrast of at least 4.5, and no text under 12 px */
[data-testid="stCaptionContainer"] { opacity: 1; color: var(--shell-faint); }
[data-testid="stCaptionContainer"] * { color: inherit; }
[data-testid="stExpander"] summary p { color: var(--shell-faint); }
[data-testid="stExpander"] summary { opacity: 1 !important; }
[data-testid="stMarkdownContainer"] code { font-size: max(0.87em, 12px); }
[data-testid="stCode"] .token.function, [data-testid="stCode"] .token.builtin {
  color: var(--shell-accent);
}
[data-testid="stBaseButton-segmented_controlActive"] p,
[data-testid="stBaseButton-pillsActive"] p { color: var(--shell-accent); }
/* chips of the model, the corpus and the jobs, in the bar on the right */
.st-key-context {
  position: fixed; top: 0.8rem; right: 3.25rem; z-index: 999991; width: auto;
  max-width: calc(100vw - 27rem); flex-wrap: nowrap; justify-content: flex-end;
  align-items: center;
}
.st-key-context [data-testid="stPopoverButton"], .st-key-context button {
  min-height: 2rem; padding: 0.1rem 0.6rem; font-size: 13px; white-space: nowrap;
}
.st-key-context [data-testid="stPopoverButton"] p, .st-key-context button p {
  font-size: 13px; overflow: hidden; text-overflow: ellipsis; max-width: 15rem;
}
/* both are outside the flow of the page */
[data-testid="stLayoutWrapper"]:has(> .st-key-context),
[data-testid="stLayoutWrapper"]:has(> .st-key-phone-bar) { position: absolute; }
.st-key-phone-bar { display: none; }
@media (max-width: 1000px) and (min-width: 641px) {
  .st-key-context [data-testid="stPopoverButton"] p { max-width: 7rem; }
}
@media (max-width: 640px) {
  .st-key-context {
    right: 0.5rem; left: 3.2rem; max-width: none; justify-content: flex-start; overflow-x: auto;
  }
  .st-key-context [data-testid="stPopoverButton"] p { max-width: 6.5rem; }
  .st-key-present { display: none; }
  /* all pages are in the bar at the bottom */
  [data-testid="stSidebar"], [data-testid="stExpandSidebarButton"] { display: none; }
  .st-key-context { left: 0.5rem; }
  .st-key-phone-bar {
    display: flex; position: fixed; bottom: 0; left: 0; right: 0; z-index: 999991; width: 100%;
    padding: 0.25rem 0.25rem calc(0.25rem + env(safe-area-inset-bottom));
    background: var(--shell-page); border-top: 1px solid var(--shell-line);
    flex-wrap: nowrap; justify-content: space-around;
  }
  .st-key-phone-bar a { flex-direction: column; gap: 0; padding: 0.25rem; min-width: 3.5rem; }
  .st-key-phone-bar a p, .st-key-phone-bar button p { font-size: 12px; }
  .st-key-phone-bar [data-testid="stPopoverButton"] { border: 0; padding: 0.25rem; }
  [data-testid="stMainBlockContainer"] { padding-bottom: 6rem; }
  h1 { font-size: 18px !important; }
}
@media (prefers-reduced-motion: reduce) {
  *, *::before, *::after { animation-duration: 0.01ms !important; transition: none !important; }
}
</style>"""
_PRESENT = """<style>
html { font-size: 18px !important; }
[data-testid="stHeader"], .st-key-context, .st-key-phone-bar, [class*="st-key-controls"] {
  display: none !important;
}
[data-testid="stMainBlockContainer"] { padding-top: 1rem; max-width: none; }
.st-key-leave-presentation {
  position: fixed; top: 0.25rem; right: 0.5rem; z-index: 999991; width: auto;
}
</style>"""


def draw() -> None:
    """Place the chips, and the bar of a phone."""
    theme = kind()
    st.html(
        f"{_ALWAYS}<style>:root {{ --shell-page: {PAPER[theme]}; --shell-line: {_LINE[theme]}; "
        f"--shell-accent: {_ACCENT[theme]}; --shell-faint: {FAINT[theme]}; }}</style>"
    )


def draw_present() -> None:
    """Enlarge the text and hide what surrounds the page."""
    st.html(_PRESENT)
