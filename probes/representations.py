"""Static vectors of a corpus' own words: what can be told of a word without its sentence.

Positive pointwise mutual information with the words around it, by singular values (Levy and
Goldberg 2014 show it to be what skip-grams learn). Counted on the train part alone; a word that was
not seen there is zeros. Costs a second for 100,000 words.
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
    from workbench.core.experiment import Progress

WINDOW = 4  # words on either side
MOST = 20_000  # words that get a vector


def counted(sentences: Sequence[Sequence[str]], width: int, seed: int) -> Vectors:
    """Vectors of `width` numbers, or fewer where there are fewer words; the rest is zeros."""
    from scipy import sparse
    from sklearn.utils.extmath import randomized_svd

    frequent = Counter(word for words in sentences for word in words).most_common(MOST)
    row = {word: place for place, (word, _) in enumerate(frequent)}
    pairs: Counter[tuple[int, int]] = Counter()
    for words in sentences:
        known = [row[word] for word in words if word in row]
        for place, word in enumerate(known):
            for other in known[place + 1 : place + 1 + WINDOW]:
                pairs[word, other] += 1
                pairs[other, word] += 1
    table = np.zeros((len(row), width), dtype=np.float32)
    rank = min(width, len(row) - 1)
    if pairs and rank > 0:
        places = np.array(list(pairs))  # [pairs, 2]
        number = np.array(list(pairs.values()), dtype=np.float64)
        of_word = np.bincount(places[:, 0], weights=number, minlength=len(row))
        information = np.log(
            number * number.sum() / (of_word[places[:, 0]] * of_word[places[:, 1]])
        )
        matrix = sparse.csr_matrix(
            (np.maximum(information, 0), (places[:, 0], places[:, 1])), shape=(len(row), len(row))
        )
        left, values, _ = randomized_svd(matrix, rank, n_iter=4, random_state=seed)
        table[:, :rank] = left * np.sqrt(values)
    return Vectors(list(row), torch.from_numpy(table))


def of_words(vectors: Vectors, words: Sequence[str]) -> Tensor:
    """A row for each word of a corpus, zeros where it is unknown.  # [words, width]"""
    types = list(dict.fromkeys(words))
    place = {word: number for number, word in enumerate(types)}
    return vectors.lookup(types)[torch.tensor([place[word] for word in words], dtype=torch.long)]


# --- what probes read: every layer's states of every word, from one pass of each encoder ----------
#
# A source is one table of states, `[words, width]`: a layer of a stack of the model, the same of
# the model with random weights, bare embeddings without positions, or static vectors. Tables lie
# in half precision, memory-mapped, and on a GPU where they fit. Costs one forward pass of each
# encoder and 2 bytes a number: 5 layers of 128 for 100,000 words take 128 MB, 13 of 768 take 2
# GB.

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
        stores, report = word_states(model, batch, home, kind=kind, progress=told)
    except TooLargeError:
        stores, report = word_states(model, batch, home, kind="fp32", progress=told)
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
    return encoded(model.reinitialised(seed), batch, home, progress, RANDOM).sources


def without_positions(model: Model, batch: Batch) -> tuple[Source, ...]:
    """Words by their bare embeddings; none where layer 0 knows no positions anyway."""
    stack: StackName = model.stacks[0].name
    rows: list[Tensor] = []
    for documents in chunks(range(len(batch)), CHUNK):
        text = model.encode(batch, documents).to(model.device)
        with torch.no_grad():
            found = model.embeddings_without_positions(text)
        if found is None:
            return ()
        words, _ = by_word(found, text)  # [batch, words, width]
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


# --- the bank of layers ---------------------------------------------------------------------------
#
# Sources of one width as one table to gather from: what a batch of spans reads of every layer.
#
# On the CPU rows are copied out of memory-mapped half precision (small tables out of memory, all
# layers in one go); on a GPU the table lies there where it fits. Every source is standardised
# feature by feature, with the mean and deviation of the training words, so that neither an
# outlier feature nor a large offset decides which layer wins; any probe could undo it with its
# weights. In a mix of layers each keeps its size relative to the others, as in the paper: there a
# feature is divided by one deviation for all layers of a stack. Costs a copy of the rows that are
# read: layers times rows times width.

SOME = 2_000  # words whose states are measured
SMALL = 512 << 20  # bytes that are held in memory
ROUNDED = 1e-4  # of a feature's size: what half precision makes of a constant
ROOM = 0.5  # of a GPU's free memory that states may take


@dataclass(frozen=True)
class Bank:
    """States by source."""

    sources: tuple[Source, ...]
    tables: tuple[Tensor, ...]  # [sources, words, width] in one, or [1, words, width] each
    mean: Tensor  # [sources, width], over training words
    scale: Tensor  # [sources, width], 1 / deviation; 0 of a feature that does not vary
    common: Tensor  # [sources, width], deviation / that of the stack: what gives a mix its sizes
    device: torch.device

    @property
    def width(self) -> int:
        return self.sources[0].width

    def rows(self, words: Tensor) -> Tensor:
        """Standardised states of these words in every source.  # [...] -> [sources, ..., width]"""
        flat = sent(words.reshape(-1), self.tables[0].device)
        parts = [table.index_select(1, flat) for table in self.tables]
        found = (parts[0] if len(parts) == 1 else torch.cat(parts)).to(self.device).float()
        found = found.sub_(self.mean[:, None]).mul_(self.scale[:, None])
        return found.reshape(len(found), *words.shape, self.width)

    def only(self, source: int) -> "Bank":
        """The bank of one source; shares its table."""
        if len(self.tables) == 1:
            table = self.tables[0][source : source + 1]
        else:
            table = self.tables[source]
        own = slice(source, source + 1)
        return Bank(
            self.sources[own],
            (table,),
            self.mean[own],
            self.scale[own],
            self.common[own],
            self.device,
        )


def banked(sources: Sequence[Source], device: torch.device, train: Tensor) -> tuple[Bank, ...]:
    """A bank for each width there is, on the device where there is room; `train` are its words."""
    some = train[:: max(1, len(train) // SOME)]
    banks = []
    for width in dict.fromkeys(source.width for source in sources):
        own = tuple(source for source in sources if source.width == width)
        tables = [source.states for source in own]
        size = sum(table.numel() * table.element_size() for table in tables)
        if device.type == "cuda":
            near = size < ROOM * free_memory(device)
        else:
            near = size < SMALL
        together = [_together(tables, device)] if near else [table[None] for table in tables]
        mean, deviation = (
            torch.stack(each).to(device)
            for each in zip(*(_moments(source.states[some]) for source in own), strict=True)
        )
        usual = torch.ones_like(deviation)
        for encoder in {(source.encoder, source.stack) for source in own}:
            of = [place for place, s in enumerate(own) if (s.encoder, s.stack) == encoder]
            usual[of] = deviation[of].square().mean(0).sqrt()
        common = torch.where(usual > 0, deviation / usual, 0.0)
        scale = torch.where(deviation > 0, 1 / deviation, 0.0)
        banks.append(Bank(own, tuple(together), mean, scale, common, device))
    return tuple(banks)


def _together(tables: Sequence[Tensor], device: torch.device) -> Tensor:
    """All tables as one on the device, copied one at a time.  # -> [sources, words, width]"""
    kind = functools.reduce(torch.promote_types, (table.dtype for table in tables))
    found = torch.empty(len(tables), *tables[0].shape, dtype=kind, device=device)
    for own, table in zip(found, tables, strict=True):
        own.copy_(table)
    return found


def _moments(states: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each feature; 0 where it varies no more than it is rounded.

    [words, width] -> [width], [width]
    """
    wide = states.double()
    mean, deviation = wide.mean(0), wide.std(0, correction=0)
    varies = deviation > ROUNDED * wide.abs().amax(0)
    return mean.float(), torch.where(varies, deviation, 0.0).float()


def words_in(spans: Tensor) -> tuple[Tensor, Tensor]:
    """The words of all spans, one span after another, and of which span each is.

    [n, 2] -> [words], [words]
    """
    lengths = spans[:, 1] - spans[:, 0]
    of_span = torch.repeat_interleave(lengths)
    skipped = spans[:, 0] - (lengths.cumsum(0) - lengths)
    return torch.arange(len(of_span)) + skipped[of_span], of_span
