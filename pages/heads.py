"""Heads: the role of every attention head, from a run of `heads`.

The address holds the run, the head, the colouring and the relation. Costs: checking the request;
a view reads the tables of a run.
"""

from workbench.analyses.heads.views.page import HEADS

HEADS.page()
