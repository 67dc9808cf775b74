"""Language-model losses of the pieces of one batch.

Causal: each piece from the pieces before it. Masked: hidden pieces from all others.
Pseudo-likelihood: each piece in turn, hidden alone or with the later pieces of its word. Denoising:
the decoder's target that restores a corrupted text. The result is the loss in nats of every scored
piece, in float32 for every model precision, and differentiable; `lm_scoring` sums them over a
corpus. Costs: one forward pass, for pseudo-likelihood one per piece; logits are computed for scored
pieces only, and log-softmax for a few hundred of them at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from workbench.core.arrays import Ints
from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.engine.model import Model, Symbols
from workbench.engine.taps import Tap
from workbench.models.references import Pseudo

# --- hiding pieces of a text that a model must predict: single pieces, or spans -------------------
#
# Which pieces are hidden depends only on the seed and a document's position in the corpus, not on
# the batch. Special pieces and padding are never hidden. This happens on the CPU, before a batch is
# moved to its device. Costs: about 20 µs per document.

MASKED = 0.15  # share of masked pieces, as in BERT
CORRUPTED = 0.15  # share of pieces in hidden spans, as in T5
INFILLED = 0.30  # share of pieces in hidden spans, as in BART
PARTS = 6  # of an order of XLNet, of which the last is predicted
SPAN = 3.0  # mean number of pieces in a span, as in both


def candidates(text: Pieces) -> Tensor:
    """The text's pieces, without special pieces and padding.  # [batch, pieces], bool"""
    return text.mask & ~text.special


def chosen(text: Pieces, seed: int = 0, rate: float = MASKED) -> Tensor:
    """The mask of pieces to hide, chosen uniformly.  # [batch, pieces], bool

    A text of n pieces has rate × n hidden pieces, rounded up or down at random. A short text may
    have none, so that the rate holds over a corpus.
    """
    hidden = np.zeros(tuple(text.mask.shape), dtype=np.bool_)  # [batch, pieces]
    free = candidates(text).cpu().numpy()
    for row, order in enumerate(text.order.tolist()):
        positions, generator = np.flatnonzero(free[row]), _generator(seed, order)
        n_hidden = int(rate * len(positions) + generator.random())
        hidden[row, generator.permutation(positions)[:n_hidden]] = True
    return torch.from_numpy(hidden).to(text.mask.device)


def masked(text: Pieces, hidden: Tensor, mask: int | None) -> Pieces:
    """The text with the mask piece instead of each hidden piece.  # hidden: [batch, pieces]

    Without a mask piece the pieces stay, but no other piece attends to them: see
    `lm_heads.mask_of`.
    """
    if mask is None:
        return replace(text, unseen=hidden)
    return replace(text, ids=text.ids.masked_fill(hidden, mask))


def hidden_with(text: Pieces, places: Tensor, scheme: Pseudo) -> Tensor:
    """The mask of pieces hidden together with each of these pieces.  # [n, pieces], bool

    `places` is [n, 2], row and piece. `within-word` also hides the later pieces of its word (Kauf
    and Ivanova 2023); `original` hides the piece alone (Salazar et al. 2020). Words are those of
    the corpus.
    """
    rows, pieces = places[:, 0], places[:, 1]
    positions = torch.arange(text.ids.shape[1], device=places.device)  # [pieces]
    hidden = positions == pieces[:, None]
    if scheme == "original":
        return hidden
    word = text.words[rows, pieces][:, None]  # [n, 1]
    in_word = (text.words[rows] == word) & (word != NO_WORD) & candidates(text)[rows]
    return hidden | in_word & (positions > pieces[:, None])


CONTEXT = -1  # the place in an order of pieces that are not predicted


def not_before(order: Tensor) -> Tensor:
    """What each piece does not see in XLNet: predicted pieces that do not come before it.

    # [batch, pieces], places in the order of prediction -> [batch, pieces, pieces], bool
    """
    return (order[:, None, :] != CONTEXT) & (order[:, :, None] <= order[:, None, :])


def random_order(text: Pieces, seed: int = 0) -> Tensor:
    """Places in a random order of the pieces of each text; of others -1.  # [batch, pieces]"""
    places = np.full(tuple(text.mask.shape), CONTEXT, dtype=np.int64)  # [batch, pieces]
    free = candidates(text).cpu().numpy()
    for row, index in enumerate(text.order.tolist()):
        positions = np.flatnonzero(free[row])
        shuffled = _generator(seed, index).permutation(positions)
        places[row, shuffled] = np.arange(len(positions))
    return torch.from_numpy(places).to(text.mask.device)


def denoising(text: Pieces, symbols: Symbols, seed: int = 0) -> tuple[Pieces, Pieces]:
    """The corrupted source and the target of an encoder-decoder.

    With sentinels, T5's span corruption: a sentinel replaces each span. The target is every
    sentinel with its span, one more sentinel if the text continues, and the end piece. Without
    sentinels, BART's infilling: one mask replaces each span, and the target is the whole text.
    """
    sources, targets = [], []
    for row in _rows(text):
        content = np.flatnonzero(~row.special)
        begins, ends = hidden_spans(len(content), row.order, symbols, seed)
        begins, ends = content[begins], content[ends - 1] + 1
        if symbols.sentinels:
            source, target = _with_sentinels(row, begins, ends, symbols)
        else:
            source, target = _with_masks(row, begins, ends, symbols), row
        sources.append(source)
        targets.append(target)
    return pad(sources, symbols.pad), pad(targets, symbols.pad)


def hidden_spans(length: int, order: int, symbols: Symbols, seed: int) -> tuple[Ints, Ints]:
    """Begins and ends of `denoising`'s hidden spans, as indices of pieces without special ones."""
    rate = CORRUPTED if symbols.sentinels else INFILLED
    max_spans = len(symbols.sentinels) - 1 if symbols.sentinels else max(length, 1)
    return spans(length, rate, SPAN, _generator(seed, order), max_spans)


def one_hidden(
    text: Pieces, places: Tensor, symbols: Symbols, scheme: Pseudo
) -> tuple[Pieces, Pieces, Tensor]:
    """One copy per piece, hidden by the scheme: sources, targets, and its index in the target.

    `places` is [n, 2], row and piece; the batches have n rows. A piece and the later pieces of its
    word are hidden as one span.
    """
    rows = _rows(text)
    n_hidden = hidden_with(text, places, scheme).int().sum(1)  # [n], number of hidden pieces
    sources, targets, target_indices = [], [], []
    for (row, piece), span_length in zip(places.tolist(), n_hidden.tolist(), strict=True):
        begins, ends = np.array([piece]), np.array([piece + span_length])
        if symbols.sentinels:
            source, target = _with_sentinels(rows[row], begins, ends, symbols)
            target_indices.append(1)  # after its sentinel
        else:
            source, target = _with_masks(rows[row], begins, ends, symbols), rows[row]
            target_indices.append(piece)
        sources.append(source)
        targets.append(target)
    return pad(sources, symbols.pad), pad(targets, symbols.pad), torch.tensor(target_indices)


def spans(
    length: int, rate: float, mean: float, generator: np.random.Generator, max_spans: int
) -> tuple[Ints, Ints]:
    """Begins and ends of hidden spans; spans never touch, and the first piece is never hidden.

    The number of pieces and spans is T5's. Unlike in T5, the last span may end before the text: in
    a sentence with one span, T5 would always hide the end.
    """
    if length < 2:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    hidden = min(max(round(length * rate), 1), length - 1)
    n_spans = min(max(round(hidden / mean), 1), max_spans, length - hidden)
    cuts = np.sort(generator.permutation(hidden - 1)[: n_spans - 1]) + 1
    sizes = np.diff(cuts, prepend=0, append=hidden)  # [spans], 1 or more
    # [spans], visible pieces before
    visible_before = np.sort(generator.permutation(length - hidden)[:n_spans]) + 1
    ends = visible_before + np.cumsum(sizes)
    return ends - sizes, ends


def _with_sentinels(row: Row, begins: Ints, ends: Ints, symbols: Symbols) -> tuple[Row, Row]:
    marks = np.array(symbols.sentinels[: len(begins) + 1], dtype=np.int64)
    source = _replaced(row, begins, ends, marks)
    content = np.flatnonzero(~row.special)
    span_pieces = [(row.ids[a:b], row.words[a:b]) for a, b in zip(begins, ends, strict=True)]
    no_word = np.full(1, NO_WORD, dtype=np.int64)
    parts = [
        part
        for mark, span in zip(marks, span_pieces, strict=False)
        for part in ((mark[None], no_word), span)
    ]
    if len(begins) and ends[-1] <= content[-1]:
        parts.append((marks[-1:], no_word))
    if len(begins) and symbols.end is not None:
        parts.append((np.array([symbols.end], dtype=np.int64), no_word))
    empty = np.empty(0, dtype=np.int64)
    words = np.concatenate([empty, *(part for _, part in parts)])
    target = Row(
        ids=np.concatenate([empty, *(part for part, _ in parts)]),
        words=words,
        special=words == NO_WORD,
        segments=None,
        word_count=row.word_count,
        order=row.order,
    )
    return source, target


def _with_masks(row: Row, begins: Ints, ends: Ints, symbols: Symbols) -> Row:
    assert symbols.mask is not None, "an encoder-decoder without sentinels has a mask piece"
    return _replaced(row, begins, ends, np.full(len(begins), symbols.mask, dtype=np.int64))


def _replaced(row: Row, begins: Ints, ends: Ints, marks: Ints) -> Row:
    """The row with each span replaced by its mark; special pieces within a span stay."""
    keep = np.ones(len(row.ids), dtype=np.bool_)
    ids, words = row.ids.copy(), row.words.copy()
    for begin, end, mark in zip(begins, ends, marks, strict=False):
        keep[begin:end] = row.special[begin:end]
        keep[begin], ids[begin], words[begin] = True, mark, NO_WORD
    return replace(row, ids=ids[keep], words=words[keep], special=row.special[keep])


def _rows(text: Pieces) -> list[Row]:
    """The documents of a batch, without their padding."""
    rows = []
    for index, order in enumerate(text.order.tolist()):
        mask = text.mask[index]
        rows.append(
            Row(
                ids=text.ids[index][mask].cpu().numpy(),
                words=text.words[index][mask].cpu().numpy(),
                special=text.special[index][mask].cpu().numpy(),
                segments=None,
                word_count=int(text.word_counts[index]),
                order=order,
            )
        )
    return rows


def _generator(seed: int, order: int) -> np.random.Generator:
    """The random generator of one document."""
    return np.random.default_rng((seed, order))


# --- losses of pieces and words -------------------------------------------------------------------

ROWS = 512  # pieces whose log-softmax is computed at a time


@dataclass(frozen=True)
class Tapped:
    """A model that runs every forward pass with these taps."""

    model: Any
    taps: Sequence[Tap]

    def forward(self, pieces: Pieces, **how: Any) -> Any:
        return self.model.forward(pieces, taps=self.taps, **how)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


@dataclass(frozen=True)
class Losses:
    """A model's losses and correct predictions, per piece."""

    text: Pieces  # the predicted text
    scored: Tensor  # [batch, pieces], bool
    nats: Tensor  # [batch, pieces], float32, 0 where not scored
    right: Tensor  # [batch, pieces], bool: the gold piece was the most likely

    @property
    def mean(self) -> Tensor:
        """Mean loss in nats per scored piece, for training."""
        return self.nats.sum() / self.scored.sum()


def piece_nats(logits: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
    """-log p of each gold piece, and whether it is the most likely piece.

    [pieces, vocabulary], [pieces] -> [pieces], [pieces]
    """
    nats, right = [], []
    for part, part_gold in zip(torch.split(logits, ROWS), torch.split(gold, ROWS), strict=True):
        nats.append(functional.cross_entropy(part.float(), part_gold, reduction="none"))
        right.append(part.argmax(-1) == part_gold)
    return torch.cat(nats), torch.cat(right)


def with_context(text: Pieces) -> Tensor:
    """The mask of text pieces with at least one piece before them, such as a start token.

    Without a start token, as in GPT-2, the first piece of a text has no context.
    """
    return candidates(text) & functional.pad(text.mask[:, :-1], (1, 0))  # [batch, pieces]


def causal_losses(model: Model, text: Pieces, wanted: Tensor | None = None) -> Losses:
    """Losses of each piece given the pieces before it; a piece without context is not scored.

    `wanted` as in `pseudo_losses`.
    """
    scored = with_context(text) if wanted is None else with_context(text) & wanted
    before = functional.pad(scored[:, 1:], (0, 1))  # [batch, pieces], the predicting pieces
    return _losses(text, scored, logits_of(model, text, before))


def masked_losses(model: Model, text: Pieces, hidden: Tensor, mask: int | None) -> Losses:
    """Losses of the hidden pieces, all hidden at once.  # hidden: [batch, pieces]"""
    return _losses(text, hidden, logits_of(model, masked(text, hidden, mask), hidden))


def pseudo_losses(
    model: Model,
    text: Pieces,
    mask: int | None,
    pieces: int,
    scheme: Pseudo = "original",
    wanted: Tensor | None = None,
) -> Losses:
    """Losses of each piece in turn, hidden by the scheme.

    `pieces` is the maximum number of pieces in a batch, padding included; `wanted` are the pieces
    to score (default: all).  # [batch, pieces], bool
    """
    scored = candidates(text) if wanted is None else candidates(text) & wanted
    positions = scored.nonzero()  # [scored, 2], row and piece
    losses = []
    for part in torch.split(positions, max(1, pieces // text.ids.shape[1])):
        copies = text.take(part[:, 0])
        mask_of_piece = torch.zeros_like(copies.mask)
        mask_of_piece[torch.arange(len(part)), part[:, 1]] = True
        inputs = masked(copies, hidden_with(text, part, scheme), mask)
        gold = text.ids[part[:, 0], part[:, 1]]
        losses.append(piece_nats(logits_of(model, inputs, mask_of_piece), gold))
    return _laid(text, scored, losses)


def permuted_losses(model: Model, text: Pieces, seed: int = 0) -> Losses:
    """Losses of each piece from what comes before it in a random order, as XLNet was trained.

    XLNet predicts the last sixth of an order. So an order is cut into six parts, and each is
    predicted in turn: from all other parts, and from what comes before a piece in its own.
    """
    scored, order = candidates(text), random_order(text, seed)
    parts = order * PARTS // scored.sum(1, keepdim=True).clamp(min=1)  # [batch, pieces]
    nats = torch.zeros(scored.shape, device=scored.device)  # [batch, pieces]
    right = torch.zeros_like(scored)
    for part in range(PARTS):
        last = scored & (parts == part)
        inputs = replace(text, unseen=not_before(order.masked_fill(~last, CONTEXT)))
        found, is_right = piece_nats(logits_of(model, inputs, last), text.ids[last])
        nats, right = nats.masked_scatter(last, found), right.masked_scatter(last, is_right)
    return Losses(text, scored, nats, right)


def pseudo_denoising_losses(
    model: Model,
    text: Pieces,
    symbols: Symbols,
    pieces: int,
    scheme: Pseudo = "original",
    wanted: Tensor | None = None,
) -> Losses:
    """Pseudo-likelihood losses of an encoder-decoder: each piece in turn is hidden and generated.

    `text` is on the CPU, as the tokenizer returns it; `wanted` as in `pseudo_losses`.
    """
    scored = candidates(text) if wanted is None else candidates(text) & wanted
    losses = []
    for part in torch.split(scored.nonzero(), max(1, pieces // text.ids.shape[1])):
        source, target, target_indices = one_hidden(text, part, symbols, scheme)
        mask_of_piece = torch.zeros_like(target.mask)
        mask_of_piece[torch.arange(len(part)), target_indices] = True
        gold = target.ids[mask_of_piece].to(model.device)
        inputs, outputs = source.to(model.device), target.to(model.device)
        losses.append(
            piece_nats(logits_of(model, inputs, mask_of_piece.to(model.device), outputs), gold)
        )
    return _laid(text.to(model.device), scored.to(model.device), losses)


def denoising_losses(model: Model, source: Pieces, target: Pieces) -> Losses:
    """Losses of the whole decoder target, sentinels and end piece included."""
    return _losses(target, target.mask, logits_of(model, source, target.mask, target))


def _losses(text: Pieces, scored: Tensor, logits: Tensor) -> Losses:
    return _laid(text, scored, [piece_nats(logits, text.ids[scored])])


def _laid(text: Pieces, scored: Tensor, parts: list[tuple[Tensor, Tensor]]) -> Losses:
    """Losses from parts in row order, scattered to the scored positions."""
    nats = torch.zeros(scored.shape, device=scored.device)  # [batch, pieces]
    right = torch.zeros_like(scored)
    if parts:
        nats = nats.masked_scatter(scored, torch.cat([part for part, _ in parts]))
        right = right.masked_scatter(scored, torch.cat([part for _, part in parts]))
    return Losses(text, scored, nats, right)


def logits_of(model: Model, text: Pieces, mask: Tensor, target: Pieces | None = None) -> Tensor:
    """Logits of the pieces in the mask.  # [chosen, vocabulary]"""
    logits = model.forward(text, targets=target, hidden=False, logits=mask).logits
    if logits is None:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no language-model head.",
            code="model-unsupported",
            remedy="Choose a model saved with such a head, for example bert-base-uncased or gpt2.",
        )
    return logits
