"""Findings of `few-shot`: what demonstrations give, and how much is format. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    Unit,
    judged,
    keys_of,
    p_text,
    percent,
    plural,
    rows_of,
    span,
    with_unit,
)

Tables = Mapping[str, pd.DataFrame]
MORE = "more texts and seeds"


def findings(tables: Tables) -> Iterator[Finding]:
    """Demonstrations, their labels, their format, calibration, orders, and no demonstrations."""
    rows = rows_of(tables["gains"])
    gains = {(row["shots"], row["gain"]): row for row in rows if row["gain"] != "calibration"}
    most = max(shots for shots, _ in gains)
    main = gains[most, "demonstrations"]
    scores = tables["scores"].set_index(["shots", "prompt", "calibration"])["accuracy"]

    def accuracy(prompt: str, shots: int = most, calibration: str = main["calibration"]) -> str:
        return percent(scores[shots, prompt, calibration])

    majority, before = accuracy("majority", 0, "none"), accuracy("none", 0)
    after, shown = accuracy("demonstrations"), plural(most, "demonstration")
    goes = (
        f"accuracy is {before} without and {after} with {shown}, {_difference(main)}; always the "
        f"most frequent label gives {majority}."
    )
    learns = _beyond(main) and _beyond(gains[most, "above majority"])
    if learns:
        claim = f"The model learns from demonstrations in the prompt: {goes}"
    elif _beyond(main):
        claim = f"Demonstrations do not lift the model above the most frequent label: {goes}"
    else:
        claim = f"The model has no in-context learning of this task: {goes}"
    yield _finding(main, claim, learns, "accuracy", "gain from demonstrations")
    row = gains[most, "right labels"]
    matter = "matter" if _beyond(row) else "do not significantly matter"
    yield _finding(
        row,
        f"The labels of the demonstrations {matter}: random ones give "
        f"{accuracy('random labels')}, the right ones {_difference(row)}.",
        _beyond(row), "steps", "gain from the right labels",
    )  # fmt: skip
    row = gains[most, "format"]
    yield _finding(
        row,
        "The format alone, other texts with other words as labels, gives "
        f"{accuracy('other words')}: {_difference(row)} against no demonstrations.",
        _beyond(row), "steps", "gain from the format",
    )  # fmt: skip
    for row in rows:
        if row["gain"] == "calibration" and row["calibration"] == "contextual":
            repairs = "raises" if _beyond(row) else "does not significantly raise"
            yield _finding(
                row,
                f"Contextual calibration {repairs} accuracy with {shown}: from "
                f"{accuracy('demonstrations', calibration='none')} by {_difference(row)}.",
                _beyond(row), "accuracy", "gain from contextual calibration",
            )  # fmt: skip
    if "orders" in tables:
        yield _of_orders(rows_of(tables["orders"]))
    row = gains[0, "above majority"]
    yield _finding(
        row,
        f"Without demonstrations accuracy is {before}, {_difference(row)} against always the most "
        "frequent label.",
        _beyond(row), "accuracy", "accuracy without demonstrations above the majority",
    )  # fmt: skip


def _beyond(row: Row) -> bool:
    return bool(row["lower"] > 0 and row["p"] < 0.05)


def _difference(row: Row) -> str:
    interval = span(row["lower"], row["upper"], "points")
    return f"{with_unit(row['difference'], 'points')} (95 % {interval}; {p_text(row['p'])})"


def _finding(row: Row, claim: str, holds: bool, figure: str, measure: str) -> Finding:
    unit: Unit = "points"
    return Finding(
        claim, row["difference"], (row["lower"], row["upper"]), 0.0, judged(holds), "gains",
        keys_of(row, "shots", "gain", "calibration"), figure, measure=measure, unit=unit,
        column="difference", decided_by=MORE, n=plural(row["n"], "text"),
    )  # fmt: skip


def _of_orders(rows: Sequence[Row]) -> Finding:
    row = min(rows, key=lambda each: float(each["p"]))
    differs = row["p"] < 0.05
    matters = "changes" if differs else "does not significantly change"
    return Finding(
        f"The order of the same demonstrations {matters} accuracy ({percent(row['lowest'])} to "
        f"{percent(row['highest'])} in {plural(row['orders'], 'order')}; {p_text(row['p'])}); the "
        f"prediction depends on it in {percent(row['changed'])} of the texts.",
        row["changed"], (row["lower"], row["upper"]), 0.0, judged(differs), "orders",
        keys_of(row, "seed"), "designs", measure="texts whose prediction depends on the order",
        unit="%", column="changed", decided_by="more texts", n=plural(row["n"], "text"),
    )  # fmt: skip
