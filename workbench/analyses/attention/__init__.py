"""Attention maps of a text: captured once, then merged to words, combined, compared and scored."""
