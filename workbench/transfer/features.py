"""Words' vectors for a head: computed anew from a body that learns, or once from one that does not.

Both give the same numbers for the same weights. A mix of layers is linear, and so is the mean over
a word's pieces: what is mixed first, or averaged first, is the same. Costs of `Live` a forward pass
a batch; of `Still` one pass over all texts, and 4 bytes a number on disk.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from workbench.engine.activation_store import Store, word_states
from workbench.engine.batch import Batch, Pieces, sent
from workbench.engine.model import Model
from workbench.engine.words import by_word
from workbench.models.lm_heads import autocast
from workbench.transfer.backbone import Body

Mix = Callable[[Sequence[Tensor]], Tensor]


@dataclass(frozen=True)
class Read:
    """Words of some texts, mixed."""

    words: Tensor  # [batch, words, width]
    there: Tensor  # [batch, words], words that own a piece
    second: Tensor  # [batch, words], words of the second text of a pair


class Source(Protocol):
    """Where a head reads."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> Sequence[int]:
        """Pieces, or words, of each text."""
        ...

    def read(self, texts: Sequence[int], mix: Any) -> Any:
        """What the head is given of some texts."""
        ...


class Live:
    """Texts in pieces, read by a body as it is now."""

    def __init__(
        self,
        body: Body,
        batch: Batch,
        widened: Callable[[Pieces], Pieces] = lambda text: text,
    ) -> None:
        """`widened` puts pieces of its own before each text."""
        self.body = body
        text = widened(body.model.encode(batch))
        self.cut = len({row for row, *_ in text.cut})  # texts that were too long
        self.text = replace(text, unaligned=(), cut=())
        self.lengths: list[int] = self.text.mask.sum(1).tolist()
        self.segments = segments_of(batch)  # [texts, words]

    def __len__(self) -> int:
        return len(self.text)

    def read(self, texts: Sequence[int], mix: Mix) -> Read:
        width = max(1, *(self.lengths[text] for text in texts))
        device = self.body.model.device
        some = self.text.take(list(texts)).narrowed(width).to(device)
        with autocast(device):
            mixed = mix(self.body.states(some))  # [batch, pieces, width]
        words, there = by_word(mixed.float(), some)
        second = sent(self.segments[list(texts), : words.shape[1]], device)
        return Read(words, there, second)


class Still:
    """Every layer's words, computed once by a model that stays as it is."""

    def __init__(self, model: Model, batch: Batch, home: Path) -> None:
        name = model.stacks[0].name
        store = word_states(model, batch, home, [name], kind="fp32")[0][name]
        self.layers = _layers(store)
        self.missing = torch.from_numpy(store.missing)  # [all words]
        self.starts = torch.from_numpy(batch.word_offsets)  # [texts + 1]
        self.lengths: list[int] = np.diff(batch.word_offsets).tolist()
        self.segments = segments_of(batch)
        self.device = model.device

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, texts: Sequence[int], mix: Mix) -> Read:
        chosen = torch.tensor(list(texts))
        longest = max(1, *(self.lengths[text] for text in texts))
        place = torch.arange(longest)
        sizes = torch.tensor([self.lengths[text] for text in texts])
        real = place < sizes[:, None]  # [batch, words]
        rows = (self.starts[chosen][:, None] + place)[real]  # [real words]
        flat = mix([layer[rows].to(self.device) for layer in self.layers])
        words = flat.new_zeros(len(chosen), longest, flat.shape[-1])
        words = words.masked_scatter(real[..., None].to(self.device), flat)
        there = torch.zeros_like(real)
        there[real] = ~self.missing[rows]
        there = there.to(self.device)
        second = self.segments[chosen, :longest].to(self.device)
        return Read(words * there[..., None], there, second)


def segments_of(batch: Batch) -> Tensor:
    """Which words are of the second text of a pair.  # [texts, longest], bool"""
    sizes = np.diff(batch.word_offsets)
    found = torch.zeros(len(batch), max(1, int(sizes.max(initial=0))), dtype=torch.bool)
    real = torch.arange(found.shape[1]) < torch.from_numpy(sizes)[:, None]
    found[real] = torch.from_numpy(batch.segments.astype(bool))
    return found


HELD = 2**30  # bytes of states that are read from disk into memory


def _layers(store: Store) -> list[Tensor]:
    about = store.description
    layers = [store.layer(layer) for layer in range(about.layers + 1)]  # mapped
    size = 4 * about.rows * about.width * len(layers)
    return [layer.clone() for layer in layers] if size <= HELD else layers
