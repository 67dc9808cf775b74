"""Two or more runs side by side: rows aligned by the keys of their tables, with differences.

Pure functions of tables. A difference is the value of a later run minus that of the first; a row
that one run lacks stays, with empty cells. A key with one value per run, such as the name of the
only model, is dropped where the values differ: it identifies the run, not the row, and no rows
would match. Costs: a join.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.core.display import Displayed
from workbench.core.errors import WorkbenchError, listed
from workbench.core.findings import Finding, changes
from workbench.runs import spec
from workbench.runs.overlay import require_among
from workbench.runs.run import Run, opened_run

if TYPE_CHECKING:
    import plotly.graph_objects as go

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Comparison(dict[str, pd.DataFrame], Displayed):
    """The tables of several runs side by side, by name; `findings` say what changed."""

    findings: tuple[Finding, ...] = ()
    runs: tuple[Run, ...] = ()
    drawn_by = "workbench.report.notebook:comparison"

    def __repr__(self) -> str:
        """Return its runs by their letters, what changed, and the names of its tables."""
        return "\n".join(
            [
                *map("{}: {.name}".format, LETTERS, self.runs),
                *map("- {.claim}".format, self.findings),
                f"tables: {', '.join(self)}",
            ]
        )

    def overlay(
        self,
        table: str,
        value: str = "",
        over: str = "",
        by: str = "run",
        where: Mapping[str, Any] | None = None,
        minus: str = "",
    ) -> "go.Figure":
        """Draw one number of one table for all runs on one axis.

        Args:
            table: A table that all runs have.
            value: The column of numbers (default: the first).
            over: The key along the axis, such as `layer` (default: a key of numbers).
            by: What makes a curve: `run`, or what differs: `model`, `corpus`, `seed`, a setting. A
                curve of several runs is their mean with its 95 % interval.
            where: Keys held at one value, such as `{"task": "pos"}`.
            minus: A curve from which the others are differences.

        Returns:
            A Plotly figure.

        Raises:
            WorkbenchError: A name is unknown, or the table has no axis.
        """
        from workbench.drawing.overlay import overlaid as drawn
        from workbench.runs.overlay import overlaid

        groups = grouped(self.runs, by)
        return drawn(
            overlaid([run.tables[table] for run in self.runs], groups, value, over, where, minus)
        )


def compare(*runs: Run | str) -> Comparison:
    """Compare runs side by side: what changed, and tables aligned by their keys.

    Args:
        *runs: Two or more `Run`s, or their names.

    Returns:
        Every table that all runs have, by name: keys, each run's numbers (`A score`, `B score`)
        and the differences from the first (`B − A score`). Its `findings` say what changed.

    Raises:
        WorkbenchError: Fewer than two runs are named, or they have no table in common.

    Example:
        >>> first = wb.run("describe", corpus="primer:size=40")
        >>> second = wb.run("describe", corpus="primer:size=40,seed=2")
        >>> wb.compare(first, second)["relations"].columns[:4].tolist()
        ['relation', 'A count', 'B count', 'B − A count']
    """
    opened = [opened_run(run, "wb.compare") for run in runs]
    comparison = Comparison(compared([run.tables for run in opened]))
    comparison.findings, comparison.runs = what_changed(opened), tuple(opened)
    return comparison


def what_changed(runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Return the differences of later runs from the first as findings; the runs have letters.

    Inputs that share a name but not their content come first: no other line would tell them apart.
    """
    lettered = dict(zip(LETTERS, runs, strict=False))
    found = changes({letter: run.findings for letter, run in lettered.items()})
    return (*_namesakes(lettered), *found)


def caveats_of(runs: Sequence[Run]) -> list[str]:
    """Return the caveats of runs; one that only some have begins with their letters."""
    letters: dict[str, list[str]] = {}
    for letter, run in zip(LETTERS, runs, strict=False):
        for text in dict.fromkeys(caveat.text for caveat in run.caveats):
            letters.setdefault(text, []).append(letter)
    return [
        text if len(own) == len(runs) else f"{'+'.join(own)}: {text}"
        for text, own in letters.items()
    ]


def _namesakes(runs: Mapping[str, Run]) -> Iterator[Finding]:
    """Yield a finding for each name that stands for different models or corpora in the runs."""
    hashes: dict[tuple[str, str], dict[str, set[str]]] = {}  # kind and name -> run -> hashes
    for letter, run in runs.items():
        own = spec.with_given_names(run.spec)
        for kind, inputs in (("models", own.models), ("corpora", own.corpora)):
            for each in inputs:
                hashes.setdefault((kind, each.name), {}).setdefault(letter, set()).add(each.hash)
    for (kind, name), by_run in hashes.items():
        apart = [
            "+".join(letter for letter in by_run if by_run[letter] == content)
            for content in {frozenset(each): each for each in by_run.values()}.values()
        ]
        if len(apart) > 1:
            what = f"different {kind} of one name, {name}"
            claim = f"{' and '.join(apart)} have {what}."
            yield Finding(claim, None, None, None, "supported", "", measure=what)


def swept_columns(swept: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return the column of each swept setting or input in a table that has other `columns`."""
    taken = set(columns)
    return [f"swept_{name}" if name in taken else name for name in swept]


def groups(runs: Sequence[Run]) -> Mapping[str, Sequence[str]]:
    """Return what runs can be grouped by, with the group of each run: its letter, model, setting …

    Only what differs between the runs is there, and `run`.
    """
    specs = [spec.with_given_names(run.spec) for run in runs]
    settings = dict.fromkeys(name for each in specs for name in each.settings)
    columns = swept_columns(settings, ("run", "model", "corpus", "split", "seed", "version"))
    of_one = len({each.experiment for each in specs}) == 1  # versions of several say nothing
    by = {
        "run": [LETTERS[index] for index in range(len(runs))],
        "model": [" + ".join(model.name for model in each.models) for each in specs],
        "corpus": [" + ".join(corpus.name for corpus in each.corpora) for each in specs],
        "split": [str(each.split) for each in specs],
        "seed": [str(each.seed) for each in specs],
        "version": [str(each.version) if of_one else "" for each in specs],
        **{
            column: [_said(each.settings.get(name)) for each in specs]
            for name, column in zip(settings, columns, strict=True)
        },
    }
    return {name: each for name, each in by.items() if name == "run" or len(set(each)) > 1}


def grouped(runs: Sequence[Run], by: str) -> Sequence[str]:
    """Return the group of each run."""
    known = groups(runs)
    return known[require_among(by, known, "way to group these runs")]


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def compared(tables: Sequence[Mapping[str, pd.DataFrame]]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the tables that all runs have, aligned: keys, the numbers of each run, differences."""
    if len(tables) < 2:
        raise WorkbenchError(
            "a comparison needs two runs.", code="too-few-runs", remedy="Name two or more runs."
        )
    if len(tables) > len(LETTERS):
        raise WorkbenchError(
            f"{len(tables)} runs are too many for a comparison.",
            code="too-many-runs",
            remedy=f"Name {len(LETTERS)} runs or fewer.",
        )
    names = [name for name in tables[0] if all(name in other for other in tables[1:])]
    if not names:
        raise WorkbenchError(
            "these runs have no table in common.",
            code="no-common-table",
            remedy="They have: " + "; ".join(listed(names) or "none" for names in tables) + ".",
        )
    for name in names:
        yield name, aligned([by_name[name] for by_name in tables])


def aligned(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return one table of several runs: the keys, then `A value`, `B value`, `B − A value`, …

    Texts, which have no difference, are only in tables without numbers.
    """
    keys = list(tables[0].attrs.get("keys", ()))
    if missing := [key for key in keys if not all(key in table for table in tables)]:
        raise WorkbenchError(
            f"these tables cannot be aligned: one has no column {missing[0]!r}.",
            code="tables-not-aligned",
            remedy="A sweep compares with sweeps of the same settings; of others compare the runs "
            "that it started. If an older version made one of the runs, start that run again.",
        )
    excluded = {*keys, *tables[0].attrs.get("labels", ())}
    keys = [key for key in keys if not _identifies_run([table[key] for table in tables])]
    shared = [
        column
        for column in tables[0].columns
        if column not in excluded and all(column in table for table in tables)
    ]
    numbers = [column for column in shared if all(_is_number(table[column]) for table in tables)]
    values = numbers or shared  # a table without numbers, such as `facts`, has texts
    parts = [
        _numbered(table, keys)[[*values]].add_prefix(f"{letter} ")
        for letter, table in zip(LETTERS, tables, strict=False)
    ]
    order = _numbered(tables[0], keys).index
    joined = pd.concat(parts, axis=1)
    of_first = set(order)
    others = [row for row in joined.index if row not in of_first]
    joined = joined.loc[[*order, *others]]
    columns = {}
    for value in values:
        for letter, _ in zip(LETTERS, tables, strict=False):
            columns[f"{letter} {value}"] = joined[f"{letter} {value}"]
            if letter != "A" and value in numbers:
                difference = _signed(joined[f"{letter} {value}"]) - _signed(joined[f"A {value}"])
                columns[f"{letter} − A {value}"] = difference
    out = pd.DataFrame(columns, index=joined.index).reset_index()
    return out.drop(columns="row") if not keys else out


def _identifies_run(columns: "Sequence[pd.Series[Any]]") -> bool:
    """Return whether each run has one value, and the values differ."""
    unique = [column.unique().tolist() for column in columns]
    return all(len(values) == 1 for values in unique) and any(v != unique[0] for v in unique)


def _is_number(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _signed(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column as signed numbers, so that differences may be negative."""
    return column.astype("int64") if column.dtype.kind == "u" else column


def _numbered(table: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return a table indexed by its keys; by row number if it has none."""
    if not keys:
        return table.rename_axis(index="row")
    return table.set_index(list(keys))
