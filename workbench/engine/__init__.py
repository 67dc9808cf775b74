"""Inside a forward pass: encoded batches in, hidden states and attention out.

Imports neither spaCy nor Streamlit, so that the heavy work also runs where only torch, transformers
and safetensors are installed.
"""
