"""BERT's masked language model: pieces, whole words, or SpanBERT's spans; static or dynamic.

Of the text 15 % is predicted; of that 80 % is masked, 10 % is another token at random, 10 % is
left. Each piece draws its own lot, but a span has one lot for all of it, as SpanBERT's has. Costs
half a millisecond for 32 sequences of 128 on a core.
"""

import hashlib
from typing import Literal

import torch
from torch import Generator, Tensor

from workbench.errors import WorkbenchError, did_you_mean
from workbench.training.objectives.causal import IGNORED
from workbench.training.objectives.noise import (
    amount,
    choose,
    geometric,
    pieces,
    place,
    run_starts,
    whole_words,
)
from workbench.training.vocabulary import Vocabulary, need

Unit = Literal["piece", "word", "span"]
UNITS = ("piece", "word", "span")
SPAN_P, LONGEST_SPAN = 0.2, 10  # in words


def masked(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    unit: Unit = "piece",
    rate: float = 0.15,
    mask: float = 0.8,
    random: float = 0.1,
) -> dict[str, Tensor]:
    """Inputs with tokens hidden, and those tokens as targets."""
    sign = need(vocabulary.mask, "mask", "a masked language model")
    chosen = choose_tokens(tokens, special, generator, vocabulary, unit, rate)
    lots = torch.rand(tokens.shape, generator=generator)
    if unit == "span":
        lots = lots.gather(1, (run_starts(chosen).cumsum(1) - 1).clamp(min=0))
    others = vocabulary.ordinary[
        torch.randint(len(vocabulary.ordinary), tokens.shape, generator=generator)
    ]
    inputs = tokens.masked_fill(chosen & (lots < mask), sign)
    inputs = torch.where(chosen & (lots >= mask) & (lots < mask + random), others, inputs)
    return {
        "input_ids": inputs,
        "attention_mask": vocabulary.attention_mask(tokens),
        "labels": tokens.masked_fill(~chosen, IGNORED),
    }


def masked_statically(
    tokens: Tensor,
    special: Tensor,
    index: Tensor,
    vocabulary: Vocabulary,
    *,
    seed: int,
    copy: int = 0,
    unit: Unit = "piece",
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """The same, where a sequence has the same mask whenever it comes, whatever it comes with.

    `index` [batch] says which sequences these are. The original made ten copies of its text, each
    with other masks: let `copy` be the epoch modulo ten for that. Costs 0.3 ms a sequence.
    """
    rows = []
    for row, number in enumerate(index.tolist()):
        lot = hashlib.blake2b(f"{seed} {copy} {number}".encode(), digest_size=7).digest()
        own = Generator().manual_seed(int.from_bytes(lot))
        one = slice(row, row + 1)
        rows.append(masked(tokens[one], special[one], own, vocabulary, unit=unit, rate=rate))
    return {name: torch.cat([row[name] for row in rows]) for name in rows[0]}


def choose_tokens(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    unit: Unit,
    rate: float,
) -> Tensor:
    """The tokens to predict.  # [batch, length] bool"""
    if unit not in UNITS:
        raise WorkbenchError(f"nothing is masked by {unit!r}.", remedy=did_you_mean(unit, UNITS))
    units = pieces(special) if unit == "piece" else whole_words(tokens, special, vocabulary)
    wanted = amount(units.number, rate, generator)
    if unit != "span":
        return units.tokens(choose(units.number, wanted, generator))
    spans = geometric(wanted, SPAN_P, LONGEST_SPAN, generator)
    return units.tokens(place(spans, units.number, generator).inside)
