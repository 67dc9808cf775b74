"""Any experiment: its result for the model and corpus of the top bar, or the form of a first run.

The address holds the experiment, the opened run and the view. Experiments with a page of their own
are shown the same way there. Costs: checking the request; a view reads the tables of a run.
"""

from workbench.app.runs import any_experiment

any_experiment.page()
