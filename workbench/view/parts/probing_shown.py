"""What a run of edge probing found: a summary, and views of it one by one, each in the address.

Only the view that is open is drawn. Costs milliseconds; two runs' tests a second, which is kept.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.view.parts import probing_views as views
from workbench.view.parts import results, tables, words
from workbench.view.parts.plain import plain
from workbench.view.parts.probing_layers import layers
from workbench.view.parts.probing_run import beside, called, is_preview, laid
from workbench.view.parts.probing_views import Looked
from workbench.view.parts.problems import told

if TYPE_CHECKING:
    from workbench.runs.run import Run

VIEWS = {
    "Layers": layers,
    "Pipeline": views.pipeline,
    "Mix": views.mix,
    "Confusion": views.confusion,
    "Examples": views.examples,
    "Controls": views.controls,
    "Tables": views.all_tables,
}
COLUMNS = {
    "task": "task",
    "probe": "probe",
    "stack": "stack",
    "best_layer": "best layer",
    "best_score": "F1",
    "interval": "95 %",
    "baseline_lexical": "layer 0",
    "baseline_no_positions": "no positions",
    "baseline_static": "static",
    "baseline_random": "random",
    "baseline_majority": "majority",
    "selectivity": "selectivity",
    "data_gain": "gain of twice the data",
    "expected_layer": "expected layer",
    "centre_of_gravity": "centre of gravity",
    "n": "targets",
}  # of the summary: its names, and what they are called here
ALWAYS = ("preview", "Preset quick", "did not learn", "still improving", "More training targets")
SHARES = [name for name in COLUMNS if name.startswith("baseline")]
SHARES += ["selectivity", "data_gain"]


def show(run: "Run") -> None:
    """A run that is done."""
    own = laid(run)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(plain(results.title(run)), anchor=False, width="content")
        words.state(run.status.state)
        if is_preview(run):
            st.badge("preview", icon=":material/bolt:", color="orange")
        elif run.spec.settings.get("preset") == "quick":
            st.badge("quick", icon=":material/bolt:", color="orange")
    words.facts([("run", run.name), ("asked", words.ago(run.status.created))])
    results.caveats(run, ALWAYS)
    _summary(run)
    other = beside(run)
    names = called(run), called(other) if other else ""
    if other and names[0] == names[1]:
        names = f"{names[0]} ({_tail(run)})", f"{names[1]} ({_tail(other)})"
    looked = Looked(
        run,
        laid(run, names[0]) if other else own,
        other,
        laid(other, names[1]) if other else None,
    )
    tabs = st.tabs(list(VIEWS), key="view", bind="query-params")
    for tab, view in zip(tabs, VIEWS.values(), strict=True):
        if tab.open:
            with tab, told():
                view(looked)


def _tail(run: "Run") -> str:
    return run.name.rpartition("-")[2][:6]


def _summary(run: "Run") -> None:
    """A line a task: its best layer, what stands beside it, and where it is found."""
    table = tables.of(run, "summary").copy()
    ends = zip(table["lower"], table["upper"], strict=True)
    table["interval"] = [f"{100 * low:.1f}–{100 * high:.1f}" for low, high in ends]
    for name in (*SHARES, "best_score"):
        if name in table:
            table[name] *= 100
    single = [name for name in ("probe", "stack") if table[name].nunique() < 2]
    empty = [name for name in COLUMNS if name in table and table[name].isna().all()]
    kept = [name for name in COLUMNS if name in table and name not in (*single, *empty)]
    config = {COLUMNS[name]: st.column_config.NumberColumn(format="%.1f") for name in SHARES}
    config["F1"] = st.column_config.NumberColumn(format="%.1f")
    for name in ("expected layer", "centre of gravity"):
        config[name] = st.column_config.NumberColumn(format="%.2f")
    st.dataframe(
        table[kept].rename(columns=COLUMNS),
        hide_index=True,
        height=min(len(table) + 1, 17) * 35 + 3,
        column_config=config,
        placeholder="–",
        key=f"summary {run.name}",
    )
    st.caption(
        "F1 in per cent of the best layer, beside layer 0 and what needs no model or none that has "
        "learnt. Selectivity: how much more than on labels drawn by word type. Gain of "
        "twice the data: the most that any layer scores more than with half of its targets."
    )
