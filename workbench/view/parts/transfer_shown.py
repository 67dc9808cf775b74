"""What a run on transfer found: views of it one by one, each in the address.

Only the view that is open is drawn. Costs milliseconds, but for trying a sentence.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.experiment import EXPERIMENTS
from workbench.view import (
    transfer_drift,
    transfer_learning,
    transfer_pretraining,
    transfer_scores,
)
from workbench.view.parts import forms, results, tables, views, words
from workbench.view.parts.transfer_beside import beside
from workbench.view.parts.transfer_trying import trying
from workbench.view.parts.views import View
from workbench.view.transfer import delta

if TYPE_CHECKING:
    import pandas as pd

    from workbench.runs.run import Run

EVERY = "all pairs"
SEEDS = "Fewer than three seeds"
MISSING = {
    "heads": "Attention was not compared: the model has no heads, or the two read other pieces.",
    "losses": "What it forgot is not known: the two are no language models of the same kind.",
    "rewound": "Layers were not put back: name a model that finetune has kept as the second, and "
    "the corpus of its task.",
    "sizes": "There is one size alone.",
    "probing": "Probes were not asked for: set probe, which takes minutes.",
}


def show(run: "Run") -> None:
    """A run that is done."""
    results.heading(run)
    if chosen := _chosen(run):
        words.facts([("with", chosen)])
    results.caveats(run, (SEEDS,))
    views.show(run, VIEWS[run.spec.experiment])


def _chosen(run: "Run") -> str:
    """What was set otherwise than by default: runs of one model differ in little else."""
    own = forms.chosen(EXPERIMENTS[run.spec.experiment], run.spec.settings)
    return ", ".join(
        f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in own.items()
    )


def who_gains(run: "Run") -> None:
    """The table of Peters et al. (2019), as a picture and in numbers."""
    views.of(run, "delta", delta)
    tables.draw(tables.of(run, "delta"), f"delta {run.name}")


def scores(run: "Run") -> None:
    views.of(run, "scores", transfer_scores.scores)


def cost(run: "Run") -> None:
    """What each way costs, as a picture and in numbers."""
    views.of(run, "cost", transfer_scores.cost)
    there = {name: tables.of(run, name) for name in ("scores", "epochs")}
    tables.draw(transfer_scores.costs(there), f"cost {run.name}")


def curves(run: "Run") -> None:
    """Of one task, and one model or all."""
    parts = {name: tables.of(run, name) for name in ("learning", "epochs")}
    with st.container(horizontal=True):
        chosen = {
            "task": _one(parts["learning"], "task", "task", "Task"),
            "model": _one(parts["learning"], "model", "adapted", "Model adapted"),
        }
    own = {name: _rows(table, chosen) for name, table in parts.items()}
    views.of(run, "learning", transfer_learning.learning, own)
    views.of(run, "epochs", transfer_learning.epochs, own)


def _one(table: "pd.DataFrame", column: str, key: str, label: str) -> str:
    """A value of a column; a box where there are several."""
    there = [str(value) for value in dict.fromkeys(table[column])]
    if len(there) == 1:
        return there[0]
    picked = st.selectbox(label, there, key=key, bind="query-params", width=240)
    return picked if picked in there else there[0]


def _rows(table: "pd.DataFrame", chosen: Mapping[str, str]) -> "pd.DataFrame":
    return table[(table[list(chosen)] == list(chosen.values())).all(axis=1)]


def by_seed(run: "Run") -> None:
    """Scores, and what was thought of each text."""
    views.of(run, "scores by seed", transfer_scores.by_seed)
    st.subheader("What was thought of each text", anchor=False)
    table = tables.of(run, "predictions")
    if st.toggle("Only what is wrong", key="wrong", bind="query-params"):
        table = table[table["gold"] != table["guess"]]
    shown = table[["said", "gold", "guess", "seed"]]
    tables.draw(shown.rename(columns={"said": "text"}), f"predictions {run.name}")


def curves_of_one(run: "Run") -> None:
    views.of(run, "learning", transfer_learning.learning)
    views.of(run, "epochs", transfer_learning.epochs)


def alike(run: "Run") -> None:
    """Layers by layers: all pairs of models, or one of them, which a narrow screen has room for."""
    table = tables.of(run, "similarity")
    pairs = {
        f"{first} × {second}": own
        for (first, second), own in table.groupby(["model_a", "model_b"], sort=False)
    }
    picked = EVERY
    if len(pairs) > 1:
        picked = st.selectbox("Models", [EVERY, *pairs], key="pair", bind="query-params", width=400)
    one = {"similarity": pairs.get(picked, table)}
    views.of(run, "similarity", transfer_drift.similarity, one)


def _part(name: str, draw: Any) -> View:
    """A view that is one figure of a table that may be missing."""

    def view(run: "Run") -> None:
        if name in run.tables:
            views.of(run, name, draw)
        else:
            st.text(MISSING.get(name, "There is no such table in this run."))

    return view


def all_tables(run: "Run") -> None:
    """Every table, and what leaves the app as a file."""
    results.every_table(run)


VIEWS: Mapping[str, Mapping[str, View]] = {
    "frozen-vs-finetuned": {
        "Table": who_gains,
        "Scores": scores,
        "Cost": cost,
        "Learning": curves,
        "Try a text": trying,
        "Tables": all_tables,
    },
    "finetune": {
        "Scores": by_seed,
        "Learning": curves_of_one,
        "Try a text": trying,
        "Two side by side": beside,
        "Tables": all_tables,
    },
    "drift": {
        "By layer": _part("drift", transfer_drift.layers),
        "Modules": _part("modules", transfer_drift.modules),
        "Heads": _part("heads", transfer_drift.heads),
        "Forgetting": _part("losses", transfer_drift.losses),
        "Probing": _part("probing", transfer_drift.probing),
        "Put back": _part("rewound", transfer_drift.rewound),
        "CKA": alike,
        "In the browser": beside,
        "Tables": all_tables,
    },
    "similarity": {"CKA": alike, "Tables": all_tables},
    "pretraining": {
        "Scores": _part("table", transfer_pretraining.scores),
        "Sizes": _part("sizes", transfer_pretraining.sizes),
        "Tables": all_tables,
    },
}
