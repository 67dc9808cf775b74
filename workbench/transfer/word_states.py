"""The same words in several models, layer by layer: what `similarity` and `drift` compare.

A word's state is the mean of its pieces', in every layer of every stack, 0 being the embeddings;
words that any of the models has no piece for are left out. One pass of each model writes them to
disk in single precision (half would cost digits that a small change has), 4 bytes a number: 300
sentences of 20 words in a BERT-base are 240 MB, and a run that was stopped finds them again. From
there they are read some rows at a time, so that memory does not grow with the corpus.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.engine.store import Store, pooled_stacks
from workbench.engine.taps import StackName
from workbench.errors import WorkbenchError
from workbench.experiment import Inputs, Progress
from workbench.transfer.cka import FEWEST, debiased_cka
from workbench.transfer.moments import Moments
from workbench.transfer.names import names_of
from workbench.transfer.procrustes import procrustes_distance

AT_ONCE = 1024  # words read at a time
MEMORY = 2**30  # bytes of sums that a pass over the words keeps, where one layer needs no more


class Layer(NamedTuple):
    """A layer of a stack; 0 are the embeddings."""

    stack: StackName
    layer: int


@dataclass(frozen=True)
class States:
    """A model's states of every word of the corpus, on disk."""

    name: str
    device: torch.device
    width: int
    layers: tuple[Layer, ...]
    stores: Mapping[StackName, Store]

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Words that own no piece.  # [words]"""
        found: NDArray[np.bool_] = np.any([one.missing for one in self.stores.values()], axis=0)
        return found

    def read(self, layers: Sequence[Layer], rows: NDArray[np.int64]) -> list[Tensor]:
        """These layers' states of these words.  # [rows, width] each"""
        chosen = torch.from_numpy(rows)
        return [
            self.stores[stack].layer(layer).index_select(0, chosen).to(self.device)
            for stack, layer in layers
        ]


@dataclass(frozen=True)
class Words:
    """What several models say of the same words."""

    models: tuple[States, ...]
    rows: NDArray[np.int64]  # [some], places in the corpus of the words that are compared
    shared: int  # words that all have a piece for, of which `rows` are some or all
    all: int  # words of the corpus

    def chunks(self) -> Iterator[NDArray[np.int64]]:
        for start in range(0, len(self.rows), AT_ONCE):
            yield self.rows[start : start + AT_ONCE]


@contextmanager
def words_of(inputs: Inputs, batch: Batch, most: int, progress: Progress) -> Iterator[Words]:
    """Every model's states of the corpus' words, `most` of them drawn by the seed."""
    with _home(inputs.scratch) as home:
        names = names_of(inputs.models)
        models = tuple(
            _states(model, name, batch, home, progress)
            for model, name in zip(inputs.models, names, strict=True)
        )
        left = np.flatnonzero(~np.any([each.missing for each in models], axis=0))
        if len(left) < FEWEST:
            raise WorkbenchError(
                f"the models share {len(left)} words of this corpus, and to compare them takes "
                f"{FEWEST}.",
                where=inputs.corpus.name,
                remedy="Name a corpus or a split with more sentences, or raise the limit.",
            )
        rows = left
        if len(left) > most:
            drawn = np.random.default_rng([inputs.seed, len(left)])
            rows = np.sort(drawn.choice(left, most, replace=False))
        yield Words(models, rows, len(left), len(batch.words))


@contextmanager
def _home(scratch: Path | None) -> Iterator[Path]:
    """The run's own folder, or one that goes away."""
    if scratch is not None:
        yield scratch
        return
    with TemporaryDirectory(prefix="workbench-") as folder:
        yield Path(folder)


def _states(model: Model, name: str, batch: Batch, home: Path, progress: Progress) -> States:
    stores, _ = pooled_stacks(
        model,
        batch,
        home,
        kind="fp32",
        progress=lambda now: progress(now.done, now.total, f"sentences through {name}"),
    )
    layers = (
        Layer(stack.name, layer) for stack in model.stacks for layer in range(stack.layers + 1)
    )
    return States(name, model.device, model.width, tuple(layers), stores)


# --- comparing ------------------------------------------------------------------------------------


def every_pair(words: Words, a: States, b: States) -> Tensor:
    """Debiased CKA of every layer of one with every layer of the other.  # [layers, layers]

    As many layers of A at a time as memory has room for; of a model with itself one half is made.
    """
    found = torch.full((len(a.layers), len(b.layers)), torch.nan, dtype=torch.float64)
    one = 8 * max(a.width, b.width) ** 2  # bytes of two layers' sums
    some = max(1, (MEMORY // one - len(b.layers)) // (len(b.layers) + 1))
    for first in range(0, len(a.layers), some):
        begin = first if a is b else 0
        moments = Moments()
        for rows in words.chunks():
            moments.add(
                a.read(a.layers[first : first + some], rows), b.read(b.layers[begin:], rows)
            )
        part = debiased_cka(moments).cpu()  # [some, layers of B from begin]
        found[first : first + some, begin:] = part
        if a is b:
            found[begin:, first : first + some] = part.T
    return found


def layer_by_layer(
    words: Words, before: States, after: States, progress: Progress
) -> dict[Layer, tuple[float, float]]:
    """Debiased CKA and Procrustes distance of each layer before and the same after."""
    found = {}
    for place, layer in enumerate(before.layers):
        progress(place, len(before.layers), "layers")
        moments = Moments()
        for rows in words.chunks():
            moments.add(before.read([layer], rows), after.read([layer], rows))
        found[layer] = float(debiased_cka(moments)), float(procrustes_distance(moments))
    return found
