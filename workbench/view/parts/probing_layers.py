"""Curves by layer, with baselines and what was published; and two runs' best layers, tested.

Costs milliseconds; a test of two runs about a second, which is kept.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from workbench.view.parts import figures
from workbench.view.parts import probing_curves as curves
from workbench.view.parts.plain import plain
from workbench.view.parts.probing_views import Looked, draw, published_chosen, tasks_shown
from workbench.view.probing import SOURCE, true

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs.run import Run

MODES = {"each layer": "layer", "mix up to each layer": "cumulative"}
NONE = "none"


def layers(looked: Looked) -> None:
    """The curves of some tasks, and what is laid beside and beneath them."""
    there = set(true(looked.own.means)["mode"])
    modes = [words for words, mode in MODES.items() if mode in there]
    if not modes:
        st.text(
            "This run has no curve: it was asked neither for each layer nor for mixes up to it."
        )
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        tasks = tasks_shown(looked)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        picked = st.segmented_control(
            "What a probe reads",
            modes,
            default=modes[0],
            required=True,
            key="mode",
            bind="query-params",
        )
        words = picked if picked in modes else modes[0]
        lines = st.selectbox(
            "Baselines of", [NONE, *tasks], key="baselines", bind="query-params", width=190
        )
        beneath = published_chosen()
    runs = [looked.own, *([looked.other] if looked.other else [])]
    figure = curves.layers(
        runs,
        tasks,
        MODES[words],
        figures.kind(),
        lines if lines in tasks else "",
        beneath if beneath in curves.NAMES else NONE,
    )
    about = f"F1 by layer ({words}), with 95 % intervals of sentences and seeds drawn again."
    if len({run.deepest for run in runs}) > 1:
        about += " The models have other numbers of layers, so the axis is depth."
    draw(looked, figure, about, "layers")
    _told_beneath(beneath, tasks, runs)
    if looked.second is not None and looked.other is not None:
        names = looked.own.name, looked.other.name
        _compared(looked.run, looked.second, names, tasks, MODES[words])


def _told_beneath(beneath: str, tasks: list[str], runs: list[curves.Laid]) -> None:
    """What lies beneath, and how it may be read."""
    if beneath not in curves.NAMES:
        return
    found = curves.laid_beneath(beneath, tasks)
    if not found:
        st.caption("Nothing was published of these tasks.")
        return
    axis = (
        " The models have other numbers of layers, so the axis is depth."
        if {run.deepest for run in runs} != {12 if beneath == "bert-base" else 24}
        else ""
    )
    st.caption(
        f"Thin broken lines: {curves.NAMES[beneath]} in {SOURCE}; of {plain(', '.join(found))}. "
        "Its probes were trained and scored on other corpora: compare where a curve rises, not how "
        "high it lies." + axis
    )


def _compared(
    first: "Run", second: "Run", called: tuple[str, str], tasks: list[str], mode: str
) -> None:
    """The best layers of two runs in one mode, and whether they differ."""
    st.subheader("The best layers, side by side", anchor=False)
    table = _between(
        str(first.path), first.status.ended, str(second.path), second.status.ended
    ).copy()
    table = table[table["task"].isin(tasks) & (table["mode"] == mode)]
    if table.empty:
        st.text("The other run has none of these tasks in this mode.")
        return
    names = {"first": f"A: {called[0]}", "second": f"B: {called[1]}"}
    for column in ("first", "second", "difference", "lower", "upper"):
        table[column] *= 100
    shares = st.column_config.NumberColumn(format="%.1f")
    signed = st.column_config.NumberColumn(format="%+.1f")
    columns = "task probe first first_layer second second_layer difference lower upper p_value"
    if table["probe"].nunique() < 2:
        columns = columns.replace("probe ", "")
    headings = {"first_layer": "A's layer", "second_layer": "B's layer", "difference": "B − A",
              "lower": "from", "upper": "to", "p_value": "p", **names}  # fmt: skip
    st.dataframe(
        table[columns.split()].rename(columns=headings),
        hide_index=True,
        height=min(len(table) + 1, 16) * 35 + 3,
        column_config={
            **dict.fromkeys(names.values(), shares),
            **dict.fromkeys(("B − A", "from", "to"), signed),
            "p": st.column_config.NumberColumn(format="%.3f"),
        },
        placeholder="–",
        key=f"between {first.name} {second.name}",
    )
    st.caption(
        "F1 in per cent, of the seeds that both have. The difference with its 95 % interval, and a "
        "two-sided p-value from the same sentences drawn again for both, not corrected for the "
        "number of rows; both are empty where the targets differ. The best layers are chosen on "
        "these very sentences."
    )


@st.cache_data(max_entries=16, show_spinner="Drawing sentences again …")
def _between(first: str, first_ended: str, second: str, second_ended: str) -> "pd.DataFrame":
    from probes.between import between
    from workbench.runs.run import Run

    one, other = Run(Path(first)), Run(Path(second))
    return between(
        one.tables["scores"],
        one.arrays["counts"],
        one.arrays["sentences"],
        other.tables["scores"],
        other.arrays["counts"],
        other.arrays["sentences"],
    )
