"""In which order heads go: by importance, by exact ablation, by magnitude, at random.

What is scored is a `Unit`, heads that can only go together. An order is found once, or after every
step anew with what is gone already left out: of two heads that do the same, either can go, and only
then is it seen that the other cannot. Costs a scoring, or one a step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from workbench.models.removal import Unit, magnitudes
from workbench.pruning.ablation import ablated
from workbench.pruning.asking import Asking
from workbench.pruning.gating import Head
from workbench.pruning.gradients import gate_gradients
from workbench.pruning.texts import Floats

By = Literal["importance", "ablation", "magnitude", "random"]
BY: tuple[By, ...] = ("importance", "ablation", "magnitude", "random")
ONCE: tuple[By, ...] = ("magnitude", "random")  # nothing changes by what is gone


@dataclass(frozen=True)
class Method:
    """How heads are chosen."""

    by: By
    rescored: bool
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.by}, rescored" if self.rescored else self.by


def methods(by: Sequence[By], seeds: int) -> list[Method]:
    """Each of these, scored once, and again after every step where that makes a difference."""
    found = []
    for each in by:
        if each == "random":
            found += [Method(each, False, seed) for seed in range(seeds)]
        else:
            found.append(Method(each, False))
            found += [Method(each, True)] if each not in ONCE else []
    return found


def order_of(
    asked: Asking,
    all_: Sequence[Unit],
    method: Method,
    steps: Sequence[int],
    normalised: bool,
    told: Callable[[str], object] = lambda text: None,
) -> list[int]:
    """Units in the order in which they go; `steps` are how many are gone after each."""
    left = list(range(len(all_)))
    if not method.rescored:
        scores = _scores(asked, all_, left, [], method, normalised)
        return [left[place] for place in np.argsort(scores, kind="stable").tolist()]
    gone: list[int] = []
    for step, wanted in enumerate(steps):
        if wanted <= len(gone):
            continue
        told(f"{method.name}: step {step} of {len(steps) - 1}")
        heads = [head for unit in gone for head in all_[unit].heads]
        scores = _scores(asked, all_, left, heads, method, normalised)
        chosen = np.argsort(scores, kind="stable")[: wanted - len(gone)].tolist()
        going = [left[place] for place in chosen]
        gone += going
        left = [unit for unit in left if unit not in going]
    return gone


def _scores(
    asked: Asking,
    all_: Sequence[Unit],
    left: Sequence[int],
    gone: Sequence[Head],
    method: Method,
    normalised: bool,
) -> Floats:
    """What is lost with each of the units that are left; the lowest go first."""
    sets = [all_[unit].heads for unit in left]
    if method.by == "random":
        return np.random.default_rng([method.seed, 11]).permutation(len(left)).astype(np.float64)
    if method.by == "magnitude":
        sizes = magnitudes(asked.model)
        return np.array([np.sqrt(sum(sizes[head] ** 2 for head in heads)) for heads in sets])
    if method.by == "ablation":
        found = ablated(asked.model, asked.aim, asked.questions, sets, gone=gone)
        exact: Floats = found.values("loss")
        return exact
    gradients = gate_gradients(asked.model, asked.aim, asked.questions, gone=gone)
    scores = gradients.together(sets)
    return _by_layer(scores, [heads[0][0] for heads in sets]) if normalised else scores


def _by_layer(scores: Floats, sites: Sequence[int]) -> Floats:
    """Divided by the L2 norm of each layer's, as the paper has it for BERT."""
    of = np.array(sites)
    length = np.array([np.sqrt(np.square(scores[of == site]).sum()) for site in of])
    return np.where(length > 0, scores / np.maximum(length, 1e-30), 0.0)
