"""Words in their contexts: their neighbours, their senses, and their pieces.

Costs: loading a model (cached); an index of the corpus, the first time, in the background; then
what the open tab shows.
"""

import streamlit as st

from workbench.analyses.words.views import page as words_views
from workbench.app import style
from workbench.app.text import errors_shown

style.draw_text_page()
st.title("Words", anchor=False)
with errors_shown(stop=True):
    words_views.page()
