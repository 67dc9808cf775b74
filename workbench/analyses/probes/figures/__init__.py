"""Figures of probes: scores by layer, pipelines, syntax probes."""
