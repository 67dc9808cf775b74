"""What a run found, on a page: the finding that stands for it, and the others, with their verdicts.

Costs: nothing.
"""

from collections.abc import Sequence

import streamlit as st

from workbench.app import glossary
from workbench.app.text import as_html, plain, prose
from workbench.core.findings import Finding

COLOURS: dict[str, str] = {"supported": "green", "not supported": "gray", "undecided": "orange"}

_STYLE = """<style>
dl.numbers { margin: 8px 0 0; padding: 0; }
dl.numbers dt { font-size: 13px; font-weight: 400; opacity: 0.8; margin: 0; line-height: 1.3; }
dl.numbers dd { font-size: 24px; font-weight: 600; margin: 0; line-height: 1.3; }
dl.numbers dd small { display: block; font-size: 13px; font-weight: 400; opacity: 0.8; }
</style>"""


def findings(found: Sequence[Finding]) -> None:
    """Draw findings as a list; those that the data does not support say so."""
    lines = [f"- {prose(each.claim)}{_verdict(each.badge, each)}" for each in found]
    if lines:
        text = "\n".join(lines)
        st.markdown(text, help=glossary.explained(text))


def strip(finding: Finding) -> None:
    """Draw the finding that stands for a run: its sentence, its number if any, and its verdict."""
    text = f"{prose(finding.claim)}{_verdict(finding.verdict, finding)}"
    st.markdown(text, help=glossary.explained(text))
    if finding.number:
        spread = f"<small>{as_html(finding.spread)}</small>" if finding.spread else ""
        st.html(
            f'{_STYLE}<dl class="numbers" aria-label="Key number">'
            f"<dt>{as_html(finding.measure)}</dt><dd>{as_html(finding.number)}{spread}</dd></dl>"
        )


def in_line(finding: Finding) -> str:
    """Return the same as text in one paragraph, for lists."""
    number = (
        f" {plain(finding.measure)}: **{plain(finding.key_number)}**" if finding.key_number else ""
    )
    return f"{prose(finding.claim)}{number}{_verdict(finding.verdict, finding)}"


def _verdict(verdict: str, finding: Finding) -> str:
    if not verdict:
        return ""
    decided_by = f" Would decide it: {plain(finding.decided_by)}." if finding.decided_by else ""
    return f" :{COLOURS[verdict]}-badge[{verdict}]{decided_by}"
