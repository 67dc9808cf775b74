"""Which heads can go: importance, exact ablation, curves, learnt gates, and what is left."""
