"""Figures of pruning."""

IMPORTANCE: dict[str, object] = {}
ABLATION: dict[str, object] = {}
PRUNING: dict[str, object] = {}
GATES: dict[str, object] = {}
