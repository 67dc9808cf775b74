"""Numbers in figures are written as d3 writes them, and templates as Plotly fills them."""

from typing import Any

import pytest

from workbench.drawing.hover import Line, formatted, lines, tip


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.8149, ".1%", "81.5%"),
        (0.5, ".0%", "50%"),
        (0.5, ".1~%", "50%"),
        (0.125, ".1~%", "12.5%"),
        (1234567, ",", "1,234,567"),
        (1234.5, ",.0f", "1,234"),
        (0.05, ".3f", "0.050"),
        (-0.05, "+.2f", "−0.05"),
        (0.05, "+.2f", "+0.05"),
        (2, "+d", "+2"),
        (-0.0001, ".2f", "0.00"),
        (0.000123, ".2g", "0.00012"),
        (1234.0, ".4~g", "1234"),
        (1e-9, ".2e", "1.00e−9"),
        (1e6, "~e", "1e+6"),
        (12345.0, ".3s", "12.3k"),
        (0.03, ".3~%", "3%"),
        (12.0, "", "12"),
        (0.123456, "", "0.1235"),
        ("det", ".1%", "det"),
        (None, ".1%", ""),
        (float("nan"), ".1%", ""),
    ],
)
def test_numbers_are_written_as_in_d3(value: Any, form: str, text: str) -> None:
    assert formatted(value, form) == text


def test_a_template_is_filled_and_has_no_markup() -> None:
    point = {"x": 3, "y": 0.5, "customdata": ["a &lt;b&gt;", 7]}
    template = (
        "<b>layer %{x}</b>: %{y:.1%}<br>%{customdata[0]}, %{customdata[1]:+d}<extra>task</extra>"
    )
    assert tip(template, lambda name: (point.get(name), None)) == (
        "layer 3: 50.0 %\na <b>, +7\ntask"
    )


def test_a_number_without_a_format_has_that_of_its_axis() -> None:
    assert tip("%{x}: %{y:.2f}", lambda name: (0.25, ".0%")) == "25 %: 0.25"


def test_lines_of_a_text() -> None:
    assert lines("one<br><b>two</b> &amp; three") == (Line("one", False), Line("two & three", True))
