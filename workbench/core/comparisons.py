"""Tables of comparisons: two numbers of a model, their difference, and that of random weights.

A difference holds if its bootstrap interval lies on the claimed side of 0 and its p-value, mostly
of being beyond random-weight models, is significant after Holm's correction over the table.
Costs: nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from workbench.core.arrays import Floats
from workbench.core.findings import Finding, Row, Unit, decimal, judged, p_text, signed
from workbench.core.stats import SIGNIFICANT, holm, interval_around

MORE_RANDOM_MODELS = "random-weight models (random_models=5)"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two numbers whose difference is tested."""

    about: Mapping[str, object]  # further columns of its row: what is compared, and sizes
    first: float
    second: float
    draws: Floats  # [draws], bootstrap samples of the difference
    random: Floats  # [random models], the same difference with random weights
    p: float
    claim: Literal["higher", "lower", "different"]  # of the first number


def comparison_table(comparisons: Sequence[Comparison], columns: Sequence[str]) -> pd.DataFrame:
    """Return one row per comparison, with p-values corrected over all of them."""
    rows = []
    for each, p in zip(comparisons, holm([each.p for each in comparisons]), strict=True):
        difference = each.first - each.second
        lower, upper = interval_around(difference, each.draws)
        is_beyond = {"higher": lower > 0, "lower": upper < 0, "different": lower > 0 or upper < 0}
        rows.append(
            {
                **each.about,
                "first": each.first,
                "second": each.second,
                "difference": difference,
                "lower": lower,
                "upper": upper,
                "random": each.random.mean() if len(each.random) else np.nan,
                "p": p,
                "holds": bool(is_beyond[each.claim] and p < SIGNIFICANT),
                "random_models": len(each.random),
            }
        )
    return pd.DataFrame(rows, columns=list(columns))


# --- their findings -------------------------------------------------------------------------------


def difference_text(row: Row, unit: str = "", digits: int = 2, scale: float = 1) -> str:
    """Return a row's difference with its interval, its null, and its p-value if it is tested."""

    def number(name: str) -> str:
        return decimal(scale * float(row[name]), digits)

    null = (
        f"with random weights {signed(number('random'))}"
        if row["random_models"]
        else "no random-weight baseline"
    )
    return (
        f"{signed(number('difference'))}{unit}, 95 % {number('lower')} to {number('upper')}; "
        f"{null}{if_tested(row)}"
    )


def if_tested(row: Row) -> str:
    """Return a row's p-value; "" without the random-weight models to test it."""
    return f"; {p_text(row['p'])}" if row["random_models"] > 1 else ""


def differs(row: Row) -> bool:
    """Return whether a row's difference is significant, and its interval leaves out 0."""
    return bool(row["p"] < SIGNIFICANT and not row["lower"] <= 0 <= row["upper"])


def comparison_finding(
    row: Row,
    claim: str,
    enough: object,
    figure: str,
    *,
    measure: str,
    unit: Unit = "",
    decided_by: str,
    n: str = "",
) -> Finding:
    """Return the finding of a row of the table `tests`, open without random-weight models."""
    tested = row["random_models"] > 1
    return Finding(
        claim,
        row["difference"],
        (row["lower"], row["upper"]),
        row["random"] if row["random_models"] else 0.0,
        judged(row["holds"], enough and tested),
        "tests",
        {"stack": row["stack"], "comparison": row["comparison"]},
        figure,
        measure=measure,
        unit=unit,
        column="difference",
        decided_by=decided_by if tested else MORE_RANDOM_MODELS,
        n=n,
    )
