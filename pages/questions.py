"""Questions of a model: each asks for what it needs and ends in its answer.

The address holds the question and its choices. Costs: looking at the status of each run.
"""

from workbench.app.runs import questions

questions.page()
