"""Transfer: what fine-tuning wins over a frozen model, and what it changes; asked, and looked at.

What is looked at is in the address: the question, the run, the view. Costs what asking costs;
looking reads a run's tables, and trying a sentence opens two models.
"""

import streamlit as st

from workbench.app import cache, run_form, run_view, transfer
from workbench.app.text import told

st.title("Transfer", anchor=False)
with told(stop=True), st.spinner("Getting ready …"):
    cache.ready()
st.markdown(
    "Who gains from fine-tuning, and on what; one model adapted by one method; what that has "
    "changed, layer by layer; how alike the layers of any models are; and what models are worth "
    "that learnt by other means."
)
kind = transfer.experiment()
run = transfer.opened(kind)
transfer.choose(kind, run.name if run else "")
run_form.ask(kind, run, kind.about)
if run is not None:
    st.divider()
    with told():
        if run_view.watched(run):
            run_form.answered(run)
            transfer.show(run)
