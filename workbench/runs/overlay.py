"""Several runs on one axis: one number of one table, by run, model, corpus, seed or setting.

Pure functions of tables. A group of one run keeps the interval of its table; a group of several is
a mean with Student's interval over its runs, after the rows of each run (its seeds) are averaged.
Differences are from one group, at the same place; their interval takes both as independent, which
is wider than that of paired runs. Costs: one pass over the rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.head_names import FIRST

MOST = 200  # places on an axis, or values to choose from
PANELS = 12  # values of a key that are panels
_NOT_VALUES = ("n", "p", "p_value", "seconds", "memory")  # numbers that come last
_FIRST = ("layer", "step")  # axes that come first
PLACE = ("layer", "head")  # keys that are indices
_AVERAGED = ("seed", "round")  # keys that are averaged, never an axis


@dataclass(frozen=True)
class Choices:
    """What a table of several runs can be drawn as; the first of each is the default."""

    values: Sequence[str]
    over: Sequence[str]  # keys that can be the axis
    others: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # values by other key
    first: int = 0  # what index 0 of a layer and a head is shown as; 1 in tables of heads

    @property
    def fit(self) -> bool:
        """Whether there is a number along an axis."""
        return bool(self.values and self.over)


def choices(tables: Sequence[pd.DataFrame], over: str = "") -> Choices:
    """Return what these tables of several runs can be drawn as, with `over` as the axis."""
    first = tables[0]
    keys = [key for key in first.attrs.get("keys", ()) if all(key in each for each in tables)]
    labels = {*keys, *first.attrs.get("labels", ())}
    found = [
        name
        for name in first.columns
        if name not in labels
        and not name.endswith(("lower", "upper"))
        and all(_is_number(each, name) for each in tables)
    ]
    values = sorted(found, key=lambda name: name in _NOT_VALUES or first[name].dtype.kind in "iu")
    vary = [key for key in keys if any(each[key].nunique() > 1 for each in tables)]  # in a run
    distinct = {key: _distinct(tables, key) for key in vary if key not in _AVERAGED}
    axes = sorted(
        (key for key in distinct if 1 < len(distinct[key]) <= MOST),
        key=lambda key: (key not in _FIRST, not _is_number(first, key), -len(distinct[key])),
    )
    axis = over if over in axes else next(iter(axes), "")
    others = {key: each for key, each in distinct.items() if key != axis and 1 < len(each) <= MOST}
    return Choices(values, axes, others, FIRST if all(map(_of_heads, tables)) else 0)


def panel_of(known: Choices, held: Iterable[str] = ()) -> str:
    """The key whose values are panels: the first that is not held and has few; "": none."""
    free = (key for key, each in known.others.items() if key not in held and len(each) <= PANELS)
    return next(free, "")


def overlaid(
    tables: Sequence[pd.DataFrame],
    group_of: Sequence[str],
    value: str = "",
    over: str = "",
    where: Mapping[str, Any] | None = None,
    minus: str = "",
) -> pd.DataFrame:
    """Return `group`, `panel`, `at`, `value`, `lower`, `upper` and `runs` of tables on one axis.

    `where` holds keys at one value; of the keys that are left, the first with few values makes the
    panels, and others are held at their first value. `minus` is a group from which differences
    are taken.
    """
    known = choices(tables, over)
    if not known.fit:
        raise WorkbenchError(
            "this table has no numbers along an axis.",
            code="no-axis",
            remedy="Choose another table, or compare its rows.",
        )
    value = require_among(value or known.values[0], known.values, "column of numbers")
    over = require_among(over or known.over[0], known.over, "axis")
    held = dict(where or {})
    panel = panel_of(known, held)
    for key, each in known.others.items():
        if key != panel:
            held.setdefault(key, each[0])
    parts = [_of_run(table, value, over, panel, held) for table in tables]
    named = [part.assign(group=group) for part, group in zip(parts, group_of, strict=True)]
    joined = pd.concat(named)
    rows = [
        {"group": group, "panel": where_, "at": at, **_summary(each)}
        for (group, where_, at), each in joined.groupby(["group", "panel", "at"], sort=False)
    ]
    out = pd.DataFrame(rows, columns=["group", "panel", "at", "value", "lower", "upper", "runs"])
    out.attrs = {"value": value, "over": over, "panel": panel, "held": held, "minus": minus}
    out.attrs["first"] = known.first
    return (
        _differences(out, require_among(minus, dict.fromkeys(group_of), "group")) if minus else out
    )


def _of_run(
    table: pd.DataFrame, value: str, over: str, panel: str, held: Mapping[str, Any]
) -> pd.DataFrame:
    """One run's `panel`, `at`, `value`, `lower`, `upper`; rows of one place are averaged."""
    for key, wanted in held.items():
        table = table[table[key].astype(str) == str(wanted)]
    low, high = next(
        (ends for ends in _ends_of(value) if set(ends) <= {*table.columns}), (value, value)
    )
    part = pd.DataFrame(
        {
            "panel": table[panel].astype(str) if panel else "",
            "at": table[over],
            "value": table[value].astype(float),
            "lower": table[low].astype(float) if low != value else np.nan,
            "upper": table[high].astype(float) if high != value else np.nan,
        }
    )
    by = part.groupby(["panel", "at"], sort=False)
    return by.mean().assign(rows=by.size()).reset_index()


def _summary(rows: pd.DataFrame) -> dict[str, Any]:
    """The mean over runs with its interval; that of its table for a run alone."""
    mean, n = float(rows["value"].mean()), len(rows)
    if n == 1:
        alone = rows.iloc[0]
        exact = alone["rows"] == 1  # the mean of several intervals is not the interval of the mean
        lower, upper = (alone[end] if exact else np.nan for end in ("lower", "upper"))
        return {"value": mean, "lower": lower, "upper": upper, "runs": 1}
    half = float(t.ppf(0.975, n - 1) * rows["value"].std(ddof=1) / np.sqrt(n))
    return {"value": mean, "lower": mean - half, "upper": mean + half, "runs": n}


def _differences(rows: pd.DataFrame, minus: str) -> pd.DataFrame:
    """The differences of the other groups from one, with an interval of independent groups."""
    place = ["panel", "at"]
    other = rows[rows["group"] == minus].set_index(place)[["value", "lower", "upper"]]
    joined = rows[rows["group"] != minus].join(other.add_suffix(" of it"), on=place, how="inner")
    own, its = (joined["value"] - joined["lower"], joined["upper of it"] - joined["value of it"])
    below = np.hypot(own, its)
    own, its = (joined["upper"] - joined["value"], joined["value of it"] - joined["lower of it"])
    above = np.hypot(own, its)
    difference = joined["value"] - joined["value of it"]
    out = joined[rows.columns].assign(
        value=difference,
        lower=difference - below,
        upper=difference + above,
    )
    out.attrs = rows.attrs
    return out.reset_index(drop=True)


def require_among(name: str, among: Iterable[str], what: str) -> str:
    """Return the name if it is among these; otherwise raise an error that lists them."""
    names = [*among]
    if name not in names:
        raise WorkbenchError(
            f"there is no {what} {name!r} here.",
            code="no-axis",
            remedy=did_you_mean(name, names, ordered=True),
        )
    return name


def _distinct(tables: Sequence[pd.DataFrame], key: str) -> list[Any]:
    """The values of a key over all tables; numbers in order, names as they come."""
    found = list(dict.fromkeys(value for table in tables for value in table[key].unique()))
    return sorted(found) if all(_is_number(table, key) for table in tables) else found


def _of_heads(table: pd.DataFrame) -> bool:
    """Whether each row is of a head, so that its layer is a block and not a state."""
    return all(_is_number(table, key) and bool((table[key] >= 0).all()) for key in PLACE)


def _is_number(table: pd.DataFrame, name: str) -> bool:
    column = table.get(name)
    return column is not None and column.dtype.kind in "iuf"


def _ends_of(value: str) -> Sequence[tuple[str, str]]:
    """The columns that an interval of a value may have."""
    return ((f"{value}_lower", f"{value}_upper"), ("lower", "upper"))
