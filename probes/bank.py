"""Sources of one width as one table to gather from: what a batch of spans reads of every layer.

On the CPU rows are copied out of memory-mapped half precision (small tables out of memory, all
layers in one go); on a GPU the table lies there where it fits. Every source is standardised feature
by feature, with the mean and deviation of the training words, so that neither an outlier feature
nor a large offset decides which layer wins; any probe could undo it with its weights. In a mix of
layers each keeps its size relative to the others, as in the paper: there a feature is divided by
one deviation for all layers of a stack. Costs a copy of the rows that are read: layers times rows
times width.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes.sources import Source
from workbench.engine.moving import sent

SOME = 2_000  # words whose states are measured
SMALL = 512 << 20  # bytes that are held in memory
ROUNDED = 1e-4  # of a feature's size: what half precision makes of a constant
ROOM = 0.5  # of a GPU's free memory that states may take


@dataclass(frozen=True)
class Bank:
    """States by source."""

    sources: tuple[Source, ...]
    tables: tuple[Tensor, ...]  # [sources, words, width] in one, or [1, words, width] each
    mean: Tensor  # [sources, width], over training words
    scale: Tensor  # [sources, width], 1 / deviation; 0 of a feature that does not vary
    common: Tensor  # [sources, width], deviation / that of the stack: what gives a mix its sizes
    device: torch.device

    @property
    def width(self) -> int:
        return self.sources[0].width

    def rows(self, words: Tensor) -> Tensor:
        """Standardised states of these words in every source.  # [...] -> [sources, ..., width]"""
        flat = sent(words.reshape(-1), self.tables[0].device)
        parts = [table.index_select(1, flat) for table in self.tables]
        found = (parts[0] if len(parts) == 1 else torch.cat(parts)).to(self.device).float()
        found = found.sub_(self.mean[:, None]).mul_(self.scale[:, None])
        return found.reshape(len(found), *words.shape, self.width)

    def only(self, source: int) -> "Bank":
        """The bank of one source; shares its table."""
        if len(self.tables) == 1:
            table = self.tables[0][source : source + 1]
        else:
            table = self.tables[source]
        own = slice(source, source + 1)
        return Bank(
            self.sources[own],
            (table,),
            self.mean[own],
            self.scale[own],
            self.common[own],
            self.device,
        )


def banked(sources: Sequence[Source], device: torch.device, train: Tensor) -> tuple[Bank, ...]:
    """A bank for each width there is, on the device where there is room; `train` are its words."""
    some = train[:: max(1, len(train) // SOME)]
    banks = []
    for width in dict.fromkeys(source.width for source in sources):
        own = tuple(source for source in sources if source.width == width)
        tables = [source.states for source in own]
        size = sum(table.numel() * table.element_size() for table in tables)
        if device.type == "cuda":
            near = size < ROOM * torch.cuda.mem_get_info(device)[0]
        else:
            near = size < SMALL
        together = [_together(tables, device)] if near else [table[None] for table in tables]
        mean, deviation = (
            torch.stack(each).to(device)
            for each in zip(*(_moments(source.states[some]) for source in own), strict=True)
        )
        usual = torch.ones_like(deviation)
        for encoder in {(source.encoder, source.stack) for source in own}:
            of = [place for place, s in enumerate(own) if (s.encoder, s.stack) == encoder]
            usual[of] = deviation[of].square().mean(0).sqrt()
        common = torch.where(usual > 0, deviation / usual, 0.0)
        scale = torch.where(deviation > 0, 1 / deviation, 0.0)
        banks.append(Bank(own, tuple(together), mean, scale, common, device))
    return tuple(banks)


def _together(tables: Sequence[Tensor], device: torch.device) -> Tensor:
    """All tables as one on the device, copied one at a time.  # -> [sources, words, width]"""
    kind = functools.reduce(torch.promote_types, (table.dtype for table in tables))
    found = torch.empty(len(tables), *tables[0].shape, dtype=kind, device=device)
    for own, table in zip(found, tables, strict=True):
        own.copy_(table)
    return found


def _moments(states: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each feature; 0 where it varies no more than it is rounded.

    [words, width] -> [width], [width]
    """
    wide = states.double()
    mean, deviation = wide.mean(0), wide.std(0, correction=0)
    varies = deviation > ROUNDED * wide.abs().amax(0)
    return mean.float(), torch.where(varies, deviation, 0.0).float()


def words_in(spans: Tensor) -> tuple[Tensor, Tensor]:
    """The words of all spans, one span after another, and of which span each is.

    [n, 2] -> [words], [words]
    """
    lengths = spans[:, 1] - spans[:, 0]
    of_span = torch.repeat_interleave(lengths)
    skipped = spans[:, 0] - (lengths.cumsum(0) - lengths)
    return torch.arange(len(of_span)) + skipped[of_span], of_span
