"""What the probing experiments open alike: parts, one encoded batch, sources with their baselines.

Costs one pass of the model, one of its random twin, and a second for static vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.representations import (
    MODEL,
    Encoded,
    Source,
    encoded,
    looked_up,
    randomised,
    static,
    windowed,
    without_positions,
)
from probes.targets import Task, tasks_of
from workbench.core.experiment import Caveat, Inputs, Progress
from workbench.core.machine import require_allowed
from workbench.core.splits import Parts, SplitSizes, parts_of
from workbench.corpora.corpus import PEEK, Corpus
from workbench.corpora.encode import encode
from workbench.corpora.layers import layers
from workbench.engine.batch import Batch
from workbench.models.word_models import read_vectors, words_of

WINDOW = "cnn{}"  # a convolution over so many words on either side of layer 0


@dataclass(frozen=True)
class Opened:
    """A corpus and what is read of it."""

    parts: Parts
    tasks: tuple[Task, ...]
    batch: Batch  # train, dev and test, in this order
    part_of: NDArray[np.int64]  # [documents]
    sentences: tuple[tuple[str, ...], ...]  # words of each document
    encoded: Encoded
    beside: tuple[Source, ...]  # baselines

    @property
    def words(self) -> list[str]:
        """The words of the whole batch."""
        return [word for sentence in self.sentences for word in sentence]

    @property
    def sources(self) -> tuple[Source, ...]:
        return (*self.encoded.sources, *self.beside)

    @property
    def train_words(self) -> Tensor:
        """Rows of the train part's words.  # [some]"""
        return torch.arange(int(self.batch.word_offsets[len(self.parts.train)]))

    @property
    def first_scored(self) -> int:
        """The first document of the test part."""
        return len(self.parts.train) + len(self.parts.dev)

    def caveats(self) -> list[Caveat]:
        """What came about while reading."""
        found = [Caveat(note) for note in self.parts.notes]
        report = self.encoded.report
        if report is not None and report.cut:
            found.append(Caveat(f"{report.cut:,} words beyond the model's length were not read."))
        return found


def tasks_in(corpus: Corpus, asked: Sequence[str] = ()) -> tuple[Task, ...]:
    """The tasks of a corpus: all, or those asked for; an error names what there is instead."""
    present: set[str] = set()
    edges: set[str] = set()
    for split in corpus.splits:
        for doc in corpus.docs(split, PEEK):
            present |= layers(doc)
            edges |= set(doc._.edges)
    return tasks_of(present, asked, edges, corpus.name)


def opened(
    inputs: Inputs,
    home: Path,
    sizes: SplitSizes,
    asked: Sequence[str],
    progress: Progress,
    *,
    random: bool = True,
    vectors: str = "",
    windows: Sequence[int] = (),
) -> Opened:
    """Read, encode, and set the baselines beside."""
    tasks = tasks_in(inputs.corpus, asked)
    progress(0, None, "reading")
    parts = parts_of(inputs.corpus, inputs.split, sizes, inputs.seed)
    batch = encode(parts.docs, [task.layer for task in tasks])
    model = inputs.model
    found = encoded(model, batch, home, progress)
    sentences = tuple(tuple(words_of(batch, document)) for document in range(len(batch)))
    beside: list[Source] = []
    if random:
        beside += randomised(model, batch, home, progress, inputs.seed)
    beside += without_positions(model, batch)
    train = range(len(parts.train))
    if vectors:
        path = require_allowed(Path(vectors).expanduser())
        beside.append(looked_up(read_vectors(path), sentences))
    else:
        beside.append(static(batch, train, model.width, inputs.seed))
    lexical = found.of(MODEL)[0]
    beside += [windowed(lexical, batch, size, WINDOW.format(size)) for size in windows]
    return Opened(parts, tasks, batch, np.array(parts.part_of), sentences, found, tuple(beside))
