"""Which architecture learns to write text from text: an encoder-decoder, or one stack?

Raffel et al.'s Table 2 at a small size: encoder-decoders, a language model and a prefix language
model, trained on the same texts by two objectives.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.training",),
    experiments={"architectures": "experiments:ARCHITECTURES"},
)
