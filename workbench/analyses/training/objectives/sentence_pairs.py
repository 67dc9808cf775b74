"""BERT's next-sentence prediction and ALBERT's sentence-order prediction, with masked pieces.

A packed sequence is cut at a sentence start into two texts. For half of the batch the second text
comes from another sequence; a text that starts with the true next sentence is never used as a
negative. Costs: 1 ms for 32 sequences of 128 on a core, plus that of masking.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from workbench.analyses.training.objectives.chunked_lm_loss import nats_at
from workbench.analyses.training.objectives.masked import Unit, masked
from workbench.analyses.training.task import Corruption, Objective
from workbench.analyses.training.vocabulary import Vocabulary, require_token

# --- two texts in one sequence --------------------------------------------------------------------
#
# A packed sequence is cut at a sentence start; two texts are joined between the tokenizer's special
# tokens, with a separator. The separator takes one token's room: texts that are too long are cut at
# their far ends, so that the tokens around the separator stay. Costs: half a millisecond for 32
# sequences of 128 on a core.


class Pairs(NamedTuple):
    """Sequences of two texts with segments and labels."""

    tokens: Tensor  # [batch, length]
    special: Tensor  # [batch, length] bool
    segments: Tensor  # [batch, length], 1 in the second text
    labels: Tensor  # [batch]


class Part(NamedTuple):
    """A contiguous part of each row."""

    tokens: Tensor  # [batch, length]
    start: Tensor  # [batch]
    size: Tensor  # [batch]


def text_starts(special: Tensor) -> Tensor:
    """Position of the first token of the text; 0 without text.  # [batch]"""
    return (~special).byte().argmax(1)


def text_ends(special: Tensor) -> Tensor:
    """Position after the last token of the text; 0 without text.  # [batch]"""
    positions = torch.arange(1, special.shape[1] + 1)
    return (positions * ~special).amax(1)


def cuts(special: Tensor, sentences: Tensor, generator: Generator) -> Tensor:
    """Position of a random sentence start inside a document, else near the middle.  # [batch]"""
    inner = inside(special)
    random = torch.rand(special.shape, generator=generator)
    random = random + (inner & sentences) * 4.0 + inner * 2.0
    middle = special.shape[1] / 2
    closeness = -(torch.arange(special.shape[1]) - middle).abs() / special.shape[1]
    # Without a sentence start, the position nearest to the middle is used.
    ranked = torch.where(random >= 6.0, random, inner * 2.0 + closeness)
    cut = ranked.argmax(1)
    return torch.where(inner.any(1), cut, text_ends(special))


def inside(special: Tensor) -> Tensor:
    """Tokens with a text token of their document before them, where a cut is possible.

    # [batch, length] bool
    """
    inner = ~special
    inner[:, 1:] &= ~special[:, :-1]
    inner[:, 0] = False
    return inner


def fitting_lengths(
    first_length: Tensor, second_length: Tensor, length: int, vocabulary: Vocabulary
) -> tuple[Tensor, Tensor]:
    """Lengths of two texts that fit in a sequence, at least half for each.  # [batch] each"""
    room = length - len(vocabulary.before) - len(vocabulary.after) - 1
    first = torch.minimum(
        first_length, torch.maximum(room - second_length, torch.tensor(room // 2))
    )
    return first, torch.minimum(second_length, room - first)


def join_texts(first: Part, second: Part, labels: Tensor, vocabulary: Vocabulary) -> Pairs:
    """Join two texts with a separator between the tokenizer's special tokens, and pad them."""
    pad = require_token(vocabulary.pad, "padding", "a pair of texts")
    separator = require_token(vocabulary.separator, "separator", "a pair of texts")
    tokens = first.tokens
    length = tokens.shape[1]
    positions = torch.arange(length).expand_as(tokens)
    head = len(vocabulary.before)
    middle = (head + first.size)[:, None]
    tail = middle + 1 + second.size[:, None]
    out = torch.full_like(tokens, pad)
    out[:, :head] = torch.tensor(vocabulary.before, dtype=tokens.dtype)
    in_first = (positions >= head) & (positions < middle)
    in_second = (positions > middle) & (positions < tail)
    from_one = (first.start[:, None] + positions - head).clamp(0, length - 1)
    from_two = (second.start[:, None] + positions - middle - 1).clamp(0, length - 1)
    out = torch.where(in_first, tokens.gather(1, from_one), out)
    out = torch.where(in_second, second.tokens.gather(1, from_two), out)
    out = out.masked_fill(positions == middle, separator)
    for offset, token in enumerate(vocabulary.after):
        out = out.masked_fill(positions == tail + offset, token)
    segments = ((positions > middle) & (positions < tail + len(vocabulary.after))).long()
    return Pairs(out, vocabulary.is_special(out), segments, labels)


# --- next-sentence prediction ---------------------------------------------------------------------


def pairs(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
) -> Pairs:
    """Half of the batch with the next text (label 0), half with another text (label 1)."""
    cut = cuts(special, sentences, generator)  # [batch], start of the second text
    ends = text_ends(special)
    following = _first_sentence_ids(tokens, special, sentences, cut, ends)
    donor = _donors(tokens, following, cut, ends, generator)  # [batch]
    labels = (donor != torch.arange(len(tokens))).long()
    first_length, second_length = cut - text_starts(special), (ends - cut)[donor]
    first_length, second_length = fitting_lengths(
        first_length, second_length, tokens.shape[1], vocabulary
    )
    first, second = (
        Part(tokens, cut - first_length, first_length),
        Part(tokens[donor], cut[donor], second_length),
    )
    return join_texts(first, second, labels, vocabulary)


def bert(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
    unit: Unit = "piece",
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """BERT's objective: masked language model and next-sentence prediction."""
    pair = pairs(tokens, special, generator, vocabulary, sentences=sentences)
    batch = masked(pair.tokens, pair.special, generator, vocabulary, unit=unit, rate=rate)
    return {**batch, "token_type_ids": pair.segments, "next_sentence_label": pair.labels}


def _first_sentence_ids(
    tokens: Tensor, special: Tensor, sentences: Tensor, cut: Tensor, ends: Tensor
) -> Tensor:
    """Ids of the first sentence of each second text; equal sentences share an id.  # [batch]"""
    positions = torch.arange(tokens.shape[1])
    later = positions > cut[:, None]
    stop = later & (sentences | special)
    first_stop = torch.where(stop.any(1), stop.byte().argmax(1), ends)
    source = (cut[:, None] + positions).clamp(max=tokens.shape[1] - 1)
    length = (first_stop - cut)[:, None]
    moved = tokens.gather(1, source).masked_fill(positions >= length, -1)
    ids: Tensor = torch.unique(moved, dim=0, return_inverse=True)[1]
    return ids


def _donors(
    tokens: Tensor, following: Tensor, cut: Tensor, ends: Tensor, generator: Generator
) -> Tensor:
    """The row whose second text each row takes: half their own, half a different one.  # [batch]"""
    batch = len(following)
    same_row = torch.arange(batch)
    has_second = cut < ends  # rows with a second text
    allowed = (following[:, None] != following) & has_second
    random = torch.rand(batch, batch, generator=generator)
    other = random.masked_fill(~allowed, -1.0).argmax(1)
    while (continues := _same_continuation(tokens, cut, ends, other) & allowed.any(1)).any():
        allowed[continues, other[continues]] = False
        other = random.masked_fill(~allowed, -1.0).argmax(1)
    # Rows without a second text are negatives first, rows without an allowed donor never.
    negative = _half(~has_second, ~allowed.any(1), generator)
    return torch.where(negative & allowed.any(1), other, same_row)


def _half(first: Tensor, last: Tensor, generator: Generator) -> Tensor:
    """A random half of the rows, preferring `first` and avoiding `last`.  # [batch] bool"""
    half = len(first) // 2
    if len(first) % 2:
        half += int(torch.rand((), generator=generator) < 0.5)
    rank = torch.rand(len(first), generator=generator) - 2.0 * first + 2.0 * last
    chosen = torch.zeros_like(first)
    chosen[rank.argsort()[:half]] = True
    return chosen


def _same_continuation(tokens: Tensor, cut: Tensor, ends: Tensor, other: Tensor) -> Tensor:
    """Whether two second texts agree over the length of the shorter one.  # [batch]"""
    positions = torch.arange(tokens.shape[1])
    last = tokens.shape[1] - 1
    own = tokens.gather(1, (cut[:, None] + positions).clamp(max=last))
    theirs = tokens[other].gather(1, (cut[other][:, None] + positions).clamp(max=last))
    shorter = torch.minimum(ends - cut, (ends - cut)[other])
    return ((own == theirs) | (positions >= shorter[:, None])).all(1) & (shorter > 0)


# --- sentence-order prediction --------------------------------------------------------------------
#
# ALBERT: are the two texts in their original order?
#
# A packed sequence is cut at a sentence start into two consecutive texts, which are swapped in half
# of the batch. The first and last sentence of a sequence are incomplete, which would give the order
# away: if there are enough sentences, these are left out. Costs: 1 ms for 32 sequences of 128 on a
# core, plus that of masking.


def ordered(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
) -> Pairs:
    """Half of the batch in the original order (label 0), half with its texts swapped (label 1)."""
    starts_of_text, cut, ends = _two_texts(special, sentences, generator)
    first_length, second_length = fitting_lengths(
        cut - starts_of_text, ends - cut, tokens.shape[1], vocabulary
    )
    has_both = (first_length > 0) & (second_length > 0)  # rows with two texts
    labels = (_half(torch.zeros_like(has_both), ~has_both, generator) & has_both).long()
    swap = labels == 1
    earlier, later = (
        (cut - first_length, first_length),
        (cut, second_length),
    )  # start and size of each
    first, second = (
        Part(tokens, torch.where(swap, b[0], a[0]), torch.where(swap, b[1], a[1]))
        for a, b in ((earlier, later), (later, earlier))
    )
    return join_texts(first, second, labels, vocabulary)


def albert(
    tokens: Tensor,
    special: Tensor,
    generator: Generator,
    vocabulary: Vocabulary,
    *,
    sentences: Tensor,
    unit: Unit = "piece",
    rate: float = 0.15,
) -> dict[str, Tensor]:
    """ALBERT's objective: masked language model and sentence-order prediction."""
    pair = ordered(tokens, special, generator, vocabulary, sentences=sentences)
    batch = masked(pair.tokens, pair.special, generator, vocabulary, unit=unit, rate=rate)
    return {**batch, "token_type_ids": pair.segments, "sentence_order_label": pair.labels}


def _two_texts(
    special: Tensor, sentences: Tensor, generator: Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Start of the first text, start of the second, and end of the second.  # [batch] each

    Both consist of whole sentences if three or more start in the sequence.
    """
    length = special.shape[1]
    positions = torch.arange(length)
    starts = sentences & ~special
    starts_of_text, ends = text_starts(special), text_ends(special)
    # A sentence is complete before the next sentence start, and before a document end.
    over = starts | special
    over[:, 1:] &= ~special[:, :-1]
    over &= positions < ends[:, None]
    first = torch.where(starts.any(1), starts.byte().argmax(1), starts_of_text)
    last = torch.where(over.any(1), (over * positions).amax(1), ends)
    between = starts & (positions > first[:, None]) & (positions < last[:, None]) & inside(special)
    some = torch.where(between.any(1, keepdim=True), between, starts)
    cut = cuts(special, some, generator)
    return torch.where(first < cut, first, starts_of_text), cut, torch.where(last > cut, last, ends)


# --- losses of the masked tokens and of the label of each pair ------------------------------------


def _objective(name: str, corrupt: Corruption, label: str, logits: str) -> Objective:
    """An objective of masks and pairs; `logits` is the model's output that predicts `label`."""

    def losses(net: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
        model_inputs = {name: tensor for name, tensor in inputs.items() if name != label}
        nats, output = nats_at(net, model_inputs)
        pair_logits = output[logits].float()  # [batch, 2]
        pair_nats = functional.cross_entropy(pair_logits, inputs[label], reduction="sum")
        return torch.stack([nats, pair_nats])

    return Objective(
        corrupt,
        "encoder",
        losses=lambda vocabulary: losses,
        terms=("masked", name),
        weights=(1.0, 1.0),
        complete=lambda inputs, labels: (len(labels),),
    )


OBJECTIVES = {
    "masked-next": _objective("next", bert, "next_sentence_label", "seq_relationship_logits"),
    "masked-order": _objective("order", albert, "sentence_order_label", "sop_logits"),
}
