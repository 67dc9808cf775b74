"""The first page: a sentence, all heads and the predictions of the model on it, at once.

Below are three ways on, each with a picture of a built-in result, and the latest runs with what
they found. Costs: a forward pass for the heads and one for the predictions; the pictures are drawn
once while the app runs.
"""

import base64
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import streamlit as st

from workbench.app import (
    attention,
    cache,
    choice,
    demo_report,
    guided_tour,
    predict_views,
    run_list,
)
from workbench.app.predict import TYPED_AT
from workbench.app.tables_and_figures import kind
from workbench.app.text import as_html, errors_shown

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.attention_maps.grids import Grid
    from workbench.engine.model import Model
    from workbench.figures.theme import Kind

TITLE = "See what a language model does with your sentence"
WIDEST = 560  # of the grid of heads, in pixels
LARGEST, SMALLEST = 88, 18  # of the map of one head, in pixels
CARD = 420  # width of a picture, in pixels
N_LATEST = 5
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
        "What fine-tuning changes, and for which task.",
        "frozen-vs-finetuned-mini-bert",
        "delta",
    ),
)


def draw() -> None:
    """Draw the page."""
    st.title(TITLE, anchor=False)
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
    guided_tour.offer()
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
    left, right = st.columns([5, 4], gap="large")
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


def _heads(model: "Model", doc: "Doc", typed: str) -> None:
    """Draw the map of every head, each with a link to the page Attention."""
    if not model.sites:
        st.text(f"{model.without_heads}.")
        return
    from workbench.attention_maps.capture import attention as capture_attention
    from workbench.attention_maps.grids import Options, grid_of, groups

    maps = capture_attention(model, doc, doc if len(model.stacks) > 1 else None)
    group = groups(maps)[0]
    grid = grid_of(maps, group, Options())
    st.html(head_maps(grid, kind(), {**choice.in_url(), "from": "Your own text", "text": typed}))
    st.caption(
        f"{len(grid.rows)} layers × {len(grid.columns)} heads: rows of a map are the tokens that "
        "look, columns the tokens that are looked at. Click a head to see it over the words."
    )


def head_maps(grid: "Grid", theme: "Kind", address: dict[str, str]) -> str:
    """Return the maps of all heads as HTML, each a picture with a link to the page Attention."""
    from workbench.attention_maps.thumbnails import overview
    from workbench.figures.pixels import as_png

    pictures = overview(grid).pictures  # [layers, heads, height, width]
    side = max(SMALLEST, min(LARGEST, WIDEST // max(1, len(grid.columns)) - 6))
    cells = ["<span></span>", *(f"<span>{column}</span>" for column in grid.columns)]
    for row, layer in enumerate(grid.rows):
        cells.append(f"<span>{layer}</span>")
        for column, head in enumerate(grid.columns):
            to = urlencode({**address, "cell": f"{layer}.{head}"})
            picture = as_png(pictures[row, column], theme)
            cells.append(
                f'<a href="attention?{as_html(to)}" target="_self" title="head {layer}-{head}" '
                f'aria-label="head {layer}-{head}" style="width:100%"><img alt="" src="{picture}" '
                'style="image-rendering:pixelated;display:block;width:100%;aspect-ratio:1"></a>'
            )
    columns = f"16px repeat({len(grid.columns)},minmax(0,{side}px))"
    return (
        '<div role="group" aria-label="Attention of all heads" style="display:grid;gap:6px;'
        "align-items:center;justify-items:center;justify-content:start;font-size:13px;"
        f'grid-template-columns:{columns}">{"".join(cells)}</div>'
    )


# --- ways on --------------------------------------------------------------------------------------


def _cards() -> None:
    for column, (title, page, about, result, figure) in zip(
        st.columns(len(CARDS), gap="medium"), CARDS, strict=True
    ):
        with column.container(height="stretch", key=f"card {page}"):
            st.page_link(f"pages/{page}.py", label=f"**{title}**", query_params=choice.in_url())
            st.caption(about)
            if picture := _picture(result, figure):
                st.html(
                    '<div style="max-height:220px;overflow:hidden">'
                    f'<img alt="{as_html(about)}" src="{picture}" style="width:100%"></div>'
                )


@st.cache_data(max_entries=8, show_spinner=False)
def _picture(result: str, figure: str) -> str:
    """Return the figure of a built-in result as a small picture; "" if there is none."""
    from workbench.figures.vector import inline_svg, page_style
    from workbench.report.content import drawings
    from workbench.runs.builtin import builtin_run

    drawing = drawings(builtin_run(result)).get(figure)
    if drawing is None:
        return ""
    head, end, body = inline_svg(drawing.plain, CARD).partition(">")
    svg = f"{head}{end}<style>{page_style()} .figure{{font-family:sans-serif}}</style>{body}"
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
