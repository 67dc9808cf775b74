"""The page Pruning: four analyses of which heads matter, and views of their runs.

Costs: one look at the status file of each run.
"""

import io
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.analyses.pruning import figures as drawn
from workbench.analyses.pruning.findings import DROPS, best_order, removable, way
from workbench.app import cache, navigation, tables_and_figures
from workbench.app.runs import run_form
from workbench.app.runs.result_page import ResultPage, View, figure_view
from workbench.app.tables_and_figures import Column
from workbench.app.text import plain, shortened, size
from workbench.core.findings import of_all, percent, rows_of
from workbench.models.references import TRAINED

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.analyses.pruning.live import Live, Text
    from workbench.runs.run import Run

# --- the pruned model -----------------------------------------------------------------------------
#
# The smaller model that a run of `head-pruning` saved: its scores, and a zip of its files.

PACKED = "model that was packed"


def pruned_model(run: "Run") -> None:
    """Draw the pruned model's scores, its heads, its speed, and how to load it."""
    st.dataframe(tables_and_figures.table_of(run, "kept"), hide_index=True, key=f"kept {run.name}")
    tables_and_figures.view_of(run, "kept", drawn.kept)
    tables_and_figures.view_of(run, "speed", drawn.speed)
    folder = run.path / TRAINED
    if not folder.is_dir():
        st.text("The model was removed from the run's folder.")
        return
    st.subheader("Use the model", anchor=False)
    st.code(f'import workbench as wb\nmodel = wb.load("{run.name}")', language="python")
    st.caption("You can also choose this run as the model in the top bar.")
    if st.button("Create zip", icon=":material/archive:", key=f"pack {run.name}"):
        with st.spinner("Creating the zip …"):
            st.session_state[PACKED] = (run.name, _packed(folder))
    packed = st.session_state.get(PACKED)
    if packed is not None and packed[0] == run.name:
        st.download_button(
            plain(f"Save {run.name}.zip ({size(len(packed[1]))})"),
            packed[1],
            file_name=f"{run.name}.zip",
            mime="application/zip",
            on_click="ignore",
            type="primary",
            icon=":material/download:",
        )


def _packed(folder: "Path") -> bytes:
    """The bytes of a zip of all files in the model's folder."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return buffer.getvalue()


# --- live pruning ---------------------------------------------------------------------------------
#
# A slider that removes heads: loss, predictions and generated text of a few sentences, with all
# heads and without. Costs: loading the model once, and two passes over the sentences for each
# position of the slider, which are cached.

MAX_SENTENCES = 8
PREDICTIONS = 12  # of a sentence


def slider(run: "Run") -> None:
    """Draw a slider for the number of removed heads, and its effect on some sentences."""
    spec = run.spec
    model, corpus = spec.models[0].ref, spec.corpora[0].ref
    if run.settings.get("task"):
        st.text(
            "The run trained a classifier first and saved only the pruned one. To inspect that "
            "model, choose this run in the top bar."
        )
        return
    if model is None or corpus is None:
        st.text("The run's model or corpus is a Python object, which cannot be opened again.")
        return
    orders = _orders(run)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        order = orders[tables_and_figures.select("Order", list(orders), "order", width=260)]
        first = st.number_input(
            "First sentence", 0, 999_999_999, key="sentence", bind="query-params", width=150
        )
        count = st.number_input("Sentences", 1, MAX_SENTENCES, 3, key="several", width=130)
    n_heads = len(order)
    n_removed = st.slider(
        f"Removed heads, of {n_heads}", 0, n_heads, key="gone", bind="query-params"
    )
    heads = removed_heads(order, n_removed)
    if len(heads) < n_removed:
        st.caption(f"{len(heads)} are removed: some heads can only go together.")
    st.caption(_how_it_differs(run, next(iter(orders))))
    result = _live(
        str(model), str(corpus), spec.corpora[0].options, spec.split or "",
        int(first or 0), int(count or 1),
        tuple(heads[["stack", "kind", "layer", "head"]].itertuples(index=False, name=None)),
    )  # fmt: skip
    if result is None:
        st.text("There is no sentence with this number.")
        return
    _values(result)
    for text in result.texts:
        _text(text)


def _orders(run: "Run") -> dict[str, pd.DataFrame]:
    """The rows of each order of removal by its name, that of the first finding first."""
    table = tables_and_figures.table_of(run, "order")
    best = best_order(tables_and_figures.table_of(run, "summary"))
    keys = ["method", "rescored", "seed"]
    first = best and tuple(best[key] for key in keys)
    orders = {}
    for key, rows in sorted(table.groupby(keys, sort=False), key=lambda each: each[0] != first):
        method, rescored, seed = key
        suffix = f" {int(str(seed)) + 1}" if method == "random" else ""
        orders[f"{way(str(method), bool(rescored))}{suffix}"] = rows
    return orders


def removed_heads(order: pd.DataFrame, n_removed: int) -> pd.DataFrame:
    """The first heads of an order, at most so many; heads of one place can only go together."""
    at = order.groupby("place")["place"].size().sort_index().cumsum()
    return order[order["place"].map(at) <= n_removed]


def _how_it_differs(run: "Run", first: str) -> str:
    """Why the numbers here are not those of the finding."""
    n = int(tables_and_figures.table_of(run, "baseline")["n"].iloc[0])
    return (
        f"The finding removes heads in the order “{first}”, which is the first one here, and has "
        "its "
        f"loss from {n:,} held-out texts. Here are the sentences that you choose."
    )


def _values(result: "Live") -> None:
    (_, loss), (name, right) = result.values.items()
    size = result.parameters
    with st.container(horizontal=True):
        for label, value, change, colour in (
            (
                f"Loss on {result.measured} (nats per {result.unit})",
                f"{loss[1]:.3f}",
                f"{loss[1] - loss[0]:+.3f}",
                "inverse",
            ),
            (
                f"{name[0].upper()}{name[1:]}",
                percent(right[1]),
                f"{100 * (right[1] - right[0]):+.0f} points",
                "normal",
            ),
            ("Parameters", f"{size[1]:,}", f"{size[1] - size[0]:+,}", "off"),
        ):
            unchanged = not any(digit in change for digit in "123456789")  # then there is no arrow
            st.metric(label, value, None if unchanged else change, colour, width="content")  # type: ignore[arg-type]


def _text(text: "Text") -> None:
    with st.container(border=True):
        st.markdown(f"**{plain(shortened(text.text, 400))}**")
        st.caption(
            f"Loss {text.before:.3f} → {text.after:.3f}; "
            f"{of_all(len(text.guesses), text.n_predictions, 'prediction')} changed."
        )
        if text.guesses:
            st.dataframe(
                pd.DataFrame(
                    [(g.gold, g.before, g.after) for g in text.guesses[:PREDICTIONS]],
                    columns=["correct", "all heads", "pruned"],
                ),
                hide_index=True,
            )
        if text.wrote is not None:
            for name, output in zip(("all heads", "pruned"), text.wrote, strict=True):
                st.text(f"Generated, {name}: {' '.join(output.split())}")


@st.cache_data(max_entries=64, show_spinner="Removing heads …")
def _live(
    model: str,
    corpus: str,
    reading: Mapping[str, Any],
    split: str,
    first: int,
    count: int,
    removed: tuple[tuple[str, str, int, int], ...],
) -> "Live | None":
    from workbench.analyses.pruning.live import live

    split = split or next(iter(cache.corpus(corpus, reading).splits))
    docs = cache.sentences(corpus, split, first, count, reading)
    if not docs:
        return None
    loaded = cache.model(model)
    site = {(str(s.stack), str(s.kind), s.layer): s.index for s in loaded.sites}
    return live(loaded, docs, [(site[stack, kind, layer], head)
                               for stack, kind, layer, head in removed])  # fmt: skip


# --- views ----------------------------------------------------------------------------------------
#
# Costs: milliseconds, except for the slider.


def importance(run: "Run") -> None:
    tables_and_figures.view_of(run, "importance", drawn.importance)
    st.caption("The page Attention shows these scores as badges: choose this run under More.")


def side_by_side(run: "Run") -> None:
    """Draw first-order importance and exact ablation, and how well they agree."""
    agreement = tables_and_figures.table_of(run, "agreement")
    modes = list(agreement["mode"])
    mode = modes[0]
    if len(modes) > 1:
        mode = tables_and_figures.select("Head replaced by", modes, "mode", width=220)
    row = agreement[agreement["mode"] == mode].iloc[0]
    st.markdown(
        f"Rank correlation over {row['heads']} heads: **{row['spearman']:.2f}** (Spearman). If the "
        "two disagree, the exact ablation is right for the removal of this head alone."
    )
    tables = {
        name: tables_and_figures.table_of(run, name)
        for name in ("importance", "ablation", "baseline", "objective")
    }
    tables_and_figures.draw_view(run, "ablation", drawn.ablation(tables, mode), drawn.ablation)
    tables_and_figures.view_of(run, "importance", drawn.importance, tables)
    tables_and_figures.draw_view(run, "agreement", drawn.agreement(tables, mode), drawn.agreement)


LOST = Column(
    "heads for 1 %",
    "%d",
    help="Heads that can be removed before 1 % is lost, of the numbers tried.",
)
SUMMARY = {
    "method": Column("method"),
    "seed": Column("seed"),
    "area": Column("area", "%.3f", help="Mean score over all shares of removed heads."),
    "falls_1": LOST,
    "falls_5": LOST._replace(
        heading="heads for 5 %",
        help="Heads that can be removed before 5 % is lost, of the numbers tried.",
    ),
    "p_value": Column(
        "p",
        "%.3f",
        help="p-value of the test that this order of removal is better than random orders.",
    ),
}


def curves(run: "Run") -> None:
    """Draw the loss or the accuracy by the number of removed heads."""
    metrics = tables_and_figures.table_of(run, "curve")["metric"].unique().tolist()
    draws = dict(zip(metrics, (drawn.loss_curve, drawn.accuracy_curve), strict=True))
    metric = st.segmented_control(
        "Score", list(draws), default="loss", required=True, key="score", bind="query-params"
    )
    tables_and_figures.view_of(run, f"curve of {metric}", draws[metric])
    summary = tables_and_figures.table_of(run, "summary")
    rows = summary[summary["metric"] == metric]
    steps = rows_of(tables_and_figures.table_of(run, "curve").query("metric == @metric"))
    shown = rows.assign(
        method=[*map(way, rows["method"], rows["rescored"])],
        **{
            column: [removable(steps, row, drop, metric) for row in rows_of(rows)]
            for column, drop in zip(("falls_1", "falls_5"), DROPS, strict=True)
        },
    )
    tables_and_figures.draw_columns(shown, SUMMARY, f"summary {run.name}")
    tables_and_figures.view_of(run, "alone", drawn.alone)


def gates(run: "Run") -> None:
    tables_and_figures.view_of(run, "gates", drawn.gates)
    tables_and_figures.view_of(run, "survival", drawn.survival)


def roles(run: "Run") -> None:
    """Draw the roles of the heads whose gates stay open, from a run of `heads`."""
    from workbench.runs.run import open_run

    titles = run_form.titles("heads")
    model = run.spec.models[0]
    matches = [name for name in titles if open_run(name).spec.models[0].hash == model.hash]
    if not matches:
        st.text("There is no run of heads for this model, so the roles of its heads are unknown.")
        navigation.link("heads", "Run it on the page Heads", icon=":material/science:")
        return
    name = tables_and_figures.select("Roles from", matches, "roles", format_func=titles.__getitem__)
    heads = tables_and_figures.table_of(open_run(name), "heads")
    figure = drawn.by_role(tables_and_figures.table_of(run, "gates"), heads)
    tables_and_figures.draw_view(run, "roles", figure, drawn.by_role)


ANALYSES = {
    "Importance": "head-importance",
    "Ablation": "head-ablation",
    "Curves": "head-pruning",
    "Gates": "head-gates",
}
NO_PAIRS = "Pairs of heads were not ablated. Run it again with pairs set to layer or all."
VIEWS = {
    "head-importance": {"Importance": View(importance)},
    "head-ablation": {
        "Importance and ablation": View(side_by_side),
        "Pairs": figure_view("pairs", "pairs", drawn.pairs, NO_PAIRS),
    },
    "head-pruning": {
        "Curves": View(curves),
        "Live": View(slider),
        "Pruned model": View(pruned_model),
    },
    "head-gates": {"Gates": View(gates), "Roles": View(roles)},
}
PRUNING = ResultPage(
    "Pruning",
    "Which heads matter, and how many can you remove?",
    ANALYSES,
    VIEWS,
)
