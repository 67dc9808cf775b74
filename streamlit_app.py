"""The app: its pages, along the top. A page reads a choice, calls one function, shows the answer.

Run it with `workbench app`, or with `streamlit run streamlit_app.py`.
"""

import streamlit as st

st.set_page_config(page_title="Workbench", layout="wide")
st.navigation([st.Page("pages/start.py", title="Start", default=True)], position="top").run()
