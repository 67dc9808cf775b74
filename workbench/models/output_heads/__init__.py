"""What reads a model's states: language-model and task heads, and the losses of their outputs."""
