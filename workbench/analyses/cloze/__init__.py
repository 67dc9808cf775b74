"""Does a model find the missing word: the last of a passage, one of ten, or what a pronoun means?

LAMBADA, the Children's Book Test, Winograd schemas and cloze facts, without training, for models of
every objective.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(__name__, experiments={"cloze": "experiments:CLOZE"})
