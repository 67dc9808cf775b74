"""How well a model with a language-model head predicts the pieces of one batch.

Causal: each piece from those before it; masked: hidden pieces from all others; pseudo-likelihood:
each piece in turn, hidden alone or with the later pieces of its word; denoising: what a decoder
must write to mend a text. The result is the nats of every scored piece, in float32 whatever the
model's precision, and differentiable; `lm_scoring` adds them up over a corpus. Costs one forward
pass, for pseudo-likelihood one for each piece; logits are made for scored pieces only, and
log-softmax a few hundred of them at a time.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.engine.model import Model, Symbols
from workbench.models.references import Pseudo

# --- hiding pieces of a text so that a model must find them: single ones, or spans ----------------
#
# Which pieces are hidden follows from the seed and a document's place in the corpus alone,
# whatever the batch it comes in. Special pieces and padding are never hidden. All of it happens
# on the CPU, before a batch is sent to its device; costs some 20 µs a document.

MASKED = 0.15  # of pieces, as in BERT
CORRUPTED = 0.15  # of pieces in spans, as in T5
INFILLED = 0.30  # of pieces in spans, as in BART
SPAN = 3.0  # pieces in a span, on the mean, as in both

Ints = NDArray[np.int64]


def candidates(text: Pieces) -> Tensor:
    """The pieces of the text itself: neither special nor padding.  # [batch, pieces], bool"""
    return text.mask & ~text.special


def chosen(text: Pieces, seed: int = 0, rate: float = MASKED) -> Tensor:
    """The pieces to hide, each as likely as any other.  # [batch, pieces], bool

    A text of n pieces has rate × n of them, rounded up or down by lot: of a short text sometimes
    none, so that over a corpus the rate is kept.
    """
    picked = np.zeros(tuple(text.mask.shape), dtype=np.bool_)  # [batch, pieces]
    free = candidates(text).cpu().numpy()
    for row, order in enumerate(text.order.tolist()):
        places, lot = np.flatnonzero(free[row]), _lot(seed, order)
        wanted = int(rate * len(places) + lot.random())
        picked[row, lot.permutation(places)[:wanted]] = True
    return torch.from_numpy(picked).to(text.mask.device)


def masked(text: Pieces, hidden: Tensor, mask: int | None) -> Pieces:
    """The same text with a mask in the place of each hidden piece.  # hidden: [batch, pieces]

    Without a mask the pieces stay, unseen by the others: see `lm_heads.mask_of`.
    """
    if mask is None:
        return replace(text, unseen=hidden)
    return replace(text, ids=text.ids.masked_fill(hidden, mask))


def hidden_with(text: Pieces, places: Tensor, scheme: Pseudo) -> Tensor:
    """What is hidden with each of these pieces, the piece itself included.  # [n, pieces], bool

    `places` is [n, 2], row and piece. `within-word`: the later pieces of its word too (Kauf and
    Ivanova 2023); `original`: the piece alone (Salazar et al. 2020). A word is the corpus'.
    """
    rows, pieces = places[:, 0], places[:, 1]
    positions = torch.arange(text.ids.shape[1], device=places.device)  # [pieces]
    hidden = positions == pieces[:, None]
    if scheme == "original":
        return hidden
    own = text.words[rows, pieces][:, None]  # [n, 1]
    same = (text.words[rows] == own) & (own != NO_WORD) & candidates(text)[rows]
    return hidden | same & (positions > pieces[:, None])


def denoising(text: Pieces, symbols: Symbols, seed: int = 0) -> tuple[Pieces, Pieces]:
    """What an encoder-decoder reads, and what it must write.

    With sentinels, T5's span corruption: each span gives way to a sentinel, and what must be
    written is every sentinel with its span, one more sentinel where the text goes on, and the end.
    Without, BART's infilling: each span gives way to one mask, and the whole text must be written.
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
    """Where `denoising` hides spans of a document, counted over its pieces without special ones."""
    rate = CORRUPTED if symbols.sentinels else INFILLED
    most = len(symbols.sentinels) - 1 if symbols.sentinels else max(length, 1)
    return spans(length, rate, SPAN, _lot(seed, order), most)


def one_hidden(
    text: Pieces, places: Tensor, symbols: Symbols, scheme: Pseudo
) -> tuple[Pieces, Pieces, Tensor]:
    """A copy for each of these pieces, hidden by the scheme: source, target, and where it is there.

    `places` is [n, 2], row and piece; the batches have n rows. With the later pieces of its word a
    piece is hidden as one span, which begins with it.
    """
    rows = _rows(text)
    lasts = hidden_with(text, places, scheme).int().sum(1)  # [n], pieces hidden
    sources, targets, where = [], [], []
    for (row, piece), number in zip(places.tolist(), lasts.tolist(), strict=True):
        begins, ends = np.array([piece]), np.array([piece + number])
        if symbols.sentinels:
            source, target = _with_sentinels(rows[row], begins, ends, symbols)
            where.append(1)  # behind its sentinel
        else:
            source, target = _with_masks(rows[row], begins, ends, symbols), rows[row]
            where.append(piece)
        sources.append(source)
        targets.append(target)
    return pad(sources, symbols.pad), pad(targets, symbols.pad), torch.tensor(where)


def spans(
    length: int, rate: float, mean: float, lot: np.random.Generator, most: int
) -> tuple[Ints, Ints]:
    """Where hidden spans begin and end; none touch, and the first piece is never hidden.

    As many pieces and spans as T5's own, but the last one may end before the text does: of a
    sentence, which has one span, T5's would hide the end every time.
    """
    if length < 2:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    hidden = min(max(round(length * rate), 1), length - 1)
    number = min(max(round(hidden / mean), 1), most, length - hidden)
    inside = np.sort(lot.permutation(hidden - 1)[: number - 1]) + 1
    sizes = np.diff(inside, prepend=0, append=hidden)  # [spans], 1 or more each
    before = np.sort(lot.permutation(length - hidden)[:number]) + 1  # [spans], seen pieces before
    ends = before + np.cumsum(sizes)
    return ends - sizes, ends


def _with_sentinels(row: Row, begins: Ints, ends: Ints, symbols: Symbols) -> tuple[Row, Row]:
    marks = np.array(symbols.sentinels[: len(begins) + 1], dtype=np.int64)
    source = _replaced(row, begins, ends, marks)
    places = np.flatnonzero(~row.special)
    seen = [(row.ids[a:b], row.words[a:b]) for a, b in zip(begins, ends, strict=True)]
    none = np.full(1, NO_WORD, dtype=np.int64)
    parts = [
        part for mark, span in zip(marks, seen, strict=False) for part in ((mark[None], none), span)
    ]
    if len(begins) and ends[-1] <= places[-1]:
        parts.append((marks[-1:], none))
    if len(begins) and symbols.end is not None:
        parts.append((np.array([symbols.end], dtype=np.int64), none))
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
    assert symbols.mask is not None, "an encoder-decoder without sentinels has a mask"
    return _replaced(row, begins, ends, np.full(len(begins), symbols.mask, dtype=np.int64))


def _replaced(row: Row, begins: Ints, ends: Ints, marks: Ints) -> Row:
    """The row with each span, but for special pieces within, replaced by its mark."""
    stays = np.ones(len(row.ids), dtype=np.bool_)
    ids, words = row.ids.copy(), row.words.copy()
    for begin, end, mark in zip(begins, ends, marks, strict=False):
        stays[begin:end] = row.special[begin:end]
        stays[begin], ids[begin], words[begin] = True, mark, NO_WORD
    return replace(row, ids=ids[stays], words=words[stays], special=row.special[stays])


def _rows(text: Pieces) -> list[Row]:
    """The documents of a batch, without their padding."""
    rows = []
    for place, order in enumerate(text.order.tolist()):
        real = text.mask[place]
        rows.append(
            Row(
                ids=text.ids[place][real].cpu().numpy(),
                words=text.words[place][real].cpu().numpy(),
                special=text.special[place][real].cpu().numpy(),
                segments=None,
                word_count=int(text.word_counts[place]),
                order=order,
            )
        )
    return rows


def _lot(seed: int, order: int) -> np.random.Generator:
    """Chance that belongs to one document."""
    return np.random.default_rng((seed, order))


# --- losses of pieces and words -------------------------------------------------------------------

ROWS = 512  # pieces whose log-softmax is made at a time


@dataclass(frozen=True)
class Losses:
    """What a model made of a text, piece by piece."""

    text: Pieces  # what was to be predicted
    scored: Tensor  # [batch, pieces], bool
    nats: Tensor  # [batch, pieces], float32, 0 where not scored
    right: Tensor  # [batch, pieces], bool: no other piece was thought likelier

    @property
    def mean(self) -> Tensor:
        """Nats a scored piece, as a loss to train with."""
        return self.nats.sum() / self.scored.sum()


def piece_nats(logits: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
    """-log p of each gold piece, and whether it is the likeliest.

    [pieces, vocabulary], [pieces] -> [pieces], [pieces]
    """
    nats, right = [], []
    for part, wanted in zip(torch.split(logits, ROWS), torch.split(gold, ROWS), strict=True):
        nats.append(functional.cross_entropy(part.float(), wanted, reduction="none"))
        right.append(part.argmax(-1) == wanted)
    return torch.cat(nats), torch.cat(right)


def with_context(text: Pieces) -> Tensor:
    """The pieces of the text that have another before them, if only a start symbol.

    A text's first piece has none where the tokenizer puts nothing before a text, as GPT-2's.
    """
    return candidates(text) & functional.pad(text.mask[:, :-1], (1, 0))  # [batch, pieces]


def causal_losses(model: Model, text: Pieces) -> Losses:
    """Each piece from those before it; one without context is not scored."""
    scored = with_context(text)
    before = functional.pad(scored[:, 1:], (0, 1))  # [batch, pieces], the pieces that predict
    return _losses(text, scored, logits_of(model, text, before))


def masked_losses(model: Model, text: Pieces, hidden: Tensor, mask: int | None) -> Losses:
    """The hidden pieces, all hidden at once, from the others.  # hidden: [batch, pieces]"""
    return _losses(text, hidden, logits_of(model, masked(text, hidden, mask), hidden))


def pseudo_losses(
    model: Model, text: Pieces, mask: int | None, pieces: int, scheme: Pseudo = "original"
) -> Losses:
    """Each piece in turn, hidden by the scheme, from those that are not.

    `pieces` is the maximum in a batch, padding included.
    """
    scored = candidates(text)
    places = scored.nonzero()  # [scored, 2], row and piece
    logits = []
    for part in torch.split(places, max(1, pieces // text.ids.shape[1])):
        copies = text.take(part[:, 0])
        wanted = torch.zeros_like(copies.mask)
        wanted[torch.arange(len(part)), part[:, 1]] = True
        read = masked(copies, hidden_with(text, part, scheme), mask)
        gold = text.ids[part[:, 0], part[:, 1]]
        logits.append(piece_nats(logits_of(model, read, wanted), gold))
    return _laid(text, scored, logits)


def pseudo_denoising_losses(
    model: Model, text: Pieces, symbols: Symbols, pieces: int, scheme: Pseudo = "original"
) -> Losses:
    """The same of an encoder-decoder: each piece in turn is hidden, and must be written.

    `text` is on the CPU, as it comes from the tokenizer.
    """
    scored = candidates(text)
    found = []
    for part in torch.split(scored.nonzero(), max(1, pieces // text.ids.shape[1])):
        source, target, where = one_hidden(text, part, symbols, scheme)
        wanted = torch.zeros_like(target.mask)
        wanted[torch.arange(len(part)), where] = True
        gold = target.ids[wanted].to(model.device)
        read, write = source.to(model.device), target.to(model.device)
        found.append(piece_nats(logits_of(model, read, wanted.to(model.device), write), gold))
    return _laid(text.to(model.device), scored.to(model.device), found)


def denoising_losses(model: Model, source: Pieces, target: Pieces) -> Losses:
    """All that the decoder must write, sentinels and end included, each with what is before it."""
    return _losses(target, target.mask, logits_of(model, source, target.mask, target))


def _losses(text: Pieces, scored: Tensor, logits: Tensor) -> Losses:
    return _laid(text, scored, [piece_nats(logits, text.ids[scored])])


def _laid(text: Pieces, scored: Tensor, found: list[tuple[Tensor, Tensor]]) -> Losses:
    """Nats of scored pieces, row after row, in their places."""
    nats = torch.zeros(scored.shape, device=scored.device)  # [batch, pieces]
    right = torch.zeros_like(scored)
    if found:
        nats = nats.masked_scatter(scored, torch.cat([each for each, _ in found]))
        right = right.masked_scatter(scored, torch.cat([each for _, each in found]))
    return Losses(text, scored, nats, right)


def logits_of(model: Model, text: Pieces, wanted: Tensor, target: Pieces | None = None) -> Tensor:
    """Logits of the pieces wanted.  # [wanted, vocabulary]"""
    logits = model.forward(text, targets=target, hidden=False, logits=wanted).logits
    if logits is None:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no language-model head.",
            remedy="Choose a model saved with one, such as bert-base-uncased or gpt2.",
        )
    return logits
