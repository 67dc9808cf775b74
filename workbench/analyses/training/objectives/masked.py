"""BERT's masked language model: pieces, whole words or SpanBERT's spans; static or dynamic masks.

15 % of the text is predicted; of that, 80 % is masked, 10 % replaced by a random token and 10 %
left unchanged. Each piece is drawn alone, but all pieces of a span get the same treatment, as in
SpanBERT. Costs: half a millisecond for 32 sequences of 128 on a core.
"""

import hashlib
from typing import Literal

import torch
from torch import Generator, Tensor

from workbench.analyses.training.objectives.corruption import (
    amount,
    at_random,
    choose,
    geometric,
    pieces,
    place_spans,
    run_starts,
    whole_words,
)
from workbench.analyses.training.task import Objective
from workbench.analyses.training.vocabulary import Vocabulary, require_token
from workbench.core.errors import require_one_of
from workbench.engine.batch import sent

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
    """Inputs with masked tokens, and those tokens as targets."""
    chosen = choose_tokens(tokens, special, generator, vocabulary, unit, rate)
    draws = torch.rand(tokens.shape, generator=generator)
    if unit == "span":
        draws = draws.gather(1, (run_starts(chosen).cumsum(1) - 1).clamp(min=0))
    return {
        "input_ids": hidden(tokens, chosen, draws, generator, vocabulary, mask, random),
        "attention_mask": vocabulary.attention_mask(tokens),
        "labels": tokens.masked_fill(~chosen, IGNORED),
    }


def hidden(
    tokens: Tensor,
    chosen: Tensor,
    draws: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    mask: float = 0.8,
    random: float = 0.1,
) -> Tensor:
    """The tokens with the chosen ones masked, replaced or kept, by their draws from 0 to 1."""
    mask_id = require_token(vocabulary.mask, "mask", "a masked language model")
    replacements = at_random(tokens, generator, vocabulary)
    inputs = tokens.masked_fill(chosen & (draws < mask), mask_id)
    return torch.where(chosen & (draws >= mask) & (draws < mask + random), replacements, inputs)


def masked_statically(
    tokens: Tensor,
    special: Tensor,
    indices: Tensor,
    vocabulary: Vocabulary,
    *,
    seed: int,
    copy: int = 0,
    unit: Unit = "piece",
    rate: float = 0.15,
    mask: float = 0.8,
    random: float = 0.1,
) -> dict[str, Tensor]:
    """`masked` with masks that depend only on the sequence, the seed and the copy.

    `indices` [batch] identify the sequences. BERT used ten copies of its text with different masks:
    pass the epoch modulo ten as `copy`. Costs: 0.3 ms per sequence.
    """
    rows = []
    for row, index in enumerate(indices.tolist()):
        digest = hashlib.blake2b(f"{seed} {copy} {index}".encode(), digest_size=7).digest()
        generator = Generator().manual_seed(int.from_bytes(digest))
        row_slice = slice(row, row + 1)
        rows.append(
            masked(
                tokens[row_slice],
                special[row_slice],
                generator,
                vocabulary,
                unit=unit,
                rate=rate,
                mask=mask,
                random=random,
            )
        )
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
    require_one_of(unit, UNITS, f"{unit!r} is not a unit of masking.", code="setting-invalid")
    units = pieces(special) if unit == "piece" else whole_words(tokens, special, vocabulary)
    n_chosen = amount(units.n_units, rate, generator)
    if unit != "span":
        return units.tokens(choose(units.n_units, n_chosen, generator))
    spans = geometric(n_chosen, SPAN_P, LONGEST_SPAN, generator)
    return units.tokens(place_spans(spans, units.n_units, generator).inside)


# --- causal language models -----------------------------------------------------------------------
#
# Predicting the next token from those before it. Costs: nothing, as the targets are the tokens.

IGNORED = -100  # label of tokens without loss


def causal(
    tokens: Tensor, special: Tensor, generator: Generator, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """Left-to-right language model; labels are not shifted, as transformers' models shift them."""
    mask = vocabulary.attention_mask(tokens)
    labels = tokens.masked_fill(mask == 0, IGNORED)
    return {"input_ids": tokens, "attention_mask": mask, "labels": labels}


# --- replaced-token detection ---------------------------------------------------------------------
#
# ELECTRA: a small generator fills masks, and a discriminator detects the replaced tokens.
#
# Two steps with the generator between them: `to_generate` masks, the generator gives logits at the
# masks, `detect` samples from them. Costs: a pass over those logits.


def to_generate(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """The generator's inputs: 15 % of the text is predicted, all of it masked; and the tokens."""
    batch = masked(tokens, special, generator, vocabulary, rate=rate, mask=1.0, random=0.0)
    return batch | {"tokens": tokens}


def detect(
    tokens: Tensor,
    chosen: Tensor,
    logits: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
) -> dict[str, Tensor]:
    """The discriminator's inputs, and labels that are 1 for replaced tokens.

    `chosen` [batch, length] marks labels other than -100; `logits` [chosen, vocabulary] are at
    these positions, in order. A sampled token equal to the original counts as original. Labels are
    0 on special tokens, and on padding, which the attention mask leaves out.
    """
    noise = torch.empty_like(logits, dtype=torch.float32).exponential_(generator=generator).log()
    ordinary = sent(vocabulary.ordinary, logits.device)
    sampled = (logits.float() - noise)[:, ordinary].argmax(
        1
    )  # Gumbel-max sampling from the softmax
    inputs = tokens.masked_scatter(chosen, ordinary[sampled].to(tokens.dtype))
    return {
        "input_ids": inputs,
        "attention_mask": vocabulary.attention_mask(tokens),
        "labels": (inputs != tokens).long(),
    }


# --- SpanBERT's span-boundary objective -----------------------------------------------------------
#
# Spans of whole words are masked. Each target also has the positions of the tokens before and after
# its span, and its own position in the span. Costs: those of masking.


def spans(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """Masked spans with their boundaries; a row's first and last tokens are never masked.

    These are special tokens or padding, unless the tokenizer adds no special tokens.
    """
    ends = special.clone()
    ends[:, 0] = ends[:, -1] = True
    batch = masked(tokens, ends, generator, vocabulary, unit="span", rate=rate)
    return batch | boundaries(batch["labels"] != IGNORED)


def boundaries(chosen: Tensor) -> dict[str, Tensor]:
    """Positions before and after the span of each chosen token, and its position in the span.

    All are 0 for other tokens.  # [batch, length] each
    """
    positions = torch.arange(chosen.shape[1]).expand(chosen.shape)
    start = (positions * run_starts(chosen)).cummax(1).values  # the last start up to here
    stops = run_starts(chosen.flip(1)).flip(1)  # the last token of each span
    stop = positions.masked_fill(~stops, chosen.shape[1]).flip(1).cummin(1).values.flip(1)
    positions_of = {"left": start - 1, "right": stop + 1, "within": positions - start}
    return {name: position.masked_fill(~chosen, 0) for name, position in positions_of.items()}


OBJECTIVES = {
    "causal": Objective(causal, "decoder", shared=True, next_token=True),
    "masked": Objective(masked, "encoder", shared=True),
}
