"""Word vectors for a task head: from the current weights of a body, or cached from a frozen model.

Both give the same numbers for the same weights. The mix of layers and the mean over a word's pieces
are both linear, so their order does not matter. Costs: `Live` a forward pass per batch; `Cached`
one pass over all texts, and 4 bytes per number on disk.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from workbench.analyses.transfer.backbone import Body
from workbench.engine.activation_store import Store, word_states
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.models.output_heads.task_heads import (
    Mix,
    Read,
    StandardHead,
    TaskHead,
    read_states,
    segments_of,
)


class Live:
    """Texts in pieces, encoded by a body with its current weights."""

    def __init__(
        self,
        body: Body,
        batch: Batch,
        head: TaskHead | None = None,
    ) -> None:
        """Of a `StandardHead`, the logits of the body's own net are read instead of states."""
        self.body = body
        self.standard = head if isinstance(head, StandardHead) else None
        text = body.model.encode(batch)
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
        segments = self.segments[list(texts)]
        if self.standard is not None:
            return self.standard.read(self.body.model, some, segments)
        return read_states(self.body.states, mix, some, segments, training=True)


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


IN_MEMORY = 2**30  # bytes of states up to which they are read from disk into memory


def _layers(store: Store) -> list[Tensor]:
    about = store.description
    layers = [store.layer(layer) for layer in range(about.layers + 1)]  # mapped
    size = 4 * about.rows * about.width * len(layers)
    return [layer.clone() for layer in layers] if size <= IN_MEMORY else layers
