"""What a run on pruning found: views of it one by one, each in the address.

Only the view that is open is drawn. Costs milliseconds, but for the slider.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from workbench.view import pruning as drawn
from workbench.view.parts import earlier, results, tables, views
from workbench.view.parts.pruning_kept import kept_model
from workbench.view.parts.pruning_live import slider
from workbench.view.parts.views import View

if TYPE_CHECKING:
    from workbench.runs.run import Run


def show(run: "Run") -> None:
    """A run that is done."""
    results.heading(run)
    results.caveats(run)
    views.show(run, VIEWS[run.spec.experiment])


def importance(run: "Run") -> None:
    views.of(run, "importance", drawn.importance)
    st.caption("The page Attention shows these as badges: choose the run under More.")


def side_by_side(run: "Run") -> None:
    """Importance to first order and exact ablation, and how far they agree."""
    agreement, exact = tables.of(run, "agreement"), tables.of(run, "ablation")
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
    first, loss = tables.of(run, "importance"), drawn.lost(exact, mode)
    left, right = st.columns(2)
    with left:
        views.draw(run, "importance", drawn.grid(first, "importance", "importance"),
              "Importance: the mean absolute gradient at each head's gate.")  # fmt: skip
    with right:
        views.draw(run, "ablation", drawn.grid(loss, "delta", "added", around=True),
              "Exact: what is added to the loss without each head.")  # fmt: skip
    views.draw(run, "agreement", drawn.beside(first, loss),
          "A mark a head: far from the others, the two disagree.")  # fmt: skip


def pairs(run: "Run") -> None:
    if "pairs" not in run.tables:
        st.text("Pairs were not asked for: set pairs to layer or all.")
        return
    views.of(run, "pairs", drawn.pairs)


def curves(run: "Run") -> None:
    """The loss, or what is right, as heads go."""
    table = tables.of(run, "curve")
    metric = st.segmented_control(
        "Score", ["loss", "accuracy"], default="loss", required=True, key="score",
        bind="query-params",
    )  # fmt: skip
    about = drawn.curve.__doc__ if metric == "loss" else drawn.accuracy.__doc__
    views.draw(run, f"curve of {metric}", drawn.curves(table, str(metric)), str(about))
    summary = tables.of(run, "summary")
    own = summary[summary["metric"] == metric]
    shown = own.assign(
        method=[drawn.NAMES[name] + (", rescored" if again else "")
                for name, again in zip(own["method"], own["rescored"], strict=True)],
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
    views.of(run, "alone", drawn.alone)


def gates(run: "Run") -> None:
    views.of(run, "gates", drawn.gates)
    views.of(run, "survival", drawn.survival)


def roles(run: "Run") -> None:
    """What the heads that stay do, by a run of `heads`."""
    from workbench.runs.run import open_run

    there = earlier.titles("heads")
    own = run.spec.models[0]
    fitting = [name for name in there if open_run(name).spec.models[0].hash == own.hash]
    if not fitting:
        st.text("No run of heads tells what this model's heads do.")
        st.page_link("pages/heads.py", label="Ask it on the page Heads", icon=":material/science:")
        return
    name = st.selectbox(
        "Roles from", fitting, format_func=there.__getitem__, key="roles", bind="query-params"
    )
    heads = tables.of(open_run(name if name in fitting else fitting[0]), "heads")
    about = "Heads of each role that stay at each price or budget, as Voita et al. (2019) have it."
    views.draw(run, "roles", drawn.by_role(tables.of(run, "gates"), heads), about)


def all_tables(run: "Run") -> None:
    """Every table, and what leaves the app as a file."""
    results.every_table(run)


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
