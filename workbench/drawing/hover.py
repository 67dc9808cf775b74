"""Numbers and templates of figures as plain text, as Plotly writes them.

Formats are those of d3, such as `.1%` or `,.0f`. Templates are those of hover texts, such as
`layer %{x}: %{y:.1%}`. Texts of figures have markup; here it is removed. Costs: microseconds.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from numbers import Real
from typing import Any, NamedTuple

from workbench.core.findings import MINUS

_FORMAT = re.compile(
    r"(?:(?P<fill>.)?(?P<align>[<>=^]))?(?P<sign>[-+( ])?\$?0?(?P<width>\d+)?(?P<comma>,)?"
    r"(?:\.(?P<digits>\d+))?(?P<trim>~)?(?P<type>[a-zA-Z%])?"
)
_FIELD = re.compile(r"%\{([\w.]+)((?:\[\d+\])*)(?::([^}]*))?\}")
_EXTRA = re.compile(r"<extra>(.*?)</extra>", re.DOTALL)
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_TAG = re.compile(r"</?(?:b|i|em|strong|sub|sup|extra) ?/?>", re.IGNORECASE)
_PREFIXES = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T"}


class Line(NamedTuple):
    """A line of text in a figure."""

    text: str
    is_bold: bool


def formatted(value: Any, spec: str | None) -> str:
    """Return a value in a d3 format; text, and numbers without a format, in a short form."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return "" if value is None else str(value)
    number = float(value)
    if not math.isfinite(number):
        return ""
    if not spec:
        return _short(number)
    found = _FORMAT.fullmatch(spec)
    if found is None:
        return _short(number)
    body = _body(abs(number), found["type"] or "", found["digits"], bool(found["comma"]))
    if found["trim"] or not found["type"]:
        body = _trimmed(body)
    is_zero = not re.search("[1-9]", body)
    if number < 0 and not is_zero:
        return MINUS + body
    return "+" + body if found["sign"] == "+" else body


def _short(number: float) -> str:
    if number.is_integer() and abs(number) < 1e15:
        return (
            f"{number:,.0f}".replace("-", MINUS) if abs(number) >= 1e4 else _dash(f"{number:.0f}")
        )
    return _dash(f"{number:.4g}")


def _dash(text: str) -> str:
    return text.replace("-", MINUS)


def _body(size: float, kind: str, digits: str | None, comma: bool) -> str:
    """Return a number without its sign."""
    separator = "," if comma else ""
    n = 6 if digits is None else int(digits)
    if kind in ("d", "c"):
        return f"{size:{separator}.0f}"
    if kind == "f":
        return f"{size:{separator}.{n}f}"
    if kind == "%":
        return f"{100 * size:{separator}.{n}f}%"
    if kind == "p":
        return f"{_significant(100 * size, n)}%"
    if kind == "e":
        return re.sub(r"e([-+])0*(\d)", lambda e: f"e{_dash(e[1])}{e[2]}", f"{size:.{n}e}")
    if kind == "r":
        return _significant(size, n)
    if kind == "s":
        power = 3 * math.floor(math.log10(size) / 3) if size else 0
        power = max(-9, min(12, power))
        return f"{_significant(size / 10.0**power, n)}{_PREFIXES[power]}"
    if kind == "g" or digits is not None:
        power = math.floor(math.log10(size)) if size else 0
        if power < -6 or power >= max(n, 1):
            return _body(size, "e", str(max(n, 1) - 1), comma)
        return _significant(size, n)
    return f"{size:{separator}.12g}"


def _significant(size: float, digits: int) -> str:
    """Return a number with significant digits, and no exponent."""
    power = math.floor(math.log10(size)) if size else 0
    return f"{round(size, max(digits, 1) - 1 - power):.{max(0, max(digits, 1) - 1 - power)}f}"


def _trimmed(body: str) -> str:
    """Return a number without zeros at the end of its decimals."""
    return re.sub(r"\.(\d*?)0+(?=\D|$)", lambda e: f".{e[1]}" if e[1] else "", body)


# --- templates ------------------------------------------------------------------------------------


ValueOf = Callable[[str], tuple[Any, str | None]]


def filled(template: str, value_of: ValueOf, percent: str = "%") -> str:
    """Return a template with its fields filled; `value_of` gives value and default format."""

    def fill(field: re.Match[str]) -> str:
        value, default = value_of(field[1])
        for index in re.findall(r"\d+", field[2]):
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else ""
        form = field[3] or default
        shown = formatted(value, form)
        return shown.replace("%", percent) if form and form.endswith("%") else shown

    return _FIELD.sub(fill, template)


def tip(template: str, value_of: ValueOf) -> str:
    """Return the hover text of a mark, as plain text with line breaks."""
    text = filled(template, value_of, " %")
    extra = "".join(_EXTRA.findall(text)).strip()
    body = _EXTRA.sub("", text)
    return plain(f"{body}<br>{extra}" if extra else body)


@lru_cache(4096)
def lines(text: str) -> tuple[Line, ...]:
    """Return the lines of a text of a figure."""
    return tuple(
        Line(plain(part), "<b>" in part) for part in _BREAK.split(str(text).replace("\n", " "))
    )


def plain(text: str) -> str:
    """Return a text of a figure without its markup."""
    return unescape(_TAG.sub("", _BREAK.sub("\n", text)))
