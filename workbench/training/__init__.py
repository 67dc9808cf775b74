"""Models from nothing: tokenizers, text at scale, and the objectives they learn by.

Works on lines of text and batches of token ids; imports neither spaCy nor Streamlit.
"""
