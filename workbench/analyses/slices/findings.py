"""Findings of `errors`: how often, where it is worse, and what is taken for what.

Pure functions of the tables.
"""

from collections.abc import Iterator

import pandas as pd

from workbench.core.findings import (
    Finding,
    Tables,
    Unit,
    judged,
    keys_of,
    of_all,
    p_text,
    percent,
    plural,
    rows_of,
    span,
    verb_of,
    with_unit,
)
from workbench.core.objectives import PREDICTED
from workbench.core.stats import SIGNIFICANT, ratio_intervals
from workbench.experiment.measured import measured, name_of_measured

MORE = "more texts"


def findings(tables: Tables) -> Iterator[Finding]:
    """The whole, the slice that is worst, how many are worse, and the confusion."""
    is_loss = tables["objective"]["objective"].iloc[0] in PREDICTED
    metric = "loss" if is_loss else str(tables["baseline"]["metric"].iloc[-1])
    unit: Unit = "%" if metric == "accuracy" else ""
    if len(tables["slices"]):
        yield _worst(tables, metric, unit)
    yield _whole(tables, metric, unit)
    if "confusion" in tables:
        yield from _confused(tables["confusion"])


def _measured(tables: Tables, metric: str) -> str:
    """A metric with what it is of. A task often has the name of the corpus from which it was
    learnt, which need not be the one that is scored: `accuracy on the task reviews`."""
    is_task = tables["objective"]["objective"].iloc[0] not in PREDICTED
    return (
        f"{metric} on the task {name_of_measured(tables)}" if is_task else measured(tables, metric)
    )


def _worst(tables: Tables, metric: str, unit: Unit) -> Finding:
    """The significant slice that is worst, or that there is none."""
    table = tables["slices"]
    worse = table[(table["p"] < SIGNIFICANT) & (table["lower"] > 0)]
    row = rows_of((worse if len(worse) else table).sort_values("worse"))[-1]
    where = f"{row['slice']} ({row['kind']}; n = {row['n']:,})"
    numbers = (
        f"{with_unit(row['value'], unit)} against {with_unit(row['rest'], unit)} for the rest; "
        f"difference {with_unit(row['worse'], 'points' if unit else '')}, 95 % "
        f"{span(row['lower'], row['upper'], 'points' if unit else '')}; {p_text(row['p'])}, "
        f"corrected over {plural(len(table), 'slice')}"
    )
    if len(worse):
        many = f"{of_all(len(worse), len(table), 'slice')} {verb_of(len(worse), 'is', 'are')}"
        claim = (
            f"The {_measured(tables, metric)} is worst on {where}: {numbers}; {many} significantly "
            "worse."
        )
    else:
        claim = (
            f"No slice is significantly worse than the rest by {_measured(tables, metric)}; "
            f"nearest is {where}: {numbers}."
        )
    return Finding(
        claim, row["worse"], (row["lower"], row["upper"]), 0.0, judged(len(worse)), "slices",
        keys_of(row, "kind", "slice"), "slices", measure=f"{metric} of the worst slice, difference",
        unit="points" if unit else "", column="worse", decided_by=MORE, n=plural(row["n"], "item"),
    )  # fmt: skip


def _whole(tables: Tables, metric: str, unit: Unit) -> Finding:
    """The score on all texts, next to the trivial baseline."""
    row = next(row for row in rows_of(tables["baseline"]) if row["metric"] == metric)
    value, baseline = with_unit(row["value"], unit), with_unit(row["baseline"], unit)
    claim = (
        f"The {_measured(tables, metric)} is {value} on {plural(row['n'], 'text')} (trivial "
        f"baseline: {baseline})."
    )
    texts = tables["texts"]
    n = texts["n"].to_numpy(float)
    part = texts["loss" if metric == "loss" else "right"].fillna(0).to_numpy(float) * n
    lower, upper = ratio_intervals(part[:, None], n, 0)  # of the score, not of its difference
    ends = (float(lower[0]), float(upper[0]))
    return Finding(
        claim, row["value"], ends, row["baseline"], judged(row["better"]), "baseline",
        keys_of(row, "metric"), "", measure=f"{metric} on all texts", unit=unit, column="value",
        decided_by=MORE, n=plural(row["n"], "text"),
    )  # fmt: skip


def _confused(table: pd.DataFrame) -> Iterator[Finding]:
    """The pair of classes that is confused most often."""
    wrong = table[table["label"] != table["predicted"]]
    if wrong.empty:
        return
    row = rows_of(wrong.sort_values("n"))[-1]
    of = int(table[table["label"] == row["label"]]["n"].sum())
    yield Finding(
        f"The most frequent error is {row['label']} taken for {row['predicted']}: "
        f"{plural(row['n'], 'text')}, {percent(row['n'] / of)} of the texts of {row['label']}.",
        row["n"], None, None, "supported", "confusion", keys_of(row, "label", "predicted"),
        "confusion", measure="texts of the most frequent error", column="n",
    )  # fmt: skip
