"""Findings of `few-shot`: what demonstrations give, and how much is format. Pure functions."""

from collections.abc import Iterator, Sequence

import pandas as pd

from workbench.core.findings import (
    SMALL,
    Finding,
    Row,
    Tables,
    Unit,
    Verdict,
    judged,
    keys_of,
    p_text,
    percent,
    plural,
    rows_of,
    span,
    with_unit,
)

MORE = "more texts and seeds"
DECIDED = 0.9  # share of choices that are those of the last layer


def findings(tables: Tables) -> Iterator[Finding]:
    """Demonstrations, their labels, their format, calibration, orders, layers and heads."""
    rows = rows_of(tables["gains"])
    gains = {(row["shots"], row["gain"]): row for row in rows if row["gain"] != "calibration"}
    most = max(shots for shots, _ in gains)
    main = gains[most, "demonstrations"]
    scores = tables["scores"].set_index(["shots", "prompt", "calibration"])["accuracy"]

    def accuracy(prompt: str, shots: int = most, calibration: str = main["calibration"]) -> str:
        return percent(scores[shots, prompt, calibration])

    majority, before = accuracy("majority", 0, "none"), accuracy("none", 0)
    after, shown = accuracy("demonstrations"), plural(most, "demonstration")
    kind = main["calibration"]
    calibrated = "" if kind == "none" else f" and {kind} calibration"
    goes = (
        f"accuracy is {before} without and {after} with {shown}{calibrated}, {_difference(main)}; "
        f"always the most frequent label gives {majority}."
    )
    learns = _beyond(main) and _beyond(gains[most, "above majority"])
    if learns:
        claim = f"The model learns from demonstrations in the prompt: {goes}"
    elif _beyond(main):
        claim = f"Demonstrations do not lift the model above the most frequent label: {goes}"
    else:
        claim = f"The model is not shown to learn from demonstrations in the prompt: {goes}"
    verdict = _verdict(main, gains[most, "above majority"])
    yield _finding(main, claim, verdict, "accuracy", "gain from demonstrations")
    row = gains[most, "right labels"]
    matter = "matter" if _beyond(row) else "do not significantly matter"
    yield _finding(
        row,
        f"The labels of the demonstrations {matter}: random ones give "
        f"{accuracy('random labels')}, and the right ones change that by {_difference(row)}.",
        _verdict(row), "steps", "gain from the right labels",
    )  # fmt: skip
    row = gains[most, "format"]
    yield _finding(
        row,
        "The format alone, other texts with other words as labels, gives "
        f"{accuracy('other words')}: {_difference(row)} against no demonstrations.",
        _verdict(row), "steps", "gain from the format",
    )  # fmt: skip
    for row in rows:
        if row["gain"] == "calibration" and row["calibration"] == "contextual":
            repairs = "raises" if _beyond(row) else "does not significantly raise"
            yield _finding(
                row,
                f"Contextual calibration {repairs} accuracy with {shown}: from "
                f"{accuracy('demonstrations', calibration='none')} by {_difference(row)}.",
                _verdict(row), "accuracy", "gain from contextual calibration",
            )  # fmt: skip
    if "orders" in tables:
        yield _of_orders(rows_of(tables["orders"]))
    if "layers" in tables:
        yield _of_layers(rows_of(tables["layers"]), learns)
    if "heads" in tables:
        yield _of_heads(rows_of(tables["heads"]), learns)
    for row in rows_of(tables.get("same_label", pd.DataFrame())):
        if row["part"] == "all":
            yield _same_label(row, rows_of(tables["attribution"]))


def _beyond(row: Row) -> bool:
    return bool(row["lower"] > 0 and row["p"] < 0.05)


def _verdict(*gains: Row) -> Verdict:
    """Supported if all are there; undecided unless one that is not is small at most."""
    missing = [row for row in gains if not _beyond(row)]
    return judged(not missing, not missing or any(row["upper"] < SMALL for row in missing))


def _difference(row: Row) -> str:
    interval = span(row["lower"], row["upper"], "points")
    return f"{with_unit(row['difference'], 'points')} (95 % {interval}; {p_text(row['p'])})"


def _finding(row: Row, claim: str, verdict: Verdict, figure: str, measure: str) -> Finding:
    unit: Unit = "points"
    return Finding(
        claim, row["difference"], (row["lower"], row["upper"]), 0.0, verdict, "gains",
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


def _of_layers(rows: Sequence[Row], learns: bool) -> Finding:
    """The first layer from which on the choices are those of the last; nothing of a guess."""
    early = next(
        n for n in range(len(rows)) if all(row["agrees"] >= DECIDED for row in rows[n:])
    )  # the last one always
    row = rows[early]
    is_early = early < len(rows) - 1
    place = f"layer {row['layer']} of {rows[-1]['layer']}"
    if not is_early:
        claim = f"The label is not decided before the last layer, {place}"
    elif learns:
        claim = (
            f"The label is decided by {place}: from there on at least {percent(DECIDED)} of the "
            "choices are those of the last layer"
        )
    else:
        claim = f"The model makes its choice by {place}, but the choice is no more than a guess"
    holds = is_early and learns and row["lower"] > row["chance"]
    return Finding(
        f"{claim} (agreement {percent(row['agrees'])}; by chance {percent(row['chance'])}).",
        row["agrees"], (row["lower"], row["upper"]), row["chance"],
        judged(holds), "layers", keys_of(row, "stack", "layer"), "layers",
        measure="agreement with the last layer where the label is decided", unit="%",
        column="agrees", decided_by=MORE, n=plural(row["n"], "text"),
    )  # fmt: skip


def _of_heads(rows: Sequence[Row], learns: bool) -> Finding:
    whole, induction, *others = rows
    highest, lowest = (f(row["accuracy"] for row in others) for f in (max, min))
    harms = learns and induction["upper"] < whole["accuracy"] and induction["upper"] < lowest
    return Finding(
        f"Without the heads of most induction ({induction['heads']}) accuracy is "
        f"{percent(induction['accuracy'])} instead of {percent(whole['accuracy'])}; without as "
        f"many random heads it is {percent(lowest)} to {percent(highest)}.",
        induction["accuracy"], (induction["lower"], induction["upper"]), whole["accuracy"],
        judged(harms), "heads", keys_of(induction, "set", "removed"), "heads",
        measure="accuracy without induction heads", unit="%", column="accuracy", decided_by=MORE,
        n=plural(induction["n"], "text"),
    )  # fmt: skip


def _same_label(row: Row, parts: Sequence[Row]) -> Finding:
    shown = [each for each in parts if each["part"] == "all" and each["label"]]
    share, by_length = (sum(each[name] for each in shown) for name in ("share", "by_length"))
    holds = bool(row["lower"] > 0 and row["p"] < 0.05)
    comes = "comes" if holds else "does not visibly come"
    return Finding(
        f"The chosen label {comes} from demonstrations that have it: compared with others, they "
        f"speak for it by {percent(row['difference'])} of the attribution of all demonstrations "
        f"(95 % {span(row['lower'], row['upper'], '%')}; with random weights "
        f"{percent(row['random'])}; {p_text(row['p'])}). The demonstrations have {percent(share)} "
        f"of all attribution (by length {percent(by_length)}).",
        row["difference"], (row["lower"], row["upper"]), row["random"], judged(holds),
        "same_label", keys_of(row, "part"), "origins",
        measure="attribution on the same label rather than another", unit="%",
        column="difference", decided_by=MORE, n=plural(row["n"], "text"),
    )  # fmt: skip
