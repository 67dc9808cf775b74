"""The parts of the app's pages: inputs, forms, runs and errors. Uses Streamlit.

Until `st.navigation` is first called, Streamlit treats `pages/` as its own menu. If the first
address opened is that of a page, Streamlit runs that file alone, without the app around it. Every
page imports this package, so the menu is switched off here and the app starts again.
Costs: nothing.
"""

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

if get_script_run_ctx(suppress_warning=True) is None:
    PagesManager.uses_pages_directory = False  # before the first page of the process
elif PagesManager.uses_pages_directory:
    PagesManager.uses_pages_directory = False
    st.rerun()
