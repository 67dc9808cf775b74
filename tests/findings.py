"""Checks that all findings must pass, and the runs that they are read from."""

from collections.abc import Mapping, Sequence

import pandas as pd
import pytest

from workbench.core.findings import MOST, Finding
from workbench.experiment.definition import EXPERIMENTS

Tables = Mapping[str, pd.DataFrame]
OBJECTIVE = pd.DataFrame({"objective": ["masked"], "name": ["masked pieces"]})  # of a table


def findings_of(experiment: str, tables: Tables) -> dict[str, Finding]:
    """The checked findings of these tables, by measure."""
    found = EXPERIMENTS[experiment].findings_of(tables)
    check(experiment, found, tables)
    return {each.measure: each for each in found}


def check(experiment: str, findings: Sequence[Finding], tables: Tables) -> None:
    """Each finding names rows that exist, a figure that exists, and the number in its cell."""
    drawings = EXPERIMENTS[experiment].drawings()
    assert len(findings) <= MOST
    for each in findings:
        rows = tables[each.table]
        for key, value in each.keys.items():
            rows = rows[rows[key] == value]
        assert len(rows), f"{each.measure}: no row has {each.keys}"
        assert not each.figure or each.figure in drawings, each.figure
        if each.column:
            assert len(rows) == 1, f"{each.measure}: {len(rows)} rows have {each.keys}"
            assert each.value == pytest.approx(float(rows[each.column].iloc[0])), each.measure
