"""What probes read: every layer's states of every word, from one pass of each encoder.

A source is one table of states, `[words, width]`: a layer of a stack of the model, the same of the
model with random weights, bare embeddings without positions, or static vectors. Tables lie in half
precision, memory-mapped, and on a GPU where they fit. Costs one forward pass of each encoder and
2 bytes a number: 5 layers of 128 for 100,000 words take 128 MB, 13 of 768 take 2 GB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from probes.static import counted, of_words
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.engine.moving import sent
from workbench.engine.passes import CHUNK, Report
from workbench.engine.passes import Progress as Passing
from workbench.engine.store import TooLargeError, by_word, pooled_stacks
from workbench.engine.taps import StackName
from workbench.models.fresh import bare, fresh
from workbench.models.vectors import Vectors
from workbench.models.words import words_of

if TYPE_CHECKING:
    from workbench.experiment import Progress

MODEL, RANDOM, BARE, STATIC = "model", "random", "no positions", "static"
NO_LAYER = -1  # of an encoder that has none


@dataclass(frozen=True)
class Source:
    """States of every word of the corpus, in one layer of one encoder."""

    encoder: str
    stack: str
    layer: int
    states: Tensor  # [words, width], often half precision and memory-mapped

    @property
    def width(self) -> int:
        return self.states.shape[1]


@dataclass(frozen=True)
class Encoded:
    """All sources of a corpus, and how the model's pass went."""

    sources: tuple[Source, ...]
    missing: Tensor  # [words], bool: words that own no piece in the model, and have no states
    report: Report | None  # None: the answer was on disk

    def of(self, encoder: str, stack: str | None = None) -> tuple[Source, ...]:
        """The sources of one encoder, and of one stack of it, layer by layer."""
        return tuple(
            source
            for source in self.sources
            if source.encoder == encoder and stack in (None, source.stack)
        )


def encoded(
    model: Model, batch: Batch, home: Path, progress: "Progress", encoder: str = MODEL
) -> Encoded:
    """Every layer of every stack, from one pass over the batch."""

    def told(now: Passing) -> None:
        progress(now.done, now.total, _DOING.get(encoder, "encoding"))

    kind = "bf16" if model.precision == "bf16" else "fp16"
    try:
        stores, report = pooled_stacks(model, batch, home, kind=kind, progress=told)
    except TooLargeError:
        stores, report = pooled_stacks(model, batch, home, kind="fp32", progress=told)
    sources = [
        Source(encoder, stack, layer, store.layer(layer))
        for stack, store in stores.items()
        for layer in range(store.description.layers + 1)
    ]
    missing = torch.zeros(len(batch.words), dtype=torch.bool)
    for store in stores.values():
        missing |= torch.from_numpy(store.missing)
    return Encoded(tuple(sources), missing, report)


_DOING = {MODEL: "encoding", RANDOM: "encoding with random weights"}


def randomised(
    model: Model, batch: Batch, home: Path, progress: "Progress", seed: int
) -> tuple[Source, ...]:
    """The same of the same architecture with weights that have learnt nothing."""
    return encoded(fresh(model, seed), batch, home, progress, RANDOM).sources


def without_positions(model: Model, batch: Batch) -> tuple[Source, ...]:
    """Words by their bare embeddings; none where layer 0 knows no positions anyway."""
    stack: StackName = model.stacks[0].name
    rows: list[Tensor] = []
    for start in range(0, len(batch), CHUNK):
        documents = range(start, min(start + CHUNK, len(batch)))
        text = model.encode(batch, documents).to(model.device)
        with torch.no_grad():
            found = bare(model, text)
        if found is None:
            return ()
        words, _ = by_word(found, text, "mean")  # [batch, words, width]
        real = torch.arange(words.shape[1]) < text.word_counts[:, None]  # [batch, words]
        kept = words.flatten(0, 1).index_select(
            0, sent(real.flatten().nonzero()[:, 0], words.device)
        )
        rows.append(kept.half().cpu())
    states = torch.cat(rows) if rows else torch.zeros(0, model.width)
    return (Source(BARE, stack, 0, widened(states, model.width)),)


def static(batch: Batch, train: Sequence[int], width: int, seed: int) -> Source:
    """Vectors counted on the train documents."""
    sentences = [words_of(batch, document) for document in range(len(batch))]
    return looked_up(counted([sentences[place] for place in train], width, seed), sentences)


def looked_up(vectors: Vectors, sentences: Sequence[Sequence[str]]) -> Source:
    """The vectors of every word, as a source."""
    words = [word for sentence in sentences for word in sentence]
    return Source(STATIC, STATIC, NO_LAYER, of_words(vectors, words).half())


def widened(states: Tensor, width: int) -> Tensor:
    """Zeros beside a narrower table, which change nothing that is linear.  # [words, width]"""
    lacking = width - states.shape[1]
    return torch.nn.functional.pad(states, (0, lacking)) if lacking > 0 else states


def windowed(source: Source, batch: Batch, words: int, encoder: str) -> Source:
    """Each word with its neighbours up to so many words away, zeros beyond the sentence."""
    sizes = torch.from_numpy(batch.word_offsets).diff()
    sentence = torch.repeat_interleave(torch.arange(len(sizes)), sizes)  # [words]
    rows = torch.arange(len(sentence))
    beside = []
    for offset in range(-words, words + 1):
        other = (rows + offset).clamp(0, max(len(rows) - 1, 0))
        there = (sentence[other] == sentence) & (other == rows + offset)
        beside.append(source.states[other] * there[:, None])
    return Source(encoder, source.stack, source.layer, torch.cat(beside, dim=1))
