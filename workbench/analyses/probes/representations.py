"""Inputs of the probes: states of all layers of a model and its baselines, and static vectors.

Static vectors are counted on train only: positive pointwise mutual information with neighbouring
words, reduced by singular value decomposition (Levy and Goldberg 2014 show that skip-grams learn
this). Words not seen in train get zeros. Costs: one second per 100,000 words for static vectors,
and one forward pass per encoder for states; the parts below state their memory.
"""

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from workbench.core.machine import free_memory
from workbench.engine.activation_store import TooLargeError, word_states
from workbench.engine.batch import Batch, sent
from workbench.engine.forward_pass import CHUNK, Report, chunks
from workbench.engine.forward_pass import Progress as Passing
from workbench.engine.model import Model
from workbench.engine.taps import StackName
from workbench.engine.words import by_word
from workbench.models.word_models import Vectors, words_of

if TYPE_CHECKING:
    from workbench.experiment.definition import Progress

WINDOW = 4  # words on either side
MAX_WORDS = 20_000  # with a vector


def count_vectors(sentences: Sequence[Sequence[str]], width: int, seed: int) -> Vectors:
    """Static vectors of `width` numbers; zero-padded if there are fewer words than that."""
    from scipy import sparse
    from sklearn.utils.extmath import randomized_svd

    frequent = Counter(word for words in sentences for word in words).most_common(MAX_WORDS)
    row = {word: index for index, (word, _) in enumerate(frequent)}
    pairs: Counter[tuple[int, int]] = Counter()
    for words in sentences:
        known = [row[word] for word in words if word in row]
        for index, word in enumerate(known):
            for other in known[index + 1 : index + 1 + WINDOW]:
                pairs[word, other] += 1
                pairs[other, word] += 1
    table = np.zeros((len(row), width), dtype=np.float32)
    rank = min(width, len(row) - 1)
    if pairs and rank > 0:
        indices = np.array(list(pairs))  # [pairs, 2]
        count = np.array(list(pairs.values()), dtype=np.float64)
        of_word = np.bincount(indices[:, 0], weights=count, minlength=len(row))
        information = np.log(
            count * count.sum() / (of_word[indices[:, 0]] * of_word[indices[:, 1]])
        )
        matrix = sparse.csr_matrix(
            (np.maximum(information, 0), (indices[:, 0], indices[:, 1])), shape=(len(row), len(row))
        )
        left, values, _ = randomized_svd(matrix, rank, n_iter=4, random_state=seed)
        table[:, :rank] = left * np.sqrt(values)
    return Vectors(list(row), torch.from_numpy(table))


def of_words(vectors: Vectors, words: Sequence[str]) -> Tensor:
    """The vector of each word of a corpus; zeros for unknown words.  # [words, width]"""
    types = list(dict.fromkeys(words))
    row = {word: index for index, word in enumerate(types)}
    return vectors.lookup(types)[torch.tensor([row[word] for word in words], dtype=torch.long)]


# --- sources: states of every word at every layer, from one pass of each encoder ------------------
#
# A source is one table of states, `[words, width]`: a layer of a stack of the model, a layer of the
# model with random weights, embeddings without positions, or static vectors. Tables are
# memory-mapped in half precision, or on a GPU if they fit. Costs: one forward pass of each encoder
# and 2 bytes per number: 5 layers of 128 for 100,000 words take 128 MB, 13 of 768 take 2 GB.

MODEL, RANDOM, BARE, STATIC = "model", "random", "no positions", "static"
NO_LAYER = -1  # of an encoder without layers


@dataclass(frozen=True)
class Source:
    """States of every word of the corpus at one layer of one encoder."""

    encoder: str
    stack: str
    layer: int
    states: Tensor  # [words, width], often half precision and memory-mapped

    @property
    def width(self) -> int:
        return self.states.shape[1]


@dataclass(frozen=True)
class Encoded:
    """All sources of a corpus, and a report on the model's pass."""

    sources: tuple[Source, ...]
    missing: Tensor  # [words], bool: words without a piece in the model, and so without states
    report: Report | None  # None: the states were on disk

    def of(self, encoder: str, stack: str | None = None) -> tuple[Source, ...]:
        """The sources of one encoder (and of one of its stacks), layer by layer."""
        return tuple(
            source
            for source in self.sources
            if source.encoder == encoder and stack in (None, source.stack)
        )


def encoded(
    model: Model, batch: Batch, home: Path, progress: "Progress", encoder: str = MODEL
) -> Encoded:
    """Every layer of every stack, from one pass over the batch."""

    def on_progress(pass_: Passing) -> None:
        progress(pass_.done, pass_.total, _DOING.get(encoder, "encoding the corpus"))

    kind = "bf16" if model.precision == "bf16" else "fp16"
    try:
        stores, report = word_states(model, batch, home, kind=kind, progress=on_progress)
    except TooLargeError:
        stores, report = word_states(model, batch, home, kind="fp32", progress=on_progress)
    sources = [
        Source(encoder, stack, layer, store.layer(layer))
        for stack, store in stores.items()
        for layer in range(store.description.layers + 1)
    ]
    missing = torch.zeros(len(batch.words), dtype=torch.bool)
    for store in stores.values():
        missing |= torch.from_numpy(store.missing)
    return Encoded(tuple(sources), missing, report)


_DOING = {MODEL: "encoding the corpus", RANDOM: "encoding the corpus with random weights"}


def randomised(
    model: Model, batch: Batch, home: Path, progress: "Progress", seed: int
) -> tuple[Source, ...]:
    """Every layer of the same architecture with random weights."""
    return encoded(model.reinitialised(seed), batch, home, progress, RANDOM).sources


def without_positions(model: Model, batch: Batch) -> tuple[Source, ...]:
    """Word embeddings without positions; no source if layer 0 has no positions anyway."""
    stack: StackName = model.stacks[0].name
    rows: list[Tensor] = []
    for documents in chunks(range(len(batch)), CHUNK):
        text = model.encode(batch, documents).to(model.device)
        with torch.no_grad():
            embeddings = model.embeddings_without_positions(text)
        if embeddings is None:
            return ()
        words, _ = by_word(embeddings, text)  # [batch, words, width]
        real = torch.arange(words.shape[1]) < text.word_counts[:, None]  # [batch, words]
        real_words = words.flatten(0, 1).index_select(
            0, sent(real.flatten().nonzero()[:, 0], words.device)
        )
        rows.append(real_words.half().cpu())
    states = torch.cat(rows) if rows else torch.zeros(0, model.width)
    return (Source(BARE, stack, 0, widened(states, model.width)),)


def static(batch: Batch, train: Sequence[int], width: int, seed: int) -> Source:
    """Static vectors, counted on the train documents."""
    sentences = [words_of(batch, document) for document in range(len(batch))]
    vectors = count_vectors([sentences[document] for document in train], width, seed)
    return lookup_source(vectors, sentences)


def lookup_source(vectors: Vectors, sentences: Sequence[Sequence[str]]) -> Source:
    """The vectors of every word, as a source."""
    words = [word for sentence in sentences for word in sentence]
    return Source(STATIC, STATIC, NO_LAYER, of_words(vectors, words).half())


def widened(states: Tensor, width: int) -> Tensor:
    """Zero-padded states; zeros do not change linear maps.  # [words, width]"""
    padding = width - states.shape[1]
    return torch.nn.functional.pad(states, (0, padding)) if padding > 0 else states


def window_source(source: Source, batch: Batch, words: int, encoder: str) -> Source:
    """Each word concatenated with its neighbours up to `words` away; zeros outside the sentence."""
    sizes = torch.from_numpy(batch.word_offsets).diff()
    sentence = torch.repeat_interleave(torch.arange(len(sizes)), sizes)  # [words]
    rows = torch.arange(len(sentence))
    shifted = []
    for offset in range(-words, words + 1):
        other = (rows + offset).clamp(0, max(len(rows) - 1, 0))
        exists = (sentence[other] == sentence) & (other == rows + offset)
        shifted.append(source.states[other] * exists[:, None])
    return Source(encoder, source.stack, source.layer, torch.cat(shifted, dim=1))


# --- the bank of layers ---------------------------------------------------------------------------
#
# Sources of one width as one table, from which a batch of spans gathers its rows of every layer.
#
# On the CPU, rows are copied from memory-mapped half precision (from memory for small tables, all
# layers at once). On a GPU, the table is on the device if it fits. Every feature of a source is
# standardised with mean and deviation over the training words, so that neither an outlier feature
# nor a large offset decides which layer is best; the weights of a probe could undo it. In a mix of
# layers, each layer keeps its scale relative to the others, as in the paper: there a feature is
# divided by one deviation for all layers of a stack. Costs: a copy of the rows that are read,
# layers times rows times width.

SAMPLE = 2_000  # words from which mean and deviation are computed
SMALL = 512 << 20  # bytes; smaller tables are held in memory
ROUNDED = 1e-4  # relative to a feature's size: rounding of a constant in half precision
GPU_SHARE = 0.5  # maximum share of a GPU's free memory for states


@dataclass(frozen=True)
class Bank:
    """States of all sources of one width."""

    sources: tuple[Source, ...]
    tables: tuple[Tensor, ...]  # [sources, words, width] in one, or [1, words, width] each
    mean: Tensor  # [sources, width], over training words
    scale: Tensor  # [sources, width], 1 / deviation; 0 for constant features
    common: Tensor  # [sources, width], deviation relative to the stack: scales layers in a mix
    device: torch.device

    @property
    def width(self) -> int:
        return self.sources[0].width

    def rows(self, words: Tensor) -> Tensor:
        """Standardised states of these words in every source.  # [...] -> [sources, ..., width]"""
        flat = sent(words.reshape(-1), self.tables[0].device)
        parts = [table.index_select(1, flat) for table in self.tables]
        states = (parts[0] if len(parts) == 1 else torch.cat(parts)).to(self.device).float()
        states = states.sub_(self.mean[:, None]).mul_(self.scale[:, None])
        return states.reshape(len(states), *words.shape, self.width)

    def only(self, source: int) -> "Bank":
        """A bank of one source; it shares the table."""
        if len(self.tables) == 1:
            table = self.tables[0][source : source + 1]
        else:
            table = self.tables[source]
        row = slice(source, source + 1)
        return Bank(
            self.sources[row],
            (table,),
            self.mean[row],
            self.scale[row],
            self.common[row],
            self.device,
        )


def build_banks(sources: Sequence[Source], device: torch.device, train: Tensor) -> tuple[Bank, ...]:
    """One bank per width, on the device if it fits; `train` are the rows of the train words."""
    sample = train[:: max(1, len(train) // SAMPLE)]
    banks = []
    for width in dict.fromkeys(source.width for source in sources):
        of_width = tuple(source for source in sources if source.width == width)
        tables = [source.states for source in of_width]
        size = sum(table.numel() * table.element_size() for table in tables)
        if device.type == "cuda":
            fits = size < GPU_SHARE * free_memory(device)
        else:
            fits = size < SMALL
        together = [_together(tables, device)] if fits else [table[None] for table in tables]
        mean, deviation = (
            torch.stack(each).to(device)
            for each in zip(*(_moments(source.states[sample]) for source in of_width), strict=True)
        )
        stack_deviation = torch.ones_like(deviation)
        for encoder in {(source.encoder, source.stack) for source in of_width}:
            layers = [row for row, s in enumerate(of_width) if (s.encoder, s.stack) == encoder]
            stack_deviation[layers] = deviation[layers].square().mean(0).sqrt()
        common = torch.where(stack_deviation > 0, deviation / stack_deviation, 0.0)
        scale = torch.where(deviation > 0, 1 / deviation, 0.0)
        banks.append(Bank(of_width, tuple(together), mean, scale, common, device))
    return tuple(banks)


def _together(tables: Sequence[Tensor], device: torch.device) -> Tensor:
    """All tables as one on the device, copied one by one.  # -> [sources, words, width]"""
    kind = functools.reduce(torch.promote_types, (table.dtype for table in tables))
    joined = torch.empty(len(tables), *tables[0].shape, dtype=kind, device=device)
    for row, table in zip(joined, tables, strict=True):
        row.copy_(table)
    return joined


def _moments(states: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each feature; deviation 0 if it varies less than rounding.

    [words, width] -> [width], [width]
    """
    wide = states.double()
    mean, deviation = wide.mean(0), wide.std(0, correction=0)
    varies = deviation > ROUNDED * wide.abs().amax(0)
    return mean.float(), torch.where(varies, deviation, 0.0).float()


def words_in(spans: Tensor) -> tuple[Tensor, Tensor]:
    """The words of all spans, and the index of each word's span.

    [n, 2] -> [words], [words]
    """
    lengths = spans[:, 1] - spans[:, 0]
    of_span = torch.repeat_interleave(lengths)
    skipped = spans[:, 0] - (lengths.cumsum(0) - lengths)
    return torch.arange(len(of_span)) + skipped[of_span], of_span
