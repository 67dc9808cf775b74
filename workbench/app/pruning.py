"""Which heads can go: four questions, of which one is open, and runs that told before.

Costs a look at the runs' statuses.
"""

import io
import zipfile
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from workbench.app import cache, run_form, tables_and_figures
from workbench.app.analysis import TABLES, Analysis, View, figure_view
from workbench.app.tables_and_figures import Column
from workbench.app.text import plain, shortened, size
from workbench.figures import pruning as drawn
from workbench.models.references import TRAINED

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.pruning.live import Live, Text
    from workbench.runs.run import Run

# --- which heads are kept -------------------------------------------------------------------------
#
# The smaller model that a run of `head-pruning` kept: how it does, and the files to take away.
#
# Costs reading tables; packing the model when it is asked for.

PACKED = "model that was packed"


def kept_model(run: "Run") -> None:
    """How it does beside the whole one, which heads it has, and the way to open it."""
    st.dataframe(tables_and_figures.table_of(run, "kept"), hide_index=True, key=f"kept {run.name}")
    tables_and_figures.view_of(run, "kept", drawn.kept)
    tables_and_figures.view_of(run, "speed", drawn.speed)
    folder = run.path / TRAINED
    if not folder.is_dir():
        st.text("The model is gone: it was removed from the run's folder.")
        return
    st.subheader("The model itself", anchor=False)
    st.code(f'import workbench as wb\nmodel = wb.load("{run.name}")', language="python")
    st.caption("Or choose the run as the model, beside any page.")
    if st.button("Pack it", icon=":material/archive:", key=f"pack {run.name}"):
        with st.spinner("Packing …"):
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
    """Every file of the model's folder, as a zip."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return made.getvalue()


# --- gates by hand --------------------------------------------------------------------------------
#
# A slider that takes heads away: losses, guesses and written text of a few sentences, both ways.
#
# Costs opening the model once, and two passes over the sentences for each place of the slider,
# which are kept.

MOST = 8  # sentences
GUESSES = 12  # of a sentence


def slider(run: "Run") -> None:
    """How many heads go, in which order, and what that does to these sentences."""
    spec = run.spec
    model, corpus = spec.models[0].ref, spec.corpora[0].ref
    if run.settings.get("task"):
        st.text(
            "The run fitted a classifier first, and kept only the smaller one: choose the run as "
            "the model to look into that."
        )
        return
    if model is None or corpus is None:
        st.text("The run was asked of objects, not of files: they cannot be opened again here.")
        return
    order = tables_and_figures.table_of(run, "order")
    ways = {}
    for (method, rescored, seed), rows in order.groupby(["method", "rescored", "seed"], sort=False):
        which = f" {int(str(seed)) + 1}" if method == "random" else ""
        ways[f"{drawn.way(str(method), bool(rescored))}{which}"] = rows
    with st.container(horizontal=True, vertical_alignment="bottom"):
        own = ways[tables_and_figures.one("Heads go", list(ways), "order", width=260)]
        first = st.number_input(
            "From sentence", 0, 999_999_999, key="sentence", bind="query-params", width=150
        )
        number = st.number_input("Sentences", 1, MOST, 3, key="several", width=130)
    places = int(own["place"].max()) + 1
    gone = st.slider("Heads gone", 0, places, key="gone", bind="query-params")
    heads = own[own["place"] < gone]
    found = _live(
        str(model), str(corpus), spec.split or "", int(first or 0), int(number or 1),
        tuple(heads[["stack", "kind", "layer", "head"]].itertuples(index=False, name=None)),
    )  # fmt: skip
    if found is None:
        st.text("There is no sentence there.")
        return
    _values(found)
    for text in found.texts:
        _text(text)


def _values(found: "Live") -> None:
    loss, right, size = found.values["loss"], found.values["accuracy"], found.parameters
    with st.container(horizontal=True):
        for label, now, change, colour in (
            (
                f"Loss, nats a {found.unit}",
                f"{loss[1]:.3f}",
                f"{loss[1] - loss[0]:+.3f}",
                "inverse",
            ),
            ("Right", f"{right[1]:.0%}", f"{100 * (right[1] - right[0]):+.0f} points", "normal"),
            ("Parameters", f"{size[1]:,}", f"{size[1] - size[0]:+,}", "off"),
        ):
            is_still = colour != "off" and not float(change.split()[0])  # then there is no arrow
            st.metric(label, now, None if is_still else change, colour, width="content")  # type: ignore[arg-type]


def _text(text: "Text") -> None:
    with st.container(border=True):
        st.markdown(f"**{plain(shortened(text.text, 400))}**")
        st.caption(
            f"loss {text.before:.3f} → {text.after:.3f}; of {text.n_predictions} guesses "
            f"{len(text.guesses)} changed"
        )
        if text.guesses:
            st.dataframe(
                pd.DataFrame(
                    [(g.gold, g.before, g.after) for g in text.guesses[:GUESSES]],
                    columns=["what stands there", "all heads", "without them"],
                ),
                hide_index=True,
            )
        if text.wrote is not None:
            for name, said in zip(("all heads", "without them"), text.wrote, strict=True):
                st.text(f"written, {name}: {' '.join(said.split())}")


@st.cache_data(max_entries=64, show_spinner="Taking heads out …")
def _live(
    model: str,
    corpus: str,
    split: str,
    first: int,
    number: int,
    gone: tuple[tuple[str, str, int, int], ...],
) -> "Live | None":
    from workbench.pruning.live import live

    named = split or next(iter(cache.corpus(corpus).splits))
    docs = cache.sentences(corpus, named, first, number)
    if not docs:
        return None
    opened = cache.model(model)
    place = {(str(s.stack), str(s.kind), s.layer): s.index for s in opened.sites}
    return live(opened, docs, [(place[stack, kind, layer], head)
                               for stack, kind, layer, head in gone])  # fmt: skip


# --- what a run on pruning found: views of it one by one, each in the address ---------------------
#
# Only the view that is open is drawn. Costs milliseconds, but for the slider.


def importance(run: "Run") -> None:
    tables_and_figures.view_of(run, "importance", drawn.importance)
    st.caption("The page Attention shows these as badges: choose the run under More.")


def side_by_side(run: "Run") -> None:
    """Importance to first order and exact ablation, and how far they agree."""
    agreement = tables_and_figures.table_of(run, "agreement")
    modes = list(agreement["mode"])
    mode = modes[0]
    if len(modes) > 1:
        mode = tables_and_figures.one("A head gives way to", modes, "mode", width=220)
    row = agreement[agreement["mode"] == mode].iloc[0]
    st.markdown(
        f"Rank correlation of the two over {row['heads']} heads: **{row['spearman']:.2f}** "
        "(Spearman). Where they disagree, the exact one is right about this head alone."
    )
    first = tables_and_figures.table_of(run, "importance")
    loss = drawn.loss_rows(tables_and_figures.table_of(run, "ablation"), mode)
    left, right = st.columns(2)
    with left:
        tables_and_figures.draw_view(
            run,
            "importance",
            drawn.grid(first, "importance", "importance"),
            "Importance: the mean absolute gradient at each head's gate.",
        )
    with right:
        tables_and_figures.draw_view(
            run,
            "ablation",
            drawn.grid(loss, "delta", "added", around=True),
            "Exact: what is added to the loss without each head.",
        )
    tables_and_figures.draw_view(
        run,
        "agreement",
        drawn.importance_and_ablation(first, loss),
        "A mark a head: far from the others, the two disagree.",
    )


AT = Column("1 % lost at", "%.0f %%", True, "Of the heads gone.")
SUMMARY = {
    "method": Column("method"),
    "seed": Column("seed"),
    "area": Column("area", "%.3f", help="The mean over all shares of heads gone."),
    "falls_1": AT,
    "falls_5": AT._replace(heading="5 % lost at"),
    "p_value": Column("p", "%.3f", help="No better than random orders."),
}


def curves(run: "Run") -> None:
    """The loss, or what is right, as heads go."""
    draws = {"loss": drawn.loss_curve, "accuracy": drawn.accuracy_curve}
    metric = st.segmented_control(
        "Score", list(draws), default="loss", required=True, key="score", bind="query-params"
    )
    tables_and_figures.view_of(run, f"curve of {metric}", draws[metric])
    summary = tables_and_figures.table_of(run, "summary")
    own = summary[summary["metric"] == metric]
    shown = own.assign(method=[*map(drawn.way, own["method"], own["rescored"])])
    tables_and_figures.draw_columns(shown, SUMMARY, f"summary {run.name}")
    tables_and_figures.view_of(run, "alone", drawn.alone)


def gates(run: "Run") -> None:
    tables_and_figures.view_of(run, "gates", drawn.gates)
    tables_and_figures.view_of(run, "survival", drawn.survival)


def roles(run: "Run") -> None:
    """What the heads that stay do, by a run of `heads`."""
    from workbench.runs.run import open_run

    there = run_form.titles("heads")
    own = run.spec.models[0]
    fitting = [name for name in there if open_run(name).spec.models[0].hash == own.hash]
    if not fitting:
        st.text("No run of heads tells what this model's heads do.")
        st.page_link("pages/heads.py", label="Ask it on the page Heads", icon=":material/science:")
        return
    name = tables_and_figures.one("Roles from", fitting, "roles", format_func=there.__getitem__)
    heads = tables_and_figures.table_of(open_run(name), "heads")
    figure = drawn.by_role(tables_and_figures.table_of(run, "gates"), heads)
    tables_and_figures.draw_view(run, "roles", figure, drawn.by_role)


QUESTIONS = {
    "Importance": "head-importance",
    "Ablation": "head-ablation",
    "Curves": "head-pruning",
    "Gates": "head-gates",
}
NO_PAIRS = "Pairs were not asked for: set pairs to layer or all."
VIEWS = {
    "head-importance": {"Importance": View(importance), "Tables": TABLES},
    "head-ablation": {
        "Side by side": View(side_by_side),
        "Pairs": figure_view("pairs", "pairs", drawn.pairs, NO_PAIRS),
        "Tables": TABLES,
    },
    "head-pruning": {
        "Curves": View(curves),
        "Live": View(slider),
        "The model kept": View(kept_model),
        "Tables": TABLES,
    },
    "head-gates": {"Gates": View(gates), "Roles": View(roles), "Tables": TABLES},
}
PRUNING = Analysis(
    "Pruning",
    "Which heads matter to first order, what exactly is lost without each, how many can go and "
    "which first, and which stay open when each must pay for it.",
    QUESTIONS,
    VIEWS,
)
