"""Saved selections on the page Runs: filters and groups, opened by their links.

The name of the opened one is in the address; it fills the boxes of the filter or ticks the runs of
the group. Costs: one small file.
"""

from collections.abc import Mapping, Sequence

import streamlit as st

from workbench.app import choice
from workbench.app.text import errors_shown, plain, show_error
from workbench.core.errors import WorkbenchError
from workbench.runs import saved
from workbench.runs.saved import Saved
from workbench.runs.status import NamedStatus

SAVED = "saved"  # in the address
FIND, OF_RUNS, TICK = "find runs", " of runs", "tick "  # keys of the boxes of the list
_FILLED = "saved selection that filled the boxes"
_OPENINGS = "how often a saved selection was opened"


def opened_group(
    runs: Sequence[NamedStatus], options: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """The runs of the group in the address; () for none.

    When it is opened, its runs are ticked, or the boxes filled if it is a filter.
    """
    name = st.query_params.get(SAVED)
    if name is None:
        st.session_state.pop(_FILLED, None)
        return ()
    try:
        selection = saved.named(name)
    except WorkbenchError as error:
        show_error(error)
        return ()
    if st.session_state.get(_FILLED) != name:
        st.session_state[_FILLED] = name
        _fill(selection, options)
    known = {each for each, _ in runs}
    if gone := len({*selection.runs} - known):
        st.caption(f"{gone:,} of its {len(selection.runs):,} runs are no longer there.")
    return selection.runs


def _fill(selection: Saved, options: Mapping[str, Sequence[str]]) -> None:
    """Fill the boxes of the filter and tick the runs of a group, before they are drawn."""
    st.session_state[FIND] = selection.text
    for key, offered in options.items():
        chosen: tuple[str, ...] = getattr(selection, key)
        st.session_state[f"{key}{OF_RUNS}"] = [each for each in chosen if each in offered]
    for key in [str(key) for key in st.session_state if str(key).startswith(TICK)]:
        st.session_state[key] = False
    for run in selection.runs:
        st.session_state[f"{TICK}{run}"] = True


def changed() -> None:
    """The visitor changed the filter: it is no longer the saved one."""
    st.query_params.pop(SAVED, None)


def _open(name: str) -> None:
    st.session_state.pop(_FILLED, None)
    st.session_state[_OPENINGS] = st.session_state.get(_OPENINGS, 0) + 1
    st.query_params[SAVED] = name


def draw(wanted: Saved) -> None:
    """Draw the saved selections, and a box that saves the filter."""
    found, current = saved.read(), st.query_params.get(SAVED)
    if not found and wanted == Saved():
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="saved"):
        for name, selection in found.items():
            n_runs = len(selection.runs)
            st.button(
                plain(f"{name} ({n_runs})" if n_runs else name),
                key=f"open {name}",
                type="secondary" if name == current else "tertiary",
                icon=":material/folder:" if n_runs else ":material/filter_alt:",
                on_click=_open,
                args=(name,),
                help=f"Link: ?{SAVED}={plain(name)}",
            )
        if wanted != Saved() and current not in found:
            _save("Save the filter", "filter", wanted)
        if current in found:
            _change(str(current))


def save_group(runs: Sequence[str]) -> None:
    """Draw the box that saves ticked runs as a group."""
    _save("Save as a group", "group", Saved(runs=tuple(runs)))


def _save(label: str, key: str, selection: Saved) -> None:
    with (
        choice.place_of_popover(st.session_state.get(_OPENINGS, 0)),  # closed when it is saved
        st.popover(label, icon=":material/bookmark_add:"),
        st.form(f"save {key}", border=False),
        errors_shown(),
    ):
        name = st.text_input("Name", max_chars=saved.LONGEST, key=f"name of {key}")
        if st.form_submit_button("Save"):
            saved.write(name, selection)
            _open(" ".join(name.split()))
            st.rerun()


def _change(name: str) -> None:
    """Draw what renames or removes the opened selection."""
    with (
        choice.place_of_popover(st.session_state.get(_OPENINGS, 0)),
        st.popover("Change", icon=":material/edit:"),
        errors_shown(),
    ):
        with st.form("rename saved", border=False):
            to = st.text_input("New name", name, max_chars=saved.LONGEST)
            if st.form_submit_button("Rename"):
                saved.rename(name, to)
                _open(" ".join(to.split()))
                st.rerun()
        if st.button("Remove", icon=":material/delete:", help="The runs stay.", key="remove saved"):
            saved.remove(name)
            changed()
            st.rerun()
