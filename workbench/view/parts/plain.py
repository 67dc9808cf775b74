"""Data in the app's own words: text that Streamlit would read as Markdown, made to show as it is.

Labels, captions and cells of `st.table` are Markdown, where data could draw pictures from anywhere.
Costs nothing.
"""

import html
import re

from workbench.view.harmless import is_turning, visible

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
