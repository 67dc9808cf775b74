"""Does a retriever find the passage with the answer, and does a model read it?

BM25, mean states and a bi-encoder look passages up. A decoder or an encoder-decoder answers from
them, as in RAG; a model that marks answers finds them there; a masked model is trained with its
retriever, as REALM was.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.attribution",),
    experiments={"retrieve": "experiments:RETRIEVE"},
)
