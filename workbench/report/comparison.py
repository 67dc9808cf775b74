"""Runs of one experiment side by side: what was asked differently, and tables aligned by keys.

The first run is A; differences are a later run's value less A's, with their sign. Costs a join a
table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from workbench.errors import WorkbenchError
from workbench.report.cells import Grid, grid
from workbench.report.question import facts
from workbench.runs.compare import LETTERS, compared
from workbench.runs.run import Run

_OWN = ("When", "With what")  # differ in any two runs; said with each


@dataclass(frozen=True)
class Comparison:
    """What two or more runs of one experiment have in common and not."""

    experiment: str
    runs: Mapping[str, Run]  # by letter
    asked: Grid  # what differs in the questions
    tables: tuple[Grid, ...]
    notes: tuple[str, ...]  # why a table is not there


def comparisons(runs: Sequence[Run]) -> tuple[Comparison, ...]:
    """One for each experiment of which there are several runs."""
    by_experiment: dict[str, list[Run]] = {}
    for run in runs:
        if not run.spec.sweep:
            by_experiment.setdefault(run.spec.experiment, []).append(run)
    return tuple(
        _comparison(experiment, found)
        for experiment, found in by_experiment.items()
        if len(found) > 1
    )


def _comparison(experiment: str, runs: Sequence[Run]) -> Comparison:
    lettered = dict(zip(LETTERS, runs, strict=False))
    tables, notes = [], []
    names = list(dict.fromkeys(name for run in runs for name in run.tables))
    if len(runs) > len(LETTERS):
        names = []
        notes.append(f"{len(runs)} runs are too many to lay side by side: {len(LETTERS)} at most.")
    for name in names:
        if lacking := [letter for letter, run in lettered.items() if name not in run.tables]:
            notes.append(f"{name}: there is none of {', '.join(lacking)}.")
            continue
        try:
            aligned = _aligned(name, runs)
        except (WorkbenchError, ValueError, KeyError, TypeError) as error:
            why = (
                error.what
                if isinstance(error, WorkbenchError)
                else "its keys do not tell rows apart."
            )
            notes.append(f"{name}: {why}")
            continue
        if aligned.columns:
            tables.append(aligned)
    return Comparison(experiment, lettered, _differing(lettered), tuple(tables), tuple(notes))


def _aligned(name: str, runs: Sequence[Run]) -> Grid:
    about, keys = (
        runs[0].tables[name].attrs.get("about", ""),
        runs[0].tables[name].attrs.get("keys"),
    )
    ((_, table),) = compared([{name: run.tables[name]} for run in runs])
    table.attrs = {"about": about}
    return grid(name, table, keys or ())


def _differing(runs: Mapping[str, Run]) -> Grid:
    """One row for everything in which the questions differ."""
    asked = {letter: _flat(run) for letter, run in runs.items()}
    names = dict.fromkeys(name for rows in asked.values() for name in rows)
    rows = [
        (name, *(own.get(name) for own in asked.values()))
        for name in names
        if len({own.get(name) for own in asked.values()}) > 1
    ]
    table = pd.DataFrame(rows, columns=["", *runs])
    table.attrs = {"about": "What differs between the questions."}
    return grid("asked", table, [""])


def _flat(run: Run) -> Mapping[str, str]:
    """Facts by name; of several of one name, as of two models, all in one."""
    found: dict[str, str] = {}
    subject = ""
    for group, rows in facts(run).items():
        if group in _OWN:
            continue
        for name, value in rows:
            subject = name if name in ("model", "corpus") else subject
            label = f"{name} of the {subject}" if name == "content hash" else name
            found[label] = f"{found[label]}; {value}" if label in found else value
    return found
