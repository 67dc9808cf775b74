"""Which heads stay open when each must pay for it: the experiment `head-gates`.

Gates learn with the weights, or alone, at every price and for every budget; then the heads whose
gates closed are taken out and the rest is measured. Costs a fine-tuning for each price and budget.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import pandas as pd
from pydantic import Field, model_validator

from workbench.experiment import HEADS, Experiment, Inputs, Progress, Result, Table
from workbench.models.huggingface import HuggingFace
from workbench.models.learning import Plan, learn
from workbench.models.removal import Unit, units, without
from workbench.pruning.asking import PREDICTS, Aimed, Asking, asking_of, caveats
from workbench.pruning.gates import Gates, open_probability
from workbench.pruning.gating import HEAD, named
from workbench.pruning.parts import parts_of
from workbench.pruning.texts import METRICS, asked

Price = Annotated[float, Field(ge=0, le=1000)]
Budget = Annotated[float, Field(gt=0, le=1)]


class HeadGates(Aimed):
    """What an open gate costs, and what learns beside the gates."""

    lambdas: tuple[Price, ...] = Field(
        (0.01, 0.03, 0.1, 0.3),
        description="Prices of an open head, in nats a piece (of a classifier, a text).",
    )
    budgets: tuple[Budget, ...] = Field(
        (0.5, 0.25), description="Shares of heads to keep exactly, by subset pruning."
    )
    tuned: bool = Field(False, description="Weights learn beside the gates.")
    steps: int = Field(150, ge=1, le=100_000, description="Steps of learning, each.")
    texts: int = Field(32, ge=1, le=4096, description="Texts in a step.")
    rate: float = Field(1e-4, gt=0, le=1, description="The rate of weights.")
    gate_rate: float = Field(0.1, gt=0, le=10, description="The rate of gates.")

    @model_validator(mode="after")
    def _something(self) -> "HeadGates":
        if not self.lambdas and not self.budgets:
            raise ValueError("Name a price in lambdas, or a budget in budgets")
        return self


TABLES = {
    "gates": Table(
        "p_open: how likely a head's gate is open, of a subset how surely it is in it; kept: it "
        "stays. lambda is the price of an open head, 0 where a budget was kept to.",
        ("lambda", "budget", *HEAD),
    ),
    "survival": Table(
        "What is left at each price and budget: heads, and how the smaller model does on texts "
        "that gates did not learn from.",
        ("lambda", "budget", "metric"),
    ),
    "learning": Table("The loss of each step.", ("lambda", "budget", "step")),
}


def run(inputs: Inputs, settings: HeadGates, progress: Progress) -> Result:
    """Learn at every price and for every budget."""
    train, test = parts_of(
        inputs.corpus, inputs.split, settings.limit, settings.steps * settings.texts
    )
    name = inputs.corpus.name
    learning = asking_of(inputs.model, train, settings.label, inputs.seed, name)
    measuring = asking_of(inputs.model, test, learning.aim.label, inputs.seed, name)
    model = learning.model
    all_ = units(model)
    sizes = {budget: max(1, round(budget * len(all_))) for budget in settings.budgets}
    trials = [(price, 0.0) for price in settings.lambdas]
    trials += [(0.0, budget) for budget in settings.budgets]
    base = asked(model, measuring.aim, measuring.questions)
    gates, survival, losses = [], [], []
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
        gone = [head for n, unit in enumerate(all_) if n not in set(kept) for head in unit.heads]
        texts = asked(without(net, gone), measuring.aim, measuring.questions)
        survival += [
            {
                **key,
                "metric": metric,
                "heads": sum(len(all_[n].heads) for n in kept),
                "of": sum(len(unit.heads) for unit in all_),
                "base": base.value(metric),
                "value": texts.value(metric),
                "delta": texts.value(metric) - base.value(metric),
            }
            for metric in METRICS
        ]
    tables = {
        "gates": pd.DataFrame(gates),
        "survival": pd.DataFrame(survival),
        "learning": pd.DataFrame(losses),
    }
    return Result(tables, caveats=caveats(measuring, len(base.number)))


def _learnt(
    learning: Asking,
    all_: Sequence[Unit],
    settings: HeadGates,
    price: float,
    size: int | None,
    seed: int,
    told: Callable[[int, float], object],
) -> tuple[Gates, HuggingFace, list[float]]:
    """Gates at one price or for one budget, and the model they learnt beside."""
    net = without(learning.model, []) if settings.tuned else learning.model
    gates = Gates(net, all_, seed, size)
    plan = Plan(settings.steps, settings.rate, settings.texts, seed)

    def step(done: int, loss: float) -> None:
        gates.cool(done / plan.steps)
        told(done, loss)

    losses = learn(
        net,
        learning.aim,
        learning.batch,
        range(len(learning.batch)),
        plan,
        told=step,
        taps=gates.drawn,
        weights=None if settings.tuned else [],
        more=[{"params": [gates.scores], "lr": settings.gate_rate}],
        penalty=(lambda: price * open_probability(gates.scores).sum()) if size is None else None,
    )
    return gates, net, losses


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


EXPERIMENT = Experiment(
    name="head-gates",
    about="Which heads stay open when each must pay for it, or when only so many may.",
    settings=HeadGates,
    run=run,
    tables=TABLES,
    needs=(HEADS, PREDICTS),
    split="held-out",
    figures="workbench.view.pruning:GATES",
)
