"""Induction and duplicate heads, measured on blocks of random pieces that occur twice.

A text is a block of different random pieces, then the same block again: only the first copy
predicts the next piece. A duplicate head attends from a piece of the second block to the same piece
of the first, an induction head to the piece after it. Block lengths vary, so that no fixed offset
does as well. Where attention has a window, only blocks that fit into it count. Costs: a forward
pass over about four hundred pieces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.heads.word_maps import sides_of
from workbench.engine.batch import NO_WORD, Pieces, Row, pad
from workbench.engine.forward_pass import chunks
from workbench.engine.model import Model
from workbench.engine.taps import Site, Tap, View

PERIODS = tuple(range(4, 21))
TIMES = 1  # texts of each block length
AT_ONCE = 6  # texts in a batch; neighbours have similar lengths


@dataclass(frozen=True)
class Repeats:
    """Mean attention on copies over the pieces of the second block, for each text."""

    duplicate: Tensor  # [texts, heads]
    induction: Tensor  # [texts, heads]


@dataclass(eq=False)
class _Tap(Tap):
    attention: dict[Site, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    _pending: dict[Site, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @torch.no_grad()
    def see(self, view: View) -> None:
        assert view.queries is not None and view.keys is not None, "called by the engine"
        sides = sides_of(view.queries, view.keys, view.site.kind)
        maps = sides.merged(view.probabilities.float())[..., : sides.words]
        position = torch.arange(maps.shape[-2], device=maps.device)
        period = view.queries.word_counts.to(maps.device) // 2  # [batch]
        in_second = (position >= period[:, None]) & sides.rows  # [batch, words]
        earlier = (position - period[:, None]).clamp(min=0)  # [batch, words]
        count = in_second.sum(1).clamp(min=1)[:, None]

        def attention_on(target: Tensor) -> Tensor:  # [batch, words] -> [batch, heads]
            index = target.clamp(max=maps.shape[-1] - 1)[:, None, :, None]
            mass = maps.gather(3, index.expand(-1, maps.shape[1], -1, 1))[..., 0]
            return ((mass * in_second[:, None]).sum(-1) / count).cpu()

        inside = (period <= view.site.window).cpu() if view.site.window else slice(None)
        duplicate, induction = attention_on(earlier), attention_on(earlier + 1)
        self._pending[view.site] = duplicate[inside], induction[inside]

    def close(self, whole: bool) -> None:
        for site, pair in self._pending.items() if whole else ():
            self.attention.setdefault(site, []).append(pair)
        self._pending.clear()


def repeats(model: Model, around: Pieces, seed: int) -> Mapping[Site, Repeats]:
    """Attention of every head on copies; `around` is any text, for its special pieces.

    Empty if the model has no vocabulary to draw from.
    """
    rows = _rows(model, around, seed)
    tap = _Tap()
    with torch.no_grad():
        for part in chunks(rows, AT_ONCE):
            text = pad(part, model.symbols.pad)
            model.forward(text.to(model.device), taps=[tap], hidden=False)
    found = {
        site: Repeats(*(torch.cat(parts) for parts in zip(*pairs, strict=True)))
        for site, pairs in tap.attention.items()
    }
    return {site: each for site, each in found.items() if len(each.duplicate)}


def _rows(model: Model, around: Pieces, seed: int) -> list[Row]:
    """Texts of repeated blocks, with the special pieces that the tokenizer adds to a text."""
    random = np.random.default_rng([seed, 3])
    vocabulary = np.array(model.pieces_to_draw())
    before, after = _around(around)
    room = (model.max_pieces or 10_000) - len(before) - len(after)
    rows: list[Row] = []
    for period in PERIODS:
        if 2 * period > room or period > len(vocabulary):
            continue
        for _ in range(TIMES):
            block = random.choice(vocabulary, period, replace=False)
            ids = np.concatenate([before, block, block, after]).astype(np.int64)
            words = np.concatenate(
                [np.full(len(before), NO_WORD), np.arange(2 * period), np.full(len(after), NO_WORD)]
            )
            segments = None if around.segments is None else np.zeros(len(ids), dtype=np.int64)
            rows.append(Row(ids, words, words == NO_WORD, segments, 2 * period, order=len(rows)))
    return rows


def _around(text: Pieces) -> tuple[Sequence[int], Sequence[int]]:
    """The special pieces before the first word and after the last."""
    words = torch.nonzero(text.words[0] != NO_WORD).flatten()
    ids, real = text.ids[0], text.mask[0]
    if not len(words):
        return ids[real].tolist(), []
    last = int(words[-1]) + 1
    return ids[: int(words[0])].tolist(), ids[last:][real[last:]].tolist()
