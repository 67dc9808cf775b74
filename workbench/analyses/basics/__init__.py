"""Plain facts as experiments: what a corpus holds, and what a model is and how well it predicts."""
