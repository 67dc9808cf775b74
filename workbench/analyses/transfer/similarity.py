"""The experiment `similarity`: how similar the layers of one or more models are, word by word.

It computes the debiased linear CKA of every pair of layers, within each model and between models,
whatever their widths, stacks and tokenizers. A single model is listed next to its random twin (the
same architecture with random weights), because layers that share a residual stream are similar even
without learning. Costs: one pass of each model over the corpus, disk space for the states of the
words, and per pair of layers a product of words by width by width: 13 by 13 layers of width 768 and
6,000 words take a minute on two cores.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.analyses.transfer.backbone import names_of
from workbench.analyses.transfer.experiments import LAYER_PAIR, Similarity
from workbench.core.errors import WorkbenchError
from workbench.core.files import folder_or_temporary
from workbench.corpora.encode import encode
from workbench.engine.activation_store import Store, word_states
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.references import as_random

# --- moments of states ----------------------------------------------------------------------------
#
# Sums over a stream of rows that determine CKA and Procrustes distance of two models' layers.
#
# Exact: nothing is sampled, and batches of any size give the same sums up to rounding. Sums are in
# float64 on the device of the first layer added, and relative to the first row, so that a large
# mean shared by all rows costs no digits. Costs: for each pair of layers, and for each layer with
# itself, one matrix product (rows by width by width) and memory for width by width numbers. 13 by
# 13 layers of width 768 take 195 products per batch and 0.9 GB; matching layers only, 39 and 0.2
# GB.

Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Centred:
    """Centred sums of two layers: x is a row of one layer, y the same row of the other."""

    rows: int
    cross: Tensor  # [width of x, width of y], sum of x yᵀ
    x_squares: Tensor  # [], sum of ‖x‖²
    y_squares: Tensor  # [], sum of ‖y‖²
    products: Tensor  # [], sum of ‖x‖²‖y‖²


class Moments:
    """Sums over the rows added so far.

    `pairs` are pairs (layer of A, layer of B), by default all. Layers of B are numbered after A's.
    """

    def __init__(self, pairs: Pairs | None = None) -> None:
        self._requested = pairs
        self.rows = 0
        self.pairs: list[tuple[int, int]] = []  # of layers numbered across A and B
        self.shape: tuple[int, ...] = (0, 0)  # of the results: [layers_a, layers_b], or [pairs]
        self._origins: list[Tensor] = []  # [width] each
        self._sums: list[Tensor] = []  # [width] each, of x
        self._weighted: list[Tensor] = []  # [width, layers] each, of x times every layer's ‖y‖²
        self._crosses: dict[tuple[int, int], Tensor] = {}  # [width, width] each, of x yᵀ
        self._squares = self._products = torch.zeros(0)  # [layers], [layers, layers]

    def add(self, a: Sequence[Tensor], b: Sequence[Tensor]) -> None:
        """Add the same rows of every layer of A and of B.  # [rows, width] each"""
        layers = [*a, *b]
        _same_rows(layers)
        if not self.rows:
            self._start(a, b)
        widths, first_widths = (
            [layer.shape[1] for layer in layers],
            [len(one) for one in self._origins],
        )
        if widths != first_widths:
            raise WorkbenchError(
                f"the widths of the layers changed from {first_widths} to {widths}.",
                code="shape-mismatch",
                remedy="Add the same layers of the same two models each time.",
            )
        shifted = [
            layer.detach().to(origin) - origin  # [rows, width]
            for layer, origin in zip(layers, self._origins, strict=True)
        ]
        squares = torch.stack([x.square().sum(1) for x in shifted], dim=1)  # [rows, layers]
        self.rows += len(squares)
        self._squares += squares.sum(0)
        self._products.addmm_(squares.T, squares)
        for x, total, weighted in zip(shifted, self._sums, self._weighted, strict=True):
            total += x.sum(0)
            weighted.addmm_(x.T, squares)
        for (i, j), cross in self._crosses.items():
            cross.addmm_(shifted[i].T, shifted[j])

    def centred(self, i: int, j: int) -> Centred:
        """Centred sums of layers i and j: one of `pairs`, or a layer with itself."""
        rows, cross = max(self.rows, 1), self._crosses[i, j]
        x, y = self._sums[i] / rows, self._sums[j] / rows  # [width] each, the means
        x_far, y_far = x @ x, y @ y
        products = (  # of ‖x - mean‖²‖y - mean‖², multiplied out
            self._products[i, j]
            - 2 * (y @ self._weighted[j][:, i] + x @ self._weighted[i][:, j])
            + y_far * self._squares[i]
            + x_far * self._squares[j]
            + 4 * (x @ cross @ y)
            - 3 * rows * x_far * y_far
        )
        return Centred(
            rows=self.rows,
            cross=cross - rows * torch.outer(x, y),
            x_squares=self._squares[i] - rows * x_far,
            y_squares=self._squares[j] - rows * y_far,
            products=products,
        )

    def _start(self, a: Sequence[Tensor], b: Sequence[Tensor]) -> None:
        """Create empty sums; rows count relative to the first row, if there is one."""
        all_pairs = [(i, j) for i in range(len(a)) for j in range(len(b))]
        requested = all_pairs if self._requested is None else self._requested
        if wrong := [pair for pair in requested if pair not in all_pairs]:
            raise WorkbenchError(
                f"there is no pair of layers {wrong[0]}: A has {len(a)} layers and B {len(b)}.",
                code="layer-missing",
                remedy="Count layers from 0.",
            )
        self.shape = (len(a), len(b)) if self._requested is None else (len(requested),)
        self.pairs = [(i, len(a) + j) for i, j in requested]
        layers = [*a, *b]
        zeros = torch.zeros(0, dtype=torch.float64, device=layers[0].device).new_zeros
        self._origins = [layer[:1].detach().to(zeros(0)).sum(0) for layer in layers]
        widths = [len(origin) for origin in self._origins]
        self._sums = [zeros(width) for width in widths]
        self._weighted = [zeros(width, len(layers)) for width in widths]
        needed = {*self.pairs, *((i, i) for pair in self.pairs for i in pair)}
        self._crosses = {(i, j): zeros(widths[i], widths[j]) for i, j in needed}
        self._squares, self._products = zeros(len(layers)), zeros(len(layers), len(layers))


def _same_rows(layers: Sequence[Tensor]) -> None:
    shapes = [tuple(layer.shape) for layer in layers]
    if not shapes or {len(shape) for shape in shapes} != {2} or len({s[0] for s in shapes}) != 1:
        raise WorkbenchError(
            f"layers must be [rows, width] with the same rows; their shapes are {shapes}.",
            code="shape-mismatch",
            remedy="Give each layer's states at the same pieces, documents one after another.",
        )


# --- centred kernel alignment (CKA) ---------------------------------------------------------------
#
# Debiased linear CKA: similarity of two layers up to rotation, scale and shift.
#
# Linear CKA with the unbiased HSIC (Song et al., 2012), from `Moments` instead of matrices of rows
# by rows. 1 means the same. 0 is the mean of independent layers even with few rows, where the
# biased form approaches 1; chance can put it a little below 0. Costs: one pass over the moments of
# each pair.

MIN_ROWS = 4  # for which the estimate is defined
ROUNDING = 1e-12  # a difference below this fraction of its terms counts as 0


def debiased_cka(moments: Moments) -> Tensor:
    """Debiased CKA of all, or the requested, pairs.  # [layers_a, layers_b], or [pairs]

    NaN for fewer than 4 rows, and if a layer is constant, has all rows but one the same, or has all
    rows equally far apart.
    """
    layers = {layer for pair in moments.pairs for layer in pair}
    norms = {layer: _hsic_norm(moments.centred(layer, layer)) for layer in layers}
    values = [
        _debiased_hsic(moments.centred(i, j)) / (norms[i] * norms[j]) for i, j in moments.pairs
    ]
    if not values:
        return torch.zeros(moments.shape, dtype=torch.float64)
    return torch.stack(values).view(moments.shape)


def _hsic_norm(own: Centred) -> Tensor:
    """The square root of a layer's HSIC with itself; NaN if that is 0 up to rounding.  # []"""
    hsic = _debiased_hsic(own)
    scale = own.cross.square().sum() / max(own.rows * (own.rows - 3), 1)
    return torch.where(hsic > ROUNDING * scale, hsic, torch.nan).sqrt()


def _debiased_hsic(pair: Centred) -> Tensor:
    """Song et al.'s unbiased estimate, simplified for centred rows.  # []

    With K = x xᵀ and L = y yᵀ without their diagonals, rows that sum to 0 give
    tr KL = ‖cross‖² - products, 1ᵀK1 = -x_squares, 1ᵀL1 = -y_squares and 1ᵀKL1 = products.
    """
    n = pair.rows
    if n < MIN_ROWS:
        return torch.full_like(pair.products, torch.nan)
    trace = pair.cross.square().sum() - pair.products
    means = pair.x_squares * pair.y_squares / ((n - 1) * (n - 2))
    return (trace + means - 2 / (n - 2) * pair.products) / (n * (n - 3))


# --- Procrustes distance --------------------------------------------------------------------------
#
# Both layers are centred and scaled to unit norm. The value is half of the squared distance after
# the best rotation or reflection: in [0, 1], 0 for the same shape. With fewer rows than the width
# even independent layers fit in part, so use enough rows, or compare at the same number of rows.
# Costs: the singular values of a width by width matrix for each pair.


def procrustes_distance(moments: Moments) -> Tensor:
    """Procrustes distance of all, or the requested, pairs.  # [layers_a, layers_b], or [pairs]

    NaN if a layer is constant.
    """
    values = [_distance(moments.centred(i, j)) for i, j in moments.pairs]
    if not values:
        return torch.zeros(moments.shape, dtype=torch.float64)
    return torch.stack(values).view(moments.shape)


def _distance(pair: Centred) -> Tensor:
    """(1 + 1 - 2 ‖xᵀy‖*) / 2, for x and y of unit norm.  # []"""
    norm = pair.x_squares.sqrt() * pair.y_squares.sqrt()
    if not 0 < norm < torch.inf:
        return torch.full_like(norm, torch.nan)
    nuclear: Tensor = torch.linalg.svdvals(pair.cross).sum()
    return (1 - nuclear / norm).clamp(0, 1)


# --- states of the same words in several models, for `similarity` and `drift` ---------------------
#
# A word's state is the mean over its pieces, in every layer of every stack; layer 0 is the
# embeddings. Words without a piece in one of the models are left out. One pass of each model writes
# the states to disk in single precision (half precision would lose small changes), 4 bytes per
# number: 300 sentences of 20 words in a BERT-base are 240 MB. A run that was stopped finds them
# again. They are read a few rows at a time, so memory does not grow with the corpus.

AT_ONCE = 1024  # words read at a time
MEMORY = 2**30  # bytes of sums per pass over the words, unless one layer needs more


class Layer(NamedTuple):
    """A layer of a stack; layer 0 is the embeddings."""

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
        """Words without a piece.  # [words]"""
        missing: NDArray[np.bool_] = np.any([one.missing for one in self.stores.values()], axis=0)
        return missing

    def read(self, layers: Sequence[Layer], rows: NDArray[np.int64]) -> list[Tensor]:
        """The states of these layers for these words.  # [rows, width] each"""
        chosen = torch.from_numpy(rows)
        return [
            self.stores[stack].layer(layer).index_select(0, chosen).to(self.device)
            for stack, layer in layers
        ]


@dataclass(frozen=True)
class Words:
    """The states of the same words in several models."""

    models: tuple[States, ...]
    rows: NDArray[np.int64]  # [compared], indices in the corpus of the words compared
    shared: int  # words with a piece in every model; `rows` are a sample of them
    all: int  # words of the corpus

    def chunks(self) -> list[NDArray[np.int64]]:
        """The rows in chunks that are read together."""
        return np.split(self.rows, range(AT_ONCE, len(self.rows), AT_ONCE))


@contextmanager
def words_of(inputs: Inputs, batch: Batch, max_words: int, progress: Progress) -> Iterator[Words]:
    """Every model's states of the corpus' words, a random sample of at most `max_words`."""
    with folder_or_temporary(inputs.scratch) as home:
        names = names_of(inputs.models)
        models = tuple(
            _states(model, name, batch, home, progress)
            for model, name in zip(inputs.models, names, strict=True)
        )
        shared = np.flatnonzero(~np.any([each.missing for each in models], axis=0))
        if len(shared) < MIN_ROWS:
            raise WorkbenchError(
                f"the models share {len(shared)} words of this corpus; a comparison needs "
                f"{MIN_ROWS}.",
                code="too-few-words",
                where=inputs.corpus.name,
                remedy="Name a corpus or a split with more sentences, or raise max_sentences.",
            )
        rows = shared
        if len(shared) > max_words:
            rng = np.random.default_rng([inputs.seed, len(shared)])
            rows = np.sort(rng.choice(shared, max_words, replace=False))
        yield Words(models, rows, len(shared), len(batch.words))


def _states(model: Model, name: str, batch: Batch, home: Path, progress: Progress) -> States:
    stores, _ = word_states(
        model,
        batch,
        home,
        kind="fp32",
        progress=lambda now: progress(now.done, now.total, f"encoding sentences: {name}"),
    )
    layers = (
        Layer(stack.name, layer) for stack in model.stacks for layer in range(stack.layers + 1)
    )
    return States(name, model.device, model.width, tuple(layers), stores)


# --- comparing ------------------------------------------------------------------------------------


def every_pair(words: Words, a: States, b: States) -> Tensor:
    """Debiased CKA of every layer of A with every layer of B.  # [layers, layers]

    Takes as many layers of A at a time as fit in memory; for a model with itself, one half is
    computed.
    """
    cka = torch.full((len(a.layers), len(b.layers)), torch.nan, dtype=torch.float64)
    pair_bytes = 8 * max(a.width, b.width) ** 2  # bytes of two layers' sums
    n_layers = max(1, (MEMORY // pair_bytes - len(b.layers)) // (len(b.layers) + 1))
    for first in range(0, len(a.layers), n_layers):
        first_b = first if a is b else 0
        moments = Moments()
        for rows in words.chunks():
            moments.add(
                a.read(a.layers[first : first + n_layers], rows), b.read(b.layers[first_b:], rows)
            )
        part = debiased_cka(moments).cpu()  # [n_layers, layers of B from first_b]
        cka[first : first + n_layers, first_b:] = part
        if a is b:
            cka[first_b:, first : first + n_layers] = part.T
    return cka


def layer_by_layer(
    words: Words, before: States, after: States, progress: Progress
) -> dict[Layer, tuple[float, float]]:
    """Debiased CKA and Procrustes distance of each layer before and after training."""
    distances = {}
    for index, layer in enumerate(before.layers):
        progress(index, len(before.layers), "comparing layers")
        moments = Moments()
        for rows in words.chunks():
            moments.add(before.read([layer], rows), after.read([layer], rows))
        distances[layer] = float(debiased_cka(moments)), float(procrustes_distance(moments))
    return distances


# --- the experiment `similarity` ------------------------------------------------------------------

ROUGH = 100  # number of words below which CKA is imprecise


def run(inputs: Inputs, settings: Similarity, progress: Progress) -> Result:
    """Compare the layers of all pairs of models; a single model and its twin each with itself."""
    batch = read(inputs)
    with_twin = len(inputs.models) == 1 and settings.random_twin
    if with_twin:
        inputs = replace(inputs, models=(inputs.model, twin_of(inputs.model, inputs.seed)))
    with words_of(inputs, batch, settings.max_words, progress) as words:
        pairs = list(combinations_with_replacement(words.models, 2))
        if with_twin:
            pairs = [(a, b) for a, b in pairs if a is b]
        parts = []
        for index, (a, b) in enumerate(pairs):
            progress(
                index,
                len(pairs),
                "comparing layers: " + " and ".join(dict.fromkeys((a.name, b.name))),
            )
            parts.append(similarity(a, b, every_pair(words, a, b)))
        word_counts = [
            (each.name, words.all, int(each.missing.sum()), len(words.rows))
            for each in words.models
        ]
        progress(len(pairs), len(pairs), "comparing layers")
        caveats = [Caveat(text, ("similarity",)) for text in word_caveats(words)]
    texts = [*stack_caveats(words.models), *(twin_caveats(words.models) if with_twin else ())]
    caveats += [Caveat(text, ("similarity",)) for text in texts]
    tables = {
        "similarity": pd.concat(parts, ignore_index=True),
        "words": pd.DataFrame(word_counts, columns=["model", "words", "without_piece", "compared"]),
    }
    return Result(tables, caveats=tuple(caveats))


def twin_of(model: Model, seed: int) -> Model:
    """The same architecture with random weights, named by the reference that opens it."""
    twin = model.reinitialised(seed)
    twin.name = as_random(model.name)
    return twin


def read(inputs: Inputs) -> Batch:
    """The encoded sentences of the inputs."""
    batch = encode(inputs.docs())
    if not len(batch):
        raise WorkbenchError(
            "the corpus or split has no sentences.",
            code="too-few-sentences",
            where=inputs.corpus.name,
            remedy="Name a corpus or a split with sentences.",
        )
    return batch


def similarity(a: States, b: States, cka: Tensor) -> pd.DataFrame:
    """The table rows of two models, from their CKA [layers of A, layers of B]."""
    rows = [
        (a.name, *one, b.name, *other, float(cka[i, j]))
        for i, one in enumerate(a.layers)
        for j, other in enumerate(b.layers)
    ]
    return pd.DataFrame(rows, columns=[*LAYER_PAIR, "cka"])


def word_caveats(words: Words) -> Iterator[str]:
    """Caveats about the words compared."""
    if words.shared < words.all:
        yield (
            f"{words.all - words.shared:,} of {words.all:,} words are left out: in one model "
            "they have no piece of their own, or lie beyond its maximum length."
        )
    if len(words.rows) < words.shared:
        yield f"Compared on a random sample of {len(words.rows):,} of {words.shared:,} words."
    if len(words.rows) < ROUGH:
        yield (
            f"Only {len(words.rows)} words are compared: CKA is imprecise with fewer than {ROUGH}."
        )


def stack_caveats(models: tuple[States, ...]) -> Iterator[str]:
    """Caveats about encoder-decoders."""
    if any(len(each.stores) > 1 for each in models):
        yield (
            "Decoders of encoder-decoders read the same text, shifted by one piece: a word's state "
            "is taken where the word is read, not where it is predicted."
        )


def twin_caveats(models: tuple[States, ...]) -> Iterator[str]:
    """The caveat that explains the random twin."""
    model, twin = models
    yield (
        f"{twin.name} is the same architecture with random weights. The similarity of the layers "
        f"of {model.name} is learnt only where it is higher or lower than the twin's."
    )
