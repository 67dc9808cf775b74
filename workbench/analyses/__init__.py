"""Analyses: one folder each, with its experiments, computation, findings, figures and views."""
