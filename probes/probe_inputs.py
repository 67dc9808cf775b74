"""What the probing experiments open alike: parts, one encoded batch, sources with their baselines.

Costs one pass of the model, one of its random twin, and a second for static vectors.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from probes.probe_training import Probe
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
from workbench.core.files import DAMAGED, parsed_json, require_regular, written_whole
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


# --- what is done so far, so that a run that was stopped goes on from there -----------------------

T = TypeVar("T")


def write_done(
    path: Path, probes: Sequence[Probe], arrays: Mapping[str, NDArray[Any]], **more: object
) -> None:
    """Write down what some probes came to."""
    about = {"probes": [[probe.sources, probe.control] for probe in probes], **more}
    with written_whole(path) as draft, draft.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]


def read_done(
    path: Path, made: Callable[[tuple[Probe, ...], Any, Mapping[str, NDArray[Any]]], T]
) -> T | None:
    """What `made` makes of probes, the other facts and the arrays; None where it cannot be read."""
    try:
        with np.load(require_regular(path), allow_pickle=False) as arrays:
            about = parsed_json(str(arrays["about"]))
            probes = tuple(Probe(tuple(sources), control) for sources, control in about["probes"])
            return made(probes, about, arrays)
    except DAMAGED:
        return None
