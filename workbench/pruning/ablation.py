"""What exactly is lost when a head goes: the loss of every text without it.

Blocks below the head are not run again (`prefix`), and several heads stand in one batch, row after
row. A head's output is replaced by zero, by its mean over the corpus, or by its output on another
text (`replaced`). Costs about half a forward pass a head, less where batches have room for several.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch

from workbench.engine.halving import Limit, Places, in_halves
from workbench.engine.taps import Gate, Tap
from workbench.models.aims import Aim, Question
from workbench.models.huggingface import HuggingFace
from workbench.models.prefix import places_of, recorded
from workbench.models.scoring import limit_of
from workbench.pruning.gating import Head, each_closed
from workbench.pruning.replaced import Instead, Replaced
from workbench.pruning.texts import Floats, Texts, Told, numbers_of

Mode = Literal["zero", "mean", "resample"]
MODES: tuple[Mode, ...] = ("zero", "mean", "resample")


@dataclass(frozen=True)
class Ablated:
    """The texts with all heads, and without each set of heads."""

    base: Texts
    without: Floats  # [sets, 2, texts], nats and right

    def part(self, metric: str) -> Floats:
        """[texts, sets]"""
        return self.without[:, 0 if metric == "loss" else 1].T

    def values(self, metric: str) -> Floats:
        """[sets]"""
        found: Floats = self.part(metric).sum(0) / max(self.base.number.sum(), 1e-12)
        return found

    def differences(self, metric: str) -> Floats:
        """What is added without each set.  # [texts, sets]"""
        return self.part(metric) - self.base.part(metric)[:, None]


def ablated(
    model: HuggingFace,
    aim: Aim,
    questions: Iterable[Question],
    sets: Sequence[Sequence[Head]],
    instead: Instead | None = None,
    told: Told | None = None,
    gone: Sequence[Head] = (),
    pieces: int | None = None,
) -> Ablated:
    """Ask every question with all heads but `gone`, and again without each set of heads.

    `instead` is what heads give way to, nothing by itself; `pieces` the most in a batch.
    """
    most = limit_of(model) if pieces is None else pieces
    by_site, places = _by_lowest_site(sets), places_of(model)
    base, without, done = [np.zeros((3, 0))], [np.zeros((len(sets), 2, 0))], 0

    @torch.no_grad()
    def ask(question: Question) -> tuple[Floats, Floats]:
        with recorded(places) as prefix:
            whole = numbers_of(
                aim.answer(model, question, _taps(model, [gone], question, instead))
            )  # [3, texts]
        found = np.zeros((len(sets), 2, len(question)))

        def close(site: int, part: Places) -> Floats:
            closed = [[*gone, *sets[number]] for number in part.places]
            beside = _stands_beside(model, closed, gone)
            rows = torch.arange(len(question)).repeat(len(beside))
            again = question if len(beside) == 1 else question.take(rows)
            with prefix.from_site(site, rows):
                answer = aim.answer(model, again, _taps(model, beside, again, instead))
            numbers = numbers_of(answer)[:2].reshape(2, len(beside), len(question))
            if len(beside) == len(part):
                return numbers
            # of the whole model once more: only differences count
            return whole[:2, None] + numbers[:, : len(part)] - numbers[:, -1:]

        extra = int(model.device.type != "cpu")  # see `_stands_beside`
        at_once = max(1, most // max(question.pieces, 1) - extra)
        so_far = 0
        for site, members in by_site.items():
            for some in _in_parts(members, at_once):
                whole_part = Places(some, question.pieces)  # each set takes the texts once more
                run = partial(close, site)
                for part, numbers in in_halves(run, whole_part, passes, within=True):
                    found[list(part.places)] = numbers.swapaxes(0, 1)
                    so_far += len(part) * len(question)
                    if told is not None:
                        told(done + so_far)
        return whole, found

    room, passes = Limit(), Limit()
    for question in questions:
        for part, (whole, found) in in_halves(ask, question, room):
            done += len(part) * len(sets)
            base.append(whole)
            without.append(found)
    return Ablated(Texts(*np.concatenate(base, 1)), np.concatenate(without, 2))


def _stands_beside(
    model: HuggingFace, closed: Sequence[Sequence[Head]], gone: Sequence[Head]
) -> list[Sequence[Head]]:
    """The sets that are asked about in one pass; on a GPU with the whole model among them.

    A GPU's products depend on how many rows there are, so that what is compared must be computed
    together; alone, a set stands in rows as many as the whole model did.
    """
    alone = len(closed) == 1 or model.device.type == "cpu"
    return [*closed] if alone else [*closed, gone]


def _taps(
    model: HuggingFace, sets: Sequence[Sequence[Head]], question: Question, instead: Instead | None
) -> list[Tap]:
    gates = each_closed(model, sets, len(question) // len(sets))
    return [Gate(gates)] if instead is None else [Replaced(gates, instead, question)]


def _by_lowest_site(sets: Sequence[Sequence[Head]]) -> dict[int, list[int]]:
    """Sets whose lowest head is at the same site, by that site."""
    found: dict[int, list[int]] = {}
    for number, heads in enumerate(sets):
        found.setdefault(min((site for site, _ in heads), default=0), []).append(number)
    return found


def _in_parts(members: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(members), size):
        yield list(members[start : start + size])
