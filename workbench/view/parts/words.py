"""Data as text on a page: facts, states, times; nothing of it is read as markup. Costs nothing."""

import html
from collections.abc import Iterable
from datetime import UTC, datetime

import streamlit as st

from workbench.view.harmless import visible

STATES = {
    "queued": ("hourglass", "gray"),
    "running": ("play_circle", "blue"),
    "done": ("check_circle", "green"),
    "failed": ("error", "red"),
    "cancelled": ("cancel", "orange"),
}
_FACTS = (
    "<style>dl.facts {display: grid; grid-template-columns: minmax(6rem, max-content) 1fr;"
    " gap: 0.25rem 1.25rem; margin: 0 0 1rem; padding: 0} dl.facts dt {opacity: 0.72}"
    " dl.facts dd {margin: 0; overflow-wrap: anywhere; white-space: pre-wrap}"
    " @media (max-width: 480px) {dl.facts {grid-template-columns: 1fr; gap: 0}"
    " dl.facts dd {margin-bottom: 0.5rem}}</style>"
)


def facts(rows: Iterable[tuple[str, str]]) -> None:
    """Names and what they are, one below the other."""
    pairs = (f"<dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd>" for name, value in rows)
    st.html(f'{_FACTS}<dl class="facts">{"".join(pairs)}</dl>')


def state(now: str) -> None:
    """How a run stands, in a word with its colour."""
    icon, colour = STATES.get(now, ("help", "gray"))
    if now in STATES:
        st.badge(now, icon=f":material/{icon}:", color=colour)  # type: ignore[arg-type]


def lines(texts: Iterable[str], height: int | None = None) -> None:
    """Lines of a log."""
    shown = "\n".join(visible(text, lines=True) for text in texts)
    st.code(shown, language=None, wrap_lines=True, height=height or "content")


def subject(experiment: str, models: Iterable[str], corpora: Iterable[str]) -> str:
    """What a run is about, in a line."""
    seen = ", ".join([*models, *corpora])
    return f"{experiment}: {seen}" if seen else experiment


def ago(moment: str) -> str:
    """A time of day, as how long ago it was."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


def _escaped(text: str) -> str:
    return html.escape(visible(str(text), lines=True))
