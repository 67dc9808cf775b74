"""The page doctor."""

import streamlit as st

st.title("Doctor")
