"""What do the vectors of words, outside of any text, have in common?

Analogies and likeness of words, of static vectors and of the embeddings of any model.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(__name__, experiments={"word-vectors": "experiments:WORD_VECTORS"})
