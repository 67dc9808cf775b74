"""The findings of `architectures`: what the paper claims, and whether it holds at this size.

Pure functions of the tables. Costs: milliseconds.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pandas as pd

from workbench.core.findings import Finding, decimal, judged, plural, signed, whole

Tables = Mapping[str, pd.DataFrame]
# By the pair of architectures: what the difference is called, and the sign that the paper found.
CLAIMS: Mapping[tuple[str, str], tuple[str, int]] = {
    ("encoder-decoder", "prefix language model"): ("at equal operations", -1),
    ("prefix language model", "language model"): ("with a prefix read in both directions", -1),
    ("shared encoder-decoder", "encoder-decoder"): ("with shared layers", 1),
}


def architectures(tables: Tables) -> Iterator[Finding]:
    """Whether all learned, then the paper's comparisons by objective."""
    table, seeds = tables["table"], tables["cells"]["seed"].nunique()
    yield _learned(table, seeds)
    for row in _rows(tables.get("pairs", pd.DataFrame())):
        if (claim := CLAIMS.get((row["arm"], row["against"]))) is not None:
            yield _compared(row, *claim, table, seeds)


def _learned(table: pd.DataFrame, seeds: int) -> Finding:
    """The architecture that is nearest to the unigram model."""
    gains = 1 - table["bits_per_character"] / table["unigram"]
    worst = _rows(table)[int(gains.to_numpy().argmin())]
    best = ", ".join(
        f"{arm} with {goal}"
        for goal, part in table.groupby("objective", sort=False)
        for arm in part.loc[[part["bits_per_character"].idxmin()], "arm"]
    )
    ends = (worst["lower"], worst["upper"]) if worst["lower"] == worst["lower"] else None
    below = worst["upper"] < worst["unigram"] if ends else False
    return Finding(
        f"The lowest losses have: {best}. The highest against a model of frequencies alone "
        f"({decimal(worst['unigram'])} bits per character) has {worst['arm']} with "
        f"{worst['objective']}: {decimal(worst['bits_per_character'])}.",
        worst["bits_per_character"],
        ends,
        worst["unigram"],
        judged(below, ends),
        "table",
        {"objective": worst["objective"], "arm": worst["arm"]},
        "losses",
        measure="bits per character of the architecture nearest to frequencies",
        unit="bits",
        column="bits_per_character",
        decided_by="more seeds",
        n=plural(seeds, "seed"),
    )


def _compared(
    row: Mapping[str, Any], how: str, sign: int, table: pd.DataFrame, seeds: int
) -> Finding:
    costs = {each["arm"]: each for each in _rows(table) if each["objective"] == row["objective"]}
    mine, other = costs[row["arm"]], costs[row["against"]]
    more, known = row["delta"] > 0, row["lower"] == row["lower"]
    ends = (row["lower"], row["upper"]) if known else None
    interval = (
        f" (95 % interval {signed(decimal(row['lower'], 3))} to {signed(decimal(row['upper'], 3))})"
        if known
        else ""
    )
    agrees = "as in the paper" if (sign > 0) == more else "the opposite of the paper"
    verb = "costs more" if more else "costs less"
    says = agrees if row["sure"] else "not beyond the variation between seeds"
    return Finding(
        f"With {row['objective']}, {how}, the {row['arm']} "
        f"({whole(mine['parameters'])} parameters, {decimal(mine['operations'], 0)} million "
        f"operations) {verb} than the {row['against']} ({whole(other['parameters'])}, "
        f"{decimal(other['operations'], 0)} million): {signed(decimal(row['delta'], 3))} bits per "
        f"character{interval}, {says}.",
        row["delta"],
        ends,
        0.0,
        judged(row["sure"], known),
        "pairs",
        {name: row[name] for name in ("objective", "arm", "against")},
        "losses",
        measure=f"difference of {row['arm']} and {row['against']} with {row['objective']}",
        unit="bits",
        column="delta",
        decided_by="more seeds",
        n=plural(seeds, "seed"),
    )


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", table.to_dict("records"))
