"""What does a shape of a model give: one stack or two, and a memory of what was read before?

Raffel et al.'s Table 2 at a small size: encoder-decoders, a language model and a prefix language
model, trained on the same texts by two objectives. Transformer-XL's recurrence: segments that read
the states of the text before them. Longformer's windows beside full attention, as texts grow. And
how the loss falls with the number of weights and of pieces.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.training",),
    experiments={
        "architectures": "experiments:ARCHITECTURES",
        "recurrence": "experiments:RECURRENCE",
        "text-length": "experiments:TEXT_LENGTH",
        "scaling": "experiments:SCALING",
    },
)
