"""Gates that learn whether to stay open: hard concrete with a penalty, and subsets of a fixed size.

Hard concrete (Louizos et al. 2018; Voita et al. 2019): a gate is sampled again for every text, is
exactly 0 or 1 with some probability, and each pays for its probability of being open.
Differentiable subset pruning (Li et al. 2021): so many heads are drawn at once, more and more like
a choice, and nothing is paid. Either way heads that share weights share a gate. Costs what the
fine-tuning costs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.core.stats import (
    SIGNIFICANT,
    holm,
    prediction_p_value,
    ratio_intervals,
    sign_flip_p_values,
)
from workbench.engine.taps import Gate
from workbench.models.eval_tasks import Plan, Question, learn
from workbench.models.head_removal import Unit, units, without
from workbench.models.huggingface import HuggingFace
from workbench.pruning.evaluation import (
    METRICS,
    Asking,
    Texts,
    asking_of,
    baseline,
    better,
    caveats,
    not_better,
)
from workbench.pruning.experiments import HeadGates
from workbench.pruning.head_masks import Head, named, opened

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


# --- which heads stay open when each must pay for it: the experiment `head-gates` -----------------
#
# Gates learn with the weights, or alone, at every price and for every budget; then the heads
# whose gates closed are removed and the rest is measured on other texts, next to as many heads
# chosen at random. Costs a fine-tuning for each price and budget, and `RANDOM` passes over the
# texts.

RANDOM = 5  # choices of as many heads at random


def run(inputs: Inputs, settings: HeadGates, progress: Progress) -> Result:
    """Learn at every price and for every budget."""
    parts = settings.parts(inputs, settings.steps * settings.batch_size)
    name = inputs.corpus.name
    learning = asking_of(inputs.model, parts.train, settings.label, inputs.seed, name)
    measuring = asking_of(inputs.model, parts.test, learning.aim.label, inputs.seed, name)
    model = learning.model
    all_ = units(model)
    sizes = {budget: max(1, round(budget * len(all_))) for budget in settings.budgets}
    trials = [(price, 0.0) for price in settings.lambdas]
    trials += [(0.0, budget) for budget in settings.budgets]
    base = measuring.scored(model)
    whole = baseline(measuring, base, inputs.seed)
    gates, tried, losses = [], [], []
    for number, (price, budget) in enumerate(trials):
        what = f"budget {budget:g}" if budget else f"lambda {price:g}"

        def told(step: int, loss: float, number: int = number, what: str = what) -> None:
            total = len(trials) * settings.steps
            progress(number * settings.steps + step, total, f"{what}: loss {loss:.3f}")

        own, net, found = _learnt(
            learning, all_, settings, price, sizes.get(budget), inputs.seed, told
        )
        key = {"lambda": price, "budget": budget}
        losses += [{**key, "step": step, "loss": loss} for step, loss in enumerate(found)]
        kept = own.kept()
        gates += _rows(model, all_, own, kept, key)
        left, *random = (
            measuring.scored(without(net, _others(all_, some)))
            for some in (kept, *_random(len(all_), len(kept), inputs.seed))
        )
        heads = sum(len(all_[n].heads) for n in kept)
        tried.append(_Trial(key, heads, own.converged(settings.gate_learning_rate), left, random))
    survival = _survival(tried, base, whole, sum(len(unit.heads) for unit in all_), inputs.seed)
    tables = {
        "gates": pd.DataFrame(gates),
        "survival": survival,
        "learning": pd.DataFrame(losses),
        "baseline": whole,
    }
    notes = caveats(measuring, len(base.number), parts.notes)
    return Result(tables, caveats=(*notes, *not_better(whole), *_cut_off(survival)))


@dataclass(frozen=True)
class _Trial:
    """What is left at one price or budget."""

    key: dict[str, float]
    heads: int
    converged: bool
    left: Texts
    random: list[Texts]  # with as many units, chosen at random


def _others(all_: Sequence[Unit], kept: Sequence[int]) -> list[Head]:
    """The heads that are removed."""
    return [head for n, unit in enumerate(all_) if n not in set(kept) for head in unit.heads]


def _random(units: int, kept: int, seed: int) -> list[list[int]]:
    """Random choices of so many units; none where there is only one choice."""
    if kept in (0, units):
        return []
    return [
        np.random.default_rng([seed, 13, n]).choice(units, kept, replace=False).tolist()
        for n in range(RANDOM)
    ]


def _survival(
    tried: Sequence[_Trial], base: Texts, whole: pd.DataFrame, of: int, seed: int
) -> pd.DataFrame:
    """A row a trial and metric."""
    rows = []
    for metric in METRICS:
        sign = 1 if metric == "loss" else -1
        apart = np.stack([each.left.part(metric) - base.part(metric) for each in tried], 1)
        lower, upper = ratio_intervals(apart, base.number, seed)  # of [texts, trials]
        chance = sign_flip_p_values(apart, seed)
        random = [np.array([texts.value(metric) for texts in each.random]) for each in tried]
        values = [each.left.value(metric) for each in tried]
        pairs = zip(values, random, strict=True)
        luck = holm([prediction_p_value(sign * value, sign * r) for value, r in pairs])
        for place, each in enumerate(tried):
            delta = values[place] - base.value(metric)
            mean = float(random[place].mean()) if len(random[place]) else values[place]
            rows.append(
                {
                    **each.key,
                    "metric": metric,
                    "heads": each.heads,
                    "of": of,
                    "base": base.value(metric),
                    "value": values[place],
                    "delta": delta,
                    "lower": lower[place],
                    "upper": upper[place],
                    "p_value": chance[place],
                    "random": mean - base.value(metric),
                    "p_random": luck[place],
                    "better": bool(better(whole, metric) and luck[place] < SIGNIFICANT),
                    "converged": each.converged,
                }
            )
    return pd.DataFrame(rows)


def _cut_off(survival: pd.DataFrame) -> tuple[Caveat, ...]:
    """One caveat that names the prices and budgets at which gates were still changing."""
    own = survival[(survival["metric"] == "loss") & ~survival["converged"].astype(bool)]
    if own.empty:
        return ()
    names = ", ".join(
        f"budget {budget:g}" if budget else f"price {price:g}"
        for price, budget in zip(own["lambda"], own["budget"], strict=True)
    )
    return (
        Caveat(
            f"Gates were cut off by their number of steps: more learning may keep other heads "
            f"({names}). Raise --steps.",
            ("gates", "survival"),
        ),
    )


def _learnt(
    learning: Asking,
    all_: Sequence[Unit],
    settings: HeadGates,
    price: float,
    size: int | None,
    seed: int,
    told: Callable[[int, float], object],
) -> tuple[Gates, HuggingFace, list[float]]:
    """Gates at one price or for one budget, the model they learnt in, and the loss of each step."""
    net = without(learning.model, []) if settings.train_weights else learning.model
    gates = Gates(net, all_, seed, size)
    plan = Plan(settings.steps, settings.learning_rate, settings.batch_size, seed)

    def step(done: int, loss: float) -> None:
        gates.cool(done / plan.steps)
        told(done, loss)

    learnt = learn(
        net,
        learning.aim,
        learning.batch,
        range(len(learning.batch)),
        plan,
        told=step,
        taps=gates.drawn,
        weights=None if settings.train_weights else [],
        more=[{"params": [gates.scores], "lr": settings.gate_learning_rate}],
        penalty=(lambda: price * open_probability(gates.scores).sum()) if size is None else None,
    )
    return gates, net, learnt.losses


def _rows(
    model: HuggingFace,
    all_: Sequence[Unit],
    gates: Gates,
    kept: Sequence[int],
    key: dict[str, float],
) -> list[dict[str, object]]:
    sites = {site.index: site for site in model.sites}
    open_ = gates.probabilities().tolist()
    rows = {
        (site, head): {
            **key,
            **named(sites[site], head),
            "p_open": open_[number],
            "kept": number in kept,
        }
        for number, unit in enumerate(all_)
        for site, head in unit.heads
    }
    return [rows[head] for head in sorted(rows)]
