"""BART's five ways to corrupt a text that the decoder restores, and the published combination.

Sentences are permuted and documents rotated within their document only: document ends and all other
special tokens keep their positions. The decoder writes the original text and starts with the token
that ends a text, as in the published model. Costs: at most 1.5 ms for 32 sequences of 128 on a
core.
"""

import torch
from torch import Generator, Tensor

from workbench.analyses.training.objectives.corruption import (
    amount,
    pieces,
    place_spans,
    poisson,
    run_starts,
    single,
)
from workbench.analyses.training.objectives.t5 import translation
from workbench.analyses.training.task import Objective
from workbench.analyses.training.vocabulary import Vocabulary, require_token

RATE, INFILLED, MEAN_SPAN = 0.15, 0.3, 3.0


def token_masking(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
) -> dict[str, Tensor]:
    """Replace tokens by the mask."""
    inputs = tokens.masked_fill(single(special, rate, generator), _mask(vocabulary))
    return _restore(inputs, vocabulary.attention_mask(tokens) > 0, tokens, vocabulary)


def token_deletion(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
) -> dict[str, Tensor]:
    """Delete tokens; the model must find their positions."""
    kept = (vocabulary.attention_mask(tokens) > 0) & ~single(special, rate, generator)
    return _restore(tokens, kept, tokens, vocabulary)


def infilling(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = INFILLED,
    mean: float = MEAN_SPAN,
) -> dict[str, Tensor]:
    """Replace spans of Poisson lengths by one mask each; a span of length 0 inserts a mask."""
    inputs, kept = _infilled(tokens, special, generator, vocabulary, rate, mean)
    return _restore(inputs, kept, tokens, vocabulary)


def sentence_permutation(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
) -> dict[str, Tensor]:
    """Put the sentences of each document in random order; `sentences` are their starts."""
    order = _permuted(special, sentences, generator)
    there = vocabulary.attention_mask(tokens) > 0
    return _restore(tokens.gather(1, order), there, tokens, vocabulary)


def document_rotation(
    tokens: Tensor, special: Tensor, generator: Generator, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """Rotate each document so that it starts with a random token."""
    document, starts, length = _documents(special)
    random = torch.rand(tokens.shape, generator=generator).gather(1, document)  # one per document
    shift = (random * length).long()
    position = torch.arange(tokens.shape[1]) - starts  # of each token in its document
    source = starts + (position + shift) % length.clamp(min=1)
    rotated = torch.where(special, tokens, tokens.gather(1, source))
    return _restore(rotated, vocabulary.attention_mask(tokens) > 0, tokens, vocabulary)


def bart(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
    rate: float = INFILLED,
    mean: float = MEAN_SPAN,
) -> dict[str, Tensor]:
    """Permute sentences, then infill spans: the objective of the published model."""
    mixed = tokens.gather(1, _permuted(special, sentences, generator))
    inputs, kept = _infilled(mixed, special, generator, vocabulary, rate, mean)
    return _restore(inputs, kept, tokens, vocabulary)


def _mask(vocabulary: Vocabulary) -> int:
    return require_token(vocabulary.mask, "mask", "BART")


def _restore(
    inputs: Tensor, kept: Tensor, tokens: Tensor, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    real = vocabulary.attention_mask(tokens) > 0
    start = require_token(vocabulary.end, "end", "BART")
    return translation(inputs, kept, tokens, real, vocabulary, start)


def _infilled(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    rate: float,
    mean: float,
) -> tuple[Tensor, Tensor]:
    """Columns for masks and tokens, and which are kept.  # [batch, 3 * length] each"""
    units = pieces(special)
    n_masked = amount(units.n_units, rate, generator)
    placed = place_spans(poisson(n_masked, mean, generator), units.n_units, generator)
    inside = units.tokens(placed.inside)
    starts = units.tokens(run_starts(placed.inside))  # one mask, even across a document end
    # For an empty span, a mask stands before its unit, or after the last unit.
    last = units.n_units[:, None] - 1
    before = units.tokens(placed.empty[:, :-1]) if placed.empty.shape[1] > 1 else starts & False
    at_end = placed.empty.gather(1, (last + 1).clamp(max=placed.empty.shape[1] - 1))
    final = (units.unit_of == last) & ~special & at_end
    masks = torch.full_like(tokens, _mask(vocabulary))
    real = vocabulary.attention_mask(tokens) > 0
    columns = torch.stack([masks, tokens, masks], dim=2).flatten(1)
    kept = torch.stack([starts | before, real & ~inside, final], dim=2).flatten(1)
    return columns, kept


def _documents(special: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Documents between special tokens: each token's document, its start and its length.

    # [batch, length] each
    """
    document = special.cumsum(1).clamp(max=special.shape[1] - 1)
    positions = torch.arange(special.shape[1]).expand_as(document)
    length = torch.zeros_like(document).scatter_add(1, document, (~special).long())
    first = torch.full_like(document, special.shape[1])
    first = first.scatter_reduce(
        1, document, positions.masked_fill(special, special.shape[1]), "amin"
    )
    starts = first.gather(1, document).minimum(positions)
    return document, starts, length.gather(1, document)


def _permuted(special: Tensor, sentences: Tensor, generator: Generator) -> Tensor:
    """The source position of each token after permuting sentences.  # [batch, length]"""
    starts = (sentences | special).clone()
    starts[:, 1:] |= special[:, :-1]
    sentence = (starts.cumsum(1) - 1).clamp(min=0)
    keys = torch.rand(special.shape, generator=generator).gather(1, sentence)
    keys = keys.masked_fill(special, -1.0)  # a document end stays before the next document
    order = keys.argsort(dim=1, stable=True)
    return order.gather(1, special.cumsum(1).gather(1, order).argsort(dim=1, stable=True))


OBJECTIVES = {
    "token-masking": Objective(token_masking, "encoder-decoder", shared=True),
    "token-deletion": Objective(token_deletion, "encoder-decoder", shared=True),
    "infilling": Objective(infilling, "encoder-decoder", shared=True),
    "sentence-permutation": Objective(sentence_permutation, "encoder-decoder", shared=True),
    "document-rotation": Objective(document_rotation, "encoder-decoder", shared=True),
    "bart": Objective(bart, "encoder-decoder", shared=True),
}
