"""Probing: what the layers of a model encode about words, spans and trees.

A probe is a small classifier on frozen hidden states; its score shows what they encode. Costs:
nothing by itself.
"""
