"""The page corpora."""

import streamlit as st

st.title("Corpora")
