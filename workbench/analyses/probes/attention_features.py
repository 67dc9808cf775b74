"""Syntactic heads from attention: a weight per attention head, in both directions (Clark 2019).

p(i is the head of j) is proportional to exp of the sum over attention heads k of w_k times the
attention from j to i, plus u_k times the attention from i to j. The weights are numbers, or depend
on static vectors of the two words. The loss is convex, so each probe has one optimum for all seeds;
`batched_adam.optimal` finds it. Probes that read the same heads (the task and its control tasks)
are one tensor.

Costs: word-level attention in half precision takes 2 bytes per attention head and pair of words:
1,000 sentences of 20 words take 120 MB for BERT-base, and 13 MB for four layers of four heads. A
pass over 1,000 short sentences takes a hundredth of a second for plain weights, and a tenth for
weights that depend on words; training takes 50 to 200 passes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from workbench.analyses.probes.batched_adam import DECAYS, STEPS, Optimum, Weights, optimal
from workbench.analyses.probes.dependency_trees import Truths, is_punctuation
from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import Progress, forward
from workbench.engine.model import Model, Output
from workbench.engine.taps import Site, StackName, Tap, View
from workbench.engine.words import by_words, owners

if TYPE_CHECKING:
    from spacy.tokens import Doc

NONE = -1
MIN_SPREAD = 1e-4  # a head whose attention varies less counts as constant
SENTENCES = 128  # maximum in a batch
MAX_NUMBERS = 4_000_000  # attention weights in a batch
MAX_OFFSET = 10  # words; larger offsets are clipped
BEHAVIOURS = ("self", "first", "last")  # head of a word type in the control task

Numbers = NDArray[np.int64]


# --- attention ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Maps:
    """Word-level attention of one stack, minus the uniform weight 1 / n.

    Within a text, this does not change a softmax, and half precision then keeps small differences:
    heads with random weights attend almost uniformly. Text d has rows `starts[d]:starts[d] + n²`.
    """

    heads: tuple[tuple[int, int], ...]  # (layer, head) of each column
    flat: Tensor  # [pairs (attending word, attended word), heads], half precision
    starts: Numbers  # [texts]
    sizes: Numbers  # [texts], words

    def of(self, document: int) -> Tensor:
        """The attention of one text.  # [attending words, attended words, heads]"""
        start, size = int(self.starts[document]), int(self.sizes[document])
        return self.flat[start : start + size * size].view(size, size, -1)


@dataclass(eq=False)
class _ToWords(Tap):
    """Computes word-level maps during the pass, and holds those of one batch."""

    ready: dict[Site, Tensor] = field(default_factory=dict)
    _pending: dict[Site, Tensor] = field(default_factory=dict)

    def wants(self, site: Site) -> bool:
        return site.kind != "cross"

    @torch.no_grad()
    def see(self, view: View) -> None:
        assert view.queries is not None and view.keys is not None, "views come from the engine"
        words = by_words(view.probabilities, view.queries, view.keys)
        self._pending[view.site] = words  # [batch, heads, words, words]

    def close(self, whole: bool) -> None:
        self.ready = dict(self._pending) if whole else {}
        self._pending.clear()


def attention(
    model: Model, batch: Batch, progress: Callable[[Progress], object] | None = None
) -> tuple[dict[StackName, Maps], Truths]:
    """Maps of every stack from one pass, and the mask of words without pieces.  # [words], bool"""
    sizes = np.diff(batch.word_offsets)
    starts = np.cumsum(sizes**2) - sizes**2
    maps: dict[StackName, Maps] = {}
    for stack in dict.fromkeys(site.stack for site in model.sites_with_heads):
        sites = _sites(model, stack)
        heads = tuple((site.layer, head) for site in sites for head in range(site.heads))
        flat = torch.zeros(int((sizes**2).sum()), len(heads), dtype=torch.float16)
        maps[stack] = Maps(heads, flat, starts, sizes)
    missing = np.ones(len(batch.words), dtype=np.bool_)
    tap = _ToWords()

    def take(text: Pieces, output: Output) -> None:
        for stack, stack_maps in maps.items():
            attention = torch.cat([tap.ready[site] for site in _sites(model, stack)], dim=1)
            attention = attention.permute(0, 2, 3, 1).float().cpu()  # [batch, words, words, heads]
            for row, document in enumerate(text.order.tolist()):
                size = int(sizes[document])
                stack_maps.of(document)[:] = attention[row, :size, :size] - 1 / max(size, 1)
        has_pieces = owners(text).any(-1).cpu().numpy()  # [batch, words]
        for row, document in enumerate(text.order.tolist()):
            first = int(batch.word_offsets[document])
            size = int(sizes[document])
            missing[first : first + size] = ~has_pieces[row, :size]

    forward(model, batch, take, taps=[tap], hidden=False, progress=progress)
    return maps, missing


def sizes_of(maps: Maps, sentences: Sequence["Sentence"]) -> Tensor:
    """Standard deviation of each head's attention in these sentences of train.  # [heads]

    Attention is divided by it, so that heads with almost uniform attention are learned as fast as
    sharp ones; this does not change what a probe can express.
    """
    n_pairs, total, square = 0, torch.zeros(()), torch.zeros(())
    for sentence in sentences:
        pairs = maps.of(sentence.document).double().flatten(0, 1)  # [pairs, heads]
        n_pairs += len(pairs)
        total, square = total + pairs.sum(0), square + pairs.square().sum(0)
    spread = (square / n_pairs - (total / n_pairs).square()).clamp(min=0).sqrt()
    return torch.where(spread > MIN_SPREAD, spread, 1.0).float()


def _sites(model: Model, stack: StackName) -> list[Site]:
    sites = model.sites_with_heads
    return [site for site in sites if site.stack == stack and site.kind != "cross"]


# --- gold -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    """One text with its gold heads, and the mask of scored words."""

    document: int
    first: int  # row of its first word in the corpus
    scored: Truths  # [words], no root, no punctuation, and both it and its head were read
    heads: Numbers  # [words], NONE for roots
    read: Truths  # [words], read by the model: the candidates
    types: tuple[str, ...]  # [words], word forms
    relations: tuple[str, ...]  # [words]

    def __len__(self) -> int:
        return len(self.heads)


def sentence_of(doc: "Doc", document: int, first: int, missing: Truths) -> Sentence | None:
    """The gold heads of a text; None if it has no arc between two words that were read."""
    size = len(doc)
    heads = np.array([token.head.i for token in doc], dtype=np.int64)
    read = ~missing[first : first + size]
    has_head = heads != np.arange(size)
    scored = has_head & ~is_punctuation(doc) & read & read[heads] if size else has_head
    if not scored.any():
        return None
    return Sentence(
        document,
        first,
        scored,
        np.where(has_head, heads, NONE),
        read,
        tuple(token.text for token in doc),
        tuple(token.dep_ for token in doc),
    )


def behaviour(word: str, seed: int) -> str:
    """Head of a word type in the control task: the same for every occurrence."""
    return Random(f"attachment control {seed} {word}").choice(BEHAVIOURS)


def control_heads(sentence: Sentence, seed: int) -> Numbers:
    """Head by word type: the word itself, or the first or last word read.  # [words]"""
    read = np.flatnonzero(sentence.read)
    ends = {"first": int(read[0]), "last": int(read[-1])}
    heads = [ends.get(behaviour(word, seed), index) for index, word in enumerate(sentence.types)]
    return np.array(heads, dtype=np.int64)


# --- probes ---------------------------------------------------------------------------------------


class Cases(NamedTuple):
    """A batch of padded sentences, with the inputs of all probes; it never changes."""

    indices: tuple[int, ...]  # [sentences], in the whole sequence
    attention: Tensor  # [sentences, attending words, attended words, heads], half precision
    vectors: Tensor  # [sentences, words, width], with a constant 1 at the end
    offsets: Tensor  # [words, words], from dependent to candidate, shifted to start at 0
    scored: Tensor  # [sentences, words], bool
    closed: Tensor  # [2, sentences, words, words], bool: not a candidate, in task and control
    heads: Tensor  # [1 + seeds, sentences, words], of the task and of each seed's control task


def cases(
    sentences: Sequence[Sentence],
    maps: Maps,
    sizes: Tensor,
    vectors: Tensor,
    seeds: Sequence[int],
    device: torch.device,
) -> list[Cases]:
    """Batches of sentences of similar length, with attention divided by `sizes`.

    `sizes` is [heads], `vectors` [words of the corpus, width].
    """
    order = sorted(range(len(sentences)), key=lambda index: len(sentences[index]))
    batches, start = [], 0
    while start < len(order):
        size = SENTENCES
        heads = maps.flat.shape[1]
        while size > 1:
            longest = len(sentences[order[min(start + size, len(order)) - 1]])
            if size * longest**2 * heads <= MAX_NUMBERS:
                break
            size -= 1
        chosen = tuple(order[start : start + size])
        batches.append(_padded(sentences, chosen, maps, sizes, vectors, seeds, device))
        start += size
    return batches


def _padded(
    sentences: Sequence[Sentence],
    indices: tuple[int, ...],
    maps: Maps,
    sizes: Tensor,
    vectors: Tensor,
    seeds: Sequence[int],
    device: torch.device,
) -> Cases:
    """One batch of padded sentences."""
    batch = [sentences[index] for index in indices]
    size_of_batch, words = len(batch), max(map(len, batch))
    attention = torch.zeros(size_of_batch, words, words, maps.flat.shape[1], dtype=torch.float16)
    word_vectors = torch.zeros(size_of_batch, words, vectors.shape[1])
    scored = torch.zeros(size_of_batch, words, dtype=torch.bool)
    candidates = torch.zeros(2, size_of_batch, words, words, dtype=torch.bool)
    heads = torch.zeros(1 + len(seeds), size_of_batch, words, dtype=torch.long)
    for row, sentence in enumerate(batch):
        size = len(sentence)
        attention[row, :size, :size] = maps.of(sentence.document) / sizes
        word_vectors[row, :size] = vectors[sentence.first : sentence.first + size].float()
        scored[row, :size] = torch.from_numpy(sentence.scored)
        candidates[:, row, :, :size] = torch.from_numpy(sentence.read)
        heads[0, row, :size] = torch.from_numpy(np.maximum(sentence.heads, 0))
        for variant, seed in enumerate(seeds, start=1):
            heads[variant, row, :size] = torch.from_numpy(control_heads(sentence, seed))
    candidates[0] &= ~torch.eye(words, dtype=torch.bool)  # no word is its own head
    candidates |= ~scored[:, :, None]  # rows that do not count also need a candidate
    position = torch.arange(words)
    offsets = (position[None, :] - position[:, None]).clamp(-MAX_OFFSET, MAX_OFFSET) + MAX_OFFSET
    ones = torch.ones(size_of_batch, words, 1)
    inputs = [attention, torch.cat([word_vectors, ones], -1), offsets, scored, ~candidates, heads]
    return Cases(indices, *(tensor.to(device) for tensor in inputs))


Score = Callable[[Weights, Cases], Tensor]  # -> [probes, sentences, dependents, candidates]


def by_attention(probes: int, heads: slice, device: torch.device) -> tuple[list[Tensor], Score]:
    """One weight per attention head and direction (to the candidate, and from it).

    Weights are [probes, 2, heads], initially zero.
    """

    def score(weights: Weights, batch: Cases) -> Tensor:
        attention = batch.attention[..., heads].float()  # [sentences, words, words, heads]
        flat = weights[0].permute(2, 1, 0).flatten(1)  # [heads, 2 * probes]
        scores = (attention.flatten(0, 2) @ flat).view(*attention.shape[:3], 2, len(weights[0]))
        return (scores[..., 0, :] + scores[..., 1, :].transpose(1, 2)).permute(3, 0, 1, 2)

    return [torch.zeros(probes, 2, heads.stop - heads.start, device=device)], score


def by_attention_and_words(
    probes: int, heads: slice, width: int, device: torch.device
) -> tuple[list[Tensor], Score]:
    """The weight of each attention head is a linear function of both words, in both directions.

    One additional head gives every word weight 1: it scores words without attention. Weights are
    [probes, attending or attended word, direction, width, heads + 1].
    """

    def score(weights: Weights, batch: Cases) -> Tensor:
        attention = pad(batch.attention[..., heads].float(), (0, 1), value=1.0)
        sentences, words, _, n_heads = attention.shape
        vectors = batch.vectors.flatten(0, 1)  # [sentences * words, width]

        def by_word(weight: Tensor, pairs: Tensor) -> Tensor:
            """[probes, directions, width, heads] -> [sentences, words, words, 2, probes]"""
            head_weights = vectors @ weight.permute(2, 3, 1, 0).flatten(1)
            head_weights = head_weights.view(sentences * words, n_heads, -1)
            scores = pairs.reshape(sentences * words, words, n_heads) @ head_weights
            return scores.view(sentences, words, words, 2, len(weight))

        attending = by_word(weights[0][:, 0], attention)
        attended = by_word(weights[0][:, 1], attention.transpose(1, 2))
        both = attending + attended.transpose(1, 2)
        return (both[..., 0, :] + both[..., 1, :].transpose(1, 2)).permute(3, 0, 1, 2)

    n_weights = heads.stop - heads.start + 1
    return [torch.zeros(probes, 2, 2, width, n_weights, device=device)], score


def by_words_alone(probes: int, width: int, device: torch.device) -> tuple[list[Tensor], Score]:
    """Static vectors of both words and their distance, as in Clark et al.'s baseline."""

    def score(weights: Weights, batch: Cases) -> Tensor:
        pairs = torch.einsum("bjv,pvw,biw->pbji", batch.vectors, weights[0], batch.vectors)
        return pairs + weights[1][:, batch.offsets][:, None]

    square = torch.zeros(probes, width, width, device=device)
    return [square, torch.zeros(probes, 2 * MAX_OFFSET + 1, device=device)], score


def train_probes(
    weights: Weights,
    score: Score,
    variants: Tensor,
    train: Sequence[Cases],
    dev: Sequence[Cases],
    decays: Sequence[float] = DECAYS,
    steps: int = STEPS,
) -> Optimum:
    """Train the probes to their optimum; `variants` are rows of `Cases.heads`, one per probe."""

    def loss(current: Weights, which: Tensor, batch: Cases) -> tuple[Tensor, int]:
        variant = variants[which]
        log_p = _log_probabilities(current, score, variant, batch)
        gold = log_p.gather(-1, batch.heads[variant][..., None])[..., 0]
        return -torch.where(batch.scored, gold, 0).sum((1, 2)), int(batch.scored.sum())

    return optimal(weights, loss, train, dev, steps=steps, choices=decays)


def _log_probabilities(weights: Weights, score: Score, variant: Tensor, batch: Cases) -> Tensor:
    """Log-probability of every candidate.  # [probes, sentences, dependents, candidates]"""
    closed = batch.closed[(variant > 0).long()]
    return score(weights, batch).masked_fill(closed, -torch.inf).log_softmax(-1)


@torch.no_grad()
def attached(
    weights: Weights, score: Score, variants: Tensor, batches: Sequence[Cases]
) -> dict[int, Numbers]:
    """Predicted heads of each probe, by index of the sentence.  # [probes, words]"""
    heads: dict[int, Numbers] = {}
    for batch in batches:
        predicted = _log_probabilities(weights, score, variants, batch).argmax(-1).cpu().numpy()
        heads |= {index: predicted[:, row] for row, index in enumerate(batch.indices)}
    return heads


# --- baselines without training -------------------------------------------------------------------


def best_offset(sentences: Sequence[Sentence], relation: str | None = None) -> int:
    """The most frequent offset of the head, over all words or those of one relation."""
    return max(
        (int(count), -abs(offset), offset)
        for offset, count in _offsets(sentences, relation).items()
    )[2]


def offset_counts(
    sentences: Sequence[Sentence], offset: int, relation: str | None = None
) -> tuple[int, int]:
    """Number of words whose head is at this offset, and of all scored words."""
    counts = _offsets(sentences, relation)
    return counts[offset], counts.total()


def uniform_guess(sentences: Sequence[Sentence]) -> float:
    """Expected accuracy of a uniform guess among all other words that were read."""
    right = sum(one.scored.sum() / (one.read.sum() - 1) for one in sentences)
    return float(right / max(sum(int(one.scored.sum()) for one in sentences), 1))


def _offsets(sentences: Sequence[Sentence], relation: str | None) -> Counter[int]:
    """Number of scored words by the offset of their head."""
    counts = Counter({1: 0, -1: 0})
    for sentence in sentences:
        for word in np.flatnonzero(sentence.scored):
            if relation is None or sentence.relations[word] == relation:
                counts[int(sentence.heads[word] - word)] += 1
    return counts
