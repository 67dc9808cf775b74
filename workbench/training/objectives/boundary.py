"""SpanBERT's span boundary objective: a masked span from the two tokens just outside of it.

Spans of whole words are masked, and beside each token to predict stand the places of the token
before its span and of the one after, and its own place in the span. Costs what masking costs.
"""

import torch
from torch import Generator, Tensor

from workbench.training.objectives.causal import IGNORED
from workbench.training.objectives.masked import masked
from workbench.training.objectives.noise import run_starts
from workbench.training.vocabulary import Vocabulary


def spans(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """Masked spans with their boundaries; a row's first and last tokens are never masked.

    Those are the tokenizer's frame or padding, unless it frames no text.
    """
    ends = special.clone()
    ends[:, 0] = ends[:, -1] = True
    batch = masked(tokens, ends, generator, vocabulary, unit="span", rate=rate)
    return batch | boundaries(batch["labels"] != IGNORED)


def boundaries(chosen: Tensor) -> dict[str, Tensor]:
    """Of each token the place before its span and the one after, in its row, and its own in it.

    Where nothing is chosen, all of them are 0.  # [batch, length] each
    """
    places = torch.arange(chosen.shape[1]).expand(chosen.shape)
    start = (places * run_starts(chosen)).cummax(1).values  # the last start up to here
    stops = run_starts(chosen.flip(1)).flip(1)  # the last token of each span
    stop = places.masked_fill(~stops, chosen.shape[1]).flip(1).cummin(1).values.flip(1)
    found = {"left": start - 1, "right": stop + 1, "within": places - start}
    return {name: place.masked_fill(~chosen, 0) for name, place in found.items()}
