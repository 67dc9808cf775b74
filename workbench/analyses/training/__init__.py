"""What does a model learn that is trained from scratch?

Tokenizers, text at scale, objectives and the training loop. It works on lines of text and batches
of token ids; the computation imports neither spaCy nor Streamlit.
"""

from workbench.core.analysis import Analysis

ANALYSIS = Analysis(
    __name__,
    experiments={"train": "experiments:EXPERIMENT"},
    functions={"callback": "callback"},
    commands={"train": "commands.train:train"},
    bare=("train", "training_run"),
)
