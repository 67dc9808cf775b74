"""Tables of comparisons: which differences hold, with known answers."""

import numpy as np
import pytest

from workbench.core.comparisons import Comparison, comparison_table

COLUMNS = ["comparison", "first", "second", "difference", "lower", "upper", "random", "p", "holds",
           "random_models"]  # fmt: skip
RANDOM = np.array([0.1, 0.3])


def compared(difference: float, claim: object, p: float = 0.01, width: float = 0.1) -> Comparison:
    draws = np.linspace(difference - width, difference + width, 1001)
    return Comparison({"comparison": claim}, 1 + difference, 1.0, draws, RANDOM, p, claim)  # type: ignore[arg-type]


def holds(*comparisons: Comparison) -> list[bool]:
    return comparison_table(comparisons, COLUMNS)["holds"].tolist()


def test_a_row_has_the_difference_with_its_interval_and_its_null() -> None:
    (row,) = comparison_table([compared(0.5, "higher")], COLUMNS).to_dict("records")
    assert row["difference"] == 0.5 and row["random"] == pytest.approx(0.2)
    assert (row["lower"], row["upper"]) == pytest.approx((0.405, 0.595))
    assert row["p"] == 0.01 and row["holds"] and row["random_models"] == 2


@pytest.mark.parametrize(
    ("claim", "above", "below"),
    [("higher", True, False), ("lower", False, True), ("different", True, True)],
)
def test_a_difference_holds_on_the_claimed_side_of_zero(
    claim: str, above: bool, below: bool
) -> None:
    assert holds(compared(0.5, claim)) == [above]
    assert holds(compared(-0.5, claim)) == [below]
    assert holds(compared(0.05, claim)) == holds(compared(-0.05, claim)) == [False]


def test_p_values_are_corrected_for_the_number_of_comparisons() -> None:
    several = [compared(0.5, "higher", p) for p in (0.01, 0.02, 0.04)]
    assert comparison_table(several, COLUMNS)["p"].tolist() == pytest.approx([0.03, 0.04, 0.04])
    assert holds(*several) == [True] * 3
    assert holds(*several, compared(0.5, "higher", 0.9)) == [True, False, False, False]


def test_without_random_models_there_is_no_null() -> None:
    one = compared(0.5, "higher")
    alone = Comparison(one.about, one.first, one.second, one.draws, np.zeros(0), 1.0, "higher")
    (row,) = comparison_table([alone], COLUMNS).to_dict("records")
    assert np.isnan(row["random"]) and not row["holds"]
    assert list(comparison_table([], COLUMNS).columns) == COLUMNS
