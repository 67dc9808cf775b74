"""Sources of one width as one table to gather from: what a batch of spans reads of every layer.

On the CPU rows are copied out of memory-mapped half precision (small tables out of memory, all
layers in one go); on a GPU the table lies there where it fits. Residual streams differ a
hundredfold in size between models and layers, so each source is divided by one number of its own
(any probe could take it into its weights), and a mix by one number for all, since how much each
layer counts must stay as it is. Costs a copy of the rows asked for: layers times rows times width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes.sources import Source

SOME = 2_000  # words whose states are measured
SMALL = 512 << 20  # bytes that are held in memory
ROOM = 0.5  # of a GPU's free memory that states may take


@dataclass(frozen=True)
class Bank:
    """States by source."""

    sources: tuple[Source, ...]
    tables: tuple[Tensor, ...]  # [sources, words, width] in one, or [1, words, width] each
    scale: Tensor  # [sources], what each is multiplied by
    common: Tensor  # [sources], and by what then, where it is mixed with others
    device: torch.device

    @property
    def width(self) -> int:
        return self.sources[0].width

    def rows(self, words: Tensor) -> Tensor:
        """States of these words in every source.  # [...] -> [sources, ..., width]"""
        flat = words.reshape(-1).to(self.tables[0].device)
        parts = [table.index_select(1, flat) for table in self.tables]
        found = (parts[0] if len(parts) == 1 else torch.cat(parts)).to(self.device)
        found = found * self.scale[:, None, None]  # single precision from here on
        return found.reshape(len(found), *words.shape, self.width)


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
            tables = [table.to(device) for table in tables] if near else tables
        else:
            near = size < SMALL
        together = [torch.stack(tables)] if near else [table[None] for table in tables]
        size_of = torch.stack([_size(source.states[some]) for source in own]).to(device)
        mean = torch.ones_like(size_of)
        for encoder in {(source.encoder, source.stack) for source in own}:
            of = [place for place, s in enumerate(own) if (s.encoder, s.stack) == encoder]
            mean[of] = size_of[of].mean()
        banks.append(Bank(own, tuple(together), 1 / size_of, size_of / mean, device))
    return tuple(banks)


def _size(states: Tensor) -> Tensor:
    """How much a usual feature varies; the few huge ones of some models do not count.  # []"""
    spread = states.float().std(0, correction=0)
    spread = spread[spread > 0]
    return spread.median() if len(spread) else torch.ones(())


def widths_of(spans: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Spans of like length together, at most twice the shortest, so that little is padded.

    [n, 2] -> for each: places [some], rows [some, longest], which rows are real [some, longest]
    """
    lengths = spans[:, 1] - spans[:, 0]
    if int(lengths.max()) == 1:
        return [(torch.arange(len(spans)), spans[:, :1], torch.ones_like(spans[:, :1]).bool())]
    kind = torch.ceil(torch.log2(lengths.double())).long()  # 1, 2, 3-4, 5-8, ...
    found = []
    for each in torch.unique(kind).tolist():
        places = torch.nonzero(kind == each).flatten()
        longest = int(lengths[places].max())
        rows = spans[places, :1] + torch.arange(longest, device=spans.device)
        real = rows < spans[places, 1:]
        found.append((places, torch.where(real, rows, spans[places, :1]), real))
    return found
