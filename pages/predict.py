"""What a model predicts for a text, and why.

Costs: loading a model (cached), a forward pass for a prediction, and an explanation for the open
tab.
"""

import streamlit as st

from workbench.app import predict, predict_views
from workbench.app.text import errors_shown

predict.style()
st.title("Predict & explain", anchor=False)
with errors_shown(stop=True):
    predict_views.page()
