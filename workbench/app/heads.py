"""The page Heads: the result of a run of `heads`, with the open head and views of all heads.

The open head is in the address. Costs: milliseconds for a view.
"""

from typing import TYPE_CHECKING

from workbench.app import heads_views as views
from workbench.app.analysis import TABLES, Analysis, View, header
from workbench.app.heads_views import HEAD, NAME, OpenHead, draw_grid, open_head
from workbench.app.one_head import evidence

if TYPE_CHECKING:
    from workbench.runs.run import Run


def _heads(selection: OpenHead) -> None:
    """Draw the grid of all heads, and the evidence for the open one."""
    draw_grid(selection)
    evidence(selection)


def _header(run: "Run") -> OpenHead:
    return open_head(header(run))


VIEWS = {
    "Heads": View(_heads),
    "Relations": View(views.relations),
    "Similar heads": View(
        views.similar_heads,
        ("clusters",),
        "Heads were not compared, because the run stored no sentences. Run it again with max "
        "examples above 0.",
    ),
    "Offsets": View(
        views.offsets,
        ("offsets",),
        "There are no offsets: no word has another word within the range of offsets.",
    ),
    "Cross-attention": View(
        views.cross, is_available=lambda selection: (selection.heads["kind"] == "cross").any()
    ),
    "Tables": TABLES,
}
HEADS = Analysis(
    "Heads",
    "What each attention head attends to: an offset, a syntactic relation or a kind of word, "
    "compared with fixed offsets and shuffled trees.",
    {"Heads": NAME},
    {NAME: VIEWS},
    _header,
    query_keys=(HEAD,),
)
