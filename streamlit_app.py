"""The app and its pages. A page reads the user's choices, calls one function and shows the result.

Start it with `workbench app` or `streamlit run streamlit_app.py`. The model and the corpus are
chosen in the sidebar, so they stay the same on every page; both are part of the address.
"""

import os

import streamlit as st

from workbench.app import preload, sidebar
from workbench.app.text import guarded
from workbench.cli.serve import LOCAL, limit_paths
from workbench.core import machine

PAGES = (
    ("start", "Start"),
    ("models", "Models"),
    ("corpora", "Corpora"),
    ("attention", "Attention"),
    ("predict", "Predict & explain"),
    ("words", "Words"),
    ("heads", "Heads"),
    ("pruning", "Pruning"),
    ("probing", "Probing"),
    ("transfer", "Transfer"),
    ("experiments", "Experiments"),
    ("runs", "Runs"),
    ("doctor", "Doctor"),
)

if st.get_option("server.address") not in LOCAL and machine.ALLOWED not in os.environ:
    limit_paths()  # started with `streamlit run` on an address that others can reach
preload.begin()
st.set_page_config(page_title="Workbench", layout="wide")
pages = [st.Page(f"pages/{name}.py", title=title, default=name == "start") for name, title in PAGES]
page = st.navigation(pages, position="top")
sidebar.choose()
with guarded():
    page.run()
