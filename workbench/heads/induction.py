"""Induction and duplicate heads, on random pieces that come twice.

A block of pieces drawn without repetition, then the same again: nothing but the copy tells what
comes next. A duplicate head looks from a piece of the second block at the same piece of the first,
an induction head at the piece after it. Blocks are of varying length, so that no fixed offset does
as well. Costs a forward pass over some four hundred pieces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.engine.taps import Site, Tap, View
from workbench.heads.word_maps import sides_of

PERIODS = tuple(range(4, 21))
TIMES = 1  # texts of each period
AT_ONCE = 6  # texts, of like lengths as they come


@dataclass(frozen=True)
class Repeats:
    """Attention on copies, text by text, a mean over the pieces of the second block."""

    duplicate: Tensor  # [texts, heads]
    induction: Tensor  # [texts, heads]


@dataclass(eq=False)
class _Tap(Tap):
    found: dict[Site, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    _pending: dict[Site, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @torch.no_grad()
    def see(self, view: View) -> None:
        assert view.queries is not None and view.keys is not None, "asked through the engine"
        sides = sides_of(view.queries, view.keys, view.site.kind)
        maps = sides.merged(view.probabilities.float())[..., : sides.words]
        place = torch.arange(maps.shape[-2], device=maps.device)
        period = view.queries.word_counts.to(maps.device) // 2  # [batch]
        again = (place >= period[:, None]) & sides.rows  # [batch, words]
        earlier = (place - period[:, None]).clamp(min=0)  # [batch, words]
        number = again.sum(1).clamp(min=1)[:, None]

        def given(to: Tensor) -> Tensor:  # [batch, words] -> [batch, heads]
            at = to.clamp(max=maps.shape[-1] - 1)[:, None, :, None]
            mass = maps.gather(3, at.expand(-1, maps.shape[1], -1, 1))[..., 0]
            return ((mass * again[:, None]).sum(-1) / number).cpu()

        self._pending[view.site] = given(earlier), given(earlier + 1)

    def close(self, whole: bool) -> None:
        for site, pair in self._pending.items() if whole else ():
            self.found.setdefault(site, []).append(pair)
        self._pending.clear()


def repeats(model: Model, around: Pieces, seed: int) -> Mapping[Site, Repeats]:
    """What every head gives to copies; `around` is any text, for its special pieces.

    Nothing where the model has no vocabulary to draw from.
    """
    rows = _rows(model, around, seed)
    tap = _Tap()
    with torch.no_grad():
        for some in chunks(rows, AT_ONCE):
            text = pad(some, model.symbols.pad)
            model.forward(text.to(model.device), taps=[tap], hidden=False)
    return {
        site: Repeats(*(torch.cat(parts) for parts in zip(*pairs, strict=True)))
        for site, pairs in tap.found.items()
    }


def _rows(model: Model, around: Pieces, seed: int) -> list[Row]:
    """Blocks that come twice, with the special pieces that the tokenizer puts around a text."""
    random = np.random.default_rng([seed, 3])
    drawn_from = np.array(model.pieces_to_draw())
    before, after = _around(around)
    room = (model.max_pieces or 10_000) - len(before) - len(after)
    rows: list[Row] = []
    for period in PERIODS:
        if 2 * period > room or period > len(drawn_from):
            continue
        for _ in range(TIMES):
            block = random.choice(drawn_from, period, replace=False)
            ids = np.concatenate([before, block, block, after]).astype(np.int64)
            words = np.concatenate(
                [np.full(len(before), NO_WORD), np.arange(2 * period), np.full(len(after), NO_WORD)]
            )
            segments = None if around.segments is None else np.zeros(len(ids), dtype=np.int64)
            rows.append(Row(ids, words, words == NO_WORD, segments, 2 * period, order=len(rows)))
    return rows


def _around(text: Pieces) -> tuple[Sequence[int], Sequence[int]]:
    """The special pieces before the first word and behind the last."""
    words = torch.nonzero(text.words[0] != NO_WORD).flatten()
    ids, real = text.ids[0], text.mask[0]
    if not len(words):
        return ids[real].tolist(), []
    last = int(words[-1]) + 1
    return ids[: int(words[0])].tolist(), ids[last:][real[last:]].tolist()
