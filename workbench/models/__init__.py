"""Models in: anything that turns a batch of texts into hidden states, and perhaps attention.

Imports neither spaCy nor Streamlit.
"""
