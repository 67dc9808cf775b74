"""T5's seven corruptions of a text, which the model restores (Raffel 2020, table 3).

`replace_spans` is the published baseline; the final T5 used `random_spans` with mean length 3. If
the target holds only the corrupted tokens, each run of them follows the sentinel that replaces it
in the input. Sentinels count up, and one more ends the target, as in the paper (the released code
omits it). Spans never touch and can lie anywhere (the released code starts with text and ends with
a span). Costs: at most 1 ms for 32 sequences of 128 on a core.
"""

import math

import torch
from torch import Generator, Tensor

from workbench.analyses.training.objectives.corruption import (
    after_cut,
    amount,
    at_random,
    compact,
    partition,
    pieces,
    place_spans,
    run_starts,
    single,
)
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.task import Objective
from workbench.analyses.training.vocabulary import Vocabulary, require_token
from workbench.core.errors import WorkbenchError

RATE, MEAN_SPAN = 0.15, 3.0
HALF = 0.5  # rate of the long spans of `denoisers`
BERT_STYLE = 0.9  # fraction of corrupted tokens that are masked; the others are replaced


def prefix_lm(
    tokens: Tensor, special: Tensor, generator: Generator, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """Prefix language model: the start of a text as input, the rest as target, cut at random."""
    beyond = after_cut(special, generator)
    real = vocabulary.attention_mask(tokens) > 0
    end = require_token(vocabulary.end, "end", "T5")
    inputs, kept = _appended(tokens, real & ~beyond, [end])
    return _batch(inputs, kept, tokens, real & beyond, vocabulary)


def bert_style(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
    mask: float = BERT_STYLE,
) -> dict[str, Tensor]:
    """Tokens masked or replaced; the target is the whole text. The first sentinel is the mask."""
    _require_sentinels(vocabulary, 1, "bert-style")
    chosen = single(special, rate, generator)
    swapped = chosen & (torch.rand(tokens.shape, generator=generator) >= mask)
    random_tokens = at_random(tokens, generator, vocabulary)
    inputs = tokens.masked_fill(chosen, vocabulary.sentinels[0])
    return _batch_with_whole_text(torch.where(swapped, random_tokens, inputs), tokens, vocabulary)


def deshuffle(
    tokens: Tensor, special: Tensor, generator: Generator, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """Tokens in random order; the target is the text. Special tokens keep their positions."""
    random = torch.rand(tokens.shape, generator=generator).masked_fill(special, 2.0)
    shuffled = tokens.gather(1, random.argsort(1))  # the text's tokens first, in random order
    return _batch_with_whole_text(
        shuffled.gather(1, pieces(special).unit_of).where(~special, tokens), tokens, vocabulary
    )


def mass_style(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
) -> dict[str, Tensor]:
    """Tokens masked; the target is the whole text. `bert_style` without replaced tokens."""
    return bert_style(tokens, special, generator, vocabulary, rate=rate, mask=1.0)


def replace_spans(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
) -> dict[str, Tensor]:
    """Random single tokens, each run replaced by a sentinel; the target is the replaced tokens."""
    _require_room(special, rate, 1.0, vocabulary)
    return _by_sentinels(tokens, single(special, rate, generator), vocabulary)


def drop_tokens(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
) -> dict[str, Tensor]:
    """Random single tokens deleted; the target is the deleted tokens, in order."""
    chosen = single(special, rate, generator)
    real = vocabulary.attention_mask(tokens) > 0
    dropped, kept = _appended(tokens, chosen, [require_token(vocabulary.end, "end", "T5")])
    return _batch(tokens, real & ~chosen, dropped, kept, vocabulary)


def random_spans(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
    mean: float = MEAN_SPAN,
) -> dict[str, Tensor]:
    """Spans of a mean length, each replaced by a sentinel; the target is the replaced tokens."""
    _require_room(special, rate, mean, vocabulary)
    units = pieces(special)
    n_corrupted = amount(units.n_units, rate, generator)
    n_spans = (n_corrupted / mean).round().long().clamp(min=1).minimum(n_corrupted)
    n_spans = n_spans.minimum(units.n_units - n_corrupted + 1)  # as many as can be kept apart
    spans = partition(n_corrupted, n_spans, generator)
    chosen = units.tokens(place_spans(spans, units.n_units, generator).inside)
    return _by_sentinels(tokens, chosen, vocabulary)


def denoisers(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
) -> dict[str, Tensor]:
    """Random spans, spans of half the text, or a prefix language model; one choice per batch.

    After UL2's mixture of denoisers (Tay et al. 2022), without its tokens that name the denoiser.
    """
    which = int(torch.randint(3, (), generator=generator))
    if which == 2:
        return prefix_lm(tokens, special, generator, vocabulary)
    rate = HALF if which else RATE
    return random_spans(tokens, special, generator, vocabulary, rate=rate)


def _by_sentinels(tokens: Tensor, chosen: Tensor, vocabulary: Vocabulary) -> dict[str, Tensor]:
    """Inputs and targets with a sentinel for each run of chosen tokens.

    Document ends cut runs in two. If a row then has more runs than sentinels (one is reserved for
    the end), its last runs are not corrupted.
    """
    sentinels = torch.tensor(vocabulary.sentinels)
    chosen = chosen & (run_starts(chosen).cumsum(1) < len(sentinels))
    starts = run_starts(chosen)
    run = starts.cumsum(1)  # [batch, length], runs up to here
    run_sentinels = sentinels[(run - 1).clamp(min=0)]
    real = vocabulary.attention_mask(tokens) > 0
    # A column for the sentinel before each token, and one for the token itself.
    targets = torch.stack([run_sentinels, tokens], dim=2).flatten(1)  # [batch, 2 * length]
    written = torch.stack([starts, chosen], dim=2).flatten(1)
    last = sentinels[run[:, -1]][:, None]
    targets, written = torch.cat([targets, last], 1), torch.cat([written, last > 0], 1)
    targets, written = _appended(targets, written, [require_token(vocabulary.end, "end", "T5")])
    inputs = torch.where(starts, run_sentinels, tokens)
    return _batch(inputs, real & (starts | ~chosen), targets, written, vocabulary)


def _appended(tokens: Tensor, keep: Tensor, extra: list[int]) -> tuple[Tensor, Tensor]:
    """Append tokens to each row."""
    added = torch.tensor(extra).expand(len(tokens), len(extra))
    return torch.cat([tokens, added], 1), torch.cat([keep, torch.ones_like(added).bool()], 1)


def _batch_with_whole_text(
    inputs: Tensor, tokens: Tensor, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    real = vocabulary.attention_mask(tokens) > 0
    return _batch(inputs, real, tokens, real, vocabulary)


def _batch(
    inputs: Tensor, read: Tensor, targets: Tensor, written: Tensor, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    start = require_token(vocabulary.pad, "padding", "T5")
    return translation(inputs, read, targets, written, vocabulary, start)


def _require_room(special: Tensor, rate: float, mean: float, vocabulary: Vocabulary) -> None:
    """Raise an error at the first batch, not when a random draw first needs too many sentinels."""
    longest = int((~special).sum(1).max())
    spans = max(1, math.ceil((rate * longest + 1) / mean))
    _require_sentinels(vocabulary, spans + 1, f"sequences of {special.shape[1]:,} tokens")


def _require_sentinels(vocabulary: Vocabulary, needed: int, what: str) -> None:
    if len(vocabulary.sentinels) < needed:
        raise WorkbenchError(
            f"{what} can need {needed} sentinels, and the tokenizer has "
            f"{len(vocabulary.sentinels)}.",
            code="token-missing",
            remedy="Train a tokenizer with the layout t5, or use shorter sequences.",
        )


# --- batches of an encoder-decoder. Costs: a sort of each row -------------------------------------


def translation(
    inputs: Tensor,  # [batch, inputs]
    read: Tensor,  # [batch, inputs] bool, read by the encoder
    targets: Tensor,  # [batch, targets]
    written: Tensor,  # [batch, targets] bool, written by the decoder
    vocabulary: Vocabulary,
    start: int,
) -> dict[str, Tensor]:
    """Compact and pad inputs and targets, and shift the targets for the decoder's input."""
    pad = require_token(vocabulary.pad, "padding", "an encoder-decoder")
    ids = compact(inputs, read, pad)
    labels = compact(targets, written, IGNORED)
    shifted = labels.new_full(labels.shape, start)
    shifted[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, pad)
    return {
        "input_ids": ids,
        "attention_mask": (ids != pad).long(),
        "labels": labels,
        "decoder_input_ids": shifted,
    }


OBJECTIVES = {
    "prefix": Objective(prefix_lm, "encoder-decoder", shared=True),
    "bert-style": Objective(bert_style, "encoder-decoder", shared=True),
    "deshuffle": Objective(deshuffle, "encoder-decoder", shared=True),
    "mass-style": Objective(mass_style, "encoder-decoder", shared=True),
    "replace-spans": Objective(replace_spans, "encoder-decoder", shared=True),
    "drop-tokens": Objective(drop_tokens, "encoder-decoder", shared=True),
    "random-spans": Objective(random_spans, "encoder-decoder", shared=True),
    "denoisers": Objective(denoisers, "encoder-decoder", shared=True, scored=random_spans),
}
