"""All runs: find them, open one, lay several side by side, save reports, remove and bring back.

What is opened is in the address. Reads the runs' folders; costs a look at each.
"""

import streamlit as st

from workbench.view.parts import listing, opened_runs

st.title("Runs", anchor=False)
opened_runs.undo()
runs = listing.standing()
if runs:
    listing.draw(runs)
else:
    listing.nothing()
opened_runs.show(listing.opened())
opened_runs.removed()
