"""Word vectors for a task head: from the current weights of a body, or cached from a frozen model.

Both give the same numbers for the same weights. The mix of layers and the mean over a word's pieces
are both linear, so their order does not matter. Costs: `Live` a forward pass per batch; `Cached`
one pass over all texts, and 4 bytes per number on disk.
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
    """Word vectors of some texts, after the mix of layers."""

    words: Tensor  # [batch, words, width]
    there: Tensor  # [batch, words], words with at least one piece
    second: Tensor  # [batch, words], words of the second text of a pair


def read_states(
    states: Callable[[Pieces], Sequence[Tensor]], mix: Mix, text: Pieces, segments: Tensor
) -> Read:
    """Word vectors of texts on the model's device.  # segments: [batch, words], on the host"""
    device = text.ids.device
    with autocast(device):
        mixed = mix(states(text))  # [batch, pieces, width]
    words, there = by_word(mixed.float(), text)
    return Read(words, there, sent(segments[:, : words.shape[1]], device))


class Source(Protocol):
    """Where a head gets its inputs."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> Sequence[int]:
        """The number of pieces, or of words, of each text."""
        ...

    def read(self, texts: Sequence[int], mix: Any) -> Any:
        """The head's inputs for some texts."""
        ...


class Live:
    """Texts in pieces, encoded by a body with its current weights."""

    def __init__(
        self,
        body: Body,
        batch: Batch,
        make_room: Callable[[Pieces], Pieces] = lambda text: text,
    ) -> None:
        """`make_room` adds pieces before each text, for a prefix or a prompt."""
        self.body = body
        text = make_room(body.model.encode(batch))
        self.cut = len({row for row, *_ in text.cut})  # number of texts that were too long
        self.text = replace(text, unaligned=(), cut=())
        self.lengths: list[int] = self.text.mask.sum(1).tolist()
        self.segments = segments_of(batch)  # [texts, words]

    def __len__(self) -> int:
        return len(self.text)

    def read(self, texts: Sequence[int], mix: Mix) -> Read:
        width = max(1, *(self.lengths[text] for text in texts))
        device = self.body.model.device
        some = self.text.take(list(texts)).narrowed(width).to(device)
        return read_states(self.body.states, mix, some, self.segments[list(texts)])


class Cached:
    """Word vectors of every layer, computed once from a frozen model."""

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
        position = torch.arange(longest)
        sizes = torch.tensor([self.lengths[text] for text in texts])
        real = position < sizes[:, None]  # [batch, words]
        rows = (self.starts[chosen][:, None] + position)[real]  # [real words]
        flat = mix([layer[rows].to(self.device) for layer in self.layers])
        words = flat.new_zeros(len(chosen), longest, flat.shape[-1])
        words = words.masked_scatter(real[..., None].to(self.device), flat)
        there = torch.zeros_like(real)
        there[real] = ~self.missing[rows]
        there = there.to(self.device)
        second = self.segments[chosen, :longest].to(self.device)
        return Read(words * there[..., None], there, second)


def segments_of(batch: Batch) -> Tensor:
    """Which words belong to the second text of a pair.  # [texts, longest], bool"""
    sizes = np.diff(batch.word_offsets)
    second = torch.zeros(len(batch), max(1, int(sizes.max(initial=0))), dtype=torch.bool)
    real = torch.arange(second.shape[1]) < torch.from_numpy(sizes)[:, None]
    second[real] = torch.from_numpy(batch.segments.astype(bool))
    return second


IN_MEMORY = 2**30  # bytes of states up to which they are read from disk into memory


def _layers(store: Store) -> list[Tensor]:
    about = store.description
    layers = [store.layer(layer) for layer in range(about.layers + 1)]  # mapped
    size = 4 * about.rows * about.width * len(layers)
    return [layer.clone() for layer in layers] if size <= IN_MEMORY else layers
