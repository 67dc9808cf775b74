"""A word's head from attention alone: a weight for every head, in both directions (Clark 2019).

p(i is the head of j) goes with the exponential of the sum over heads k of w_k times what j gives to
i, and u_k times what i gives to j. The weights are numbers, or they depend on static vectors of the
two words. Attention is of words, in half precision: 2 bytes a head and a pair of words, so that
1,000 sentences of 20 words take 120 MB of a BERT-base, and 13 MB of four layers of four heads.

The loss is convex, so each probe has one optimum whatever the seed, and `batched_adam.optimal`
takes it there. Probes that see the same heads (the task and its control tasks) are one tensor.
Costs, a pass over 1,000 short sentences: a hundredth of a second for numbers, a tenth for weights
that depend on words; 50 to 200 passes in all.
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

from probes.batched_adam import DECAYS, STEPS, OnProgress, Optimum, Weights, optimal
from probes.dependency_trees import Truths, is_punctuation
from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import Progress, forward
from workbench.engine.model import Model, Output
from workbench.engine.taps import Site, StackName, Tap, View
from workbench.engine.words import by_words, owners

if TYPE_CHECKING:
    from spacy.tokens import Doc

NONE = -1
LEAST = 1e-4  # a head whose attention varies less is the same everywhere
SENTENCES = 128  # maximum in a batch
NUMBERS = 4_000_000  # of attention in a batch, at most
FARTHEST = 10  # words apart; what is farther counts as that far
BEHAVIOURS = ("self", "first", "last")  # what a type attaches to in the control

Numbers = NDArray[np.int64]


# --- attention ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Maps:
    """Attention of words in one stack, less the 1 / n that each word would get of an equal share.

    In one text that moves no softmax, and half precision then keeps what tells words apart: heads
    of random weights attend almost evenly. Text d has rows `starts[d]:starts[d] + n * n`.
    """

    heads: tuple[tuple[int, int], ...]  # (layer, head) of each number
    flat: Tensor  # [pairs of words: one that looks, one looked at; heads], half precision
    starts: Numbers  # [texts]
    sizes: Numbers  # [texts], words

    def of(self, document: int) -> Tensor:
        """[words that look, words looked at, heads]"""
        start, size = int(self.starts[document]), int(self.sizes[document])
        return self.flat[start : start + size * size].view(size, size, -1)


@dataclass(eq=False)
class _ToWords(Tap):
    """Makes maps of words on the spot, and keeps those of one batch."""

    ready: dict[Site, Tensor] = field(default_factory=dict)
    _pending: dict[Site, Tensor] = field(default_factory=dict)

    def wants(self, site: Site) -> bool:
        return site.kind != "cross"

    @torch.no_grad()
    def see(self, view: View) -> None:
        assert view.queries is not None and view.keys is not None, "asked through the engine"
        words = by_words(view.probabilities, view.queries, view.keys)
        self._pending[view.site] = words  # [batch, heads, words, words]

    def close(self, whole: bool) -> None:
        self.ready = dict(self._pending) if whole else {}
        self._pending.clear()


def attention(
    model: Model, batch: Batch, progress: Callable[[Progress], object] | None = None
) -> tuple[dict[StackName, Maps], Truths]:
    """Maps of every stack from one pass, and the words that own no piece.  # [words], bool"""
    sizes = np.diff(batch.word_offsets)
    starts = np.cumsum(sizes**2) - sizes**2
    maps: dict[StackName, Maps] = {}
    for stack in dict.fromkeys(site.stack for site in model.sites):
        sites = _sites(model, stack)
        heads = tuple((site.layer, head) for site in sites for head in range(site.heads))
        flat = torch.zeros(int((sizes**2).sum()), len(heads), dtype=torch.float16)
        maps[stack] = Maps(heads, flat, starts, sizes)
    missing = np.ones(len(batch.words), dtype=np.bool_)
    tap = _ToWords()

    def take(text: Pieces, output: Output) -> None:
        for stack, kept in maps.items():
            found = torch.cat([tap.ready[site] for site in _sites(model, stack)], dim=1)
            found = found.permute(0, 2, 3, 1).float().cpu()  # [batch, words, words, heads]
            for row, document in enumerate(text.order.tolist()):
                size = int(sizes[document])
                kept.of(document)[:] = found[row, :size, :size] - 1 / max(size, 1)
        there = owners(text).any(-1).cpu().numpy()  # [batch, words]
        for row, document in enumerate(text.order.tolist()):
            first = int(batch.word_offsets[document])
            size = int(sizes[document])
            missing[first : first + size] = ~there[row, :size]

    forward(model, batch, take, taps=[tap], hidden=False, progress=progress)
    return maps, missing


def sizes_of(maps: Maps, sentences: Sequence["Sentence"]) -> Tensor:
    """How far each head's attention is from uniform in these sentences, which are those of train.

    Divided by it, heads that hardly tell words apart are learnt from as fast as sharp ones; what a
    weight can do stays the same.  # [heads]
    """
    number, total, square = 0, torch.zeros(()), torch.zeros(())
    for one in sentences:
        own = maps.of(one.document).double().flatten(0, 1)  # [pairs, heads]
        number += len(own)
        total, square = total + own.sum(0), square + own.square().sum(0)
    spread = (square / number - (total / number).square()).clamp(min=0).sqrt()
    return torch.where(spread > LEAST, spread, 1.0).float()


def _sites(model: Model, stack: StackName) -> list[Site]:
    return [site for site in model.sites if site.stack == stack and site.kind != "cross"]


# --- gold -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    """One text: whose head is asked for, and where it is."""

    document: int
    first: int  # row of its first word in the corpus
    asked: Truths  # [words], no root, no punctuation, and both it and its head were read
    heads: Numbers  # [words], NONE where there is none
    read: Truths  # [words], that the model read: the candidates
    types: tuple[str, ...]  # [words], as they are written
    relations: tuple[str, ...]  # [words]

    def __len__(self) -> int:
        return len(self.heads)


def sentence_of(doc: "Doc", document: int, first: int, missing: Truths) -> Sentence | None:
    """None where nothing is asked: no arc between two words that were read."""
    size = len(doc)
    heads = np.array([token.head.i for token in doc], dtype=np.int64)
    read = ~missing[first : first + size]
    has_head = heads != np.arange(size)
    asked = has_head & ~is_punctuation(doc) & read & read[heads] if size else has_head
    if not asked.any():
        return None
    return Sentence(
        document,
        first,
        asked,
        np.where(has_head, heads, NONE),
        read,
        tuple(token.text for token in doc),
        tuple(token.dep_ for token in doc),
    )


def behaviour(word: str, seed: int) -> str:
    """What a word type attaches to in the control: the same wherever it stands."""
    return Random(f"attachment control {seed} {word}").choice(BEHAVIOURS)


def control_heads(sentence: Sentence, seed: int) -> Numbers:
    """Each type to itself, to the first or to the last word that was read.  # [words]"""
    read = np.flatnonzero(sentence.read)
    ends = {"first": int(read[0]), "last": int(read[-1])}
    found = [ends.get(behaviour(word, seed), place) for place, word in enumerate(sentence.types)]
    return np.array(found, dtype=np.int64)


# --- probes ---------------------------------------------------------------------------------------


class Cases(NamedTuple):
    """Sentences side by side, with all that any probe looks at; it never changes."""

    places: tuple[int, ...]  # [sentences], where they were in the sequence
    attention: Tensor  # [sentences, words that look, words looked at, heads], half precision
    vectors: Tensor  # [sentences, words, width], a last 1 among them
    offsets: Tensor  # [words, words], from the dependent to the candidate, from 0 up
    asked: Tensor  # [sentences, words], bool
    closed: Tensor  # [2, sentences, words, words], bool: no candidates, of the task and controls
    heads: Tensor  # [1 + seeds, sentences, words], of the task and the control of each seed


def cases(
    sentences: Sequence[Sentence],
    maps: Maps,
    sizes: Tensor,
    vectors: Tensor,
    seeds: Sequence[int],
    device: torch.device,
) -> list[Cases]:
    """Batches of like length, attention by the size of each head.

    `sizes` is [heads], `vectors` [words of the corpus, width].
    """
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
    found, start = [], 0
    while start < len(order):
        size = SENTENCES
        heads = maps.flat.shape[1]
        while size > 1:
            longest = len(sentences[order[min(start + size, len(order)) - 1]])
            if size * longest**2 * heads <= NUMBERS:
                break
            size -= 1
        chosen = tuple(order[start : start + size])
        found.append(_laid(sentences, chosen, maps, sizes, vectors, seeds, device))
        start += size
    return found


def _laid(
    sentences: Sequence[Sentence],
    places: tuple[int, ...],
    maps: Maps,
    sizes: Tensor,
    vectors: Tensor,
    seeds: Sequence[int],
    device: torch.device,
) -> Cases:
    own = [sentences[place] for place in places]
    number, words = len(own), max(map(len, own))
    seen = torch.zeros(number, words, words, maps.flat.shape[1], dtype=torch.float16)
    known = torch.zeros(number, words, vectors.shape[1])
    asked = torch.zeros(number, words, dtype=torch.bool)
    candidates = torch.zeros(2, number, words, words, dtype=torch.bool)
    heads = torch.zeros(1 + len(seeds), number, words, dtype=torch.long)
    for row, sentence in enumerate(own):
        size = len(sentence)
        seen[row, :size, :size] = maps.of(sentence.document) / sizes
        known[row, :size] = vectors[sentence.first : sentence.first + size].float()
        asked[row, :size] = torch.from_numpy(sentence.asked)
        candidates[:, row, :, :size] = torch.from_numpy(sentence.read)
        heads[0, row, :size] = torch.from_numpy(np.maximum(sentence.heads, 0))
        for variant, seed in enumerate(seeds, start=1):
            heads[variant, row, :size] = torch.from_numpy(control_heads(sentence, seed))
    candidates[0] &= ~torch.eye(words, dtype=torch.bool)  # no word is its own head
    candidates |= ~asked[:, :, None]  # rows that do not count need some candidate, whichever
    place = torch.arange(words)
    offsets = (place[None, :] - place[:, None]).clamp(-FARTHEST, FARTHEST) + FARTHEST
    ones = torch.ones(number, words, 1)
    moved = [torch.cat([known, ones], -1), offsets, asked, ~candidates, heads]
    rest = [tensor.to(device) for tensor in moved]
    return Cases(places, seen.to(device), *rest)


Score = Callable[[Weights, Cases], Tensor]  # -> [probes, sentences, dependents, candidates]


def by_attention(probes: int, heads: slice, device: torch.device) -> tuple[list[Tensor], Score]:
    """A number for each head and direction: what a word gives to the other, and what it gets.

    Weights are [probes, 2, heads], all zero to begin with.
    """

    def score(weights: Weights, seen: Cases) -> Tensor:
        looks = seen.attention[..., heads].float()  # [sentences, words, words, heads]
        own = weights[0].permute(2, 1, 0).flatten(1)  # [heads, 2 * probes]
        found = (looks.flatten(0, 2) @ own).view(*looks.shape[:3], 2, len(weights[0]))
        return (found[..., 0, :] + found[..., 1, :].transpose(1, 2)).permute(3, 0, 1, 2)

    return [torch.zeros(probes, 2, heads.stop - heads.start, device=device)], score


def by_attention_and_words(
    probes: int, heads: slice, width: int, device: torch.device
) -> tuple[list[Tensor], Score]:
    """Each head's number is a linear function of both words, in both directions.

    One more head gives every word the same: its weights are what a word is worth by itself. Weights
    are [probes, word that looks or is looked at, direction, width, heads + 1].
    """

    def score(weights: Weights, seen: Cases) -> Tensor:
        looks = pad(seen.attention[..., heads].float(), (0, 1), value=1.0)
        number, words, _, several = looks.shape
        vectors = seen.vectors.flatten(0, 1)  # [sentences * words, width]

        def part(own: Tensor, pairs: Tensor) -> Tensor:
            """[probes, directions, width, heads] -> [sentences, words, words, 2, probes]"""
            by_word = vectors @ own.permute(2, 3, 1, 0).flatten(1)
            by_word = by_word.view(number * words, several, -1)  # [.., heads, 2 * probes]
            found = pairs.reshape(number * words, words, several) @ by_word
            return found.view(number, words, words, 2, len(own))

        looking, seen_by = (
            part(weights[0][:, 0], looks),
            part(weights[0][:, 1], looks.transpose(1, 2)),
        )
        both = looking + seen_by.transpose(1, 2)
        return (both[..., 0, :] + both[..., 1, :].transpose(1, 2)).permute(3, 0, 1, 2)

    several = heads.stop - heads.start + 1
    return [torch.zeros(probes, 2, 2, width, several, device=device)], score


def by_words_alone(probes: int, width: int, device: torch.device) -> tuple[list[Tensor], Score]:
    """Static vectors of both words, and how far they are apart, as Clark's own baseline has it."""

    def score(weights: Weights, seen: Cases) -> Tensor:
        pairs = torch.einsum("bjv,pvw,biw->pbji", seen.vectors, weights[0], seen.vectors)
        return pairs + weights[1][:, seen.offsets][:, None]

    square = torch.zeros(probes, width, width, device=device)
    return [square, torch.zeros(probes, 2 * FARTHEST + 1, device=device)], score


def learnt(
    weights: Weights,
    score: Score,
    variants: Tensor,
    train: Sequence[Cases],
    dev: Sequence[Cases],
    on_progress: OnProgress = lambda done, most: None,
    decays: Sequence[float] = DECAYS,
    steps: int = STEPS,
) -> Optimum:
    """The probes at their optimum; `variants` are rows of `Cases.heads`, one per probe."""

    def loss(own: Weights, which: Tensor, seen: Cases) -> tuple[Tensor, int]:
        variant = variants[which]
        log_p = _log_probabilities(own, score, variant, seen)
        right = log_p.gather(-1, seen.heads[variant][..., None])[..., 0]
        return -torch.where(seen.asked, right, 0).sum((1, 2)), int(seen.asked.sum())

    return optimal(weights, loss, train, dev, on_progress, steps, decays)


def _log_probabilities(weights: Weights, score: Score, variant: Tensor, seen: Cases) -> Tensor:
    """Of every candidate.  # [probes, sentences, dependents, candidates]"""
    closed = seen.closed[(variant > 0).long()]
    return score(weights, seen).masked_fill(closed, -torch.inf).log_softmax(-1)


@torch.no_grad()
def attached(
    weights: Weights, score: Score, variants: Tensor, every: Sequence[Cases]
) -> dict[int, Numbers]:
    """Where each probe attaches the words of each sentence, by its place.  # [probes, words]"""
    found: dict[int, Numbers] = {}
    for seen in every:
        chosen = _log_probabilities(weights, score, variants, seen).argmax(-1).cpu().numpy()
        found |= {place: chosen[:, row] for row, place in enumerate(seen.places)}
    return found


# --- what needs no training -----------------------------------------------------------------------


def best_offset(sentences: Sequence[Sentence], relation: str | None = None) -> int:
    """How far away heads most often are, of all words or of those of one relation."""
    return max(
        (int(number), -abs(offset), offset)
        for offset, number in _offsets(sentences, relation).items()
    )[2]


def offset_counts(
    sentences: Sequence[Sentence], offset: int, relation: str | None = None
) -> tuple[int, int]:
    """Words whose head is so far away, and all that are asked."""
    found = _offsets(sentences, relation)
    return found[offset], found.total()


def even_guess(sentences: Sequence[Sentence]) -> float:
    """What guessing evenly among all other words that were read would find, as a share."""
    right = sum(one.asked.sum() / (one.read.sum() - 1) for one in sentences)
    return float(right / max(sum(int(one.asked.sum()) for one in sentences), 1))


def _offsets(sentences: Sequence[Sentence], relation: str | None) -> Counter[int]:
    found = Counter({1: 0, -1: 0})
    for sentence in sentences:
        for place in np.flatnonzero(sentence.asked):
            if relation is None or sentence.relations[place] == relation:
                found[int(sentence.heads[place] - place)] += 1
    return found
