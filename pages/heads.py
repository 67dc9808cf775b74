"""Heads: what every attention head does; asked, watched, and looked at head by head.

What is looked at is in the address: the run, the head, the colours, the relation. Costs what asking
costs; looking reads a run's tables.
"""

from workbench.app.heads import HEADS

HEADS.page()
