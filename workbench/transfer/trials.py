"""Attempts at one task by one method: a grid of rates by the first seed, then the other seeds.

The learning rate is the one that dev scores best; an attempt whose loss is not a number counts as
the worst. A plain head over a frozen model is trained to its optimum for a grid of ridge strengths
instead; that is the same for every seed, so it is computed once. What is kept of each attempt is
its predictions, and of the best its weights. Costs as many fine-tunings as there are rates and
seeds, less one, and the memory of two.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from workbench.engine.model import Model
from workbench.errors import WorkbenchError
from workbench.transfer.asked import Adapting, HeadKind
from workbench.transfer.body import Body, body_of
from workbench.transfer.examples import Examples, Split
from workbench.transfer.fitting import PASSES, Above, Learnt, Plan, fit_linear, guessed, learn
from workbench.transfer.generating import Writer, Written
from workbench.transfer.heads import Head, Scale
from workbench.transfer.memory import MEBI, peak
from workbench.transfer.sources import Live, Source, Still
from workbench.transfer.ways import Fitting, Method, epochs_of, fitting_of, rates_of

LATEST = 10  # steps whose mean loss decides between attempts that dev likes alike
Told = Callable[[float, str], object]  # share done, and what is being done


@dataclass(eq=False)
class Trial:
    """One attempt; of one that was not the best the weights are forgotten."""

    seed: int
    rate: float  # 0: trained to its optimum
    ridge: float  # 0: none
    learnt: Learnt
    guesses: list[Any]  # of every scored text; none at a rate that was not chosen
    trainable: int
    size: float  # MiB of what was learnt
    seconds: float
    memory: float  # MiB at most
    weights: "tuple[Fitting, Above] | None"

    def forget(self) -> None:
        """Let go of body and head."""
        if self.weights is not None:
            self.weights[0].close()
        self.weights = None


@dataclass(frozen=True, eq=False)
class Adapter:
    """A model, a task and a way of adapting the one to the other."""

    model: Model
    split: Split
    method: Method
    head: HeadKind
    settings: Adapting
    home: Path  # where states of a frozen model are kept
    read: dict[int, Source] = field(default_factory=dict)  # of a frozen model, by part
    moments: dict[str, torch.Tensor] = field(default_factory=dict)  # of the head's inputs

    @property
    def rates(self) -> tuple[float, ...]:
        return self.settings.rates or rates_of(self.method, self.model, self.head == "lstm")

    @property
    def epochs(self) -> int:
        return self.settings.epochs or epochs_of(self.method, self.head == "lstm")


def trials(adapter: Adapter, told: Told) -> tuple[list[Trial], list[Trial], list[str]]:
    """All attempts; those with the chosen rate, a seed each; and what to know of them."""
    if adapter.method == "frozen" and adapter.head == "plain":
        return _linear(adapter, told)
    seeds, rates = adapter.settings.seeds, adapter.rates
    total = len(rates) + len(seeds) - 1
    notes: list[str] = []
    made: list[Trial] = []
    leading: list[Trial] = []

    def attempt(seed: int, rate: float) -> Trial:
        what = f"seed {seed}, rate {rate:g}"
        found = _attempt(adapter, seed, rate, lambda at, s: told((len(made) + at) / total, s), what)
        made.append(found)
        if len(made) > len(rates):
            _guess(adapter, found)
        if leading and _worth(leading[0]) >= _worth(found):
            found.forget()
        else:
            for each in leading:
                each.forget()
            leading[:] = [found]
        return found

    tried = [attempt(seeds[0], rate) for rate in rates]
    best = max(range(len(rates)), key=lambda place: _worth(tried[place]))
    _guess(adapter, tried[best])
    if diverged := [f"{each.rate:g}" for each in tried if each.learnt.diverged]:
        notes.append(f"At a rate of {', '.join(diverged)} the loss became no number.")
    if len(rates) > 2 and best in (0, len(rates) - 1):
        notes.append(
            f"The best rate, {rates[best]:g}, is the {'least' if best == 0 else 'highest'} of "
            f"those tried: {', '.join(f'{rate:g}' for rate in rates)}."
        )
    chosen = [tried[best], *(attempt(seed, rates[best]) for seed in seeds[1:])]
    if rising := sum(not each.learnt.converged for each in chosen):
        notes.append(
            f"Not converged: dev was best after the last of {adapter.epochs} epochs for {rising} "
            f"of {len(chosen)} seeds. More epochs may help."
        )
    return made, chosen, notes


def _linear(adapter: Adapter, told: Told) -> tuple[list[Trial], list[Trial], list[str]]:
    """A plain head over a frozen model at its optimum, for every ridge strength."""
    settings, split = adapter.settings, adapter.split
    made: list[Trial] = []
    body = body_of(adapter.model)
    fitting = fitting_of(body, adapter.method, settings.sizes, settings.seeds[0])
    head = _head(adapter, body, settings.seeds[0])
    assert isinstance(head, Head), "a plain one"
    train, dev, test = (
        source_of(adapter, fitting, part) for part in (split.train, split.dev, split.test)
    )
    moving = list(head.parameters())
    number = sum(weights.numel() for weights in moving)
    size = sum(weights.numel() * weights.element_size() for weights in moving) / MEBI
    _standardise(adapter, head, train)
    best, kept = -1, head.state_dict()
    started, total = perf_counter(), len(set(settings.ridges))
    with peak(adapter.model.device) as most:
        for ridge, learnt in fit_linear(
            split.task, head, fitting, (train, split.train), (dev, split.dev), settings.ridges,
            lambda done, loss: told(done / total, f"ridge {done} of {total}: loss {loss:.3f}"),
        ):  # fmt: skip
            now = perf_counter()
            made.append(
                Trial(settings.seeds[0], 0.0, ridge, learnt, [], number, size, now - started,
                      math.nan, None)
            )  # fmt: skip
            started = now
            if best < 0 or _dev(made[-1]) > _dev(made[best]):  # of equals the strongest stays
                best = len(made) - 1
                kept = {name: value.clone() for name, value in head.state_dict().items()}
    head.load_state_dict(kept)
    chosen = made[best]
    chosen.weights = (fitting, head)
    chosen.guesses = guessed(head, fitting, test, split.test)
    for trial in made:
        trial.memory = most.value
    notes = []
    if 0 < best == len(made) - 1 or (best == 0 and len(made) > 1):
        notes.append(
            f"The best ridge strength, {chosen.ridge:g}, is the "
            f"{'strongest' if best == 0 else 'weakest'} of those tried."
        )
    if not chosen.learnt.converged:
        notes.append(
            f"Not converged: the frozen head was cut off after {PASSES} passes over train."
        )
    # not the weights: they belong to one trial, which lets go of them once
    others = [replace(chosen, seed=seed, weights=None) for seed in settings.seeds[1:]]
    return [*made, *others], [chosen, *others], notes


def _guess(adapter: Adapter, trial: Trial) -> None:
    """What the attempt thinks of the scored texts; while its weights are there."""
    assert trial.weights is not None, "an attempt is asked before it is forgotten"
    made, head = trial.weights
    test = adapter.split.test
    trial.guesses = guessed(head, made, source_of(adapter, made, test), test)


def _worth(trial: Trial) -> tuple[float, float]:
    """What dev said; of two that it likes alike, the one that learnt more of its texts is worth
    more."""
    score, losses = trial.learnt.score, trial.learnt.losses[-LATEST:]
    return (-math.inf, 0) if math.isnan(score) else (score, -sum(losses) / len(losses))


def _dev(trial: Trial) -> float:
    score = trial.learnt.score
    return -math.inf if math.isnan(score) else score


def _attempt(
    adapter: Adapter,
    seed: int,
    rate: float,
    told: Callable[[float, str], object],
    what: str,
) -> Trial:
    settings, split = adapter.settings, adapter.split
    started = perf_counter()
    with peak(adapter.model.device) as most:
        body = body_of(adapter.model, whole=adapter.head == "text")
        head = _head(adapter, body, seed)
        made = fitting_of(body, adapter.method, settings.sizes, seed)
        train, dev = (source_of(adapter, made, part) for part in (split.train, split.dev))
        if isinstance(head, Head):
            _standardise(adapter, head, train)
        plan = Plan(rate, adapter.epochs, settings.texts, settings.patience, seed)
        learnt = learn(
            split.task,
            head,
            made,
            (train, split.train),
            (dev, split.dev),
            plan,
            lambda step, steps, loss: told(step / steps, f"{what}: loss {loss:.3f}"),
        )
    moving = [*made.moving, *head.parameters()]
    return Trial(
        seed,
        rate,
        0.0,
        learnt,
        [],
        sum(weights.numel() for weights in moving),
        sum(weights.numel() * weights.element_size() for weights in moving) / MEBI,
        perf_counter() - started,
        most.value,
        (made, head),
    )


def _head(adapter: Adapter, body: Body, seed: int) -> Above:
    task, width = adapter.split.task, adapter.model.width
    if adapter.head == "text":
        if adapter.method == "frozen":
            raise WorkbenchError(
                "a frozen model that writes its answers has nothing to learn.",
                where=adapter.model.name,
                remedy="Choose another method, or the plain head.",
            )
        train = adapter.split.train
        return Writer(task, body, train.batch, Scale.of(train.gold, task))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scale = Scale.of(adapter.split.train.gold, task)
        head = Head(task, body.layers, width, adapter.head == "lstm", scale)
    return head.to(body.model.device)


def _standardise(adapter: Adapter, head: Head, train: Source) -> None:
    """By the model as it is before anything is learnt, so that every attempt has the same."""
    if not adapter.moments:
        head.standardise(train)
        adapter.moments.update({name: value.clone() for name, value in head.named_buffers()})
    for name, value in head.named_buffers():
        value.copy_(adapter.moments[name])


def source_of(adapter: Adapter, made: Fitting, part: Examples) -> Source:
    """Computed once, of a body that stays as it is."""
    if adapter.head == "text":
        return Written(made.body, part.batch, made.widened)
    if not made.groups:
        if id(part) not in adapter.read:
            adapter.read[id(part)] = Still(adapter.model, part.batch, adapter.home)
        return adapter.read[id(part)]
    return Live(made.body, part.batch, widened=made.widened)


def cut_in(adapter: Adapter, parts: Sequence[Examples]) -> int:
    """How many texts are too long for the model."""
    return sum(len({row for row, *_ in adapter.model.encode(part.batch).cut}) for part in parts)
