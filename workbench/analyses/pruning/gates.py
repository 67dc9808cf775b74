"""Trained head gates: hard concrete gates with a penalty, and subsets of a fixed size.

Hard concrete (Louizos et al. 2018; Voita et al. 2019): a gate is sampled again for every text and
is exactly 0 or 1 with some probability; the loss adds a cost for its probability of being open.
Differentiable subset pruning (Li et al. 2021): a fixed number of heads is drawn at once, at a
falling temperature, and there is no cost. Heads that share weights share a gate. Costs: the
fine-tuning.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from workbench.analyses.pruning.evaluation import (
    Evaluation,
    TextScores,
    baseline,
    better,
    build_head_evaluation,
    caveats,
    not_better_caveat,
)
from workbench.analyses.pruning.experiments import HeadGates
from workbench.analyses.pruning.head_masks import Head, named, opened
from workbench.core.stats import (
    SIGNIFICANT,
    holm,
    prediction_p_value,
    ratio_intervals,
    sign_flip_p_values,
)
from workbench.engine.taps import Gate
from workbench.engine.task import objective_table
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.head_removal import Unit, units, without
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.eval_tasks import Plan, Question, learn

TEMPERATURE = 0.33
LOW, HIGH = -0.1, 1.1  # the interval to which the concrete distribution is stretched
START = 2.0  # log a of gates that are almost open
CLOSED = TEMPERATURE * math.log(-LOW / HIGH)  # log a of gates that are open half of the time
WARM, COLD = 4.0, 0.1  # temperature of subsets, first and last


def open_probability(log_a: Tensor) -> Tensor:
    """The probability that a gate is not exactly 0."""
    return torch.sigmoid(log_a - TEMPERATURE * math.log(-LOW / HIGH))


def hard_concrete(log_a: Tensor, uniform: Tensor) -> Tensor:
    """Gates from uniform random numbers.  # [units], [rows, units] -> [rows, units]"""
    noise = uniform.log() - (1 - uniform).log()
    smooth = torch.sigmoid((noise + log_a) / TEMPERATURE)
    return (smooth * (HIGH - LOW) + LOW).clamp(0, 1)


def relaxed_subset(scores: Tensor, size: int, temperature: float) -> Tensor:
    """Soft membership in a subset: a sum of `size` softmaxes, each without what is already taken.

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
    """Gates of units, applied to the heads of a model."""

    model: HuggingFace
    all_: Sequence[Unit]
    seed: int
    size: int | None = None  # of the subset; None: hard concrete
    scores: Tensor = field(init=False)  # log a, or the scores of a subset
    temperature: float = WARM
    history: list[Tensor] = field(default_factory=list)  # scores before each training step
    _random: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        first = START if self.size is None else 0.0
        self.scores = torch.full((len(self.all_),), first, device=self.model.device)
        self.scores.requires_grad_(True)
        self._random = torch.Generator().manual_seed(self.seed)
        sites = [(n, site, head) for n, unit in enumerate(self.all_) for site, head in unit.heads]
        unit_of = torch.full(opened(self.model).shape, -1, dtype=torch.long)  # [sites, heads]
        for number, site, head in sites:
            unit_of[site, head] = number
        self._unit_of = unit_of.to(self.model.device)

    def drawn(self, question: Question) -> list[Gate]:
        """Gates for one training step."""
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
        """Gates of heads; padding stays open.  # [rows, units] -> [rows, sites, heads]"""
        with_open = torch.cat([open_, open_.new_ones(len(open_), 1)], 1)
        return with_open[:, self._unit_of]

    def cool(self, done: float) -> None:
        """Lower the temperature; `done` is the share of training steps done."""
        self.temperature = WARM * (COLD / WARM) ** done

    def probabilities(self) -> Tensor:
        """Probability that a unit is open; for a subset, soft membership.  # [units]"""
        with torch.no_grad():
            if self.size is None:
                return open_probability(self.scores)
            return relaxed_subset(self.scores, self.size, COLD)

    def kept(self) -> list[int]:
        """The units that are kept."""
        return self._kept(self.scores.detach())

    def _kept(self, scores: Tensor) -> list[int]:
        if self.size is None:
            return torch.nonzero(open_probability(scores) > 0.5).flatten().tolist()
        return sorted(scores.topk(self.size).indices.tolist())

    def converged(self, learning_rate: float) -> bool:
        """Whether training twice as long would keep the same units.

        Scores are extrapolated at the pace of the last half of training, for the sum of all its
        learning rates. That sum must also suffice to close a gate and open it again.
        `learning_rate` is the maximum of the schedule: warmup, then linear decay to zero.
        """
        half = len(self.history) // 2
        if half < 1 or learning_rate * len(self.history) / 2 < 2 * (START - CLOSED):
            return False
        last = self.scores.detach()
        # the last half has a quarter of the sum of learning rates
        extrapolated = last + (last - self.history[half]) * 4
        return self._kept(extrapolated) == self._kept(last)


# --- the experiment `head-gates` ------------------------------------------------------------------
#
# Gates are trained with the weights, or alone, for every cost and budget. Then heads whose gates
# closed are removed, and the smaller model is scored on other texts, next to models that keep the
# same number of random heads. Costs: a fine-tuning for each cost and budget, and `RANDOM` passes
# over the texts.

RANDOM = 5  # random choices of the same number of heads


def run(inputs: Inputs, settings: HeadGates, progress: Progress) -> Result:
    """Compute the tables of `head-gates`."""
    parts = settings.parts(inputs, settings.steps * settings.batch_size)
    name = inputs.corpus.name
    learning = build_head_evaluation(inputs.model, parts.train, settings.label, inputs.seed, name)
    held_out = build_head_evaluation(
        inputs.model, parts.test, learning.aim.task.label, inputs.seed, name
    )
    model = learning.model
    all_ = units(model)
    sizes = {budget: max(1, round(budget * len(all_))) for budget in settings.budgets}
    trials = [(price, 0.0) for price in settings.lambdas]
    trials += [(0.0, budget) for budget in settings.budgets]
    base = held_out.scored(model)
    whole = baseline(held_out, base, inputs.seed)
    gates, results, losses = [], [], []
    for index, (price, budget) in enumerate(trials):
        name = f"budget {budget:g}" if budget else f"lambda {price:g}"

        def on_progress(step: int, loss: float, index: int = index, name: str = name) -> None:
            total = len(trials) * settings.steps
            progress(
                index * settings.steps + step, total, f"training gates: {name}, loss {loss:.3f}"
            )

        trained, net, step_losses = _train_gates(
            learning, all_, settings, price, sizes.get(budget), inputs.seed, on_progress
        )
        key = {"lambda": price, "budget": budget}
        losses += [{**key, "step": step, "loss": loss} for step, loss in enumerate(step_losses)]
        kept = trained.kept()
        gates += _rows(model, all_, trained, kept, key)
        pruned, *random = (
            held_out.scored(without(net, _others(all_, units_kept)))
            for units_kept in (kept, *_random(len(all_), len(kept), inputs.seed))
        )
        heads = sum(len(all_[n].heads) for n in kept)
        converged = trained.converged(settings.gate_learning_rate)
        results.append(_Trial(key, heads, converged, pruned, random))
    survival = _survival(results, base, whole, sum(len(unit.heads) for unit in all_), inputs.seed)
    tables = {
        "gates": pd.DataFrame(gates),
        "survival": survival,
        "learning": pd.DataFrame(losses),
        "baseline": whole,
        "objective": objective_table(held_out.aim.task),
    }
    notes = caveats(held_out, len(base.number), parts.notes)
    return Result(tables, caveats=(*notes, *not_better_caveat(whole), *_cut_off(survival)))


@dataclass(frozen=True)
class _Trial:
    """The smaller model at one cost or budget, and random ones of the same size."""

    key: dict[str, float]
    heads: int
    converged: bool
    pruned: TextScores
    random: list[TextScores]  # with the same number of random units


def _others(all_: Sequence[Unit], kept: Sequence[int]) -> list[Head]:
    """The heads that are removed."""
    return [head for n, unit in enumerate(all_) if n not in set(kept) for head in unit.heads]


def _random(units: int, kept: int, seed: int) -> list[list[int]]:
    """Random choices of the same number of units; empty if there is only one choice."""
    if kept in (0, units):
        return []
    return [
        np.random.default_rng([seed, 13, n]).choice(units, kept, replace=False).tolist()
        for n in range(RANDOM)
    ]


def _survival(
    trials: Sequence[_Trial], base: TextScores, whole: pd.DataFrame, of: int, seed: int
) -> pd.DataFrame:
    """One row per trial and metric."""
    rows = []
    for metric in base.metrics:
        sign = 1 if metric == "loss" else -1
        differences = np.stack(
            [each.pruned.part(metric) - base.part(metric) for each in trials], 1
        )  # [texts, trials]
        lower, upper = ratio_intervals(differences, base.number, seed)
        p_values = sign_flip_p_values(differences, seed)
        random = [np.array([texts.value(metric) for texts in each.random]) for each in trials]
        values = [each.pruned.value(metric) for each in trials]
        pairs = zip(values, random, strict=True)
        p_random = holm([prediction_p_value(sign * value, sign * r) for value, r in pairs])
        for index, each in enumerate(trials):
            delta = values[index] - base.value(metric)
            mean = float(random[index].mean()) if len(random[index]) else values[index]
            rows.append(
                {
                    **each.key,
                    "metric": metric,
                    "heads": each.heads,
                    "of": of,
                    "base": base.value(metric),
                    "value": values[index],
                    "delta": delta,
                    "lower": lower[index],
                    "upper": upper[index],
                    "p_value": p_values[index],
                    "random": mean - base.value(metric),
                    "p_random": p_random[index],
                    "better": bool(better(whole, metric) and p_random[index] < SIGNIFICANT),
                    "converged": each.converged,
                }
            )
    return pd.DataFrame(rows)


def _cut_off(survival: pd.DataFrame) -> tuple[Caveat, ...]:
    """A caveat that names the costs and budgets at which gates were still changing."""
    unfinished = survival[(survival["metric"] == "loss") & ~survival["converged"].astype(bool)]
    if unfinished.empty:
        return ()
    names = ", ".join(
        f"budget {budget:g}" if budget else f"cost {price:g}"
        for price, budget in zip(unfinished["lambda"], unfinished["budget"], strict=True)
    )
    return (
        Caveat(
            "Training of the gates ended before it converged; more steps may keep other heads "
            f"({names}). Raise --steps.",
            ("gates", "survival"),
        ),
    )


def _train_gates(
    learning: Evaluation,
    all_: Sequence[Unit],
    settings: HeadGates,
    price: float,
    size: int | None,
    seed: int,
    on_progress: Callable[[int, float], object],
) -> tuple[Gates, HuggingFace, list[float]]:
    """Gates trained at one cost or budget, the model they are in, and the loss of each step."""
    net = without(learning.model, []) if settings.train_weights else learning.model
    gates = Gates(net, all_, seed, size)
    plan = Plan(settings.steps, settings.learning_rate, settings.batch_size, seed)

    def step(done: int, loss: float) -> None:
        gates.cool(done / plan.steps)
        on_progress(done, loss)

    learnt = learn(
        net,
        learning.aim,
        learning.batch,
        range(len(learning.batch)),
        plan,
        on_progress=step,
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
    """One row per head."""
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
