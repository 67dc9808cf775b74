"""Explanations of terms, for hover texts: the glossary of the documentation, one term at a time.

    st.metric("Selectivity", "12.3", help=glossary.terms()["selectivity"])

`glossary.md` beside this file is also a page of the documentation. Costs: reading it once.
"""

import re
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("glossary.md")
_TERM = re.compile(r"^(?P<term>\S[^\n]*)\n:   (?P<text>[^\n]+)", re.MULTILINE)


@cache
def terms() -> dict[str, str]:
    """Every term with its explanation, in alphabetical order."""
    text = FILE.read_text(encoding="utf-8")
    return {match["term"]: match["text"] for match in _TERM.finditer(text)}
