"""What replaces a head's output, where that is not zero: its mean, or its output on another text.

A mean is over all pieces of a corpus. A text's other text is drawn from the seed and its index
alone, and each piece takes what the head handed on at the piece as far along in that. In a decoder
next to an encoder, pieces are those that it has to write, however a batch is padded. Costs a pass
over the corpus for means; for other texts one over some thousands of pieces, kept in memory.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from workbench.engine.halving import Limit, in_halves
from workbench.engine.moving import sent
from workbench.engine.pieces import Pieces
from workbench.engine.taps import Site, StackName
from workbench.errors import WorkbenchError
from workbench.models.aims import Aim, Question
from workbench.models.huggingface import HuggingFace

POOL = 4_096  # pieces of other texts that are kept


def pieces_at(site: Site, question: Question) -> Pieces:
    """The pieces whose queries a site has; each predicts one, where a decoder must write them."""
    writes = site.stack == "decoder" and question.target is not None
    return question.target if writes and question.target is not None else question.text


@dataclass(frozen=True)
class Means:
    """Each head's mean output."""

    of: dict[Site, Tensor]  # [heads, width of a head]

    def index(self, site: Site, question: Question) -> Tensor | None:
        """The same for every piece."""
        return None

    def at(self, site: Site, index: Tensor | None) -> Tensor:
        """[1, 1, heads, width of a head]"""
        return self.of[site][None, None]


@dataclass(frozen=True)
class Others:
    """What heads handed on over a pool of other texts."""

    of: dict[Site, Tensor]  # [pieces of the pool, heads, width of a head]
    texts: dict[Site, list[tuple[int, int, int]]]  # place in the corpus, first and last piece + 1
    seed: int

    def index(self, site: Site, question: Question) -> Tensor | None:
        """Which piece of the pool each piece takes after; the same at all sites of a stack.

        # [batch, queries]
        """
        pool, text = self.texts[site], pieces_at(site, question)
        lengths = text.mask.sum(1).tolist()
        index = torch.zeros(text.mask.shape, dtype=torch.long)
        for row, (order, long) in enumerate(zip(text.order.tolist(), lengths, strict=True)):
            free = [each for each in pool if each[0] != order] or pool
            draw = np.random.default_rng([self.seed, order, 5])
            _, first, last = free[int(draw.integers(len(free)))]
            along = torch.arange(text.mask.shape[1]) * (last - first) // max(long, 1)
            index[row] = first + along.clamp(max=last - first - 1)
        return sent(index, self.of[site].device)

    def at(self, site: Site, index: Tensor | None) -> Tensor:
        """[batch, queries, heads, width of a head]"""
        assert index is not None, "see `index`"
        return self.of[site][index.to(self.of[site].device)]


Instead = Means | Others


@dataclass(eq=False)
class Replaced:
    """A tap that lets heads whose gate is closed hand on something else."""

    gates: Tensor  # [rows, sites, heads]
    instead: Instead
    question: Question  # whose rows these are
    _replaces: list[bool] = field(init=False)  # [sites]
    _index: dict[StackName, Tensor | None] = field(default_factory=dict)

    needs_probabilities = False

    def __post_init__(self) -> None:
        self._replaces = (self.gates != 1).any(0).any(1).tolist()  # asked of the device once

    def wants(self, site: Site) -> bool:
        return True

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        """[rows, queries, heads, width of a head]"""
        if not self._replaces[site.index]:
            return output
        if site.stack not in self._index:
            self._index[site.stack] = self.instead.index(site, self.question)
        stays = self.gates[:, site.index, : site.heads][:, None, :, None].to(output)
        other = self.instead.at(site, self._index[site.stack]).to(output)
        return output * stays + other * (1 - stays)

    def close(self, whole: bool) -> None:
        pass


@dataclass(eq=False)
class _Mean:
    """Adds up what heads hand on, over real pieces."""

    question: Question | None = None
    sums: dict[Site, Tensor] = field(default_factory=dict)
    pieces: dict[Site, Tensor] = field(default_factory=dict)
    _pending: dict[Site, tuple[Tensor, Tensor]] = field(default_factory=dict)

    needs_probabilities = False

    def wants(self, site: Site) -> bool:
        return True

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        assert self.question is not None, "a mean is over what is asked"
        mask = pieces_at(site, self.question).mask.to(output.device)  # [batch, pieces]
        real = torch.where(mask[..., None, None], output, 0).flatten(0, 1)
        self._pending[site] = real.sum(0, dtype=torch.float64), mask.sum()
        return output

    def close(self, whole: bool) -> None:
        for site, (real, number) in self._pending.items() if whole else ():
            self.sums[site] = self.sums[site] + real if site in self.sums else real
            self.pieces[site] = self.pieces[site] + number if site in self.pieces else number
        self._pending.clear()


@dataclass(eq=False)
class _Keep:
    """Keeps what heads hand on, text by text, while there is room."""

    question: Question | None = None
    kept: dict[Site, list[Tensor]] = field(default_factory=dict)
    texts: dict[Site, list[tuple[int, int, int]]] = field(default_factory=dict)
    _pending: dict[Site, Tensor] = field(default_factory=dict)

    needs_probabilities = False

    def wants(self, site: Site) -> bool:
        return True

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        self._pending[site] = output
        return output

    def close(self, whole: bool) -> None:
        assert self.question is not None, "outputs are kept of what is asked"
        for site, output in self._pending.items() if whole else ():
            text = pieces_at(site, self.question)
            own = self.texts.setdefault(site, [])
            lengths = text.mask.sum(1).tolist()
            for row, (order, long) in enumerate(zip(text.order.tolist(), lengths, strict=True)):
                start = own[-1][2] if own else 0
                if long and (not own or start + long <= POOL):
                    self.kept.setdefault(site, []).append(output[row, :long].clone())
                    own.append((order, start, start + long))
        self._pending.clear()


@torch.no_grad()
def _shown(tap: "_Mean | _Keep", model: HuggingFace, aim: Aim, question: Question) -> None:
    tap.question = question
    aim.answer(model, question, [tap])


def means(model: HuggingFace, aim: Aim, questions: Iterable[Question]) -> Means:
    """Of every head over all that is asked."""
    tap, room = _Mean(), Limit()
    for question in questions:
        deque(in_halves(partial(_shown, tap, model, aim), question, room), 0)
    return Means({site: sum_ / tap.pieces[site].clamp(min=1) for site, sum_ in tap.sums.items()})


def others(model: HuggingFace, aim: Aim, questions: Iterable[Question], seed: int) -> Others:
    """A pool of texts, the first that there is room for."""
    tap, room = _Keep(), Limit()
    for question in questions:
        deque(in_halves(partial(_shown, tap, model, aim), question, room), 0)
        if all(texts and texts[-1][2] > POOL - 64 for texts in tap.texts.values()):
            break
    if not tap.kept:
        raise WorkbenchError(
            "no text has a piece that could stand in for another's.",
            where=model.name,
            remedy="Use a corpus with words in it, or mode=zero.",
        )
    kept = {site: torch.cat(parts) for site, parts in tap.kept.items()}
    return Others(kept, tap.texts, seed)
