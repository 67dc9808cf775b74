"""Numbers as people read them."""

import math

import numpy as np
import pandas as pd
import pytest

from workbench.report.format import LONGEST, column, grid, number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (7, "7"), (1234567, "1,234,567"), (-3, "−3"), (0.5, "0.5000"),
        (1 / 3, "0.3333"), (0.00123456, "0.001235"), (12.3456, "12.35"), (999.96, "1000.0"),
        (98765.4, "98,765"), (1e-9, "1.000e−09"), (1.5e12, "1,500,000,000,000"),
        (math.inf, "∞"), (-math.inf, "−∞"),
    ],
)  # fmt: skip
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_differences_have_their_sign_and_nothing_else_has_a_plus() -> None:
    assert column("B − A count", [2, -2, 0, None]).cells == ("+2", "−2", "0", "–")
    assert column("count", [2, -2]).cells == ("2", "−2")


def test_what_is_no_number_is_text() -> None:
    cells = column("x", [True, pd.NA, pd.NaT, np.nan, None, b"a", [1], "word"]).cells
    assert cells == ("yes", "–", "–", "–", "–", "b'a'", "[1]", "word")


def test_endless_text_is_cut_and_says_so() -> None:
    (cell,) = column("x", ["a" * (LONGEST + 1)]).cells
    assert cell.endswith(f"… ({LONGEST + 1:,} characters)")


def test_arrays_in_cells_and_columns_of_one_name_do_no_harm() -> None:
    table = pd.DataFrame([[np.array([1, 2]), 1], [np.array([3]), 2]], columns=["a", "a"])
    assert [c.cells for c in grid("t", table).columns] == [("[1 2]", "[3]"), ("1", "2")]


def test_keys_of_the_wrong_kind_are_none() -> None:
    table = pd.DataFrame({"a": [1]})
    table.attrs = {"keys": 3, "about": None}
    assert not any(c.is_key for c in grid("t", table).columns)
