"""The page models."""

import streamlit as st

st.title("Models")
