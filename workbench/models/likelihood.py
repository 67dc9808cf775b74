"""How well a model with a language-model head predicts the pieces of one batch.

Causal: each piece from those before it; masked: hidden pieces from all others; pseudo-likelihood:
each piece in turn, hidden alone or with the later pieces of its word; denoising: what a decoder
must write to mend a text. The result is the nats of every scored piece, in float32 whatever the
model's precision, and differentiable; `scoring` adds them up over a corpus. Costs one forward pass,
for pseudo-likelihood one for each piece; logits are made for scored pieces only, and log-softmax a
few hundred of them at a time.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from workbench.engine.model import Model
from workbench.engine.pieces import Pieces
from workbench.errors import WorkbenchError
from workbench.models.masking import Pseudo, candidates, hidden_with, masked, one_hidden
from workbench.models.objectives import Symbols

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
