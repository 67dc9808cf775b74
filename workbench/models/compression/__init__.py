"""Smaller models: weights, neurons, layers, pieces or bits are taken away, one method a file.

Each method is a function from a model and an amount to another model. The given model stays as it
is; the other one is saved and opened like any model, and plain transformers opens its folder.
"""
