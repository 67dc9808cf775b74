"""Inputs of the probing experiments: the parts of a corpus, encoded once, and the baselines.

Costs: one pass of the model, one of the same model with random weights, and a second for static
vectors.
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

from workbench.analyses.probes.experiments import DescriptionLength, EdgeProbing
from workbench.analyses.probes.probe_training import Probe
from workbench.analyses.probes.representations import (
    MODEL,
    Encoded,
    Source,
    encoded,
    lookup_source,
    randomised,
    static,
    window_source,
    without_positions,
)
from workbench.analyses.probes.targets import Task, tasks_of
from workbench.core.files import DAMAGED, atomic_write, parse_json, require_regular
from workbench.core.machine import require_allowed
from workbench.corpora.corpus import PEEK, Corpus
from workbench.corpora.encode import encode
from workbench.corpora.layers import layers
from workbench.corpora.splits import Parts, SplitSizes, parts_of
from workbench.engine.batch import Batch
from workbench.experiment.definition import Caveat, Inputs, Progress, unread_caveat
from workbench.models.word_models import read_vectors, words_of

WINDOW = "cnn{}"  # a convolution over layer 0, with this many words on either side


@dataclass(frozen=True)
class ProbeInputs:
    """A corpus with its parts, tasks, encoded states and baselines."""

    parts: Parts
    tasks: tuple[Task, ...]
    batch: Batch  # train, dev and test, in this order
    part_of: NDArray[np.int64]  # [documents]
    sentences: tuple[tuple[str, ...], ...]  # words of each document
    encoded: Encoded
    baselines: tuple[Source, ...]

    @property
    def words(self) -> list[str]:
        """All words of the batch, in order."""
        return [word for sentence in self.sentences for word in sentence]

    @property
    def sources(self) -> tuple[Source, ...]:
        return (*self.encoded.sources, *self.baselines)

    @property
    def train_words(self) -> Tensor:
        """Rows of the train part's words.  # [some]"""
        return torch.arange(int(self.batch.word_offsets[len(self.parts.train)]))

    @property
    def first_scored(self) -> int:
        """The first document of the test part."""
        return len(self.parts.train) + len(self.parts.dev)

    def caveats(self) -> list[Caveat]:
        """Caveats about the parts and about words that the model did not read."""
        caveats = [Caveat(note) for note in self.parts.notes]
        report = self.encoded.report
        return caveats if report is None else [*caveats, *unread_caveat(report.cut)]


def tasks_in(corpus: Corpus, names: Sequence[str] = ()) -> tuple[Task, ...]:
    """The tasks of a corpus: all, or the named ones; an error lists the available tasks."""
    present: set[str] = set()
    edges: set[str] = set()
    for split in corpus.splits:
        for doc in corpus.docs(split, PEEK):
            present |= layers(doc)
            edges |= set(doc._.edges)
    return tasks_of(present, names, edges, corpus.name)


def tasks_about(ref: str) -> dict[str, str]:
    """The description of each task of a corpus, by name."""
    from workbench.corpora import read

    return {task.name: task.about for task in tasks_in(read(ref))}


def available(inputs: Inputs, settings: EdgeProbing | DescriptionLength) -> dict[str, int]:
    """How many training targets the largest task has in the whole corpus."""
    tasks = tasks_in(inputs.corpus, settings.tasks)
    train = parts_of(inputs.corpus, inputs.split, SplitSizes(None, None, None), inputs.seed).train
    edges = encode(train, [task.layer for task in tasks]).edges
    return {"max_targets": max(len(edges[task.layer].span1) for task in tasks)}


def open_inputs(
    inputs: Inputs,
    home: Path,
    sizes: SplitSizes,
    task_names: Sequence[str],
    progress: Progress,
    *,
    random: bool = True,
    vectors: str = "",
    windows: Sequence[int] = (),
) -> ProbeInputs:
    """Read the corpus, encode it, and add the baselines."""
    tasks = tasks_in(inputs.corpus, task_names)
    progress(0, None, "reading the corpus")
    parts = parts_of(inputs.corpus, inputs.split, sizes, inputs.seed)
    batch = encode(parts.docs, [task.layer for task in tasks])
    model = inputs.model
    states = encoded(model, batch, home, progress)
    sentences = tuple(tuple(words_of(batch, document)) for document in range(len(batch)))
    baselines: list[Source] = []
    if random:
        baselines += randomised(model, batch, home, progress, inputs.seed)
    baselines += without_positions(model, batch)
    train = range(len(parts.train))
    if vectors:
        path = require_allowed(Path(vectors).expanduser())
        baselines.append(lookup_source(read_vectors(path), sentences))
    else:
        baselines.append(static(batch, train, model.width, inputs.seed))
    lexical = states.of(MODEL)[0]
    baselines += [window_source(lexical, batch, size, WINDOW.format(size)) for size in windows]
    part_of = np.array(parts.part_of)
    return ProbeInputs(parts, tasks, batch, part_of, sentences, states, tuple(baselines))


# --- partial results on disk, from which a stopped run continues ----------------------------------

T = TypeVar("T")


def save_results(
    path: Path, probes: Sequence[Probe], arrays: Mapping[str, NDArray[Any]], **facts: object
) -> None:
    """Save the results of some probes: arrays, and other facts as JSON."""
    about = {"probes": [[probe.sources, probe.control] for probe in probes], **facts}
    with atomic_write(path) as draft, draft.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), **arrays)  # type: ignore[arg-type]


def load_results(
    path: Path, build: Callable[[tuple[Probe, ...], Any, Mapping[str, NDArray[Any]]], T]
) -> T | None:
    """`build` called with probes, facts and arrays of a file; None if it cannot be read."""
    try:
        with np.load(require_regular(path), allow_pickle=False) as arrays:
            about = parse_json(str(arrays["about"]))
            probes = tuple(Probe(tuple(sources), control) for sources, control in about["probes"])
            return build(probes, about, arrays)
    except DAMAGED:
        return None
