"""The tab Why? of the page Predict & explain: the words coloured by attribution, and the check.

Costs: an attribution for each change of the choices; its faithfulness, some hundred forward passes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from workbench.app import predict, predict_results
from workbench.app.attention import row
from workbench.app.predict_results import Explained, Side
from workbench.app.tables_and_figures import Column, draw_columns, draw_table, segment, select
from workbench.app.text import errors_shown, plain
from workbench.token_views.component import Views, standalone, token_views
from workbench.token_views.views import Token, View, strip

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from workbench.attribution.faithfulness import Faithfulness
    from workbench.attribution.methods import Attribution

DEFAULT = "the model's default"
MEASURES = ("log-probability", "logit", "probability")
CHECKED = {
    "order": Column("order of words"),
    "comprehensiveness": Column(
        "comprehensiveness", "%+.3f", help="Probability lost without the top words. High is good."
    ),
    "sufficiency": Column(
        "sufficiency", "%+.3f", help="Probability lost with only the top words. Low is good."
    ),
    "gain": Column("gain", "%+.3f", help="Comprehensiveness minus sufficiency. High is good."),
}
LONG = 128  # units from which the faithfulness is computed only when asked for


# --- choices --------------------------------------------------------------------------------------


def choices(side: Side) -> Explained:
    """Draw the choices of the tab in one row."""
    from typing import get_args

    from workbench.attribution.methods import METHODS
    from workbench.attribution.target import Baseline

    with row():
        method = select(
            "Method",
            METHODS,
            "method",
            width=230,
            help="Integrated gradients, occlusion and Shapley values explain what the prediction "
            "depends on. Attention methods show what the model looks at. `random` is a control.",
        )
        target, against = target_boxes(side)
        by = segment(
            "By",
            ["word", "piece", "segment"],
            "by",
            help="Words, the pieces that the "
            "model reads, or segments: the two texts of a pair, or sentences.",
        )
        more = st.popover("More", icon=":material/tune:")
    with more:
        measure = select(
            "Measure",
            MEASURES,
            "measure",
            help="The number that is "
            "explained. Log-probability and probability also depend on all other "
            "choices.",
        )
        baseline = select(
            "Baseline",
            [DEFAULT, *get_args(Baseline)],
            "baseline",
            help="What "
            "stands for a word that is absent: the mask piece, the mean of the "
            "embeddings, zero, or the padding piece.",
        )
    return Explained(
        target,
        against,
        measure,
        method,
        by,
        "" if baseline == DEFAULT else baseline,
    )


def target_boxes(side: Side) -> tuple[str, str]:
    """Draw the boxes for the explained choice and a second one; "" for the defaults."""
    offered = predict_results.top(side, predict_results.LISTED).texts
    target = _choice(
        "Explain",
        predict.TOP,
        offered,
        predict.TARGET,
        "The choice that is explained (default: the most probable one). You can type another one.",
    )
    against = _choice(
        "Rather than",
        predict.NOTHING,
        offered,
        predict.AGAINST,
        "A second choice: what speaks for the first rather than the second, such as for “is” "
        "rather than “are” (default: none).",
    )
    return "" if target == predict.TOP else target, "" if against == predict.NOTHING else against


def _choice(label: str, first: str, texts: Sequence[str], key: str, about: str) -> str:
    """Draw a box for a choice of the model; any text can be typed."""
    current = st.session_state.get(key)
    options = list(dict.fromkeys([first, *texts, *([str(current)] if current else [])]))
    picked = st.selectbox(
        label, options, key=key, bind="query-params", accept_new_options=True, width=170, help=about
    )
    return str(picked or first)


# --- the map --------------------------------------------------------------------------------------


def why(sides: Sequence[Side]) -> None:
    """Draw the tab Why?: a map for each model, with its check."""
    explained = choices(sides[0])
    for column, side in zip(st.columns(len(sides)), sides, strict=True):
        with column, errors_shown():
            _map(side, explained)


def _map(side: Side, explained: Explained) -> None:
    with st.spinner(f"Computing {explained.method} …"):
        found = predict_results.attribution(side, explained)
    names = found.prediction.names([found.target.choice])
    said = explained.target or names[0]
    rather = f" rather than “{explained.against}”" if explained.against else ""
    st.markdown(f"**Why “{plain(said)}”{plain(rather)}?** · {plain(side.model.name)}")
    views = strips(found)
    token_views(views, f"map {side.ref}", lambda chosen: None)
    st.caption(plain(in_words(found)))
    for note in found.notes:
        st.caption(plain(note))
    _check(side, explained, len(found.units))
    downloads(
        f"attribution-{explained.method}",
        table_of(found),
        lambda: [(f"Why “{said}”{rather}? {side.model.name}, {explained.method}", views)],
        lambda: bars_of(found),
        f"{explained.method} of “{said}”{rather}, {side.model.name}",
    )


def strips(found: "Attribution") -> list[View]:
    """A strip of coloured units for each stack."""
    views = []
    top = float(max(abs(found.scores), default=0.0)) or 1.0
    stacks = list(dict.fromkeys(unit.stack for unit in found.units))
    for stack in stacks:
        tokens = [
            Token(
                unit.text,
                n,
                special=unit.fixed,
                fixed=unit.fixed,
                score=None if unit.fixed else float(found.scores[n]),
                tip="not scored: it is special, or what is predicted"
                if unit.fixed
                else f"{unit.text}: {found.scores[n]:+.4f}",
            )
            for n, unit in enumerate(found.units)
            if unit.stack == stack
        ]
        views.append(
            strip(
                stack,
                f"Attribution to what the {stack} reads",
                tokens,
                pickable=False,
                top=top,
                legend=("against", "for") if stack == stacks[-1] else None,
                note=f"what the {stack} reads" if len(stacks) > 1 else "",
            )
        )
    return views


def in_words(found: "Attribution") -> str:
    """The value that is explained, and how exactly the scores sum to its change."""
    measure = found.target.measure
    difference = "difference of two " if found.target.against is not None else ""
    plural = {"logit": "logits", "probability": "probabilities"}.get(measure, "log-probabilities")
    value = f"{difference}{plural if difference else measure} {found.value:.3f}"
    if found.baseline_value is None:
        return f"Explained: {value}."
    texts = [
        f"Explained: {value}; with the baseline ({found.baseline}) {found.baseline_value:.3f}."
    ]
    change = found.value - found.baseline_value
    if found.delta is not None:
        share = abs(found.delta) / abs(change) if change else 0.0
        steps = f" with {found.steps} steps" if found.steps else ""
        texts.append(
            f"The scores sum to {change - found.delta:.3f} of {change:.3f}: convergence delta "
            f"{found.delta:+.2g} ({share:.2%}){steps}."
        )
    return " ".join(texts)


def table_of(found: "Attribution") -> pd.DataFrame:
    """The units with their scores, in reading order."""
    return pd.DataFrame(
        {
            "stack": [unit.stack for unit in found.units],
            "unit": [unit.text for unit in found.units],
            "score": found.scores,
            "fixed": [unit.fixed for unit in found.units],
        }
    )


def bars_of(found: "Attribution") -> "go.Figure":
    from workbench.figures.explanations import attribution

    return attribution({"units": table_of(found)})


# --- the check ------------------------------------------------------------------------------------


def _check(side: Side, explained: Explained, n_units: int) -> None:
    """Draw the faithfulness of a map next to random orders and attention."""
    if n_units > LONG and not st.toggle(
        "Check the map", key=f"check {side.ref}", help="Takes some seconds for a long text."
    ):
        return
    with errors_shown(), st.spinner("Checking the map …"):
        check = predict_results.faithfulness(side, explained)
        _verdict(check, side.ref)


def _verdict(check: "Faithfulness", key: str) -> None:
    """The verdict in one line, and the numbers next to those of the baselines."""
    colour = {"yes": "green", "no": "red"}.get(check.verdict, "orange")
    icon = {"yes": "check_circle", "no": "cancel"}.get(check.verdict, "help")
    words = {"yes": "faithful", "no": "not faithful"}.get(check.verdict, "undecided")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(words, icon=f":material/{icon}:", color=colour)  # type: ignore[arg-type]
        st.caption(plain(_reason(check)))
    if check.n_units < 3:
        return
    orders = {"this map": (check.comprehensiveness, check.sufficiency)}
    baselines = {"attention": check.attention, "random orders (mean)": check.random}
    orders |= {
        name: (float(each.comprehensiveness.mean()), float(each.sufficiency.mean()))
        for name, each in baselines.items()
        if each is not None
    }
    rows = [(name, high, low, high - low) for name, (high, low) in orders.items()]
    draw_columns(
        pd.DataFrame(rows, columns=list(CHECKED)), CHECKED, f"check of {key}", width="content"
    )


def _reason(check: "Faithfulness") -> str:
    if check.reason:
        return check.reason
    low, high = check.random_interval
    return (
        f"gain {check.gain:+.3f}; random orders of the words {low:+.3f} to {high:+.3f}, "
        f"p = {check.p:.2g}"
    )


# --- downloads ------------------------------------------------------------------------------------


def downloads(
    name: str,
    table: pd.DataFrame,
    blocks: Callable[[], Sequence[tuple[str, Views]]],
    figure: "Callable[[], go.Figure]",
    title: str,
) -> None:
    """Draw the table, and buttons that save it and the picture; files are made on a click."""
    from workbench.figures.sanitize import harmless
    from workbench.figures.vector import Format, picture
    from workbench.report.export import csv

    def pictured(kind: Format) -> Callable[[], bytes]:
        return lambda: picture(harmless(figure()), kind, title=title)

    with st.expander("Table and downloads", icon=":material/table:"):
        draw_table(table, f"table {title}")
        with st.container(horizontal=True):
            for label, data, mime in (
                ("CSV", lambda: csv(table), "text/csv"),
                ("SVG", pictured("svg"), "image/svg+xml"),
                ("PNG", pictured("png"), "image/png"),
                ("HTML", lambda: standalone(title, blocks()), "text/html"),
            ):
                st.download_button(
                    label,
                    data,
                    file_name=f"{name}.{label.lower()}",
                    mime=mime,
                    on_click="ignore",
                    icon=":material/download:",
                    key=f"{label} {title}",
                )
