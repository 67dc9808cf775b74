"""Edge probing: what each layer of a model knows of the words, spans and trees it has read.

A probe is a small classifier over frozen hidden states; what it can learn tells what is there.
"""
