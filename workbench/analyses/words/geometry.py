"""Measures of how contextual the states of words are (Ethayarajh 2019), in one layer.

Anisotropy is the mean cosine of random words, self-similarity that of one word form in different
contexts, intra-sentence similarity that of words with the mean of their sentence, and explained
variance the share of the first principal component. The mean cosine of n unit vectors is
(‖Σu‖² − n) / (n(n − 1)), so nothing loops over pairs. Sums are kept by document, so that a
bootstrap sample of documents is a product with its weights. Costs: for 1,000 sampled words and 500
forms in 30 contexts of width 768, a second per layer; the bootstrap another two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.arrays import Floats, Ints
from workbench.core.stats import ratio

FORMS_AT_ONCE = 64  # in a bootstrap: draws by forms by contexts in memory


@dataclass(frozen=True, eq=False)
class Sample:
    """Which words are compared: rows of the states, and the form and document of each."""

    random: Ints  # [random words], rows
    random_forms: Ints  # [random words]
    contexts: Ints  # [forms, contexts], rows of a form in different contexts; -1: no more
    baseline: Ints  # [forms, contexts], as many rows of different forms; -1: no more
    sentences: Ints  # [words in sentences], rows
    sentence_of: Ints  # [words in sentences], ascending from 0
    documents: Ints  # [all words], document of each row
    n_documents: int

    @cached_property
    def different(self) -> Tensor:
        """Whether two random words are of different forms.  # [random words, random words]"""
        return torch.from_numpy(self.random_forms[:, None] != self.random_forms[None, :])

    @cached_property
    def random_documents(self) -> Ints:
        """The documents that have random words.  # [drawn documents]"""
        return np.unique(self.documents[self.random])

    def by_document(self, pairs: Tensor) -> Floats:
        """Sums of a number of each pair of random words, by their documents.

        # [random words, random words] -> [drawn documents, drawn documents]
        """
        own = np.searchsorted(self.random_documents, self.documents[self.random])
        index, n = torch.from_numpy(own), len(self.random_documents)
        rows = torch.zeros(n, len(index), dtype=torch.float64).index_add_(0, index, pairs.double())
        sums = torch.zeros(n, n, dtype=torch.float64).index_add_(0, index, rows.T.contiguous())
        return sums.T.numpy()

    @cached_property
    def n_pairs(self) -> Floats:
        """Pairs of random words of different forms, by their documents, in both orders.

        # [drawn documents, drawn documents]
        """
        return self.by_document(self.different)

    @property
    def exists(self) -> NDArray[np.bool_]:
        """The mask of contexts.  # [forms, contexts]"""
        return self.contexts >= 0

    @cached_property
    def sentence_documents(self) -> Ints:
        """The document of each sentence.  # [sentences]"""
        first = np.unique(self.sentence_of, return_index=True)[1]
        return self.documents[self.sentences[first]]


# --- cosines --------------------------------------------------------------------------------------


def unit(states: Tensor) -> Tensor:
    """Vectors of length 1, in float64; a vector of zeros stays.  # [..., width]"""
    return torch.nn.functional.normalize(states.double(), dim=-1)


def standardised(states: Tensor, by: Tensor) -> Tensor:
    """States with mean 0 and variance 1 in each dimension of `by`.  # [..., width], [n, width]"""
    states, by = states.double(), by.double()
    mean, spread = by.mean(0), by.std(0, correction=0)
    shifted = states - mean
    # a dimension that does not vary but for rounding stays 0
    varies = spread > 1e-9 * by.abs().amax(0).clamp(min=1e-30)
    return torch.where(varies, shifted / torch.where(varies, spread, 1.0), 0.0)


def without_top(states: Tensor, by: Tensor, n_components: int) -> Tensor:
    """States without the mean and the first principal components of `by` (Mu and Viswanath 2018).

    # [..., width], [n, width]
    """
    states, by = states.double(), by.double()
    mean = by.mean(0)
    centred = by - mean
    _, directions = torch.linalg.eigh(centred.T @ centred)  # ascending
    top = directions[:, max(0, by.shape[1] - n_components) :]  # [width, components]
    shifted = states - mean
    left: Tensor = shifted - (shifted @ top) @ top.T
    return left


# --- sums that a bootstrap weights ----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sums of cosines over pairs of random words of different forms, by their documents."""

    sums: Floats  # [drawn documents, drawn documents]
    counts: Floats  # [drawn documents, drawn documents]
    documents: Ints  # [drawn documents]

    def mean(self, weights: Floats) -> Floats:
        """The mean cosine where each document counts so often.  # [..., documents] -> [...]"""
        weights = weights[..., self.documents]
        part = ((weights @ self.sums) * weights).sum(-1)
        whole = ((weights @ self.counts) * weights).sum(-1)
        return ratio(part, whole, np.nan)


def random_pairs(vectors: Tensor, sample: Sample) -> Pairs:
    """From unit vectors of the random words.  # [random words, width]"""
    cosines = (vectors @ vectors.T).masked_fill(~sample.different, 0.0)
    return Pairs(sample.by_document(cosines), sample.n_pairs, sample.random_documents)


@dataclass(frozen=True, eq=False)
class Forms:
    """Cosines of a form's contexts with each other."""

    cosines: Tensor  # [forms, contexts, contexts], 0 on the diagonal and without a context
    exists: Tensor  # [forms, contexts]
    documents: Ints  # [forms, contexts]

    def similarity(self) -> Floats:
        """The mean cosine of all pairs of contexts of each form.  # [forms]"""
        n = self.exists.sum(1).numpy()
        return ratio(self.cosines.sum((1, 2)).numpy(), n * (n - 1.0), np.nan)

    def drawn(self, weights: Floats) -> Floats:
        """The same where each document counts so often; NaN without two contexts.

        A context is never compared with itself, however often its document is drawn.
        # [draws, documents] -> [draws, forms]
        """
        given = torch.from_numpy(weights).float()
        parts = []
        for first in range(0, len(self.exists), FORMS_AT_ONCE):
            part = slice(first, first + FORMS_AT_ONCE)
            times = given[:, torch.from_numpy(self.documents[part])].movedim(0, 1)
            times = times * self.exists[part, None]  # [forms, draws, contexts]
            sums = ((times @ self.cosines[part].float()) * times).sum(-1)
            pairs = times.sum(-1).square() - times.square().sum(-1)
            parts.append(torch.where(pairs > 0, sums / pairs.clamp(min=1), torch.nan))
        none = torch.zeros(0, len(weights))
        return torch.cat([none, *parts]).T.double().numpy()


def contexts_of_forms(states: Tensor, sample: Sample) -> Forms:
    """From the states of all words.  # [words, width]"""
    exists = torch.from_numpy(sample.exists)
    rows = torch.from_numpy(np.maximum(sample.contexts, 0))
    chosen = states[rows.flatten()].view(*rows.shape, states.shape[1])
    vectors = unit(chosen) * exists[..., None]
    cosines = vectors @ vectors.mT
    diagonal = torch.eye(rows.shape[1], dtype=torch.bool)
    documents = sample.documents[np.maximum(sample.contexts, 0)]
    return Forms(cosines.masked_fill(diagonal, 0.0), exists, documents)


def explained_variance(states: Tensor, rows: Ints) -> Floats:
    """The share of the first squared singular value of each set of states.

    The singular values are those of the matrix of states as they are, not centred, as in the paper:
    1 if all states are the same up to length. # [words, width], [sets, members] with -1: no more
    """
    if not rows.size:
        return np.zeros(len(rows))
    exists = torch.from_numpy(rows >= 0)
    chosen = torch.from_numpy(np.maximum(rows, 0))
    members = states[chosen.flatten()].view(*chosen.shape, states.shape[1])
    members = members.double() * exists[..., None]
    gram = members @ members.mT  # [sets, members, members]
    squares = torch.linalg.eigvalsh(gram)[:, -1].numpy()
    total = gram.diagonal(dim1=1, dim2=2).sum(-1).numpy()
    return ratio(squares, total, np.nan)


def sentence_similarity(states: Tensor, sample: Sample) -> Floats:
    """The mean cosine of the words of each sentence with the mean of its states.  # [sentences]"""
    n = len(sample.sentence_documents)
    index = torch.from_numpy(sample.sentence_of)
    own = states[torch.from_numpy(sample.sentences)].double()  # [words in sentences, width]
    sizes = torch.bincount(index, minlength=n).double()
    means = torch.zeros(n, own.shape[1], dtype=torch.float64).index_add_(0, index, own)
    cosines = (unit(own) * unit(means / sizes[:, None])[index]).sum(1)
    sums = torch.zeros(n, dtype=torch.float64).index_add_(0, index, cosines)
    return (sums / sizes).numpy()


# --- one layer ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Layer:
    """The measures of one layer."""

    raw: Pairs
    standardised: Pairs  # after standardising each dimension
    without_top: Pairs  # without the first principal components
    largest: Pairs  # the part of the cosines that the largest dimensions contribute
    dimensions: Sequence[tuple[int, float]]  # the largest ones, and what each contributes
    forms: Forms
    standardised_forms: Forms
    explained: Floats  # [forms]
    explained_random: Floats  # [forms], of as many words of different forms
    sentences: Floats  # [sentences]
    norms: Floats  # [forms], mean norm over contexts


def layer_measures(states: Tensor, sample: Sample, n_components: int) -> Layer:
    """All measures of one layer.  # [words, width]"""
    random = states[torch.from_numpy(sample.random)]
    vectors = unit(random)
    dimensions = _contributions(vectors, sample)[:n_components]
    largest = vectors[:, [dimension for dimension, _ in dimensions]]
    rows = np.maximum(sample.contexts, 0)
    norms = np.linalg.norm(states.double().numpy(), axis=1)[rows]  # [forms, contexts]
    exists = sample.exists
    return Layer(
        raw=random_pairs(vectors, sample),
        standardised=random_pairs(unit(standardised(random, random)), sample),
        without_top=random_pairs(unit(without_top(random, random, n_components)), sample),
        largest=random_pairs(largest, sample),
        dimensions=dimensions,
        forms=contexts_of_forms(states, sample),
        standardised_forms=contexts_of_forms(standardised(states, random), sample),
        explained=explained_variance(states, sample.contexts),
        explained_random=explained_variance(states, sample.baseline),
        sentences=sentence_similarity(states, sample),
        norms=ratio((norms * exists).sum(1), exists.sum(1).astype(np.float64), np.nan),
    )


def _contributions(vectors: Tensor, sample: Sample) -> list[tuple[int, float]]:
    """What each dimension adds to the mean cosine of random words, the largest first.

    Their sum is the mean cosine (Timkey and van Schijndel 2021).  # [random words, width]
    """
    forms, index = np.unique(sample.random_forms, return_inverse=True)
    of_forms = torch.zeros(len(forms), vectors.shape[1], dtype=torch.float64)
    of_forms.index_add_(0, torch.from_numpy(index), vectors)
    total = of_forms.sum(0).square() - of_forms.square().sum(0)  # [width]
    values = (total / sample.n_pairs.sum()).tolist()
    order = sorted(range(len(values)), key=lambda each: (-values[each], each))
    return [(each, values[each]) for each in order]
