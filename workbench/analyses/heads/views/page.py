"""The page Heads: the result of a run of `heads`, with the open head and views of all heads.

The open head is in the address. Costs: milliseconds for a view.
"""

from workbench.analyses.heads.views import all_heads as views
from workbench.analyses.heads.views.all_heads import HEAD, NAME, draw_grid, open_head
from workbench.analyses.heads.views.one_head import evidence
from workbench.analyses.heads.views.search import search
from workbench.app.runs.result_page import ResultPage, View

VIEWS = {
    "Heads": View(draw_grid),
    "Open head": View(evidence),
    "Find heads": View(search),
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
}
HEADS = ResultPage(
    "Heads",
    "What each attention head attends to: an offset, a syntactic relation or a kind of word, "
    "compared with fixed offsets and shuffled trees.",
    {"Heads": NAME},
    {NAME: VIEWS},
    open_head,
    query_keys=(HEAD,),
    ahead=views.draw_ahead,
)
