"""A prefix language model: the start of a text is read in both directions, the rest is predicted.

A text is cut at a random piece. Tokens of the prefix see all of it, the others also what is left of
them; each piece after the prefix is predicted from the token before it. Costs: a mask of a byte for
every pair of positions.
"""

import torch
from torch import Generator, Tensor
from torch.nn import functional

from workbench.analyses.training.objectives.corruption import after_cut
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.objectives.unilm import without_padding
from workbench.analyses.training.task import Objective
from workbench.analyses.training.vocabulary import Vocabulary


def prefix_lm(
    tokens: Tensor, special: Tensor, generator: Generator, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """The text with a mask of attention, [batch, 1, length, length]; labels are shifted."""
    real = vocabulary.attention_mask(tokens) > 0
    rest = after_cut(special, generator)
    targets = tokens.masked_fill(~rest | ~real, IGNORED)
    return {
        "input_ids": tokens,
        "attention_mask": without_padding(seen(rest), real)[:, None],
        "labels": functional.pad(targets[:, 1:], (0, 1), value=IGNORED),
    }


def seen(rest: Tensor) -> Tensor:
    """What each token sees: the prefix, and what is left of it.

    # [batch, length] bool: after the prefix -> [batch, length, length] bool
    """
    left = torch.ones(rest.shape[1], rest.shape[1], dtype=torch.bool).tril()
    return left | ~rest[:, None, :]


OBJECTIVES = {"prefix-lm": Objective(prefix_lm, "decoder")}
