"""All runs: find, open, compare, export, remove and restore them.

The address holds the opened runs. Costs: one look at the status file of each run.
"""

import streamlit as st

from workbench.app import run_list, run_view

st.title("Runs", anchor=False)
st.markdown("Every experiment you started. Open a run to read its result or export a report.")
run_view.undo()
runs = run_list.all_statuses()
if runs:
    run_list.draw(runs)
else:
    run_list.draw_empty()
run_list.draw_built_in()
run_view.show_opened_runs(run_list.opened())
run_view.removed()
