"""UniLM's objective: masked pieces, of which each text shows its own side or sides.

A text is read in both directions (a third), in two parts (a third: the first part is read whole,
the second one from the left), from the left or from the right (a sixth each), with the same
weights. 15 % of pieces are predicted, four fifths of the spans as single pieces and the others two
or three together; masked, replaced or kept as in BERT. Costs: 1 ms for 32 sequences of 128 on a
core, and a mask of a byte for every pair of positions.
"""

import torch
from torch import Generator, Tensor

from workbench.analyses.training.objectives.corruption import (
    after_cut,
    amount,
    pieces,
    place_spans,
    spans_of,
)
from workbench.analyses.training.objectives.masked import IGNORED, hidden
from workbench.analyses.training.task import Objective
from workbench.analyses.training.vocabulary import Vocabulary

KINDS = ("bidirectional", "in two parts", "left to right", "right to left")
SHARES = (1 / 3, 1 / 3, 1 / 6, 1 / 6)  # of texts
LENGTHS = (0.8, 0.1, 0.1)  # shares of spans of one, two and three pieces


def unilm(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """Masked tokens with a mask of attention, [batch, 1, length, length]: what each token sees."""
    shares = torch.tensor(SHARES)
    kind = torch.multinomial(shares, len(tokens), replacement=True, generator=generator)
    second = after_cut(special, generator)
    units = pieces(special)
    spans = spans_of(amount(units.n_units, rate, generator), torch.tensor(LENGTHS), generator)
    chosen = units.tokens(place_spans(spans, units.n_units, generator).inside)
    draws = torch.rand(tokens.shape, generator=generator)
    in_parts = (kind == KINDS.index("in two parts"))[:, None]
    return {
        "input_ids": hidden(tokens, chosen, draws, generator, vocabulary),
        "token_type_ids": (second & in_parts).long(),
        "attention_mask": seen(kind, second, vocabulary.attention_mask(tokens) > 0)[:, None],
        "labels": tokens.masked_fill(~chosen, IGNORED),
    }


def seen(kind: Tensor, second: Tensor, real: Tensor) -> Tensor:
    """What each token sees, by the kind of its text.

    # [batch]; [batch, length] bool: the second part, no padding -> [batch, length, length] bool
    """
    left = torch.ones(second.shape[1], second.shape[1], dtype=torch.bool).tril()
    in_parts = ~second[:, None, :] | (second[:, :, None] & left)
    kinds = [torch.ones_like(left), in_parts, left, left.T]  # in the order of KINDS
    masks = torch.stack([each.expand_as(in_parts) for each in kinds])
    return without_padding(masks[kind, torch.arange(len(kind))], real)


def without_padding(masks: Tensor, real: Tensor) -> Tensor:
    """Padding is not seen; it sees all of its text, since a token must see something."""
    return (masks | ~real[:, :, None]) & real[:, None, :]


OBJECTIVES = {"unilm": Objective(unilm, "encoder")}
