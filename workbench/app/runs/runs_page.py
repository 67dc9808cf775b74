"""The page Runs: the list of all runs; one opened run as a result; several compared.

Costs: one look at the status file of each run, and drawing the opened result.
"""

from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import navigation
from workbench.app.runs import context, new_run, result_page, run_comparison, run_list, run_view
from workbench.app.text import errors_shown, show_error, tab_named
from workbench.core.errors import WorkbenchError
from workbench.experiment.definition import EXPERIMENTS

if TYPE_CHECKING:
    from workbench.runs.run import Run


def page() -> None:
    """Draw the opened run or runs; the list if none can be opened."""
    opened = _opened(run_list.opened())
    if len(opened) == 1:
        run = context.followed(opened[0])
        opened = [run] if run else []
    if not opened:
        _list()
        return
    with st.container(key="controls-back", horizontal=True):
        st.button(
            "All runs",
            icon=":material/arrow_back:",
            type="tertiary",
            on_click=run_list.set_opened,
            args=([],),
        )
    run_view.undo()
    with errors_shown():
        if len(opened) > 1:
            tab_named(f"{len(opened)} runs compared")
            run_comparison.draw(opened)
            return
        name = opened[0].status.experiment or opened[0].spec.experiment
        shown = navigation.result_page_of(name)
        if name in list(EXPERIMENTS):
            new_run.dialog(EXPERIMENTS[name], opened[0], shown.form)
        result_page.draw_result(opened[0], shown)


def _opened(names: list[str]) -> "list[Run]":
    """The runs in the address; what is wrong with a name is shown."""
    runs: list[Run] = []
    for name in names:
        try:
            runs.append(run_list.open_named(name))
        except WorkbenchError as error:
            show_error(error)
    return list({run.name: run for run in runs}.values())


def _list() -> None:
    st.title("Runs", anchor=False)
    run_view.undo()
    runs = run_list.all_statuses()
    if not runs:
        run_list.draw_empty()
    run_list.draw(runs)
    run_view.removed()
