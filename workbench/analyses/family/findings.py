"""The findings of `family`. Costs: milliseconds."""

from collections.abc import Iterator

import pandas as pd

from workbench.core.findings import (
    Finding,
    Tables,
    capital,
    decimal,
    judged,
    keys_of,
    p_text,
    plural,
    rows_of,
    span,
    with_unit,
)

MORE = "more texts"
READS = {
    "left to right": "that read left to right",
    "both directions": "of two directions",
    "pseudo": "that see both sides",
}


def findings(tables: Tables) -> Iterator[Finding]:
    """Which model is best at what, and which is the fastest."""
    if "text" in tables:
        yield from _text(tables)
    if "scores" in tables:
        scores = tables["scores"]
        for part in ("pairs", "probes", "tasks"):
            yield from _best(scores[scores["part"] == part], part)
        yield from _heads(scores[scores["part"] == "heads"])
    if "cost" in tables:
        yield _cost(tables["cost"])


def _text(tables: Tables) -> Iterator[Finding]:
    """Of each kind with several models, the one that predicts the text best."""
    differences = tables["differences"]
    for kind, table in tables["text"].groupby("kind", sort=False):
        if len(table) == 1:
            continue
        row = rows_of(table.sort_values("bits_per_character"))[0]
        next_ = rows_of(differences[differences["kind"] == kind].sort_values("difference"))[0]
        unit = "bits of pseudo-likelihood" if kind == "pseudo" else "bits"
        yield Finding(
            f"Of the {plural(len(table), 'model')} {READS[str(kind)]}, {row['model']} predicts the "
            f"text best: {decimal(row['bits_per_character'], 3)} {unit} per character, "
            f"{decimal(next_['difference'], 3)} fewer than {next_['model']} "
            f"(95 % {decimal(next_['lower'], 3)} to {decimal(next_['upper'], 3)}; "
            f"{p_text(next_['p'])}).",
            row["bits_per_character"],
            (row["lower"], row["upper"]),
            None,
            judged(next_["p"] < 0.05),
            "text",
            keys_of(row, "model"),
            "text",
            measure=f"fewest bits per character of models {READS[str(kind)]}",
            unit="bits",
            column="bits_per_character",
            decided_by=MORE,
            n=plural(row["texts"], "text"),
        )


UNITS = {"pairs": "pair", "probes": "target", "tasks": "text"}
WHAT = {"pairs": "by the share of", "probes": "by a probe of", "tasks": "at"}


def _best(scores: pd.DataFrame, part: str) -> Iterator[Finding]:
    """The best model of the measure in which models differ most."""
    spread = scores.groupby("measure", sort=False)["value"].agg(
        lambda each: each.max() - each.min()
    )
    if scores.empty or scores["model"].nunique() < 2:
        return
    measure = str(spread.idxmax())
    row, next_ = rows_of(scores[scores["measure"] == measure].sort_values("value"))[:-3:-1]
    apart = row["lower"] > next_["upper"]
    learnt = row["lower"] > row["baseline"]
    best, second = (f"{each['model']} {with_unit(each['value'], '%')}" for each in (row, next_))
    known = f"{best} (95 % {span(row['lower'], row['upper'], '%')}), {second}"
    if apart and learnt:
        claim = f"{capital(WHAT[part])} {measure}, one model is best: {known}."
    else:
        below = "" if learnt else f"; the baseline is {with_unit(row['baseline'], '%')}"
        claim = f"{capital(WHAT[part])} {measure}, no model is clearly the best: {known}{below}."
    yield Finding(
        claim,
        row["value"],
        (row["lower"], row["upper"]),
        row["baseline"],
        judged(learnt and apart),
        "scores",
        keys_of(row, "model", "part", "measure"),
        "scores",
        measure=f"score of the best model: {measure}",
        unit="%",
        column="value",
        decided_by=MORE,
        n=plural(row["n"], UNITS[part]),
    )


def _heads(scores: pd.DataFrame) -> Iterator[Finding]:
    """The model with the largest share of heads that have a role."""
    table = scores[scores["measure"] == "heads with a role"]
    if len(table) < 2:
        return
    row, next_ = rows_of(table.sort_values("value"))[:-3:-1]
    apart = row["lower"] > next_["upper"]
    first = "one model is first" if apart else "no model is clearly the first"
    yield Finding(
        f"By the share of heads with a role, {first}: {row['model']} "
        f"{with_unit(row['value'], '%')} ({row['detail']}; 95 % "
        f"{span(row['lower'], row['upper'], '%')}), {next_['model']} "
        f"{with_unit(next_['value'], '%')} ({next_['detail']}).",
        row["value"],
        (row["lower"], row["upper"]),
        None,
        judged(apart),
        "scores",
        keys_of(row, "model", "part", "measure"),
        "heads",
        measure="largest share of heads with a role",
        unit="%",
        column="value",
        decided_by="models with more heads",
        n=plural(row["n"], "head"),
    )


def _cost(table: pd.DataFrame) -> Finding:
    """The fastest model, and how many times as fast it is as the slowest."""
    ordered = rows_of(table.sort_values("words_per_second"))
    row, last = ordered[-1], ordered[0]
    times = row["words_per_second"] / last["words_per_second"]
    return Finding(
        f"{row['model']}, of {row['parameters']:,} weights, is the fastest on this machine: "
        f"{row['words_per_second']:,.0f} words per second, {decimal(times, 1)} times as many as "
        f"the slowest, {last['model']}.",
        row["words_per_second"],
        None,
        None,
        "supported",
        "cost",
        keys_of(row, "model"),
        "cost",
        measure="words per second of the fastest model",
        column="words_per_second",
    )
