"""All runs: find, open, compare, export, remove and restore them.

The address holds the opened runs: one is shown on its result page, several are compared. Costs: one
look at the status file of each run.
"""

from workbench.app.runs import runs_page as runs

runs.page()
