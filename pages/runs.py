"""The page runs."""

import streamlit as st

st.title("Runs")
