"""Data in the app's own words: text that Streamlit would read as Markdown, made to show as it is.

Labels, captions and cells of `st.table` are Markdown, where data could draw pictures from anywhere.
Costs nothing.
"""

import html
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise

import streamlit as st

from workbench.core.errors import WorkbenchError
from workbench.figures.sanitize import is_turning, visible
from workbench.figures.theme import COLOURS, Kind

_SIGNS = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: object, most: int | None = None) -> str:
    """Data for Markdown: every sign escaped, at most so many characters."""
    return _SIGNS.sub(r"\\\1", shortened(text, most))


def as_html(text: object, most: int | None = None) -> str:
    """Data for HTML: no markup, and its direction kept to itself."""
    shown = html.escape(shortened(text, most))
    return f"<bdi>{shown}</bdi>" if is_turning(shown) else shown


def shortened(text: object, most: int | None = None) -> str:
    """One line of visible characters, at most so many."""
    shown = visible(" ".join(str(text).split(" ")))
    return shown if most is None or len(shown) <= most else f"{shown[: most - 1]}…"


def amount(number: float) -> str:
    """A large number in short: 1.06 M."""
    for size, word in ((1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:,.0f}"


def size(number: float) -> str:
    """Bytes as one says them."""
    for power, word in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number >= 2**power:
            return f"{number / 2**power:,.1f} {word}"
    return f"{number:,.0f} bytes"


# --- dates, sizes and facts as text ---------------------------------------------------------------
#
# Data as text on a page: facts, states, times; nothing of it is read as markup. Costs nothing.

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


# --- marks in a text ------------------------------------------------------------------------------

AROUND = 160  # characters shown on either side of the spans
_CHIP = "font-size:.7em;font-weight:600;padding:0 .1em 0 .25em;vertical-align:super"
Span = tuple[int, int]


def marked(
    text: str, spans: list[Span], kind: Kind, names: Sequence[str] = (), around: int = AROUND
) -> str:
    """A text with some spans marked, by number or by name; they may lie in one another, or cross.

    Spans of one name have one colour; `around` are the characters shown on either side of them.
    """
    names = names or [str(n + 1) for n in range(len(spans))]
    hues = [list(dict.fromkeys(names)).index(name) for name in names]
    first = max(min((start for start, _ in spans), default=0) - around, 0)
    last = min(max((end for _, end in spans), default=0) + around, len(text))
    edges = sorted({first, last, *(edge for span in spans for edge in span)})
    parts = ["… " if first else ""]
    for start, end in pairwise(edges):
        inside = [n for n, span in enumerate(spans) if span[0] <= start and end <= span[1]]
        piece = as_html(text[start:end])
        parts.append(
            f'<mark style="{_style([hues[n] for n in inside], kind)}">{piece}</mark>'
            if inside
            else piece
        )
        parts += [_chip(names[n], hues[n], kind) for n, s in enumerate(spans) if s[1] == end]
    return "".join([*parts, " …" if last < len(text) else ""])


def _style(inside: list[int], kind: Kind) -> str:
    """A tint, and a line below for each span that lies here."""
    colours = [_colour(hue, kind) for hue in inside]
    lines = [f"inset 0 -{2 + 3 * place}px 0 {own}" for place, own in enumerate(colours)]
    return f"background:{colours[0]}26;box-shadow:{','.join(lines)}"


def _chip(name: str, hue: int, kind: Kind) -> str:
    return f'<span style="{_CHIP};color:{_colour(hue, kind)}">{as_html(name, 40)}</span>'


def _colour(hue: int, kind: Kind) -> str:
    return COLOURS[kind][hue % len(COLOURS[kind])]


# --- errors on a page -----------------------------------------------------------------------------
#
# Errors on a page: what was wrong and what to do, in a box; never a traceback. Costs nothing.


@contextmanager
def told(stop: bool = False) -> Iterator[None]:
    """Tell a `WorkbenchError` of the block on the page; with `stop` the page ends there."""
    try:
        yield
    except WorkbenchError as error:
        tell(error)
        if stop:
            st.stop()


@contextmanager
def guarded() -> Iterator[None]:
    """The last resort round a whole page: what nobody foresaw goes to the log, not to the user."""
    with told():
        try:
            yield
        except WorkbenchError:
            raise
        except Exception as error:
            logging.getLogger("workbench").exception("a page failed")
            raise WorkbenchError(
                f"something went wrong inside Workbench ({type(error).__name__}).",
                remedy="Load the page again. If it stays, the details are where the app was "
                "started from: please report them.",
            ) from None


def tell(error: WorkbenchError) -> None:
    """One error as text: nothing in it is read as markup."""
    lines = (plain(line.strip()) for line in str(error).splitlines())
    st.error("\n\n".join(["This did not work.", *lines]), icon=":material/error:")
