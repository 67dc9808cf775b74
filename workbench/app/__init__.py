"""What the app's pages are put together from: choices, forms, jobs, errors. Uses Streamlit.

A Streamlit that has just been started, and is asked for a page by its address, runs the page's file
alone, without the app around it: it takes `pages/` for a menu until `st.navigation` is first
called. Every page imports a part; where that happens, Streamlit is told better, and begins again.
"""

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

if PagesManager.uses_pages_directory and get_script_run_ctx(suppress_warning=True) is not None:
    PagesManager.uses_pages_directory = False
    st.rerun()
