"""Findings of `smaller-model`: size, score, speed, what was lost, and whether the model opens.

Pure functions of the tables.
"""

from collections.abc import Iterator

import pandas as pd

from workbench.analyses.compression.findings import fell_further, verdict_of_speedup
from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    Unit,
    Verdict,
    capital,
    decimal,
    judged,
    keys_of,
    listing,
    p_text,
    percent,
    percent_span,
    rows_of,
    shown,
    span,
    with_unit,
)

MORE = "more test texts"


def findings(tables: Tables) -> Iterator[Finding]:
    """What is found; of an original that has learnt nothing, only that."""
    test = rows_of(tables["kept"])[-1]
    if not test["learned"]:
        yield _not_learned(tables, test)
        return
    if "points" not in tables or not len(left := tables["points"][tables["points"]["left"]]):
        yield _nothing_smaller(tables, test)
        return
    point = rows_of(left)[0]
    yield _smallest(tables, point, test) if point["chosen"] else _nearest(tables, point, test)
    if "cost" in tables:
        yield _speed(tables["cost"])
    if "lost" in tables:
        yield _lost(tables["lost"])
    yield _opens(rows_of(tables["opening"])[0])


def score_of(row: Row) -> str:
    """The metric with what it is of: `macro F1 on topic`."""
    return f"{row['score']} on {row['task']}"


def cut_of(tables: Tables) -> str:
    """What is missing from the smaller model, in words: `neurons (50 %) and layers (1 of 5)`."""
    points = tables["points"]
    rows = rows_of(points[points["chosen"]]) or rows_of(points[points["left"]])
    layers = tables["sizes"].set_index("model")["layers"]
    amounts = {row["stage"]: row["amount"] for row in rows}
    if "layers" in amounts:  # of five layers, 25 % is one
        amounts["layers"] = f"{layers['original'] - layers['smaller']} of {layers['original']}"
    return listing([f"{stage} ({amount})" for stage, amount in amounts.items()], 10)


def unit_of(row: Row) -> Unit:
    """The unit of a metric."""
    units: dict[str, Unit] = {"accuracy": "%", "f1": "F1"}
    return units.get(row["metric"], "")


def _not_learned(tables: Tables, test: Row) -> Finding:
    scores = tables["scores"]
    row = rows_of(scores[scores["decides"]])[0]
    unit = unit_of(row)
    return Finding(
        f"The model has not learnt the task: {score_of(test)} is {with_unit(row['value'], unit)}, "
        f"not significantly better than a constant prediction ({with_unit(row['baseline'], unit)})."
        " There is no score to keep, and nothing was cut.",
        row["value"], (row["lower"], row["upper"]), row["baseline"], "not supported", "scores",
        keys_of(row, "model", "metric"), measure="smaller model", unit=unit, column="value",
        n=f"{row['n']} texts",
    )  # fmt: skip


def _nothing_smaller(tables: Tables, test: Row) -> Finding:
    why = "none of the methods fits this model" if "points" not in tables else "none is smaller"
    return Finding(
        f"Nothing was cut: {why} (see the caveats); {score_of(test)} of the original is "
        f"{with_unit(test['original'], unit_of(test))}.",
        test["original"], None, None, "not supported", "kept", keys_of(test, "split", "task"),
        measure="smaller model", unit=unit_of(test), column="original",
    )  # fmt: skip


def _sizes(tables: Tables) -> tuple[Row, Row]:
    before, after = rows_of(tables["sizes"])
    return before, after


def _kept(test: Row) -> str:
    unit = unit_of(test)
    return (
        f"keeps {percent(test['kept'], 1)} of {score_of(test)} (95 % "
        f"{percent_span(test['lower'], test['upper'])}; {with_unit(test['value'], unit)} instead "
        f"of {with_unit(test['original'], unit)})"
    )


def _smallest(tables: Tables, point: Row, test: Row) -> Finding:
    before, after = _sizes(tables)
    verdict: Verdict = judged(
        test["lower"] >= test["bound"], not test["lower"] < test["bound"] <= test["upper"]
    )
    claim = (
        f"After cuts of {cut_of(tables)}, the model has "
        f"{percent(after['disk'] / before['disk'])} of its size ({decimal(after['disk'])} instead "
        f"of {decimal(before['disk'])} MiB) and {_kept(test)}; {percent(test['bound'], 1)} were to "
        f"be kept, and on dev it keeps {percent(point['kept'], 1)} "
        f"({percent_span(point['lower'], point['upper'])})."
    )
    return _of_kept(claim, verdict, test)


def _nearest(tables: Tables, point: Row, test: Row) -> Finding:
    before, after = _sizes(tables)
    claim = (
        f"Nothing can be cut that keeps {percent(test['bound'], 1)} on dev. Nearest is the model "
        f"after cuts of {cut_of(tables)}, with {percent(after['disk'] / before['disk'])} of the "
        f"size: on dev it keeps {percent(point['kept'], 1)} "
        f"({percent_span(point['lower'], point['upper'])}), and on test it {_kept(test)}."
    )
    return _of_kept(claim, "not supported", test)


def _of_kept(claim: str, verdict: Verdict, test: Row) -> Finding:
    return Finding(
        claim, test["kept"], (test["lower"], test["upper"]), test["bound"], verdict, "kept",
        keys_of(test, "split", "task"), "points", measure="smaller model", unit="%", column="kept",
        decided_by=MORE, n=f"{test['n']} texts",
    )  # fmt: skip


def _speed(costs: pd.DataFrame) -> Finding:
    faster = costs["faster"].astype(bool)
    row = rows_of((costs[faster] if faster.any() else costs).sort_values("speedup"))[-1]
    parts = [
        f"{'' if each['faster'] else 'not significantly '}faster with {each['texts']} "
        f"text{'s' * (each['texts'] > 1)} ({decimal(each['speedup'], 2)} times as fast, 95 % "
        f"{decimal(each['lower'], 2)} to {decimal(each['upper'], 2)}; corrected "
        f"{p_text(each['p'])})"
        for each in rows_of(costs.sort_values("faster", ascending=False, kind="stable"))
    ]
    return Finding(
        f"On this machine the smaller model is {listing(parts)}; the ratio is a median over pairs "
        "of passes.",
        row["speedup"], (row["lower"], row["upper"]), 1.0, verdict_of_speedup(row), "cost",
        keys_of(row, "method", "amount", "texts"), "speed", measure="speed",
        column="speedup", decided_by="more rounds",
    )  # fmt: skip


def _lost(table: pd.DataFrame) -> Finding:
    further, row = fell_further(table)
    group = (
        f"“{row['group']}” ({row['kind']}) lost {shown(row['fall'], 'points')} points, the others "
        f"{shown(row['rest'], 'points')} (difference 95 % "
        f"{span(row['lower'], row['upper'], 'points')}; {p_text(row['p'])})"
    )
    names = [
        each["group"] if each["kind"] == "length" else f"“{each['group']}” ({each['kind']})"
        for each in rows_of(further)
    ]
    claim = (
        f"{capital(listing(names, 5))} fell significantly further than the rest: {group}."
        if len(further)
        else "No class, length or label fell significantly further than the rest; nearest: "
        f"{group}."
    )
    return Finding(
        claim, row["difference"], (row["lower"], row["upper"]), 0.0, judged(len(further)), "lost",
        keys_of(row, "method", "amount", "kind", "group"), "lost", measure="fell further",
        unit="points", column="difference", n=f"{row['n']} texts",
    )  # fmt: skip


def _opens(row: Row) -> Finding:
    by = "Plain transformers" if row["opened_by"] == "transformers" else "Workbench"
    claim = (
        f"{by} opened the folder in a new process"
        + (
            ", with equal logits of the shortest texts (largest difference "
            f"{decimal(row['difference'])})."
            if row["works"] and by != "Workbench"
            else "."
        )
        if row["works"]
        else f"{by} did not open the folder with equal predictions: "
        f"{row['error'] or 'the logits differ'}."
    )
    return Finding(
        claim, None, None, None, judged(row["works"]), "opening", keys_of(row, "opened_by"),
        measure="opened in a new process",
    )  # fmt: skip
