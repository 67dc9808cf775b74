"""The findings of `describe`, `profile`, `minimal-pairs` and `trigram`.

Pure functions from the tables of a run to `Finding`s, the most important one first. Costs:
milliseconds.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from workbench.core.findings import Finding, judged, listing, p_text, percent, plural

Tables = Mapping[str, pd.DataFrame]


# --- minimal-pairs --------------------------------------------------------------------------------

TESTABLE = 5  # different exchanges: with fewer, no result of the sign-flip test is significant


def minimal_pairs(tables: Tables) -> Iterator[Finding]:
    """The accuracy over all pairs, the phenomena above chance, and the hardest phenomenon."""
    rows: list[Any] = tables["pairs"].to_dict("records")
    phenomena = [row for row in rows if row["phenomenon"] != "all"]
    for row in rows:
        if row["phenomenon"] == "all":
            claim = f"The right sentence is more probable in {percent(row['accuracy'])} of"
            yield _accuracy(row, claim, "accuracy over all pairs")
    if len(phenomena) > 1:
        above = [row["phenomenon"] for row in phenomena if row["above_chance"]]
        untested = [row for row in phenomena if _is_open(row)]
        names = f": {listing(above, 6)}" if above else ""
        yield Finding(
            f"{len(above)} of {len(phenomena)} phenomena are above chance and above choosing fewer "
            f"pieces{names}.",
            len(above),
            None,
            0,
            judged(above, above or not untested),
            "pairs",
            figure="accuracy",
            measure="phenomena above chance",
            decided_by="pairs with more different exchanges, such as `is` for `are`",
        )
        hardest = min(phenomena, key=lambda row: float(row["accuracy"]))
        claim = (
            f"The hardest phenomenon is {hardest['phenomenon']}: {percent(hardest['accuracy'])} of"
        )
        yield _accuracy(hardest, claim, "accuracy on the hardest phenomenon")


def _is_open(row: Mapping[str, Any]) -> bool:
    """Whether too few different exchanges were tested to see a high accuracy."""
    return not row["above_chance"] and row["exchanges"] < TESTABLE


def _accuracy(row: Mapping[str, Any], claim: str, measure: str) -> Finding:
    return Finding(
        f"{claim} {plural(row['n'], 'pair')} (chance: 50 %; always choosing fewer pieces: "
        f"{percent(row['fewer_pieces'])}; {p_text(row['p'])}).",
        row["accuracy"],
        (row["lower"], row["upper"]),
        max(0.5, row["fewer_pieces"]),
        judged(row["above_chance"], not _is_open(row)),
        "pairs",
        {"phenomenon": row["phenomenon"]},
        "accuracy",
        measure=measure,
        unit="%",
        column="accuracy",
        decided_by="pairs with more different exchanges, such as `is` for `are`",
    )
