"""A run of `heads` that is looked at, and the head of it that is: both in the address.

Costs reading the tables that are asked for, which are kept.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.view import heads_names as names
from workbench.view.parts import tables
from workbench.view.parts.plain import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from workbench.runs.run import Run

NAME = "heads"
HEAD, DIRECTION, RELATION = "head", "direction", "relation"  # in the address
_WANTED = (*names.HEAD, "role", "roles", *(score.column for score in names.SCORES.values()))


@dataclass(frozen=True)
class Looked:
    """A run, and one of its heads."""

    run: "Run"
    row: int  # of the table of heads

    @cached_property
    def heads(self) -> "pd.DataFrame":
        return heads_of(self.run)

    @property
    def several(self) -> bool:
        """Whether there is more than one kind of attention."""
        return len(names.groups(self.heads)) > 1

    @property
    def here(self) -> "pd.Series":
        """The head's own row."""
        return self.heads.iloc[self.row]

    @property
    def name(self) -> str:
        return names.named(self.heads)[self.row]

    def table(self, name: str) -> "pd.DataFrame":
        return tables.of(self.run, name)

    def own(self, name: str) -> "pd.DataFrame":
        """The rows of a table that speak of this head."""
        table = self.table(name)
        there = table["head"] == self.here["head"]
        for column in names.HEAD[:3]:
            if column in table:  # of cross-attention the kind goes without saying
                there &= table[column] == self.here[column]
        rows: pd.DataFrame = table[there]
        return rows


def heads_of(run: "Run") -> "pd.DataFrame":
    """The table of heads; an error where it is not as it is today."""
    table = tables.of(run, "heads").reset_index(drop=True)
    missing = [column for column in _WANTED if column not in table.columns]
    if missing or table.empty:
        what = f"has no column {missing[0]!r}" if missing else "is empty"
        raise WorkbenchError(
            f"its table 'heads' {what}.",
            where=run.name,
            remedy="It was made by another version; ask the same question again.",
        )
    return table


def looked(run: "Run") -> Looked:
    """The head that the address names; else the first that has a role."""
    heads = heads_of(run)
    there = names.named(heads)
    asked = st.query_params.get(HEAD)
    if asked in there:
        return Looked(run, there.index(asked))
    if asked:
        st.warning(f"This run has no head {shortened(asked)}; another is shown.")
    with_role = heads.index[heads["role"].astype(bool)]
    return Looked(run, int(with_role[0]) if len(with_role) else 0)


def look_at(run: "Run", row: int) -> None:
    """Put the head of a row into the address; for callbacks."""
    there = names.named(heads_of(run))
    if 0 <= row < len(there):
        st.query_params[HEAD] = there[row]


def one(label: str, there: "Sequence[str]", key: str, usual: str, seen: Looked) -> str:
    """A choice that follows the head until it is made, and stays in the address from then on."""
    asked = st.query_params.get(key)
    if asked and asked not in there:
        st.caption(f"no {key} {shortened(asked)} here")
    first = str(next((name for name in (asked, usual) if name in there), there[0]))
    box = f"{key} {seen.run.name} {seen.row} {first} {len(there)}"
    picked = st.selectbox(
        label,
        there,
        there.index(first),
        key=box,
        width=200,
        on_change=lambda: _chosen(key, there, st.session_state.get(box)),
    )
    return str(picked) if picked in there else first


def _chosen(key: str, there: "Sequence[str]", name: str | None) -> None:
    if name in there:
        st.query_params[key] = str(name)
