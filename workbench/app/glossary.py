"""Explanations of terms, for hover texts: the glossary of the documentation.

    st.markdown(claim, help=glossary.explained(claim))

`glossary.md` beside this file is also a page of the documentation. Costs: reading it once.
"""

import re
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("glossary.md")
_TERM = re.compile(r"^(?P<term>\S[^\n]*)\n:   (?P<text>[^\n]+)", re.MULTILINE)


@cache
def terms() -> dict[str, str]:
    """Every name of a term with its explanation, in alphabetical order."""
    text = FILE.read_text(encoding="utf-8")
    return {
        name: match["text"] for match in _TERM.finditer(text) for name in match["term"].split(", ")
    }


def explained(text: str) -> str | None:
    """The terms in a text with their explanations, for a hover text; None if it has no term."""
    names = {name.casefold(): name for name in terms()}
    longest_first = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    found = re.findall(rf"(?<!\w)({longest_first})s?(?!\w)", text.casefold())
    shown = {terms()[names[each]]: names[each] for each in found}  # once, if it has several names
    return "\n\n".join(f"**{name}**: {text}" for text, name in shown.items()) or None
