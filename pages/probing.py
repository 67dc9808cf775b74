"""Probing: what each layer knows of each task; asked, watched, and looked at from every side.

What is looked at is in the address: the run, the one beside it, the view and its choices. Costs
what asking costs; looking reads a run's tables.
"""

from workbench.app.probing import PROBING

PROBING.page()
