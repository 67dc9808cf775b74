"""Training of models from scratch: tokenizers, text at scale, objectives and the training loop.

It works on lines of text and batches of token ids; imports neither spaCy nor Streamlit.
"""
