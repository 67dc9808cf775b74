"""ELECTRA's replaced-token detection: a small generator fills masks, a discriminator finds where.

Two steps, for the generator stands between them: `to_generate` masks, the generator gives logits at
the masks, `detect` samples from them. Costs a pass over those logits.
"""

import torch
from torch import Generator, Tensor

from workbench.training.objectives.causal import IGNORED
from workbench.training.objectives.masked import masked
from workbench.training.task import sent
from workbench.training.vocabulary import Vocabulary


def to_generate(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """What the generator reads: 15 % of the text, all of it masked."""
    return masked(tokens, special, generator, vocabulary, rate=rate, mask=1.0, random=0.0)


def detect(
    tokens: Tensor,
    chosen: Tensor,
    logits: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
) -> dict[str, Tensor]:
    """What the discriminator reads, and which of its tokens are not the original's.

    `chosen` [batch, length] is where labels were not -100, `logits` [chosen, vocabulary] are those
    of these places in their order. A token drawn that is the original counts as such. Labels are 0
    on special tokens and on padding, which the attention mask leaves out.
    """
    noise = torch.empty_like(logits, dtype=torch.float32).exponential_(generator=generator).log()
    ordinary = sent(vocabulary.ordinary, logits.device)
    found = (logits.float() - noise)[:, ordinary].argmax(1)  # Gumbel's way to draw by softmax
    inputs = tokens.masked_scatter(chosen, ordinary[found].to(tokens.dtype))
    return {
        "input_ids": inputs,
        "attention_mask": vocabulary.attention_mask(tokens),
        "labels": (inputs != tokens).long(),
    }


def chosen_places(batch: dict[str, Tensor]) -> Tensor:
    """Where a masked batch has targets.  # [batch, length] bool"""
    return batch["labels"] != IGNORED
