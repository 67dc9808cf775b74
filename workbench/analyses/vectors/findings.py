"""The findings of `word-vectors`. Costs: milliseconds."""

from collections.abc import Iterator, Mapping
from typing import Any

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

NAMES = {"add": "3CosAdd", "mul": "3CosMul"}
BASELINES = {
    "nearest": "the nearest neighbour of b",
    "frequency": "the most frequent word of the tag",
    "random weights": "that of the same architecture with random weights",
}


def findings(tables: Tables) -> Iterator[Finding]:
    """For each model, analogies beside their baselines; then likeness."""
    several = tables["likeness"]["model"].nunique() > 1
    for model, part in tables["analogies"].groupby("model", sort=False):
        yield _analogies(part[part["relation"] == "all"], f" of {model}" if several else "")
    for row in rows_of(tables["likeness"]):
        yield _likeness(row, f" of {row['model']}" if several else "")


def _analogies(part: pd.DataFrame, whose: str) -> Finding:
    of: dict[str, Any] = {row["method"]: row for row in rows_of(part)}
    best = max(("add", "mul"), key=lambda method: of[method]["accuracy"])
    row, all_words = of[best], of["none left out"]
    baseline = max(BASELINES, key=lambda method: of[method]["accuracy"])
    above = row["lower"] > max(of[method]["upper"] for method in BASELINES)
    return Finding(
        f"{NAMES[best]} answers {with_unit(row['accuracy'], '%')} of the analogies between forms "
        f"of words{whose} (95 % {span(row['lower'], row['upper'], '%')}); {BASELINES[baseline]} is "
        f"the answer in {with_unit(of[baseline]['accuracy'], '%')}. Where the words of the "
        f"question are not left out, 3CosAdd is right in "
        f"{with_unit(all_words['accuracy'], '%')}.",
        row["accuracy"],
        (row["lower"], row["upper"]),
        of[baseline]["accuracy"],
        judged(above),
        "analogies",
        keys_of(row, "model", "relation", "method"),
        "analogies",
        measure=f"analogies answered{whose}",
        unit="%",
        column="accuracy",
        decided_by="more pairs",
        n=plural(row["n"], "pair"),
    )


def _likeness(row: Mapping[str, Any], whose: str) -> Finding:
    above = row["lower"] > max(row["frequency"], row["random_upper"])
    holds = row["p_value"] < 0.05 and above
    claim = (
        f"vectors{whose} of two words with the same tag are nearer than those of other words with "
        f"probability {decimal(row['auc'])} (95 % {decimal(row['lower'])} to "
        f"{decimal(row['upper'])}; shuffled tags {decimal(row['null'])}, "
        f"{p_text(row['p_value'])}; likeness of frequency {decimal(row['frequency'])}; with random "
        f"weights {decimal(row['random'])})."
    )
    return Finding(
        capital(claim),
        row["auc"],
        (row["lower"], row["upper"]),
        max(row["frequency"], row["null"], row["random"]),
        judged(holds),
        "likeness",
        keys_of(row, "model"),
        "likeness",
        measure=f"likeness of words with the same tag{whose}",
        column="auc",
        decided_by="more words",
        n=plural(row["n"], "word"),
    )
