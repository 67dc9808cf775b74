"""XLNet's permuted language model: pieces are predicted in a random order instead of left to right.

A sixth of each text is predicted, in spans of one to five pieces, and comes last in its order; the
other pieces are the context, and see each other. The text is not moved: masks say what each piece
sees. In the content stream a target sees the context, the targets before it in the order, and
itself; in the query stream, which predicts, the same without itself. Document ends begin a new
segment. transformers' collator is not used: it takes only rows of even length, orders their halves
apart, replaces targets by a mask piece, so that no target reads another, and queries every
position, not only targets. Costs: 2 ms for 32 sequences of 128 on a core, and masks of a byte for
every pair of positions.
"""

import torch
from torch import Generator, Tensor
from torch.nn import functional

from workbench.analyses.training.objectives.corruption import (
    amount,
    compact,
    pieces,
    place_spans,
    spans_of,
)
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.task import Objective
from workbench.analyses.training.vocabulary import Vocabulary
from workbench.models.output_heads.lm_losses import CONTEXT, PARTS, not_before

SPANS = 5  # the longest; all lengths are as likely


def permuted(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = 1 / PARTS,
) -> dict[str, Tensor]:
    """A text with its masks, and as many queries as the row with most targets has targets."""
    order = prediction_order(special, generator, rate)
    chosen = order != CONTEXT
    places = compact(torch.arange(tokens.shape[1]).expand_as(tokens), chosen, IGNORED)
    queries = places != IGNORED  # [batch, queries]
    at = places.clamp(min=0)
    ends = tokens == (-1 if vocabulary.end is None else vocabulary.end)
    return {
        "input_ids": tokens,
        "attention_mask": vocabulary.attention_mask(tokens),
        "token_type_ids": ends.cumsum(1) - ends.long(),
        "perm_mask": not_before(order),
        "target_mapping": functional.one_hot(at, tokens.shape[1]).float() * queries[..., None],
        "labels": tokens.gather(1, at).masked_fill(~queries, IGNORED),
    }


def prediction_order(special: Tensor, generator: Generator, rate: float = 1 / PARTS) -> Tensor:
    """Places of the targets in a random order; of the context -1.  # [batch, length]"""
    units = pieces(special)
    n_targets = amount(units.n_units, rate, generator)
    spans = spans_of(n_targets, torch.ones(SPANS), generator)
    chosen = units.tokens(place_spans(spans, units.n_units, generator).inside)
    random = torch.rand(special.shape, generator=generator)
    return random.argsort(1).masked_fill(~chosen, CONTEXT)


OBJECTIVES = {"permuted": Objective(permuted, "decoder")}
