"""The findings of minimal pairs: each claim and verdict on tables with known content."""

import pandas as pd
import pytest

from tests.findings import findings_of
from workbench import WorkbenchError


def pairs(*rows: tuple[str, float, int, float]) -> dict[str, pd.DataFrame]:
    """A table from (phenomenon, accuracy, exchanges, p)."""
    table = pd.DataFrame(rows, columns=["phenomenon", "accuracy", "exchanges", "p"])
    return {
        "pairs": table.assign(
            lower=table["accuracy"] - 0.1, upper=table["accuracy"] + 0.1, n=20, gap=1.0,
            fewer_pieces=0.6, above_chance=table["p"] < 0.05,
        )
    }  # fmt: skip


def test_a_model_above_chance_is_supported_with_its_number_and_its_baseline() -> None:
    found = findings_of("minimal-pairs", pairs(("case", 0.9, 8, 0.001), ("all", 0.9, 8, 0.001)))
    first = found["accuracy over all pairs"]
    assert "90 % of 20 pairs" in first.claim and "60 %" in first.claim
    assert (first.verdict, first.null) == ("supported", 0.6)


def test_a_random_model_is_not_supported() -> None:
    found = findings_of("minimal-pairs", pairs(("all", 0.52, 40, 0.4)))
    assert found["accuracy over all pairs"].verdict == "not supported"


def test_a_high_accuracy_on_few_exchanges_is_undecided() -> None:
    tables = pairs(("case", 1.0, 3, 0.25), ("word-order", 0.5, 30, 0.6), ("all", 0.75, 33, 0.2))
    found = findings_of("minimal-pairs", tables)
    assert found["phenomena above chance"].verdict == "undecided"
    assert found["accuracy on the hardest phenomenon"].keys == {"phenomenon": "word-order"}
    assert found["accuracy on the hardest phenomenon"].verdict == "not supported"


def test_a_missing_number_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of("minimal-pairs", pairs(("all", float("nan"), 8, 0.001)))
