"""The first page: a sentence, all heads and the predictions of the model on it, at once.

Below are three ways on, each with a picture of a built-in result, and the latest runs with what
they found. Costs: a forward pass for the heads and one for the predictions; the pictures are drawn
once while the app runs.
"""

import base64
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import streamlit as st

from workbench.analyses.attention.views import choices as attention
from workbench.analyses.predictions.views import page as predict_views
from workbench.app import cache, choice, demo_report, guided_tour, run_list
from workbench.app.tables_and_figures import kind
from workbench.app.text import as_html, errors_shown
from workbench.app.text_boxes import TYPED_AT
from workbench.drawing.theme import FONTS

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.attention.grids import Grid
    from workbench.drawing.theme import Kind
    from workbench.engine.model import Model

TITLE = "See what a language model does with your sentence"
ABOUT = (
    "Workbench shows what attention heads, layers and predictions of a language model do: on one "
    "sentence, and measured on a whole corpus. Everything is computed on this machine."
)
TALLEST = 62  # of the grid of heads, in per cent of the window's height
SMALLEST = 24  # of the map of a head, in pixels; of more than fit, the box scrolls
NAMES_WIDTH = 18  # of the names left of the maps, in pixels
CARD = 320  # width for which a picture is laid out, in pixels
TASKS = ("pos", "constituents")  # in the picture of the probes
N_LATEST = 5
_STYLE = """<style>
.st-key-controls-about > [data-testid="stElementContainer"]:first-child { flex: 1 1 30rem; }
/* the maps of all heads: names stay in view where the box scrolls */
[data-testid="stHtml"]:has(> .all-heads) { max-width: 100%; }
.st-key-look [data-testid="stColumn"]:last-child { min-width: min(100%, 272px); }
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
[class*="st-key-card-"] {
  position: relative; padding: 16px; border: 1px solid var(--shell-line); border-radius: 6px;
}
[class*="st-key-card-"]:hover { border-color: var(--shell-accent); }
[class*="st-key-card-"]:focus-within {
  outline: 2px solid var(--shell-accent); outline-offset: 2px;
}
/* the whole card is the link */
[class*="st-key-card-"], [class*="st-key-card-"] [data-testid="stPageLink"] a { cursor: pointer; }
[class*="st-key-card-"] :is([data-testid="stPageLink"], [data-testid="stPageLink"] *) {
  position: static;
}
[class*="st-key-card-"] a { padding: 0; outline: none !important; background: none !important; }
[class*="st-key-card-"] a::after { content: ""; position: absolute; inset: 0; }
[class*="st-key-card-"] a p { font-size: 15px; }
[class*="st-key-card-"] img { display: block; width: 100%; height: 288px; object-fit: contain; }
</style>"""
CARDS = (  # title, page, what it shows; built-in result and figure of the picture
    (
        "Browse attention",
        "attention",
        "Which token each head looks at.",
        "heads-mini-bert",
        "roles",
    ),
    (
        "Probe a model",
        "probing",
        "What each layer knows.",
        "edge-probing-mini-bert",
        "curves",
    ),
    (
        "Compare fine-tuning",
        "transfer",
        "What fine-tuning changes, for each task.",
        "frozen-vs-finetuned-mini-bert",
        "delta",
    ),
)


def draw() -> None:
    """Draw the page."""
    st.html(_STYLE)
    st.title(TITLE, anchor=False)
    with st.container(
        key="controls-about", horizontal=True, vertical_alignment="center", gap="medium"
    ):
        st.caption(ABOUT)
        guided_tour.offer()
    typed = st.text_input(
        "Your sentence",
        value=attention.EXAMPLE,
        key="text",
        bind="query-params",
        live=TYPED_AT,
        max_chars=cache.LONGEST,
        help="Heads and predictions follow while you type. Write [MASK] for a hidden word.",
    )
    with errors_shown():
        _look(typed or "")
    _cards()
    st.header("Latest runs", anchor=False)
    run_list.draw_latest(N_LATEST, busy=demo_report.is_under_way())
    st.header("A short paper", anchor=False)
    st.markdown(
        "Eight questions about the four built-in models, answered on this machine in about a "
        "minute, as one report for any browser."
    )
    demo_report.offer()


def _look(typed: str) -> None:
    """Draw all heads and the predictions of the chosen model on a sentence."""
    model, doc = cache.model(choice.model()), cache.typed(typed)
    with st.container(key="look"):
        left, right = st.columns([3, 1] if _has_many_heads(model) else [5, 4], gap="large")
    with left, errors_shown():
        _heads(model, doc, typed)
    with right, errors_shown():
        predict_views.draw_predictions(choice.model(), doc)
        st.page_link(
            "pages/predict.py",
            label="Why? Explain a prediction",
            icon=":material/psychology:",
            query_params={**choice.in_url(), "text": typed},
        )


def _has_many_heads(model: "Model") -> bool:
    """Whether the maps of the heads need most of the width."""
    if not model.sites:
        return False
    from workbench.analyses.attention.grids import MANY

    first = model.sites[0]
    sites = [site for site in model.sites if (site.stack, site.kind) == (first.stack, first.kind)]
    return max(len(sites), *(site.heads for site in sites)) > MANY


def _heads(model: "Model", doc: "Doc", typed: str) -> None:
    """Draw the map of every head, each with a link to the page Attention."""
    if not model.sites:
        st.text(f"{model.without_heads}.")
        return
    from workbench.analyses.attention.capture import attention as capture_attention
    from workbench.analyses.attention.grids import Options, grid_of, groups

    maps = capture_attention(model, doc, doc if len(model.stacks) > 1 else None)
    group = groups(maps)[0]
    grid = grid_of(maps, group, Options())
    st.html(head_maps(grid, kind(), {**choice.in_url(), "from": "Your own text", "text": typed}))
    across = "Columns are layers, rows are heads. " if grid.layers_across else ""
    st.caption(
        f"{len(grid.rows)} layers × {len(grid.columns)} heads. {across}Rows of a map are the "
        "tokens that look, columns the tokens that are looked at. Click a head to see it over the "
        "words."
    )
    if maps.cut:
        st.caption(f"{maps.cut:,} words are cut off: they exceed the maximum length of the model.")


def head_maps(grid: "Grid", theme: "Kind", address: dict[str, str]) -> str:
    """Return the maps of all heads as HTML, each a picture with a link to the page Attention."""
    from workbench.analyses.attention.grids import MANY
    from workbench.analyses.attention.thumbnails import overview
    from workbench.drawing.pixels import as_png

    pictures = overview(grid).pictures  # [layers, heads, height, width]

    def cell(row: int, column: int) -> str:
        layer, head = grid.rows[row], grid.columns[column]
        to = urlencode({**address, "cell": f"{layer}.{head}"})
        picture = as_png(pictures[row, column], theme)
        return (
            f'<a href="attention?{as_html(to)}" target="_self" title="head {layer}-{head}" '
            f'aria-label="head {layer}-{head}" style="width:100%"><img alt="" src="{picture}" '
            'style="image-rendering:pixelated;display:block;width:100%;aspect-ratio:1"></a>'
        )

    across, down = (grid.rows, grid.columns)[:: 1 if grid.layers_across else -1]
    cells = ["<span></span>", *(f"<span>{name}</span>" for name in across)]
    for line, name in enumerate(down):
        cells.append(f'<span class="line">{name}</span>')
        for at in range(len(across)):
            cells.append(cell(at, line) if grid.layers_across else cell(line, at))
    gap, most = ("2px", 2) if len(across) > MANY else ("clamp(3px,0.5vw,6px)", 6)
    least = NAMES_WIDTH + len(across) * (SMALLEST + most) + 6
    return (
        f'<div class="all-heads" role="group" aria-label="Attention of all heads" style="gap:{gap};'
        f"max-width:max({least}px,calc({TALLEST}vh * {len(across) / max(1, len(down)):.3f}));"
        f"grid-template-columns:{NAMES_WIDTH}px repeat({len(across)},minmax({SMALLEST}px,1fr))"
        f'">{"".join(cells)}</div>'
    )


# --- ways on --------------------------------------------------------------------------------------


def _cards() -> None:
    """Draw the cards; a click anywhere on one follows its link."""
    for column, (title, page, about, result, figure) in zip(
        st.columns(len(CARDS), gap="medium"), CARDS, strict=True
    ):
        with column.container(height="stretch", key=f"card {page}", gap="xsmall"):
            st.page_link(f"pages/{page}.py", label=f"**{title}**", query_params=choice.in_url())
            st.caption(about)
            if picture := _picture(result, figure, kind()):
                st.html(f'<img alt="{as_html(about)}" src="{picture}">')
    st.page_link(
        "pages/transfer.py",
        label="From your own texts to a smaller classifier: fine-tune a model, prune it, export it",
        icon=":material/school:",
        query_params={**choice.in_url(), "analysis": "Fine-tuning"},
    )


def draw_ahead() -> None:
    """Draw the pictures before a visitor sees the page."""
    for *_, result, figure in CARDS:
        _picture(result, figure, "light")


@st.cache_data(max_entries=8, show_spinner=False)
def _picture(result: str, figure: str, theme: "Kind") -> str:
    """Return the figure of a built-in result as a small picture; "" if there is none."""
    from workbench.drawing.sanitize import harmless
    from workbench.drawing.vector import inline_svg, page_style
    from workbench.report.content import registered
    from workbench.runs.builtin import builtin_run

    run = builtin_run(result)
    experiment = registered(run.spec.experiment)
    if experiment is None:
        return ""
    tables = {
        name: table[table["task"].isin(TASKS)]
        if "task" in table and table["task"].isin(TASKS).any()
        else table
        for name, table in run.tables.items()
    }
    plain = harmless(experiment.drawings()[figure](tables))
    for trace in plain["data"]:  # there is no room for words at marks
        if "mode" in trace:
            trace["mode"] = trace["mode"].replace("+text", "")
    head, end, body = inline_svg(plain, CARD).partition(">")
    style = f"{page_style(theme)} .figure{{font-family:{FONTS}}}"
    svg = f"{head}{end}<style>{style}</style>{body}"
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
