"""Findings of `cloze`: gaps filled beyond chance, and what the passage gives. Pure functions."""

from collections.abc import Iterator

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    Tables,
    decimal,
    judged,
    keys_of,
    p_text,
    percent,
    plural,
    rows_of,
    span,
    with_unit,
)

ANY = "any word"
MORE = "texts with other options or right words"  # more of the same are no more groups
HOW = {
    "choice, full": "the whole text most probable",
    "choice, partial": "what follows most probable",
    "choice, word": "and is the most probable word",
}


def findings(tables: Tables) -> Iterator[Finding]:
    """The choices, any word, the passage, pairs, and how the scores differ."""
    whole = tables["scores"][tables["scores"]["phenomenon"] == "all"]
    full = {(row["task"], row["context"]): row for row in rows_of(whole)}
    for (task, context), row in full.items():
        if context == "with the passage":
            yield _above_chance(row, task)
    if "passage" in tables:
        for number, row in enumerate(rows_of(tables["passage"])[:2]):
            yield _of_passage(row, is_first=not number)
    for row in rows_of(tables.get("pairs", pd.DataFrame()))[:2]:
        yield _of_pairs(row)


def _above_chance(row: Row, task: str) -> Finding:
    is_above = row["p"] < 0.05 and row["accuracy"] > row["chance"]
    is_open = row["lower"] > row["chance"]  # the test, corrected over all rows, needs more
    interval = f"95 % {span(row['lower'], row['upper'], '%')}"
    if task == ANY:
        claim = (
            f"The missing word is predicted exactly in {percent(row['accuracy'])} of the texts "
            f"({interval}); always writing the most frequent right word gives "
            f"{percent(row['chance'])} ({p_text(row['p'])})."
        )
    else:
        claim = (
            f"The right option makes {HOW[task]} in {percent(row['accuracy'])} of the texts "
            f"({interval}; chance {percent(row['chance'])}; {p_text(row['p'])})."
            if task != "choice, word"
            else f"The right option is the most probable in {percent(row['accuracy'])} of the "
            f"texts ({interval}; chance {percent(row['chance'])}; {p_text(row['p'])})."
        )
    return Finding(
        claim, row["accuracy"], (row["lower"], row["upper"]), row["chance"],
        judged(is_above, is_above or not is_open),
        "scores", keys_of(row, "phenomenon", "task", "context"), "accuracy",
        measure=f"accuracy: {task}", unit="%", column="accuracy", decided_by=MORE,
        n=plural(row["n"], "text"),
    )  # fmt: skip


def _of_passage(row: Row, is_first: bool) -> Finding:
    helps, hurts = row["lower"] > 0, row["upper"] < 0
    gives = "helps" if helps else "hurts" if hurts else "does not significantly help"
    ends = [row["nats_lower"], row["nats_upper"]]
    adds = row["nats"] >= 0
    low, high = ends if adds else [-end for end in reversed(ends)]
    nats = (
        f"; it {'adds' if adds else 'takes'} {decimal(abs(row['nats']))} nats "
        f"{'to' if adds else 'from'} the log-probability of the right words (95 % "
        f"{decimal(low)} to {decimal(high)})"
    )
    return Finding(
        f"The passage {gives} ({row['task']}): {with_unit(row['difference'], 'points')} "
        f"(95 % {span(row['lower'], row['upper'], 'points')}){nats if is_first else ''}.",
        row["difference"], (row["lower"], row["upper"]), 0.0, judged(helps or hurts), "passage",
        keys_of(row, "task"), "accuracy", measure=f"gain from the passage: {row['task']}",
        unit="points", column="difference", decided_by=MORE, n=plural(row["n"], "text"),
    )  # fmt: skip


def _of_pairs(row: Row) -> Finding:
    beyond = row["lower"] > row["chance"]
    return Finding(
        f"Both texts of a pair are right in {percent(row['both'])} of pairs ({row['task']}; 95 % "
        f"{span(row['lower'], row['upper'], '%')}; chance {percent(row['chance'])}); the same "
        f"option is chosen for both in {percent(row['always_same'])}.",
        row["both"], (row["lower"], row["upper"]), row["chance"], judged(beyond), "pairs",
        keys_of(row, "task"), "accuracy", measure=f"pairs with both right: {row['task']}",
        unit="%", column="both", decided_by="more pairs", n=plural(row["n"], "pair"),
    )  # fmt: skip
