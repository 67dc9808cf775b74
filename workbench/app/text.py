"""Data as text on a page: Streamlit reads text as Markdown, so data is escaped to show as it is.

Labels, captions and cells of `st.table` are Markdown: data in them could load images from any site.
Costs: nothing.
"""

import html
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import streamlit as st

from workbench.core.errors import WorkbenchError, line_of
from workbench.core.names import without_paths
from workbench.drawing.sanitize import as_html as as_html
from workbench.drawing.sanitize import shortened as shortened
from workbench.drawing.sanitize import visible

_SIGNS = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: object, max_length: int | None = None) -> str:
    """Data escaped for Markdown, cut to `max_length` characters."""
    return _SIGNS.sub(r"\\\1", shortened(text, max_length))


def plain_lines(text: str) -> str:
    """Data of several lines escaped for Markdown, in one paragraph that keeps its line breaks."""
    return "  \n".join(plain(line.strip()) for line in text.split("\n") if line.strip())


def captions(notes: Iterable[str]) -> None:
    """Draw a caption for each note."""
    for note in notes:
        st.caption(plain(note))


def prose(text: str) -> str:
    """A sentence of Workbench for Markdown: data is escaped, names in `backticks` are code."""
    parts = shortened(text).split("`")
    if len(parts) % 2 == 0:  # a backtick of the data
        return plain(text)
    return "".join(f"`{part}`" if n % 2 and part else plain(part) for n, part in enumerate(parts))


def tab_named(*parts: str) -> None:
    """Name the tab of the browser."""
    st.set_page_config(page_title=shortened(" · ".join((*parts, "Workbench"))))


def amount(count: float) -> str:
    """A large count in short form: 1.06 M."""
    for unit, letter in ((1e9, "B"), (1e6, "M")):
        if count >= unit:
            return f"{count / unit:.3g} {letter}"
    return f"{count:,.0f}"


def size(n_bytes: float) -> str:
    """A number of bytes with its unit: 1.5 MiB."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if n_bytes >= 2**power:
            return f"{n_bytes / 2**power:,.1f} {unit}"
    return f"{n_bytes:,.0f} bytes"


# --- dates, sizes and facts as text ---------------------------------------------------------------
#
# Facts, states and times; nothing in them is read as markup.

STATES = {
    "queued": ("hourglass", "gray"),
    "running": ("play_circle", "blue"),
    "done": ("check_circle", "gray"),
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
    """Draw pairs of name and value, one below the other."""
    pairs = (f"<dt>{_escaped(name)}</dt><dd>{_escaped(value)}</dd>" for name, value in rows)
    st.html(f'{_FACTS}<dl class="facts">{"".join(pairs)}</dl>')


def state(name: str) -> None:
    """Draw the state of a run as a coloured badge."""
    icon, colour = STATES.get(name, ("help", "gray"))
    if name in STATES:
        st.badge(name, icon=f":material/{icon}:", color=colour)  # type: ignore[arg-type]


def lines(texts: Iterable[str], height: int | None = None) -> None:
    """Draw lines of a log."""
    shown = "\n".join(visible(text, lines=True) for text in texts)
    st.code(shown, language=None, wrap_lines=True, height=height or "content")


def subject(experiment: str, models: Iterable[str], corpora: Iterable[str]) -> str:
    """The title of a run: experiment, models and corpora in one line."""
    inputs = ", ".join([*models, *corpora])
    return f"{experiment}: {inputs}" if inputs else experiment


def ago(timestamp: str) -> str:
    """How long ago a time was: 3 minutes ago."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(timestamp)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for unit_seconds, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= unit_seconds:
            count = int(seconds // unit_seconds)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def _escaped(text: str) -> str:
    return html.escape(visible(str(text), lines=True))


# --- errors on a page -----------------------------------------------------------------------------
#
# A box with the message and the remedy, never a traceback.


@contextmanager
def errors_shown(stop: bool = False) -> Iterator[None]:
    """Show a `WorkbenchError` of the block on the page; `stop` ends the page there."""
    try:
        yield
    except WorkbenchError as error:
        show_error(error)
        if stop:
            st.stop()


@contextmanager
def guarded() -> Iterator[None]:
    """Guard a page or a part of it: details of unexpected errors go to the log, not to the user."""
    with errors_shown():
        try:
            yield
        except WorkbenchError:
            raise
        except Exception as error:
            raise internal_error(error, "a page failed") from None


def internal_error(error: Exception, failed: str) -> WorkbenchError:
    """Log the details of an unexpected error, and return what the user reads."""
    logging.getLogger("workbench").error(failed, exc_info=error)
    return WorkbenchError(
        f"Internal error in {line_of(error) or 'Workbench'} ({type(error).__name__}).",
        code="internal",
        remedy="Reload the page. If the error stays, please report it to the authors of this code, "
        "with the details that are printed in the terminal where the app was started.",
    )


def show_error(error: WorkbenchError) -> None:
    """Show one error as text: nothing in it is read as markup, and names stand for paths."""
    lines = (plain(line.strip()) for line in without_paths(str(error)).splitlines())
    st.error("\n\n".join(lines), icon=":material/error:")
    if error.code == "column-not-found" and "page Corpora" in str(error):
        st.page_link("pages/corpora.py", label="Choose its columns", icon=":material/table_chart:")
