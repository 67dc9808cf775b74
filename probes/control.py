"""Control tasks (Hewitt and Liang 2019): labels that only a memory for words can learn.

Each type draws one label at random from the task's own distribution, and keeps it wherever it
stands, in train and in test. The type of a target is the words of its first span. What a probe
scores on this is its own doing and not the model's; the difference is its selectivity. Costs one
draw a type.
"""

from random import Random

import torch
from torch import Tensor

from probes.examples import Examples
from workbench.splits import TRAIN


def control_labels(examples: Examples, words: list[str], seed: int) -> Tensor:
    """Labels by type; `words` are those of the whole corpus.  # [n, labels], bool"""
    train = examples.of(TRAIN).tolist()
    drawn: dict[str, int] = {}
    for first, last in examples.span1.tolist():
        kind = " ".join(words[first:last])
        if kind not in drawn:
            drawn[kind] = Random(f"control {seed} {kind}").choice(train)
    rows = [drawn[" ".join(words[first:last])] for first, last in examples.span1.tolist()]
    return examples.labels[torch.tensor(rows, dtype=torch.long)]
