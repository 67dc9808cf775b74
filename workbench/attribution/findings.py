"""The findings of `lens`, `tuned-lens`, `contributions` and `attribution`, from their tables.

Costs: milliseconds.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from workbench.core.findings import (
    Finding,
    Row,
    capital,
    decimal,
    judged,
    p_text,
    percent,
    plural,
    rows_of,
    signed,
    whole,
)
from workbench.core.head_names import has_several_kinds, part_name

Tables = Mapping[str, pd.DataFrame]

# --- lens -----------------------------------------------------------------------------------------

# --- tuned-lens -----------------------------------------------------------------------------------

# --- contributions --------------------------------------------------------------------------------

TESTABLE = 30  # predicted words with another word of their part of speech; fewer show little


def contributions(tables: Tables) -> Iterator[Finding]:
    """What decides: the largest part, how many give half, and which heads and MLPs raise words."""
    parts = rows_of(tables["components"])
    facts = {row["fact"]: row for row in rows_of(tables["summary"])}
    several = has_several_kinds(tables["components"].query("part == 'head'"))
    total = facts["sum of contributions"]["value"]
    written = [row for row in parts if not str(row["part"]).endswith("-bias")]
    largest = max(written, key=lambda row: float(row["contribution"]))
    name = part_name(largest, several)
    name = capital(name) if largest["part"] == "head" else f"The {name}"
    yield Finding(
        f"{name} {'add' if largest['part'] == 'embeddings' else 'adds'} most to the model's own "
        "choice: "
        f"{decimal(largest['contribution'], 2)} of {decimal(total, 2)} nats above the mean logit.",
        largest["contribution"],
        (largest["lower"], largest["upper"]),
        None,
        "supported",
        "components",
        _keys_of_part(largest),
        "layers",
        measure="largest contribution",
        unit="nats",
        column="contribution",
    )
    half = facts["parts that give half"]
    yield Finding(
        f"Half of what is added to a choice comes from {decimal(half['value'], 1)} of "
        f"{whole(facts['parts']['value'])} parts on average.",
        half["value"],
        (half["lower"], half["upper"]),
        None,
        "supported",
        "summary",
        {"fact": half["fact"]},
        "layers",
        measure="parts that give half of the positive contributions",
        column="value",
    )
    share = facts["share of heads"]
    yield Finding(
        f"Heads make up {percent(share['value'])} of all absolute contributions, MLPs "
        f"{percent(facts['share of MLPs']['value'])}, the embeddings "
        f"{percent(facts['share of embeddings']['value'])}, biases "
        f"{percent(facts['share of biases']['value'])}.",
        share["value"],
        (share["lower"], share["upper"]),
        None,
        "supported",
        "summary",
        {"fact": share["fact"]},
        "layers",
        measure="share of heads in absolute contributions",
        unit="%",
        column="value",
    )
    for part, noun in (("head", "head"), ("mlp", "MLP")):
        rows = [row for row in parts if row["part"] == part]
        if rows:
            yield from _writers(rows, noun, several)


def _writers(rows: Sequence[Row], noun: str, several: bool) -> Iterator[Finding]:
    """How many heads, or MLPs, raise the true word, and the one with the largest gain."""
    writers = [row for row in rows if row["writes"]]
    enough = rows[0]["n_tested"] >= TESTABLE
    best = max(rows, key=lambda row: (bool(row["writes"]), float(row["gain"])))
    more = "more texts, or texts with more different words"
    yield Finding(
        f"{len(writers)} of {plural(len(rows), noun)} {'raises' if len(writers) == 1 else 'raise'} "
        "the true word in its own context (above the same word elsewhere and other words of its "
        "part of speech).",
        len(writers),
        None,
        0,
        judged(writers, writers or enough),
        "components",
        figure="heads" if noun == "head" else "gains",
        measure=f"{noun}s that raise the true word",
        decided_by=more,
    )
    yield Finding(
        f"Among {noun}s, {'the ' if noun == 'MLP' else ''}{part_name(best, several)} has the "
        "largest gain for the true word: "
        f"{signed(decimal(best['gain'], 2))} nats ({p_text(best['p'])}).",
        best["gain"],
        (best["gain_lower"], best["gain_upper"]),
        0,
        judged(best["writes"], best["writes"] or enough),
        "components",
        _keys_of_part(best),
        "gains",
        measure=f"largest gain of {noun}s",
        unit="nats",
        column="gain",
        decided_by=more,
    )


def _keys_of_part(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("part", "stack", "kind", "layer", "head")}


# --- attribution ----------------------------------------------------------------------------------
