"""All runs: find them, open one, lay several side by side, save reports, remove and bring back.

What is opened is in the address. Reads the runs' folders; costs a look at each.
"""

import streamlit as st

from workbench.app import run_list, run_view

st.title("Runs", anchor=False)
run_view.undo()
runs = run_list.standing()
if runs:
    run_list.draw(runs)
else:
    run_list.nothing()
run_view.show_opened_runs(run_list.opened())
run_view.removed()
