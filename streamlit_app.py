"""The app and its pages. A page reads the user's choices, calls one function and shows the result.

Start it with `workbench app` or `streamlit run streamlit_app.py`. The model and the corpus are
chosen in the top bar, so they stay the same on every page; both are part of the address.
"""

import os

import streamlit as st

from workbench.app import foreground, navigation, unknown
from workbench.app.frame import preload, shell
from workbench.app.text import guarded
from workbench.cli.serve import LOCAL, limit_paths
from workbench.core import machine

if st.get_option("server.address") not in LOCAL and machine.ALLOWED not in os.environ:
    limit_paths()  # started with `streamlit run` on an address that others can reach
preload.begin()
st.set_page_config(page_title="Workbench", layout="wide")
pages = navigation.bar()
if name := unknown.page():  # otherwise Streamlit shows the first page
    pages[""].append(
        st.Page(unknown.draw_page, title="Page not found", url_path=name, visibility="hidden")
    )
page = st.navigation(pages, position="top")
with foreground.drawing():
    shell.draw(page.url_path or navigation.HOME.name)
    shell.name_tab(page.url_path or navigation.HOME.name)
if not preload.is_ready():
    with st.spinner("Starting …"):
        preload.await_imports()
with guarded(), foreground.drawing():
    if name or not unknown.is_drawn(page.url_path):
        page.run()
