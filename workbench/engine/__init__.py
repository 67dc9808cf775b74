"""The engine: from encoded batches to hidden states and attention, in one forward pass.

Imports neither spaCy nor Streamlit, so that it also runs where only torch, transformers and
safetensors are installed.
"""
