"""BERT's masked language model: pieces, whole words, or SpanBERT's spans; static or dynamic.

Of the text 15 % is predicted; of that 80 % is masked, 10 % is another token at random, 10 % is
left. Each piece draws its own lot, but a span has one lot for all of it, as SpanBERT's has. Costs
half a millisecond for 32 sequences of 128 on a core.
"""

import hashlib
from typing import Literal

import torch
from torch import Generator, Tensor

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.engine.batch import sent
from workbench.training.objectives.corruption import (
    amount,
    at_random,
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
    others = at_random(tokens, generator, vocabulary)
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


# --- causal: the next piece -----------------------------------------------------------------------
#
# Predicting the next token from those before it, and for ELMo the one before from those after.
#
# Costs nothing: the targets are the tokens.

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


# --- replaced-token detection ---------------------------------------------------------------------
#
# ELECTRA's replaced-token detection: a small generator fills masks, a discriminator finds where.
#
# Two steps, for the generator stands between them: `to_generate` masks, the generator gives
# logits at the masks, `detect` samples from them. Costs a pass over those logits.


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


# --- spanBERT's span boundary objective: a masked span from the two tokens just outside of it -----
#
# Spans of whole words are masked, and beside each token to predict stand the places of the token
# before its span and of the one after, and its own place in the span. Costs what masking costs.


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
