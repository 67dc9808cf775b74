"""The page attention."""

import streamlit as st

st.title("Attention")
