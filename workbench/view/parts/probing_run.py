"""A run of edge probing that is looked at: which one, which one beside it, and what each told.

Reads the runs' folders. Costs a look at every run's status, and at a run's small tables.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.view.parts import earlier, listing, tables
from workbench.view.parts.probing_curves import Laid
from workbench.view.parts.problems import tell

if TYPE_CHECKING:
    from workbench.runs.run import Run

NAME = "edge-probing"
BESIDE = "beside"  # in the address: the second run
_WANTED = {"means": "mean lower upper stack", "summary": "expected_layer best_score"}


def choose(opened: str) -> None:
    """Open a run of before; its name goes into the address."""
    earlier.choose(NAME, opened, (BESIDE,))


def beside(run: "Run") -> "Run | None":
    """The run that is laid beside this one, by the address or the box."""
    there = {name: title for name, title in earlier.titles(NAME).items() if name != run.name}
    asked = st.query_params.get(BESIDE)
    if not there and not asked:
        return None
    names = list(there)
    key = f"beside {run.name} {asked}"
    st.selectbox(
        "Another run beside it",
        names,
        names.index(asked) if asked in names else None,
        format_func=there.__getitem__,
        key=key,
        placeholder="none",
        help="Its curves are drawn with this one's, and the difference of their best layers is "
        "tested where both scored the same sentences.",
        on_change=lambda: _lay(st.session_state.get(key)),
    )
    if not asked or asked == run.name:
        return None
    return _second(asked)


def _second(name: str) -> "Run | None":
    """The run that the address names, which anybody may have written."""
    try:
        other = listing.open_named(name)
        if other.spec.experiment != NAME or other.spec.sweep:
            raise WorkbenchError(
                "this is no run of edge probing.",
                where=other.name,
                remedy="Choose a run of edge-probing that is no sweep.",
            )
        laid(other)
    except WorkbenchError as error:
        tell(error)
        return None
    return other


def _lay(name: str | None) -> None:
    if name:
        st.query_params[BESIDE] = name
    else:
        st.query_params.pop(BESIDE, None)


def is_preview(run: "Run") -> bool:
    """Whether its probes were not trained."""
    return bool(run.spec.settings.get("preview"))


def laid(run: "Run", name: str = "") -> Laid:
    """The curves of a run; an error where its tables are not those of today."""
    found = {}
    for table, columns in _WANTED.items():
        read = tables.of(run, table)
        if missing := [column for column in columns.split() if column not in read.columns]:
            raise WorkbenchError(
                f"its table {table!r} has no column {missing[0]!r}.",
                where=run.name,
                remedy="It was made by another version; ask the same question again.",
            )
        found[table] = read
    return Laid(name or called(run), found["means"], found["summary"])


def called(run: "Run") -> str:
    """A run in a legend: its model, marked where it is a preview."""
    name = ", ".join(model.name for model in run.spec.models)
    return f"{name} (preview)" if is_preview(run) else name
