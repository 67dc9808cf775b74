"""Files that models are read from and written to: weights, pruned heads, task heads, GGUF, PEFT."""
