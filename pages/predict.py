"""What a model predicts for a text, and why.

Costs: loading a model (cached), a forward pass for a prediction, and an explanation for the open
tab.
"""

import streamlit as st

from workbench.analyses.predictions.views import page as predict_views
from workbench.app import style
from workbench.app.text import errors_shown

style.draw_text_page()
st.title("Predict & explain", anchor=False)
with errors_shown(stop=True):
    predict_views.page()
