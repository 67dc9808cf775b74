"""The first page: a sentence, all heads and the predictions of the model on it, at once.

What is shown of the sentence, and the cards below it, are announced by analyses. Below are the
latest runs with what they found. Costs: a forward pass for each look at the sentence; the pictures
are drawn once while the app runs.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import cache, choice, navigation, selection
from workbench.app.frame import demo_report, lesson_card
from workbench.app.runs import questions, run_list
from workbench.app.tables_and_figures import kind
from workbench.app.text import as_html, errors_shown, guarded
from workbench.app.text_boxes import text_in_address
from workbench.core.analysis import Card, analyses
from workbench.core.findings import listing
from workbench.drawing.theme import FONTS
from workbench.models.references import has_read

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.drawing.theme import Kind
    from workbench.engine.model import Model

TITLE = "See what a language model does with your sentence"
ABOUT = (
    "Workbench shows what attention heads, layers and predictions of a language model do: on one "
    "sentence, and measured on a whole corpus. Everything is computed on this machine."
)
CARD = 320  # width for which a picture is laid out, in pixels
TASKS = ("pos", "constituents")  # in the picture of the probes
N_LATEST = 5
_STYLE = """<style>
.st-key-controls-about > [data-testid="stElementContainer"]:first-child { flex: 1 1 30rem; }
.st-key-look [data-testid="stColumn"]:last-child { min-width: min(100%, 272px); }
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
EXAMPLE = "The old captain saw the ship that she had sold to her brother."


@dataclass(frozen=True)
class Look:
    """What an analysis shows of a sentence on this page.

    Args:
        draw: Draws it, given the model's reference, the model, the Doc and the text as typed.
        width: Its share of the page for a model.
        order: Its place.
    """

    draw: Callable[[str, "Model", "Doc", str], None]
    width: Callable[["Model"], float] = lambda model: 1.0
    order: int = 100


def draw() -> None:
    """Draw the page."""
    st.html(_STYLE)
    st.title(TITLE, anchor=False)
    with st.container(
        key="controls-about", horizontal=True, vertical_alignment="center", gap="medium"
    ):
        st.caption(ABOUT)
        lesson_card.offer()
    typed = text_in_address(
        "Your sentence",
        EXAMPLE,
        selection.TEXT,
        selection.OF_TEXT,
        help="Heads and predictions follow while you type. Write [MASK] for a hidden word.",
    )
    if read := has_read(choice.model()):
        st.caption(f"{choice.name_of(choice.model(), 'models')} has read {read}.")
    with errors_shown():
        _look(typed)
    st.header(questions.TITLE, anchor=False)
    questions.offer()
    _cards()
    st.header("Latest runs", anchor=False)
    run_list.draw_latest(N_LATEST, busy=demo_report.is_under_way())
    st.header("A short paper", anchor=False)
    st.markdown(
        "Eleven questions about the built-in models, answered on this machine in about a "
        "minute, as one report for any browser."
    )
    demo_report.offer()


def _look(typed: str) -> None:
    """Draw what analyses show of the sentence, next to each other."""
    ref = choice.model()
    model, doc = cache.model(ref), cache.typed(typed)
    looks: list[Look] = []
    for each in analyses().values():
        if each.first_look:
            with errors_shown():  # one that cannot be imported leaves the others
                looks.append(each.imported(each.first_look))
    looks.sort(key=lambda look: look.order)
    if not looks:
        return
    with st.container(key="look"):
        columns = st.columns([look.width(model) for look in looks], gap="large")
    for column, look in zip(columns, looks, strict=True):
        with column, guarded():
            look.draw(ref, model, doc, typed)


# --- ways on --------------------------------------------------------------------------------------


def _cards() -> None:
    """Draw the cards; a click anywhere on one follows its link."""
    cards = _announced()
    for n, (column, (page, card)) in enumerate(
        zip(st.columns(len(cards), gap="medium") if cards else (), cards, strict=True)
    ):
        card_box = column.container(height="stretch", key=f"card {n} {page}", gap="xsmall")
        with card_box, guarded():  # code of a package may be wrong
            query = choice.in_url_of_results()
            navigation.link(page, f"**{card.title}**", query_params=query)
            picture = _picture(card.result, card.figure, kind())
            st.caption(
                f"{card.about} In the picture: {_measured(card.result)}." if picture else card.about
            )
            if picture:
                st.html(f'<img alt="{as_html(card.about)}" src="{picture}">')
    navigation.link(
        "transfer",
        "From your own texts to a smaller classifier: fine-tune a model, prune it, export it",
        icon=":material/school:",
        query_params={**choice.in_url_of_results(), "analysis": "Fine-tuning"},
    )


def _measured(result: str) -> str:
    """The models of a built-in result, which need not be the one that is chosen."""
    from workbench.runs.builtin import builtin_run

    return listing(builtin_run(result).status.models)


def _announced() -> list[tuple[str, Card]]:
    """The cards of analyses in their order, each with the name of the page that it opens."""
    found = [(a.page.name, card) for a in analyses().values() if a.page for card in a.cards]
    return sorted(found, key=lambda pair: pair[1].order)


def draw_ahead() -> None:
    """Draw the pictures before a visitor sees the page."""
    for _, card in _announced():
        _picture(card.result, card.figure, "light")


@st.cache_data(max_entries=8, show_spinner=False)
def _picture(result: str, figure: str, theme: "Kind") -> str:
    """Return the figure of a built-in result as a small picture; "" if there is none."""
    from workbench.drawing.sanitize import harmless
    from workbench.drawing.vector import inline_svg, page_style
    from workbench.report.prose import registered
    from workbench.runs.builtin import builtin_run
    from workbench.runs.run import builtin_names

    if result not in builtin_names():
        return ""
    run = builtin_run(result)
    experiment = registered(run.spec.experiment)
    draw = experiment.drawings().get(figure) if experiment else None
    if draw is None:
        return ""
    tables = {
        name: table[table["task"].isin(TASKS)]
        if "task" in table and table["task"].isin(TASKS).any()
        else table
        for name, table in run.tables.items()
    }
    plain = harmless(draw(tables))
    for trace in plain["data"]:  # there is no room for words at marks
        if "mode" in trace:
            trace["mode"] = trace["mode"].replace("+text", "")
    head, end, body = inline_svg(plain, CARD).partition(">")
    style = f"{page_style(theme)} .figure{{font-family:{FONTS}}}"
    svg = f"{head}{end}<style>{style}</style>{body}"
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
