"""How alike the layers of one or more models are, word by word: the experiment `similarity`.

Debiased linear CKA of every layer with every other, within each model and between any two, whatever
their widths, stacks and tokenizers. One model alone stands next to its random twin: layers that
share a residual stream are alike whatever was learnt. Costs one pass of each model over the corpus,
what states of words take on disk meanwhile, and for each two layers a product of words by width by
width: 13 by 13 layers of width 768 and 6,000 words take a minute on two cores.
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

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.files import folder_or_temporary
from workbench.corpora.encode import encode
from workbench.engine.activation_store import Store, word_states
from workbench.engine.batch import Batch
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.models.references import RANDOM
from workbench.transfer.backbone import names_of
from workbench.transfer.experiments import LAYER_PAIR, Similarity

# --- moments of states ----------------------------------------------------------------------------
#
# What two models' layers have in common over a stream of rows, as sums.
#
# Exact: nothing is sampled, and batches of any size give the same sums up to rounding. All is
# float64 on the device of the first layer added, and counted from the first row, so that a large
# mean that rows share costs no digits. Costs one matrix product, rows by width by width, and as
# many numbers as width by width, for each pair of layers and for each layer with itself: 13 by 13
# layers of width 768 are 195 products a batch and 0.9 GB; layer by layer, 39 and 0.2 GB.

Pairs = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Centred:
    """Of two layers, counted from their means: x a row of one, y the same row of the other."""

    rows: int
    cross: Tensor  # [width of x, width of y], sum of x yᵀ
    x_squares: Tensor  # [], sum of ‖x‖²
    y_squares: Tensor  # [], sum of ‖y‖²
    products: Tensor  # [], sum of ‖x‖²‖y‖²


class Moments:
    """Sums over the rows added so far.

    `pairs` are (layer of A, layer of B), or every one. Layers of B are numbered on from A's last.
    """

    def __init__(self, pairs: Pairs | None = None) -> None:
        self._asked = pairs
        self.rows = 0
        self.pairs: list[tuple[int, int]] = []  # of layers numbered through
        self.shape: tuple[int, ...] = (0, 0)  # of an answer: [layers_a, layers_b], or [pairs]
        self._origins: list[Tensor] = []  # [width] each
        self._sums: list[Tensor] = []  # [width] each, of x
        self._weighted: list[Tensor] = []  # [width, layers] each, of x times every layer's ‖y‖²
        self._crosses: dict[tuple[int, int], Tensor] = {}  # [width, width] each, of x yᵀ
        self._squares = self._products = torch.zeros(0)  # [layers], [layers, layers]

    def add(self, a: Sequence[Tensor], b: Sequence[Tensor]) -> None:
        """The same rows in every layer of A and of B.  # [rows, width] each"""
        layers = [*a, *b]
        _same_rows(layers)
        if not self.rows:
            self._start(a, b)
        widths, known = [layer.shape[1] for layer in layers], [len(one) for one in self._origins]
        if widths != known:
            raise WorkbenchError(
                f"The layers have other widths than before: {widths} and {known}.",
                remedy="Add the same layers of the same two models each time.",
            )
        moved = [
            layer.detach().to(origin) - origin  # [rows, width]
            for layer, origin in zip(layers, self._origins, strict=True)
        ]
        squares = torch.stack([x.square().sum(1) for x in moved], dim=1)  # [rows, layers]
        self.rows += len(squares)
        self._squares += squares.sum(0)
        self._products.addmm_(squares.T, squares)
        for x, total, weighted in zip(moved, self._sums, self._weighted, strict=True):
            total += x.sum(0)
            weighted.addmm_(x.T, squares)
        for (i, j), cross in self._crosses.items():
            cross.addmm_(moved[i].T, moved[j])

    def centred(self, i: int, j: int) -> Centred:
        """Of layers i and j numbered through: one of `pairs`, or a layer of one and itself."""
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
        """Empty sums; the first row, where there is one, is what rows are counted from."""
        every = [(i, j) for i in range(len(a)) for j in range(len(b))]
        asked = every if self._asked is None else self._asked
        if wrong := [pair for pair in asked if pair not in every]:
            raise WorkbenchError(
                f"There is no pair of layers {wrong[0]}: A has {len(a)} layers and B {len(b)}.",
                remedy="Count layers from 0.",
            )
        self.shape = (len(a), len(b)) if self._asked is None else (len(asked),)
        self.pairs = [(i, len(a) + j) for i, j in asked]
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
            f"Layers to compare must be [rows, width] with the same rows; they are {shapes}.",
            remedy="Give each layer's states at the same pieces, documents one after another.",
        )


# --- centred kernel alignment (CKA) ---------------------------------------------------------------
#
# How alike the layers of two models are, whatever the rotation, scale and shift: debiased CKA.
#
# Linear CKA with the unbiased HSIC (Song et al., 2012), from `Moments` instead of maps of rows by
# rows. 1 is the same, 0 is what independent layers have on average however few the rows, where
# the usual form nears 1; a little below 0 is chance. Beyond the moments, costs one pass over each
# pair's.

FEWEST = 4  # rows for which the estimate is defined
ROUNDING = 1e-12  # of the terms it is a difference of: what is smaller than this is none


def debiased_cka(moments: Moments) -> Tensor:
    """Of every pair of layers, or of the pairs asked for.  # [layers_a, layers_b], or [pairs]

    NaN for fewer than 4 rows, and where a layer has no shape to compare: constant, or with all its
    rows but one the same, or all equally far apart.
    """
    layers = {layer for pair in moments.pairs for layer in pair}
    own = {layer: _size(moments.centred(layer, layer)) for layer in layers}
    found = [_debiased_hsic(moments.centred(i, j)) / (own[i] * own[j]) for i, j in moments.pairs]
    if not found:
        return torch.zeros(moments.shape, dtype=torch.float64)
    return torch.stack(found).view(moments.shape)


def _size(own: Centred) -> Tensor:
    """The root of a layer's HSIC with itself, NaN where that is none.  # []"""
    hsic = _debiased_hsic(own)
    whole = own.cross.square().sum() / max(own.rows * (own.rows - 3), 1)
    return torch.where(hsic > ROUNDING * whole, hsic, torch.nan).sqrt()


def _debiased_hsic(pair: Centred) -> Tensor:
    """Song et al.'s estimate, of which centred rows leave little.  # []

    With K = x xᵀ and L = y yᵀ without their diagonals, rows that sum to 0 give
    tr KL = ‖cross‖² - products, 1ᵀK1 = -x_squares, 1ᵀL1 = -y_squares and 1ᵀKL1 = products.
    """
    n = pair.rows
    if n < FEWEST:
        return torch.full_like(pair.products, torch.nan)
    trace = pair.cross.square().sum() - pair.products
    means = pair.x_squares * pair.y_squares / ((n - 1) * (n - 2))
    return (trace + means - 2 / (n - 2) * pair.products) / (n * (n - 3))


# --- Procrustes distance --------------------------------------------------------------------------
#
# Rows are centred and scaled to unit norm as a whole; half of the squared distance that is left
# after the best rotation or reflection is in [0, 1], and 0 is the same shape. Without as many
# rows as widths even independent layers fit in part: mind the number of rows, or compare at the
# same number. Beyond the moments, costs the singular values of a width by width matrix for each
# pair.


def procrustes_distance(moments: Moments) -> Tensor:
    """Of every pair of layers, or of the pairs asked for.  # [layers_a, layers_b], or [pairs]

    NaN where a layer is constant.
    """
    found = [_distance(moments.centred(i, j)) for i, j in moments.pairs]
    if not found:
        return torch.zeros(moments.shape, dtype=torch.float64)
    return torch.stack(found).view(moments.shape)


def _distance(pair: Centred) -> Tensor:
    """(1 + 1 - 2 ‖xᵀy‖*) / 2, of x and y of unit norm.  # []"""
    norm = pair.x_squares.sqrt() * pair.y_squares.sqrt()
    if not 0 < norm < torch.inf:
        return torch.full_like(norm, torch.nan)
    nuclear: Tensor = torch.linalg.svdvals(pair.cross).sum()
    return (1 - nuclear / norm).clamp(0, 1)


# --- the same words in several models, layer by layer: what `similarity` and `drift` compare ------
#
# A word's state is the mean of its pieces', in every layer of every stack, 0 being the
# embeddings; words that any of the models has no piece for are left out. One pass of each model
# writes them to disk in single precision (half would cost digits that a small change has), 4
# bytes a number: 300 sentences of 20 words in a BERT-base are 240 MB, and a run that was stopped
# finds them again. From there they are read some rows at a time, so that memory does not grow
# with the corpus.

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

    def chunks(self) -> list[NDArray[np.int64]]:
        return np.split(self.rows, range(AT_ONCE, len(self.rows), AT_ONCE))


@contextmanager
def words_of(inputs: Inputs, batch: Batch, most: int, progress: Progress) -> Iterator[Words]:
    """Every model's states of the corpus' words, `most` of them drawn by the seed."""
    with folder_or_temporary(inputs.scratch) as home:
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


def _states(model: Model, name: str, batch: Batch, home: Path, progress: Progress) -> States:
    stores, _ = word_states(
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


# --- the experiment `similarity` ------------------------------------------------------------------

ROUGH = 100  # words, below which CKA is rough


def run(inputs: Inputs, settings: Similarity, progress: Progress) -> Result:
    """States of every model, then every two models' layers; of a model and its twin each's own."""
    batch = read(inputs)
    alone = len(inputs.models) == 1 and settings.twin
    if alone:
        inputs = replace(inputs, models=(inputs.model, twin_of(inputs.model, inputs.seed)))
    with words_of(inputs, batch, settings.words, progress) as words:
        pairs = list(combinations_with_replacement(words.models, 2))
        if alone:
            pairs = [(a, b) for a, b in pairs if a is b]
        parts = []
        for place, (a, b) in enumerate(pairs):
            progress(
                place, len(pairs), "layers of " + " and ".join(dict.fromkeys((a.name, b.name)))
            )
            parts.append(similarity(a, b, every_pair(words, a, b)))
        compared = [
            (each.name, words.all, int(each.missing.sum()), len(words.rows))
            for each in words.models
        ]
        progress(len(pairs), len(pairs), "layers")
        caveats = [Caveat(text, ("similarity",)) for text in word_caveats(words)]
    texts = [*stack_caveats(words.models), *(twin_caveats(words.models) if alone else ())]
    caveats += [Caveat(text, ("similarity",)) for text in texts]
    tables = {
        "similarity": pd.concat(parts, ignore_index=True),
        "words": pd.DataFrame(compared, columns=["model", "words", "without_piece", "compared"]),
    }
    return Result(tables, caveats=tuple(caveats))


def twin_of(model: Model, seed: int) -> Model:
    """The same architecture with random weights, by the name that opens it."""
    twin = model.reinitialised(seed)
    twin.name = f"{model.name.removesuffix(RANDOM)}{RANDOM}"
    return twin


def read(inputs: Inputs) -> Batch:
    """The texts to compare on."""
    batch = encode(inputs.docs())
    if not len(batch):
        raise WorkbenchError(
            "there is no sentence to look at.",
            where=inputs.corpus.name,
            remedy="Name a corpus or a split that has some.",
        )
    return batch


def similarity(a: States, b: States, cka: Tensor) -> pd.DataFrame:
    """The rows of two models.  # of [layers of A, layers of B]"""
    rows = [
        (a.name, *one, b.name, *other, float(cka[i, j]))
        for i, one in enumerate(a.layers)
        for j, other in enumerate(b.layers)
    ]
    return pd.DataFrame(rows, columns=[*LAYER_PAIR, "cka"])


def word_caveats(words: Words) -> Iterator[str]:
    """What is to be known of the words compared."""
    if words.shared < words.all:
        yield (
            f"{words.all - words.shared:,} of {words.all:,} words are left out: one of the models "
            "has no piece for them, or they are beyond its length."
        )
    if len(words.rows) < words.shared:
        yield f"Compared on {len(words.rows):,} of {words.shared:,} words, drawn by the seed."
    if len(words.rows) < ROUGH:
        yield f"Only {len(words.rows)} words are compared: numbers of fewer than {ROUGH} are rough."


def stack_caveats(models: tuple[States, ...]) -> Iterator[str]:
    """What is to be known of stacks."""
    if any(len(each.stores) > 1 for each in models):
        yield (
            "A decoder beside an encoder was given the same text, a piece behind: a word's state "
            "is where it is read, not where it is written."
        )


def twin_caveats(models: tuple[States, ...]) -> Iterator[str]:
    """What a model's random twin stands there for."""
    model, twin = models
    yield (
        f"{twin.name} is the same architecture with random weights: what layers of {model.name} "
        "have in common was learnt only as far as they are more, or less, alike than the twin's."
    )
