"""Gates that learn whether to stay open: hard concrete with a penalty, and subsets of a fixed size.

Hard concrete (Louizos et al. 2018; Voita et al. 2019): a gate is sampled again for every text, is
exactly 0 or 1 with some probability, and each pays for its probability of being open.
Differentiable subset pruning (Li et al. 2021): so many heads are drawn at once, more and more like
a choice, and nothing is paid. Either way heads that share weights share a gate. Costs what the
fine-tuning costs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from workbench.engine.taps import Gate
from workbench.models.aims import Question
from workbench.models.huggingface import HuggingFace
from workbench.models.removal import Unit
from workbench.pruning.gating import opened

TEMPERATURE = 0.33
LOW, HIGH = -0.1, 1.1  # what the concrete is stretched to before it is cut
START = 2.0  # log a, of gates that are all but open
CLOSED = TEMPERATURE * math.log(-LOW / HIGH)  # log a, of gates that are open half of the time
WARM, COLD = 4.0, 0.1  # temperatures that a subset is drawn at, first and last


def open_probability(log_a: Tensor) -> Tensor:
    """That a gate is not exactly 0."""
    return torch.sigmoid(log_a - TEMPERATURE * math.log(-LOW / HIGH))


def hard_concrete(log_a: Tensor, uniform: Tensor) -> Tensor:
    """Gates from numbers between 0 and 1.  # [units], [rows, units] -> [rows, units]"""
    noise = uniform.log() - (1 - uniform).log()
    smooth = torch.sigmoid((noise + log_a) / TEMPERATURE)
    return (smooth * (HIGH - LOW) + LOW).clamp(0, 1)


def relaxed_subset(scores: Tensor, size: int, temperature: float) -> Tensor:
    """So many of them softly, the sum of as many softmaxes, each less what is taken already.

    [units] -> [units], between 0 and 1, of sum `size`
    """
    taken = torch.zeros_like(scores)
    left = scores
    for _ in range(size):
        share = (left / temperature).softmax(-1)
        taken = taken + share
        left = left + torch.log1p(-share.clamp(max=1 - 1e-6))
    return taken.clamp(max=1)


@dataclass(eq=False)
class Gates:
    """Gates of units, spread over the heads of a model."""

    model: HuggingFace
    all_: Sequence[Unit]
    seed: int
    size: int | None = None  # of a subset; None: hard concrete
    scores: Tensor = field(init=False)  # log a, or what a subset is drawn by
    temperature: float = WARM
    history: list[Tensor] = field(default_factory=list)  # scores before each step of learning
    _random: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        first = START if self.size is None else 0.0
        self.scores = torch.full((len(self.all_),), first, device=self.model.device)
        self.scores.requires_grad_(True)
        self._random = torch.Generator().manual_seed(self.seed)
        sites = [(n, site, head) for n, unit in enumerate(self.all_) for site, head in unit.heads]
        place = torch.full(opened(self.model).shape, -1, dtype=torch.long)
        for number, site, head in sites:
            place[site, head] = number
        self._place = place.to(self.model.device)

    def drawn(self, question: Question) -> list[Gate]:
        """Gates for a step of learning."""
        self.history.append(self.scores.detach().clone())
        if self.size is None:
            uniform = torch.rand(len(question), len(self.all_), generator=self._random)
            open_ = hard_concrete(self.scores, uniform.clamp(1e-6, 1 - 1e-6).to(self.scores.device))
        else:
            uniform = torch.rand(len(self.all_), generator=self._random).clamp(1e-6, 1 - 1e-6)
            gumbel = -(-uniform.log()).log().to(self.scores.device)
            soft = relaxed_subset(self.scores + gumbel, self.size, self.temperature)
            hard = torch.zeros_like(soft).scatter(0, soft.topk(self.size).indices, 1.0)
            open_ = (hard + soft - soft.detach())[None]
        return [Gate(self._spread(open_))]

    def _spread(self, open_: Tensor) -> Tensor:
        """Gates of heads; what is no head stays open.  # [rows, units] -> [rows, sites, heads]"""
        whole = torch.cat([open_, open_.new_ones(len(open_), 1)], 1)
        return whole[:, self._place]

    def cool(self, done: float) -> None:
        """Nearer to a choice, the further learning has come."""
        self.temperature = WARM * (COLD / WARM) ** done

    def probabilities(self) -> Tensor:
        """That a unit is open; of a subset, how softly it is in it without noise.  # [units]"""
        with torch.no_grad():
            if self.size is None:
                return open_probability(self.scores)
            return relaxed_subset(self.scores, self.size, COLD)

    def kept(self) -> list[int]:
        """The units that stay."""
        return self._kept(self.scores.detach())

    def _kept(self, scores: Tensor) -> list[int]:
        if self.size is None:
            return torch.nonzero(open_probability(scores) > 0.5).flatten().tolist()
        return sorted(scores.topk(self.size).indices.tolist())

    def converged(self, rate: float) -> bool:
        """Whether other units would not be kept if learning went on.

        Scores are extrapolated at the pace of the last half of learning, for as much learning rate
        as all of it had; and there must have been rate enough to close a gate and open it again.
        `rate` is the highest, warmed up and then falling to zero in a straight line.
        """
        half = len(self.history) // 2
        if half < 1 or rate * len(self.history) / 2 < 2 * (START - CLOSED):
            return False
        last = self.scores.detach()
        on = last + (last - self.history[half]) * 4  # a quarter of the rate is in the last half
        return self._kept(on) == self._kept(last)
