"""Models: everything that turns a batch of texts into hidden states and, often, attention maps.

Imports neither spaCy nor Streamlit.
"""
