"""Predicting the next token from those before it, and for ELMo the one before from those after.

Costs nothing: the targets are the tokens.
"""

from torch import Generator, Tensor

from workbench.training.vocabulary import Vocabulary

IGNORED = -100  # a target that has no loss


def causal(
    tokens: Tensor, special: Tensor, generator: Generator, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """Targets stand where their tokens do: transformers' models shift them, as they shift none."""
    mask = vocabulary.attention_mask(tokens)
    labels = tokens.masked_fill(mask == 0, IGNORED)
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


def bidirectional(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    known: int | None = None,
    unknown: int | None = None,
) -> dict[str, Tensor]:
    """At each word the next one and the one before, for sentences between their boundaries.

    Targets stand where they are predicted from. Those that are not among the first `known` words
    are `unknown`; inputs stay what they are, for they are read by their characters.
    """
    mask = vocabulary.attention_mask(tokens)
    targets = tokens.masked_fill(mask == 0, IGNORED)
    if known is not None and unknown is not None:
        targets = targets.masked_fill((targets >= known) & (targets != IGNORED), unknown)
    forward, backward = tokens.new_full((2, *tokens.shape), IGNORED)
    forward[:, :-1] = targets[:, 1:]
    backward[:, 1:] = targets[:, :-1]
    backward[mask == 0] = IGNORED
    return {
        "input_ids": tokens,
        "attention_mask": mask,
        "forward_labels": forward,
        "backward_labels": backward,
    }
