"""Probing: what each layer encodes about each task, from a run of `edge-probing`.

The address holds the run, the run it is compared with, the view and its choices. Costs: checking
the request; a view reads the tables of a run.
"""

from workbench.analyses.probes.views.page import PROBING

PROBING.page()
