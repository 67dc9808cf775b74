"""Another kind of model, in one file: a vector a word, and the mean of a text's vectors.

Layer 0 is a word's own vector, drawn at random; layer 1 mixes it with the mean of its text. There
are no heads, no vocabulary and no language-model head. `BagOfEmbeddings` writes what the protocol
asks of every model, and nothing else; `TrainableBag` adds what training and baselines ask for.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from workbench import Model
from workbench.engine.batch import Batch, Pieces, Row, pad
from workbench.engine.model import Output, Stack, WeightPlace, require_sites
from workbench.engine.taps import Tap

ROWS, WIDTH = 512, 16  # words share a row where their hashes do


class BagOfEmbeddings(Model):
    """What every model says and does."""

    def __init__(self, seed: int = 0, name: str = "bag") -> None:
        drawn = torch.Generator().manual_seed(seed)
        self.name, self.family, self.width = name, "bag", WIDTH
        self.stacks = (Stack("encoder", layers=1, heads=0, kinds=()),)
        self.table = torch.randn(ROWS, WIDTH, generator=drawn)
        self.mix = torch.randn(WIDTH, WIDTH, generator=drawn) / WIDTH**0.5

    @property
    def parameters(self) -> int:
        return self.table.numel() + self.mix.numel()

    @property
    def device(self) -> torch.device:
        return self.table.device

    @property
    def content_hash(self) -> str:
        weights = (self.table, self.mix)
        raw = b"".join(each.detach().numpy().tobytes() for each in weights)
        return hashlib.blake2b(raw, digest_size=16).hexdigest()

    def encode(self, batch: Batch, documents: Sequence[int] | None = None) -> Pieces:
        chosen = range(len(batch)) if documents is None else documents
        return pad([_row(batch, document) for document in chosen])

    def forward(
        self,
        pieces: Pieces,
        *,
        targets: Pieces | None = None,
        taps: Iterable[Tap] = (),
        hidden: bool = True,
        logits: bool | Tensor = False,
    ) -> Output:
        require_sites(self, taps)
        own = self.table[pieces.ids] * pieces.mask[..., None]  # [batch, words, width]
        bag = own.sum(1, keepdim=True) / pieces.mask.sum(1).clamp(min=1)[:, None, None]
        mixed = torch.tanh((own + bag) @ self.mix)  # [batch, words, width]
        return Output({"encoder": [own, mixed]}, {"encoder": mixed}, None, {"encoder": pieces})


class TrainableBag(BagOfEmbeddings):
    """And what a model does that can be copied, drawn again, trained and saved."""

    def copy(self, in_fp32: bool = False) -> "TrainableBag":
        own = TrainableBag(name=self.name)
        own.table, own.mix = self.table.detach().clone(), self.mix.detach().clone()
        return own

    def reinitialised(self, seed: int) -> "TrainableBag":
        return TrainableBag(seed + 1, f"{self.name}@random")

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: w.detach() for name, w in self.named_weights().items()}, folder / "bag")

    def named_weights(self) -> Mapping[str, Tensor]:
        return {"table": self.table, "mix": self.mix}

    def weight_places(self) -> Mapping[str, WeightPlace]:
        return {
            "table": WeightPlace("encoder", 0, "table"),
            "mix": WeightPlace("encoder", 1, "mix"),
        }


def _row(batch: Batch, document: int) -> Row:
    text = batch.text_of(document)
    words = [text[first:last] for first, last in batch.words_of(document)]
    return Row(
        ids=np.array([crc32(word.encode()) % ROWS for word in words], dtype=np.int64),
        words=np.arange(len(words)),
        special=np.zeros(len(words), dtype=np.bool_),
        segments=None,
        word_count=len(words),
        order=document,
    )
