"""The page Heads: what a run of `heads` found, its head in view, and views of all of them.

Which head is in view is in the address. Costs milliseconds a view.
"""

from typing import TYPE_CHECKING

from workbench.app import heads_views as views
from workbench.app.analysis import TABLES, Analysis, View, heading
from workbench.app.heads_views import HEAD, NAME, Looked, grid, looked
from workbench.app.one_head import evidence

if TYPE_CHECKING:
    from workbench.runs.run import Run


def _heads(seen: Looked) -> None:
    """All heads, and what one of them does."""
    grid(seen)
    evidence(seen)


def _look(run: "Run") -> Looked:
    return looked(heading(run))


VIEWS = {
    "Heads": View(_heads),
    "Relations": View(views.relations),
    "Kin": View(
        views.kin,
        ("clusters",),
        "No sentences were kept, so heads were not compared: ask with examples.",
    ),
    "Offsets": View(
        views.offsets, ("offsets",), "No word has a word near it, so there are no offsets."
    ),
    "Cross-attention": View(
        views.cross, is_there=lambda seen: (seen.heads["kind"] == "cross").any()
    ),
    "Tables": TABLES,
}
HEADS = Analysis(
    "Heads",
    "What each attention head does: which offset, relation or kind of word it looks at, beside "
    "what fixed offsets and shuffled trees come to. Asked of a whole corpus in about one pass.",
    {"Heads": NAME},
    {NAME: VIEWS},
    _look,
    forgotten=(HEAD,),
)
