"""Frozen or fine-tuned: what changes, and where."""
