"""What the experiments of this folder share: texts in sequences, and trainings that go on.

The tokenizer and the token store are made once. A training writes checkpoints, and a finished one
its numbers, so that a stopped run goes on where it was. Costs: tokenising the text.
"""

import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from workbench.analyses.training.batches import split_held_out
from workbench.analyses.training.curves import Row
from workbench.analyses.training.distributed import Process
from workbench.analyses.training.families import Size, family_of, require_whole_heads
from workbench.analyses.training.packing import Packing, Sequences, pack
from workbench.analyses.training.task import Part, Plan
from workbench.analyses.training.train import Text, prepare, text_hash
from workbench.analyses.training.trainer import fit
from workbench.analyses.training.training_run import text_of
from workbench.analyses.training.vocabulary import Vocabulary, vocabulary_of
from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import read_json, write_atomically
from workbench.core.stats import t_interval
from workbench.experiment.definition import Caveat, Inputs, Progress

HELD_OUT = 0.05  # of the text
Fit = Callable[..., list[Row]]  # of a net, its task and its plan
Key = TypeVar("Key")


@dataclass(frozen=True)
class Texts:
    """The text in sequences, and what is known of its pieces."""

    training: Packing
    held_out: NDArray[np.int64]  # indices of sequences
    vocabulary: Vocabulary
    tokenizer: PreTrainedTokenizerBase
    characters: Tensor  # [vocabulary], of each piece; 0 for special ones

    def scored(self, size: int) -> Iterator[Sequences]:
        """The held-out text, some sequences at a time."""
        for first in range(0, len(self.held_out), size):
            yield self.training.sequences(self.held_out[first : first + size])

    def bits_per_nat(self, targets: Tensor) -> float:
        """What makes the summed nats of these targets bits per character.  # [targets]"""
        return 1 / math.log(2) / int(self.characters[targets].sum())


def texts_of(
    inputs: Inputs,
    family: str,
    size: Size,
    length: int,
    scratch: Path,
    progress: Progress,
    text: Text | None = None,
) -> Texts:
    """The text of the corpus with a tokenizer as a family has it, in sequences of a length.

    `text` is that of the corpus, where it has been read before.
    """
    require_whole_heads(size)
    text, process = text_of(inputs) if text is None else text, Process(torch.device("cpu"))
    scratch.mkdir(parents=True, exist_ok=True)
    home = machine.home() / "tokens"
    prepared = prepare(
        family_of(family), size, text, scratch, home, process, progress, digest=text_hash(text)
    )
    vocabulary = vocabulary_of(prepared.tokenizer)
    packing = pack(prepared.store, vocabulary, length, inputs.seed)
    training, held_out = split_held_out(packing, HELD_OUT)
    if not len(held_out):
        raise WorkbenchError(
            "the text fills only one sequence, and none can be held out.",
            code="text-too-short",
            remedy="Give more text, or set shorter sequences.",
        )
    pieces = prepared.tokenizer.convert_ids_to_tokens(list(range(vocabulary.size)))
    lengths = torch.tensor([len(piece or "") for piece in pieces])
    characters = lengths.masked_fill(vocabulary.special, 0)
    return Texts(training, held_out, vocabulary, prepared.tokenizer, characters)


def each_cell(
    keys: Sequence[Key],
    steps: Callable[[Key], int],
    name: Callable[[Key], str],
    train: Callable[[Key, Fit], dict[str, Any]],
    scratch: Path,
    inputs: Inputs,
    progress: Progress,
) -> pd.DataFrame:
    """The numbers of all trainings, a row each; those finished before a stop come from disk.

    `steps` is how many a training has, `name` that of its files, and `train` gets a function that
    runs its steps.
    """
    cells = []
    before, total = 0, sum(map(steps, keys))
    for key in keys:
        file = name(key)
        part = Part(progress, before, total, logs=False)
        before += steps(key)
        part(0, doing=f"training: {file}")
        numbers = _stored(scratch, file)
        if numbers is None:
            (folder := scratch / file).mkdir(exist_ok=True)
            process = Process(torch.device(inputs.device))
            numbers = train(
                key,
                partial(fit, progress=part, process=process, scratch=folder, recipe=file),
            )
            _store(scratch, file, numbers)
        cells.append(numbers)
    return pd.DataFrame(cells)


def _stored(scratch: Path, file: str) -> dict[str, Any] | None:
    """The numbers of a training that was finished before the run was stopped."""
    path = scratch / f"{file}.json"
    return read_json(path) if path.is_file() else None


def _store(scratch: Path, file: str, numbers: dict[str, Any]) -> None:
    """Keep the numbers of a finished training, and delete its checkpoint."""
    write_atomically(scratch / f"{file}.json", json.dumps(numbers))
    shutil.rmtree(scratch / file, ignore_errors=True)


def plan_of(
    settings: Any,
    seed: int,
    batch_size: int | None = None,
    evaluations: int = 1,
    steps: int | None = None,
) -> Plan:
    """The plan of a training, from the settings that the experiments share."""
    return Plan(
        steps=steps or settings.steps,
        batch_size=batch_size or settings.batch_size,
        learning_rate=settings.learning_rate,
        seed=seed,
        points=20,
        evaluations=evaluations,
    )


def with_interval(name: str, values: Any, prefix: str) -> dict[str, float]:
    """The mean of a number over seeds, with its 95 % interval by Student's t."""
    lower, upper = t_interval(values)
    ends = {f"{prefix}lower": float(lower), f"{prefix}upper": float(upper)}
    return {name: float(values.mean()), **ends}


def caveats_of(texts: Sequence[str], seeds: Sequence[int]) -> list[Caveat]:
    """These caveats, and that of a single seed."""
    one = ["One seed: the variation between trainings is not known."] if len(seeds) < 2 else []
    return [Caveat(text) for text in [*texts, *one]]
