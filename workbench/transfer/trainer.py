"""Learning a task: epochs over its texts until dev gains no more, or a linear head to its optimum.

`learn` is AdamW with a learning rate that warms up and then falls linearly to zero, and gradients
clipped to norm 1; the weights of the epoch that dev scored best are kept. A learning rate at which
the loss is no longer a number ends that attempt, and what was best before stands. `fit_linear`
trains a linear head over a frozen model by L-BFGS on all texts at once, for each ridge strength
until the gradient vanishes, strongest first, each from the one before; nothing in it is random.
Costs a forward and a backward pass a text and epoch, and a copy of what learns; `fit_linear` some
30 to 100 passes of the head alone for a ridge strength.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.machine import MEBI, stretch
from workbench.engine.forward_pass import chunks
from workbench.engine.halving import Limit, Part, Places, in_halves
from workbench.engine.model import Model
from workbench.models.fine_tuning import EarlyStopping, Learner, fine_tune
from workbench.transfer.adaptation import Fitting, Group, epochs_of, fitting_of, rates_of
from workbench.transfer.backbone import Body, body_of
from workbench.transfer.experiments import Adapting, HeadKind, Method
from workbench.transfer.features import Live, Read, Source, Still
from workbench.transfer.task_heads import Head, Scale, side_by_side
from workbench.transfer.tasks import Examples, Gold, Split, Task, metrics_of
from workbench.transfer.text_to_text import Writer, Written


class Above(Protocol):
    """What stands above a body and answers: a head, or a decoder that writes."""

    mix: Any

    def __call__(self, read: Any) -> Any: ...

    def loss(self, found: Any, gold: Sequence[Gold], read: Any) -> Tensor: ...

    def targets(self, gold: Sequence[Gold], read: Any) -> int: ...

    def guesses(self, found: Any, read: Any, lengths: Sequence[int]) -> list[Any]: ...

    def parameters(self) -> Iterator[Any]: ...

    def train(self, mode: bool = True) -> Any: ...

    def eval(self) -> Any: ...


WARM = 0.1  # of the steps
ALIKE = 8  # batches whose texts are sorted by length together
SCORED = 128  # texts at once, where nothing is learnt
PASSES = 300  # of L-BFGS over train, at most, for a ridge strength
FLAT, STILL = 1e-4, 1e-5  # largest gradient, and change of the loss, at an optimum
HISTORY = 10  # of L-BFGS
HELD = 2**30  # bytes of states of all layers that are held padded in memory meanwhile
WORSE = 2  # ridge strengths in a row that dev likes less, then weaker ones are not tried


@dataclass(frozen=True)
class Plan:
    """How long, how fast, and with how many texts at a time."""

    rate: float
    epochs: int
    texts: int
    patience: int
    seed: int


@dataclass
class Learnt:
    """What came of an attempt; the weights are left as dev liked them best."""

    score: float = math.nan  # on dev; NaN where nothing was learnt
    epoch: int = 0
    losses: list[float] = field(default_factory=list)  # of each step
    dev: list[float] = field(default_factory=list)  # of each epoch
    diverged: bool = False
    converged: bool = False  # not cut off: dev was best before the last epoch, or at an optimum


def learn(
    task: Task,
    head: Above,
    made: Fitting,
    train: tuple[Source, Examples],
    dev: tuple[Source, Examples],
    plan: Plan,
    told: Callable[[int, int, float], object] = lambda step, steps, loss: None,
) -> Learnt:
    """Fit head and body; the same seed gives the same weights."""
    steps, room = steps_of(len(train[0]), plan), Limit()
    learner = _learner(head, made, plan, steps)
    learner.keep()
    device = made.body.model.device

    def epochs() -> Iterator[Iterator[Sequence[int]]]:
        for epoch in range(1, plan.epochs + 1):
            head.train()
            made.body.train(bool(made.groups))
            yield _batches(train[0].lengths, plan, epoch)

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(plan.seed)
        found = fine_tune(
            learner,
            epochs(),
            lambda texts: _gradients(head, train, texts, learner.moving, room),
            lambda: _score(task, head, made, dev),
            EarlyStopping(plan.patience, highest=1.0),
            lambda step, loss: told(step, steps, loss),
        )
    head.eval()
    made.body.train(False)
    score = found.dev[found.best - 1] if found.best else math.nan
    converged = 0 < found.best < plan.epochs or score == 1.0
    return Learnt(score, found.best, found.losses, found.dev, found.diverged, converged)


def fit_linear(
    task: Task,
    head: Head,
    made: Fitting,
    train: tuple[Source, Examples],
    dev: tuple[Source, Examples],
    ridges: Sequence[float],
    told: Callable[[int, float], object] = lambda done, loss: None,
) -> Iterator[tuple[float, Learnt]]:
    """Fit the linear layers and the mix for each ridge strength; the head has the last one's.

    The objective is the mean loss plus strength / (2 · targets) · ‖weights‖², as scikit-learn's
    with C = 1 / strength; the scores of the mix are held small too, which otherwise drift without
    end where one layer is enough.
    """
    head.eval()
    layers = head.linear
    moving = [head.mix.scores, *(w for layer in layers for w in (layer.weight, layer.bias))]
    shrunk = [head.mix.scores, *(layer.weight for layer in layers)]  # the mix to the plain mean
    parts = _held(head, train)
    targets = sum(part.targets for part in parts)
    best, worse = -math.inf, 0
    for done, ridge in enumerate(sorted(set(ridges), reverse=True)):
        found = Learnt()
        optimiser = torch.optim.LBFGS(
            moving, max_iter=PASSES, max_eval=PASSES, tolerance_grad=FLAT, tolerance_change=STILL,
            history_size=HISTORY, line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure(ridge: float = ridge, found: Learnt = found) -> float:
            for weights in moving:
                weights.grad = None
            total = 0.0
            with torch.enable_grad():
                for part in parts:
                    read = part.read(head.mix)
                    loss = head.loss(head(read), part.gold, read) * (part.targets / targets)
                    loss.backward()  # type: ignore[no-untyped-call]
                    total += float(loss.detach())
                squares = [weights.square().sum() for weights in shrunk]
                penalty = ridge / (2 * targets) * torch.stack(squares).sum()
                penalty.backward()  # type: ignore[no-untyped-call]
            found.losses.append(total)
            return total + float(penalty.detach())

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        state = optimiser.state[moving[0]]
        found.epoch = int(state["func_evals"])
        found.converged = state["n_iter"] < PASSES and found.epoch < PASSES
        found.diverged = not math.isfinite(found.losses[-1])
        for weights in moving:
            weights.grad = None
        found.score = _score(task, head, made, dev)
        found.dev.append(found.score)
        told(done + 1, found.losses[-1])
        yield ridge, found
        worse = 0 if found.score >= best or math.isnan(found.score) else worse + 1
        best = max(best, found.score) if math.isfinite(found.score) else best
        if worse >= WORSE:
            break


@dataclass(frozen=True, eq=False)
class _Part:
    """Some texts of train, with every layer's states held in memory where there is room."""

    read: Callable[[Any], Read]  # of a mix
    gold: Sequence[Gold]
    targets: int


def _held(head: Head, train: tuple[Source, Examples]) -> list[_Part]:
    source, examples = train
    order = sorted(range(len(source)), key=lambda text: source.lengths[text])
    parts, held = [], 0
    for texts in chunks(order, SCORED):
        gold = [examples.gold[text] for text in texts]
        read = source.read(texts, side_by_side)  # [texts, words, layers * width]
        held += read.words.numel() * read.words.element_size()
        if held <= HELD:
            states = read.words.split(head.mix.mean.shape[1], -1)

            def again(mix: Any, states: Any = states, read: Read = read) -> Read:
                return replace(read, words=mix(states) * read.there[..., None])
        else:

            def again(mix: Any, texts: Sequence[int] = texts) -> Read:  # type: ignore[misc]
                found: Read = source.read(texts, mix)
                return found

        parts.append(_Part(again, gold, head.targets(gold, read)))
    return [part for part in parts if part.targets]


def steps_of(texts: int, plan: Plan) -> int:
    """Steps of an attempt that is never stopped early."""
    return plan.epochs * math.ceil(texts / plan.texts)


def guessed(head: Above, made: Fitting, source: Source, examples: Examples) -> list[Any]:
    """What is thought of every text, in the order of the corpus."""
    found: list[Any] = [None] * len(source)
    words = np.diff(examples.batch.word_offsets).tolist()
    order = sorted(range(len(source)), key=lambda text: source.lengths[text])
    head.eval()
    made.body.train(False)
    room = Limit()

    def guess(some: Places) -> list[Any]:
        read = source.read(some.places, head.mix)
        return head.guesses(head(read), read, [words[text] for text in some.places])

    with torch.no_grad():
        for texts in chunks(order, SCORED):
            some = Places(texts, source.lengths[texts[-1]])
            for part, guesses in in_halves(guess, some, room):
                for text, own in zip(part.places, guesses, strict=True):
                    found[text] = own
    return found


def _score(task: Task, head: Above, made: Fitting, dev: tuple[Source, Examples]) -> float:
    """Of what decides; more is better."""
    return task.sign * metrics_of(task, dev[1], guessed(head, made, *dev))[task.metric].value()


def _gradients(
    head: Above,
    train: tuple[Source, Examples],
    texts: Sequence[int],
    moving: Sequence[Tensor],
    room: Limit,
) -> Iterator[Part]:
    """Of the loss of these texts; where memory does not suffice, in parts."""
    source, examples = train

    def back(some: Places) -> Part:
        with torch.enable_grad():
            read = source.read(some.places, head.mix)
            gold = [examples.gold[text] for text in some.places]
            loss = head.loss(head(read), gold, read)
            found = torch.autograd.grad(loss, moving, allow_unused=True)
        number = 1 if len(some) == len(texts) else head.targets(gold, read)
        return loss.detach(), number, found

    whole = Places(texts, max(source.lengths[text] for text in texts))
    return (found for _, found in in_halves(back, whole, room))


def _learner(head: Above, made: Fitting, plan: Plan, steps: int) -> Learner:
    """The head's weights learn from the first step on; a group of the body's from its own."""
    own = list(head.parameters())
    groups = [Group(own), *made.groups] if own else made.groups
    warm = max(1, round(WARM * steps))

    def curve(group: Group) -> Callable[[int], float]:
        first = round(group.begins * steps)

        def factor(step: int) -> float:
            if step < first:
                return 0.0
            return min((step - first + 1) / warm, (steps - step) / max(1, steps - warm), 1.0)

        return factor

    return Learner(
        [{"params": list(group.weights), "lr": plan.rate * group.rate} for group in groups],
        [curve(group) for group in groups],
        fused=True,
    )


def _batches(lengths: Sequence[int], plan: Plan, epoch: int) -> Iterator[Sequence[int]]:
    """Every text once, in an order of the epoch's own, with others of about its length."""
    random = np.random.default_rng([plan.seed, epoch])
    order = random.permutation(len(lengths)).tolist()
    batches: list[Sequence[int]] = []
    for some in chunks(order, plan.texts * ALIKE):
        batches += chunks(sorted(some, key=lambda text: lengths[text]), plan.texts)
    for number in random.permutation(len(batches)):
        yield batches[number]


# --- trials: learning rates, seeds, ridge strengths -----------------------------------------------
#
# Attempts at one task by one method: a grid of rates by the first seed, then the other seeds.
#
# The learning rate is the one that dev scores best; an attempt whose loss is not a number counts
# as the worst. A plain head over a frozen model is trained to its optimum for a grid of ridge
# strengths instead; that is the same for every seed, so it is computed once. What is kept of each
# attempt is its predictions, and of the best its weights. Costs as many fine-tunings as there are
# rates and seeds, less one, and the memory of two.

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
    with stretch(adapter.model.device) as whole:
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
        trial.memory = whole.memory
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
    with stretch(adapter.model.device) as took:
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
        took.seconds,
        took.memory,
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
