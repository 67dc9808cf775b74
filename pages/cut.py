"""What can I cut: the smallest model that keeps the score of a task, and its files.

The address holds the run and the view. Costs: checking the request; a view reads the tables of a
run.
"""

from workbench.analyses.smaller_model.views import SMALLER

SMALLER.page()
