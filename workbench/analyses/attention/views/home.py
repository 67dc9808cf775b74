"""All heads of a model on one sentence, for the page Home: small maps, each a link.

Costs: a forward pass, cached by the content of the text.
"""

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import streamlit as st

from workbench.app import choice, navigation
from workbench.app.frame.home import Look
from workbench.app.tables_and_figures import kind
from workbench.app.text import as_html, plain
from workbench.core.findings import plural

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.attention.grids import Grid
    from workbench.drawing.theme import Kind
    from workbench.engine.model import Model

TALLEST = 62  # of the grid of heads, in per cent of the window's height
MOST = 512  # heads; of a larger model, every so many layers are drawn, and all on Attention
SMALLEST = 24  # of the map of a head, in pixels; of more than fit, the box scrolls
NAMES_WIDTH = 18  # of the names left of the maps, in pixels
_STYLE = """<style>
/* the maps of all heads: names stay in view where the box scrolls */
[data-testid="stHtml"]:has(> .all-heads) { max-width: 100%; }
.all-heads {
  display: grid; align-items: center; justify-items: center; max-height: 90vh; overflow: auto;
  padding: 3px; margin: -3px; font-size: 13px; overscroll-behavior-x: contain;
}
.all-heads > span {
  position: sticky; top: -3px; z-index: 1; background: var(--shell-page); min-width: 100%;
  text-align: center;
}
.all-heads > .line, .all-heads > span:first-child { left: -3px; }
.all-heads > .line { top: auto; align-self: stretch; display: grid; align-content: center; }
.all-heads > span:first-child { z-index: 2; align-self: stretch; }
</style>"""
# A link in HTML loads the page anew, which forgets a lesson and its answers; a step of the history
# does not.
_OPEN = """<script>
if (!window.workbenchHeads) {
  window.workbenchHeads = true;
  document.addEventListener("click", (event) => {
    const way = event.target.closest?.(".all-heads a");
    if (!way || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState({}, "", way.href);
    dispatchEvent(new PopStateEvent("popstate"));
  });
}
</script>"""


def width(model: "Model") -> float:
    """The share of the page for the maps: most of it for many heads."""
    if not model.sites:
        return 1.25
    from workbench.analyses.attention.grids import MANY

    first = model.sites[0]
    sites = [site for site in model.sites if (site.stack, site.kind) == (first.stack, first.kind)]
    return 3.0 if max(len(sites), *(site.heads for site in sites)) > MANY else 1.25


def draw(ref: str, model: "Model", doc: "Doc", typed: str) -> None:
    """Draw the map of every head, each with a link to the page Attention."""
    st.html(_STYLE)
    st.html(_OPEN, unsafe_allow_javascript=True)
    if not model.sites:
        st.text(f"{model.without_heads}.")
        return
    from workbench.analyses.attention.capture import attention as capture_attention
    from workbench.analyses.attention.capture import blocks
    from workbench.analyses.attention.grids import Options, grid_of, groups, numbers

    target = doc if len(model.stacks) > 1 else None
    first, *others = blocks(model, doc, target)
    maps = capture_attention(model, doc, target, layers=first if others else None)
    group = groups(maps)[0]
    layers, heads = numbers(maps, group)
    step = -(-len(layers) * len(heads) // MOST)  # every so many layers, if there are many heads
    grid = grid_of(maps, group, Options(layers=tuple(layers[::step])))
    address = {**choice.in_url(), "from": "Your own text", "text": typed, **navigation.presented()}
    st.html(head_maps(grid, kind(), address))
    names = "columns are layers, rows" if grid.layers_across else "rows are layers, columns"
    shown, every = len(grid.rows) * len(grid.columns), sum(site.heads for site in model.sites)
    some = f"{shown:,} of {every:,} heads; the page Attention has all"
    counted = some if shown < every else plural(every, "head")
    st.caption(
        f"Each square is one head ({counted}): {names} are heads. In it, rows are tokens that "
        "look (pieces of words, and special tokens), columns tokens that they look at. Click one "
        "to open it."
    )
    if maps.cut:
        st.caption(plain(maps.cut_note))


def head_maps(grid: "Grid", theme: "Kind", address: dict[str, str]) -> str:
    """Return the maps of all heads as HTML, each a picture with a link to the page Attention."""
    from workbench.analyses.attention.grids import MANY
    from workbench.analyses.attention.thumbnails import overview
    from workbench.drawing.pixels import as_png

    pictures = overview(grid).pictures  # [layers, heads, height, width]

    def cell(row: int, column: int) -> str:
        layer, head = grid.rows[row], grid.columns[column]
        to = urlencode({**address, "head": f"{layer}.{head}"})
        picture = as_png(pictures[row, column], theme)
        return (
            f'<a href="attention?{as_html(to)}" target="_self" title="head {layer}.{head}" '
            f'aria-label="head {layer}.{head}" style="width:100%"><img alt="" src="{picture}" '
            'style="image-rendering:pixelated;display:block;width:100%;aspect-ratio:1"></a>'
        )

    across, down = (grid.rows, grid.columns)[:: 1 if grid.layers_across else -1]
    cells = ["<span></span>", *(f"<span>{name}</span>" for name in across)]
    for line, name in enumerate(down):
        cells.append(f'<span class="line">{name}</span>')
        cells.extend(
            cell(at, line) if grid.layers_across else cell(line, at) for at in range(len(across))
        )
    gap, most = ("2px", 2) if len(across) > MANY else ("clamp(3px,0.5vw,6px)", 6)
    least = NAMES_WIDTH + len(across) * (SMALLEST + most) + 6
    return (
        f'<div class="all-heads" role="group" aria-label="Attention of all heads" style="gap:{gap};'
        f"max-width:max({least}px,calc({TALLEST}vh * {len(across) / max(1, len(down)):.3f}));"
        f"grid-template-columns:{NAMES_WIDTH}px repeat({len(across)},minmax({SMALLEST}px,1fr))"
        f'">{"".join(cells)}</div>'
    )


LOOK = Look(draw, width, order=1)
