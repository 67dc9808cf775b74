"""The figures of a report as SVG and as pictures; none where only Plotly can draw a figure.

Figures of other packages and of stored runs may have marks of any kind. Costs: some tenths of a
second per figure.
"""

from workbench.drawing.vector import Format, inline_svg, picture
from workbench.report.content import Drawing


def inline(drawing: Drawing, width: float) -> str | None:
    """Return a figure as SVG for a page; None if it has marks that only Plotly draws."""
    try:
        return inline_svg(drawing.plain, width)
    except Exception:  # any figure: of another package, or of a stored run
        return None


def pictured(
    drawing: Drawing, kind: Format, *, with_title: bool = False, columns: int = 2
) -> bytes | None:
    """Return a figure as a picture; None if it has marks that only Plotly draws."""
    title, subtitle = (drawing.title, drawing.subtitle) if with_title else ("", "")
    try:
        return picture(drawing.plain, kind, title=title, subtitle=subtitle, columns=columns)
    except Exception:  # any figure: of another package, or of a stored run
        return None
