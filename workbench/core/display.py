"""Objects that draw themselves in notebooks: HTML, with the text that prints them as its twin.

A notebook asks an object for `_repr_html_`, a terminal only for its text. What draws an object lies
on a floor above it, so it is named here and imported when the object is first shown, as the figures
of results are. Costs: nothing until an object is shown.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from workbench.core.errors import WorkbenchError
from workbench.core.registry import imported

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def figure_by(drawn_by: str, *tables: Any) -> "Figure":
    """The figure of tables by the function "module:name", which is imported now."""
    return imported(drawn_by, "its figure")(*tables)


def html_of(item: object, drawn_by: str) -> str | None:
    """The HTML of an object by the function "module:name"; None where only its text can be shown.

    A machine that has only torch and transformers lacks the packages that draw.
    """
    try:
        draw = imported(drawn_by, "its display")
    except WorkbenchError:
        return None
    html: str = draw(item)
    return html


class Displayed:
    """An object that draws itself; `drawn_by` names the function that returns its HTML."""

    drawn_by: ClassVar[str] = "workbench.report.notebook:result"

    def _repr_html_(self) -> str | None:
        return html_of(self, self.drawn_by)
