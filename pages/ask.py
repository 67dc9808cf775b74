"""Answers, prompts with demonstrations, and texts that a model writes, with their source.

Costs: loading a model (cached); the answer of the open tab only.
"""

from workbench.analyses.asking.views.page import page

page()
