"""Which heads can go: four questions, of which one is open, and runs that told before.

Costs a look at the runs' statuses.
"""

import io
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.app import cache, run_form, run_view, tables_and_figures
from workbench.app.tables_and_figures import View
from workbench.app.text import plain, shortened, size
from workbench.core.experiment import Experiment
from workbench.figures import pruning as drawn
from workbench.models.references import TRAINED

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.pruning.live import Live, Text
    from workbench.runs.run import Run

QUESTIONS = {
    "Importance": "head-importance",
    "Ablation": "head-ablation",
    "Curves": "head-pruning",
    "Gates": "head-gates",
}


def experiment() -> Experiment[Any]:
    """The question that is open."""
    return run_form.chosen(QUESTIONS, "pruning")


def opened(kind: Experiment[Any]) -> "Run | None":
    """The run in the address; what is none of this question is said."""
    return run_form.opened_or_told(kind, f"the experiment {kind.name}")


def choose(kind: Experiment[Any], opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    run_form.choose(kind.name, opened)


# --- which heads are kept -------------------------------------------------------------------------
#
# The smaller model that a run of `head-pruning` kept: how it does, and the files to take away.
#
# Costs reading tables; packing the model when it is asked for.

PACKED = "model that was packed"


def kept_model(run: "Run") -> None:
    """How it does beside the whole one, which heads it has, and the way to open it."""
    from workbench.figures.sanitize import harmless
    from workbench.report.content import Drawing

    st.dataframe(tables_and_figures.table_of(run, "kept"), hide_index=True, key=f"kept {run.name}")
    for name, draw in (("kept", drawn.kept), ("speed", drawn.speed)):
        figure = draw(
            {table: tables_and_figures.table_of(run, table) for table in ("heads", "speed")}
        )
        about = " ".join((draw.__doc__ or "").split())
        tables_and_figures.draw_figure(Drawing(name, about, harmless(figure)), f"{name} {run.name}")
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
    if spec.settings.get("task"):
        st.text(
            "The run fitted a classifier first, and kept only the smaller one: choose the run as "
            "the model to look into that."
        )
        return
    if model is None or corpus is None:
        st.text("The run was asked of objects, not of files: they cannot be opened again here.")
        return
    order = tables_and_figures.table_of(run, "order")
    ways = order[["method", "rescored", "seed"]].drop_duplicates().to_dict("records")
    names = [
        drawn.way(way["method"], way["rescored"])
        + (f" {way['seed'] + 1}" if way["method"] == "random" else "")
        for way in ways
    ]  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Heads go", names, key="order", bind="query-params", width=260)
        first = st.number_input(
            "From sentence", 0, 999_999_999, key="sentence", bind="query-params", width=150
        )
        number = st.number_input("Sentences", 1, MOST, 3, key="several", width=130)
    way = ways[names.index(name) if name in names else 0]
    own = order[(order[list(way)] == list(way.values())).all(axis=1)]
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
    loss, right = found.values["loss"], found.values["accuracy"]
    with st.container(horizontal=True):
        st.metric(
            f"Loss, nats a {found.unit}", f"{loss[1]:.3f}", _change(loss[1] - loss[0], "+.3f"),
            delta_color="inverse", width="content",
        )  # fmt: skip
        st.metric(
            "Right", f"{right[1]:.0%}", _change(100 * (right[1] - right[0]), "+.0f", " points"),
            width="content",
        )  # fmt: skip
        st.metric(
            "Parameters", f"{found.parameters[1]:,}",
            f"{found.parameters[1] - found.parameters[0]:+,}", delta_color="off", width="content",
        )  # fmt: skip


def _change(value: float, form: str, unit: str = "") -> str | None:
    """None where nothing changed, which then has no arrow."""
    told = format(value, form)
    return f"{told}{unit}" if float(told) else None


def _text(text: "Text") -> None:
    with st.container(border=True):
        st.markdown(f"**{plain(shortened(text.text, 400))}**")
        st.caption(
            f"loss {text.before:.3f} → {text.after:.3f}; of {text.asked} guesses "
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


def show(run: "Run") -> None:
    """A run that is done."""
    run_view.heading(run)
    run_view.caveats(run)
    tables_and_figures.show(run, VIEWS[run.spec.experiment])


def importance(run: "Run") -> None:
    tables_and_figures.view_of(run, "importance", drawn.importance)
    st.caption("The page Attention shows these as badges: choose the run under More.")


def side_by_side(run: "Run") -> None:
    """Importance to first order and exact ablation, and how far they agree."""
    agreement, exact = (
        tables_and_figures.table_of(run, "agreement"),
        tables_and_figures.table_of(run, "ablation"),
    )
    modes = list(agreement["mode"])
    mode = modes[0]
    if len(modes) > 1:
        picked = st.selectbox(
            "A head gives way to", modes, key="mode", bind="query-params", width=220
        )
        mode = picked if picked in modes else mode
    row = agreement[agreement["mode"] == mode].iloc[0]
    st.markdown(
        f"Rank correlation of the two over {row['heads']} heads: **{row['spearman']:.2f}** "
        "(Spearman). Where they disagree, the exact one is right about this head alone."
    )
    first, loss = tables_and_figures.table_of(run, "importance"), drawn.lost(exact, mode)
    left, right = st.columns(2)
    with left:
        grid = drawn.grid(first, "importance", "importance")
        tables_and_figures.draw_view(run, "importance", grid,
              "Importance: the mean absolute gradient at each head's gate.")  # fmt: skip
    with right:
        grid = drawn.grid(loss, "delta", "added", around=True)
        tables_and_figures.draw_view(run, "ablation", grid,
              "Exact: what is added to the loss without each head.")  # fmt: skip
    tables_and_figures.draw_view(run, "agreement", drawn.beside(first, loss),
          "A mark a head: far from the others, the two disagree.")  # fmt: skip


def pairs(run: "Run") -> None:
    if "pairs" not in run.tables:
        st.text("Pairs were not asked for: set pairs to layer or all.")
        return
    tables_and_figures.view_of(run, "pairs", drawn.pairs)


def curves(run: "Run") -> None:
    """The loss, or what is right, as heads go."""
    table = tables_and_figures.table_of(run, "curve")
    metric = st.segmented_control(
        "Score", ["loss", "accuracy"], default="loss", required=True, key="score",
        bind="query-params",
    )  # fmt: skip
    about = drawn.loss_curve.__doc__ if metric == "loss" else drawn.accuracy_curve.__doc__
    tables_and_figures.draw_view(
        run, f"curve of {metric}", drawn.curves(table, str(metric)), str(about)
    )
    summary = tables_and_figures.table_of(run, "summary")
    own = summary[summary["metric"] == metric]
    shown = own.assign(
        method=[*map(drawn.way, own["method"], own["rescored"])],
        falls_1=100 * own["falls_1"],
        falls_5=100 * own["falls_5"],
    )  # fmt: skip
    number = st.column_config.NumberColumn
    columns = ["method", "seed", "area", "falls_1", "falls_5"]
    columns += ["p_value"] if "p_value" in shown else []  # not in runs of an earlier version
    st.dataframe(
        shown[columns],
        hide_index=True,
        column_config={
            "area": number("area", format="%.3f", help="The mean over all shares of heads gone."),
            "falls_1": number("1 % lost at", format="%.0f %%", help="Of the heads gone."),
            "falls_5": number("5 % lost at", format="%.0f %%", help="Of the heads gone."),
            "p_value": number("p", format="%.3f", help="No better than random orders."),
        },
        key=f"summary {run.name}",
    )
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
    name = st.selectbox(
        "Roles from", fitting, format_func=there.__getitem__, key="roles", bind="query-params"
    )
    heads = tables_and_figures.table_of(open_run(name if name in fitting else fitting[0]), "heads")
    about = "Heads of each role that stay at each price or budget, as Voita et al. (2019) have it."
    tables_and_figures.draw_view(
        run, "roles", drawn.by_role(tables_and_figures.table_of(run, "gates"), heads), about
    )


def all_tables(run: "Run") -> None:
    """Every table, and what leaves the app as a file."""
    run_view.every_table(run)


VIEWS: Mapping[str, Mapping[str, View]] = {
    "head-importance": {"Importance": importance, "Tables": all_tables},
    "head-ablation": {"Side by side": side_by_side, "Pairs": pairs, "Tables": all_tables},
    "head-pruning": {
        "Curves": curves,
        "Live": slider,
        "The model kept": kept_model,
        "Tables": all_tables,
    },
    "head-gates": {"Gates": gates, "Roles": roles, "Tables": all_tables},
}
