"""Maps that notebooks show in the attention browser, and what is chosen there.

What draws them is imported when they are shown. Costs: nothing until then.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.core.display import html_of
from workbench.core.registry import imported

VIEW = "workbench.analyses.attention.browser.notebook:View"


@dataclass(frozen=True)
class Selection:
    """What is chosen in a browser; layers, heads and tokens are indices from 0, as in tables.

    `weight` is the value of the pinned pair of tokens; without a pin it is None.
    """

    text: str
    stack: str
    kind: str
    layer: int
    head: int
    heads: tuple[tuple[int, int], ...]  # all that are open: layer and head
    query: int | None = None
    key: int | None = None
    query_token: str = ""
    key_token: str = ""
    weight: float | None = None


class Browsed:
    """Maps in one or two grids that draw themselves in a notebook: hover, pin, edit, compare.

    Words are edited, and `selection` follows the browser, where anywidget is installed.
    """

    @property
    def grids(self) -> tuple[Any, ...]:
        """One `Grid`, or two that are compared."""
        raise NotImplementedError

    @cached_property
    def view(self) -> Any:
        """The browser of these maps, made when they are first shown."""
        return imported(VIEW, "its display")(self.grids)

    @property
    def selection(self) -> Selection | None:
        """What is chosen in the browser; the first view of each text has one head open.

        Example:
            >>> maps = wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks to the hill.")
            >>> maps.selection.layer, maps.selection.head, maps.selection.weight
            (0, 0, None)
        """
        chosen: Selection | None = self.view.selection
        return chosen

    def compare(self, other: "Browsed") -> "Compared":
        """Show these maps next to others: of another model, or of another text.

        Args:
            other: The maps or the grid of another text or model, from `wb.attention`.

        Returns:
            Both grids, which draw themselves side by side in a notebook, with their difference
            where the tokens are the same.

        Example:
            >>> model = wb.load("mini:bert", device="cpu")
            >>> dog, cat = (wb.attention(model, f"The {x} sees Mary.") for x in ("dog", "cat"))
            >>> dog.compare(cat)
            <Compared 2 grids: mini:bert, mini:bert>
        """
        return Compared((self.grids[0], other.grids[0]))

    def _repr_html_(self) -> str | None:
        return html_of(self, "workbench.analyses.attention.browser.notebook:html")

    def _ipython_display_(self) -> None:
        imported("workbench.analyses.attention.browser.notebook:show", "its display")(self)


class Compared(Browsed):
    """Two grids of maps next to each other."""

    def __init__(self, grids: tuple[Any, ...]) -> None:
        self._grids = grids

    @property
    def grids(self) -> tuple[Any, ...]:
        return self._grids

    def __repr__(self) -> str:
        """The models of both."""
        return f"<Compared 2 grids: {', '.join(grid.look.model for grid in self._grids)}>"
