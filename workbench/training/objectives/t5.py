"""T5's seven ways to corrupt a text and ask for it back (Raffel 2020, table 3).

`replace_spans` is the published baseline; `random_spans`, of mean length 3, was T5's in the end.
Where a target holds the corrupted tokens alone, each run of them stands behind a sentinel that
stands for it in the input; sentinels count up, and one more ends the target, as the paper has it
(the released code leaves that one out). Spans never touch and may lie anywhere (the released code
begins with text and ends with a span). Costs at most 1 ms for 32 sequences of 128 on a core.
"""

import math

import torch
from torch import Generator, Tensor

from workbench.core.errors import WorkbenchError
from workbench.training.objectives.corruption import (
    amount,
    at_random,
    compact,
    partition,
    pieces,
    place,
    run_starts,
    single,
)
from workbench.training.objectives.masked import IGNORED
from workbench.training.vocabulary import Vocabulary, need

RATE, MEAN_SPAN = 0.15, 3.0
HALF = 0.5  # of a text
BERT_STYLE = 0.9  # masked of those that are corrupted; the others are swapped


def prefix_lm(
    tokens: Tensor, special: Tensor, generator: Generator, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """The beginning of a text in, the rest out; where it is cut is drawn for each."""
    read = (~special).cumsum(1)  # text up to and with each token
    lots = torch.rand(len(tokens), generator=generator)
    cut = 1 + (lots * (read[:, -1] - 1).clamp(min=1)).long()[:, None]
    beyond = (read > cut) | ((read == cut) & special)
    there = vocabulary.attention_mask(tokens) > 0
    ends = need(vocabulary.end, "end", "T5")
    inputs, kept = _appended(tokens, there & ~beyond, [ends])
    return _asked(inputs, kept, tokens, there & beyond, vocabulary)


def bert_style(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
    mask: float = BERT_STYLE,
) -> dict[str, Tensor]:
    """Tokens masked or swapped in, the whole text out; the first sentinel serves as the mask."""
    _require_sentinels(vocabulary, 1, "BERT's style")
    chosen = single(special, rate, generator)
    swapped = chosen & (torch.rand(tokens.shape, generator=generator) >= mask)
    others = at_random(tokens, generator, vocabulary)
    inputs = tokens.masked_fill(chosen, vocabulary.sentinels[0])
    return _asked_all(torch.where(swapped, others, inputs), tokens, vocabulary)


def deshuffle(
    tokens: Tensor, special: Tensor, generator: Generator, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """The text's tokens in random order in, the text out; special tokens keep their places."""
    lots = torch.rand(tokens.shape, generator=generator).masked_fill(special, 2.0)
    mixed = tokens.gather(1, lots.argsort(1))  # the text's tokens first, in random order
    return _asked_all(
        mixed.gather(1, pieces(special).of).where(~special, tokens), tokens, vocabulary
    )


def mass_style(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
) -> dict[str, Tensor]:
    """Tokens masked in, the whole text out: `bert_style` with nothing swapped."""
    return bert_style(tokens, special, generator, vocabulary, rate=rate, mask=1.0)


def replace_spans(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
) -> dict[str, Tensor]:
    """Single tokens drawn, each run of them replaced by a sentinel; what stood there out."""
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
    """Single tokens left out, and only those out, in their order."""
    chosen = single(special, rate, generator)
    there = vocabulary.attention_mask(tokens) > 0
    dropped, kept = _appended(tokens, chosen, [need(vocabulary.end, "end", "T5")])
    return _asked(tokens, there & ~chosen, dropped, kept, vocabulary)


def random_spans(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    rate: float = RATE,
    mean: float = MEAN_SPAN,
) -> dict[str, Tensor]:
    """Spans of a mean length, each replaced by a sentinel; what stood there out."""
    _require_room(special, rate, mean, vocabulary)
    units = pieces(special)
    wanted = amount(units.number, rate, generator)
    parts = (wanted / mean).round().long().clamp(min=1).minimum(wanted)
    parts = parts.minimum(units.number - wanted + 1)  # as many as can be kept apart
    spans = partition(wanted, parts, generator)
    chosen = units.tokens(place(spans, units.number, generator).inside)
    return _by_sentinels(tokens, chosen, vocabulary)


def denoisers(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
) -> dict[str, Tensor]:
    """Spans as above, spans of half the text, or the text's second half: one for all rows.

    After the mixture of denoisers of UL2 (Tay and others 2022), without its signs of which it is.
    """
    which = int(torch.randint(3, (), generator=generator))
    if which == 2:
        return prefix_lm(tokens, special, generator, vocabulary)
    rate = HALF if which else RATE
    return random_spans(tokens, special, generator, vocabulary, rate=rate)


def _by_sentinels(tokens: Tensor, chosen: Tensor, vocabulary: Vocabulary) -> dict[str, Tensor]:
    """Each run of chosen tokens behind a sentinel, in both sequences.

    Ends of documents cut runs in two; should a row so come to more than there are sentinels, one
    kept for the end, its last ones are left as they are.
    """
    sentinels = torch.tensor(vocabulary.sentinels)
    chosen = chosen & (run_starts(chosen).cumsum(1) < len(sentinels))
    starts = run_starts(chosen)
    number = starts.cumsum(1)  # [batch, length], runs up to here
    signs = sentinels[(number - 1).clamp(min=0)]
    there = vocabulary.attention_mask(tokens) > 0
    # A column for the sentinel before each token, and one for the token itself.
    targets = torch.stack([signs, tokens], dim=2).flatten(1)  # [batch, 2 * length]
    written = torch.stack([starts, chosen], dim=2).flatten(1)
    last = sentinels[number[:, -1]][:, None]
    targets, written = torch.cat([targets, last], 1), torch.cat([written, last > 0], 1)
    targets, written = _appended(targets, written, [need(vocabulary.end, "end", "T5")])
    inputs = torch.where(starts, signs, tokens)
    return _asked(inputs, there & (starts | ~chosen), targets, written, vocabulary)


def _appended(tokens: Tensor, keep: Tensor, more: list[int]) -> tuple[Tensor, Tensor]:
    """The same with tokens at the end of each row."""
    added = torch.tensor(more).expand(len(tokens), len(more))
    return torch.cat([tokens, added], 1), torch.cat([keep, torch.ones_like(added).bool()], 1)


def _asked_all(inputs: Tensor, tokens: Tensor, vocabulary: Vocabulary) -> dict[str, Tensor]:
    there = vocabulary.attention_mask(tokens) > 0
    return _asked(inputs, there, tokens, there, vocabulary)


def _asked(
    inputs: Tensor, read: Tensor, targets: Tensor, written: Tensor, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    start = need(vocabulary.pad, "padding", "T5")
    return translation(inputs, read, targets, written, vocabulary, start)


def _require_room(special: Tensor, rate: float, mean: float, vocabulary: Vocabulary) -> None:
    """Said at the first batch, not when chance first asks for more sentinels than there are."""
    longest = int((~special).sum(1).max())
    spans = max(1, math.ceil((rate * longest + 1) / mean))
    _require_sentinels(vocabulary, spans + 1, f"sequences of {special.shape[1]:,} tokens")


def _require_sentinels(vocabulary: Vocabulary, wanted: int, why: str) -> None:
    if len(vocabulary.sentinels) < wanted:
        raise WorkbenchError(
            f"{why} can take {wanted} sentinels, and the tokenizer has "
            f"{len(vocabulary.sentinels)}.",
            remedy="Train a tokenizer with the layout t5, or use shorter sequences.",
        )


# --- from one sequence to another: what an encoder-decoder takes. Costs a sort of each row --------


def translation(
    inputs: Tensor,  # [batch, some]
    read: Tensor,  # [batch, some] bool, which of them the encoder reads
    targets: Tensor,  # [batch, others]
    written: Tensor,  # [batch, others] bool, which of them the decoder writes
    vocabulary: Vocabulary,
    start: int,
) -> dict[str, Tensor]:
    """Inputs and targets moved together and padded, and what the decoder reads to write them."""
    pad = need(vocabulary.pad, "padding", "an encoder-decoder")
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
