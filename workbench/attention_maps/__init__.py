"""Attention maps of a text: captured once, then merged to words, aggregated, compared, scored."""
