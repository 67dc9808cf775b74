"""Two or more runs side by side: rows aligned by their tables' keys, differences with their sign.

Pure functions of tables. A difference is a later run's value less the first's; a row that one run
lacks stays, with nothing in its place. A key that says the same of all of a run's rows and another
thing of another run's, as the name of its only model, tells the runs apart and not their rows: by
it no row would meet another. Costs a join.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from workbench.core.errors import WorkbenchError, listed
from workbench.runs.run import Run, open_run

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def compare(*runs: Run | str) -> dict[str, pd.DataFrame]:
    """Lay runs next to each other: rows aligned by their tables' keys, with differences.

    Args:
        *runs: Two or more `Run`s, or their names.

    Returns:
        Every table that all runs have, by name: keys, each run's numbers (`A score`, `B score`)
        and the differences from the first (`B − A score`).

    Raises:
        WorkbenchError: Fewer than two runs were named, or they have no table in common.

    Example:
        >>> first = wb.run("describe", corpus="primer:size=40")
        >>> second = wb.run("describe", corpus="primer:size=40,seed=2")
        >>> wb.compare(first, second)["relations"].columns[:4].tolist()
        ['relation', 'A count', 'B count', 'B − A count']
    """
    opened = [open_run(run) if isinstance(run, str) else run for run in runs]
    return dict(compared([current_tables(run) for run in opened]))


def current_tables(run: Run) -> Mapping[str, pd.DataFrame]:
    """A run's tables; those of a sweep with the swept settings under their current names."""
    first, current = list(run.spec.sweep), list(run.sweep)
    if first == current:
        return run.tables
    return {name: _with_current_keys(run.tables[name], current) for name in run.tables}


def _with_current_keys(table: pd.DataFrame, swept: Sequence[str]) -> pd.DataFrame:
    """The table with its first columns, those of the swept values, named as in a new sweep."""
    names = swept_columns(swept, map(str, table.columns[len(swept) :]))
    renamed = dict(zip(table.columns[: len(swept)], names, strict=True))
    whole = table.rename(columns=renamed)
    whole.attrs = {
        **table.attrs,
        "keys": [renamed.get(key, key) for key in table.attrs.get("keys", ())],
    }
    return whole


def swept_columns(swept: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The column of each swept setting or input in a sweep's table beside the parts' `columns`."""
    taken = set(columns)
    return [f"swept_{name}" if name in taken else name for name in swept]


def compared(tables: Sequence[Mapping[str, pd.DataFrame]]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Every table that all have, aligned: keys, each run's numbers, and their differences."""
    if len(tables) < 2:
        raise WorkbenchError("a comparison needs two runs.", remedy="Name two or more.")
    if len(tables) > len(LETTERS):
        raise WorkbenchError(
            f"{len(tables)} runs are too many to lay side by side.",
            remedy=f"Name at most {len(LETTERS)}.",
        )
    names = [name for name in tables[0] if all(name in other for other in tables[1:])]
    if not names:
        raise WorkbenchError(
            "these runs have no table in common.",
            remedy="They have: " + "; ".join(listed(own) or "none" for own in tables) + ".",
        )
    for name in names:
        yield name, aligned([own[name] for own in tables])


def aligned(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table of several runs: `A value`, `B value`, `B − A value`, … beside the keys."""
    keys = list(tables[0].attrs.get("keys", ()))
    if missing := [key for key in keys if not all(key in table for table in tables)]:
        raise WorkbenchError(
            f"these tables cannot be aligned: one has no column {missing[0]!r}.",
            remedy="Ask anew for the run that an older version made.",
        )
    named = {*keys, *tables[0].attrs.get("labels", ())}
    keys = [key for key in keys if not _tells_runs_apart([table[key] for table in tables])]
    numbers = [
        column
        for column in tables[0].columns
        if column not in named and all(column in t and _is_number(t[column]) for t in tables)
    ]
    parts = [
        _numbered(table, keys)[[*numbers]].add_prefix(f"{letter} ")
        for letter, table in zip(LETTERS, tables, strict=False)
    ]
    order = _numbered(tables[0], keys).index
    joined = pd.concat(parts, axis=1)
    rest = [row for row in joined.index if row not in set(order)]
    joined = joined.loc[[*order, *rest]]
    columns = {}
    for number in numbers:
        for letter, _ in zip(LETTERS, tables, strict=False):
            columns[f"{letter} {number}"] = joined[f"{letter} {number}"]
            if letter != "A":
                difference = _signed(joined[f"{letter} {number}"]) - _signed(joined[f"A {number}"])
                columns[f"{letter} − A {number}"] = difference
    out = pd.DataFrame(columns, index=joined.index).reset_index()
    return out.drop(columns="row") if not keys else out


def _tells_runs_apart(columns: "Sequence[pd.Series[Any]]") -> bool:
    """Whether each run has one value, and not all the same."""
    own = [column.unique().tolist() for column in columns]
    return all(len(values) == 1 for values in own) and any(values != own[0] for values in own)


def _is_number(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _signed(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """A column whose differences may be negative."""
    return column.astype("int64") if column.dtype.kind == "u" else column


def _numbered(table: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Rows by their keys; by their number where there are none."""
    if not keys:
        return table.rename_axis(index="row")
    return table.set_index(list(keys))
