"""Training on a task: epochs with early stopping on dev, or a linear head to its optimum.

`train_head` runs AdamW with a learning rate that warms up and then falls linearly to zero, and
clips gradients to norm 1; the weights of the epoch with the best dev score are kept. If the loss
becomes NaN or infinite, that attempt ends with the best weights so far. After an interruption, an
attempt goes on after its last epoch, and finished ones are not repeated. `fit_linear` trains a
linear head over a frozen model with L-BFGS on all texts at once, for each ridge strength until the
gradient vanishes; it goes from the strongest to the weakest, starting each from the one before, and
uses no random numbers.
Costs: a forward and a backward pass per text and epoch, and a copy of the weights that learn;
`fit_linear` 30 to 100 passes of the head alone per ridge strength.
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

from workbench.analyses.transfer.adaptation import (
    Fitting,
    Group,
    default_epochs,
    default_learning_rates,
    fitting_of,
)
from workbench.analyses.transfer.backbone import Body, body_of
from workbench.analyses.transfer.experiments import Adapting, HeadKind, Method
from workbench.analyses.transfer.features import Cached, Live
from workbench.analyses.transfer.text_to_text import Writer, Written
from workbench.core.errors import WorkbenchError
from workbench.core.findings import of_all
from workbench.core.machine import MEBI, stretch
from workbench.corpora.tasks import Examples, Split, metrics_of
from workbench.engine.forward_pass import chunks
from workbench.engine.halving import Limit, Part, Places, in_halves
from workbench.engine.model import Model
from workbench.engine.task import Gold, Task
from workbench.models.added_modules import merge
from workbench.models.fine_tuning import Checkpoint, EarlyStopping, Learner, fine_tune
from workbench.models.huggingface import require_transformer
from workbench.models.output_heads.standard_heads import has_bias, with_standard_head
from workbench.models.output_heads.task_heads import (
    MixHead,
    Read,
    Scale,
    Source,
    StandardHead,
    side_by_side,
)


class Predictor(Protocol):
    """What predicts from a body's states: a task head, or a decoder that writes text."""

    mix: Any
    task: Task

    def __call__(self, read: Any) -> Any: ...

    def loss(self, outputs: Any, gold: Sequence[Gold], read: Any) -> Tensor: ...

    def targets(self, gold: Sequence[Gold], read: Any) -> int: ...

    def guesses(self, outputs: Any, read: Any, lengths: Sequence[int]) -> list[Any]: ...

    def parameters(self) -> Iterator[Any]: ...

    def train(self, mode: bool = True) -> Any: ...

    def eval(self) -> Any: ...


WARMUP = 0.1  # fraction of the steps
SORTED_BATCHES = 8  # batches whose texts are sorted by length together
SCORING_BATCH = 128  # texts per batch when nothing learns
MAX_PASSES = 300  # of L-BFGS over train, per ridge strength
GRADIENT_TOLERANCE, LOSS_TOLERANCE = 1e-4, 1e-5  # of L-BFGS, at an optimum
HISTORY = 10  # of L-BFGS
MAX_STATE_BYTES = 2**30  # padded states of all layers that are kept in memory
WORSE = 2  # ridge strengths in a row with a lower dev score before weaker ones are skipped


@dataclass(frozen=True)
class Plan:
    """Learning rate, maximum number of epochs, batch size, patience and seed of one attempt."""

    learning_rate: float
    max_epochs: int
    batch_size: int
    patience: int
    seed: int


@dataclass
class Outcome:
    """Losses and dev scores of an attempt; the weights are those with the best dev score."""

    score: float = math.nan  # best dev score; NaN if no epoch was scored
    epoch: int = 0  # of the best dev score
    losses: list[float] = field(default_factory=list)  # per step
    dev: list[float] = field(default_factory=list)  # per epoch
    diverged: bool = False
    converged: bool = False  # the best epoch was not the last, or an optimum was reached
    seconds: float = 0.0  # of epochs before the run was interrupted


def train_head(
    task: Task,
    head: Predictor,
    fitting: Fitting,
    train: tuple[Source, Examples],
    dev: tuple[Source, Examples],
    plan: Plan,
    on_progress: Callable[[int, int, float], object] = lambda step, steps, loss: None,
    checkpoint: Checkpoint | None = None,
) -> Outcome:
    """Train the head and the body; the same seed gives the same weights."""
    steps, room = steps_of(len(train[0]), plan), Limit()
    learner = _learner(head, fitting, plan, steps)
    learner.keep()
    device = fitting.body.model.device

    def epochs() -> Iterator[Iterator[Sequence[int]]]:
        for epoch in range(1, plan.max_epochs + 1):
            head.train()
            fitting.body.train(bool(fitting.groups))
            yield _batches(train[0].lengths, plan, epoch)

    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(plan.seed)
        tuned = fine_tune(
            learner,
            epochs(),
            lambda texts: _gradients(head, train, texts, learner.moving, room, fitting.consistency),
            lambda: _score(task, head, fitting, dev),
            EarlyStopping(plan.patience, highest=1.0),
            lambda step, loss: on_progress(step, steps, loss),
            checkpoint=checkpoint,
        )
    head.eval()
    fitting.body.train(False)
    score = tuned.dev[tuned.best - 1] if tuned.best else math.nan
    converged = 0 < tuned.best < plan.max_epochs or score == 1.0
    return Outcome(
        score, tuned.best, tuned.losses, tuned.dev, tuned.diverged, converged, tuned.seconds
    )


def fit_linear(
    task: Task,
    head: MixHead,
    fitting: Fitting,
    train: tuple[Source, Examples],
    dev: tuple[Source, Examples],
    ridge_strengths: Sequence[float],
    on_progress: Callable[[int, float], object] = lambda done, loss: None,
) -> Iterator[tuple[float, Outcome]]:
    """Fit the linear layers and the mix for each ridge strength; the head keeps the last weights.

    The objective is the mean loss plus strength / (2 · targets) · ‖weights‖², as in scikit-learn
    with C = 1 / strength. The penalty includes the scores of the mix, which would otherwise grow
    without bound when one layer is enough.
    """
    head.eval()
    layers = head.linear
    trained = [head.mix.scores, *(w for layer in layers for w in (layer.weight, layer.bias))]
    penalised = [
        head.mix.scores,
        *(layer.weight for layer in layers),
    ]  # shrinks the mix to the plain mean
    parts = _parts_of(head, train)
    targets = sum(part.targets for part in parts)
    best, worse = -math.inf, 0
    for done, ridge in enumerate(sorted(set(ridge_strengths), reverse=True)):
        outcome = Outcome()
        optimiser = torch.optim.LBFGS(
            trained, max_iter=MAX_PASSES, max_eval=MAX_PASSES,
            tolerance_grad=GRADIENT_TOLERANCE, tolerance_change=LOSS_TOLERANCE,
            history_size=HISTORY, line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure(ridge: float = ridge, outcome: Outcome = outcome) -> float:
            for weights in trained:
                weights.grad = None
            total = 0.0
            with torch.enable_grad():
                for part in parts:
                    read = part.read(head.mix)
                    loss = head.loss(head(read), part.gold, read) * (part.targets / targets)
                    loss.backward()  # type: ignore[no-untyped-call]
                    total += float(loss.detach())
                squares = [weights.square().sum() for weights in penalised]
                penalty = ridge / (2 * targets) * torch.stack(squares).sum()
                penalty.backward()  # type: ignore[no-untyped-call]
            outcome.losses.append(total)
            return total + float(penalty.detach())

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        state = optimiser.state[trained[0]]
        outcome.epoch = int(state["func_evals"])
        outcome.converged = state["n_iter"] < MAX_PASSES and outcome.epoch < MAX_PASSES
        outcome.diverged = not math.isfinite(outcome.losses[-1])
        for weights in trained:
            weights.grad = None
        outcome.score = _score(task, head, fitting, dev)
        outcome.dev.append(outcome.score)
        on_progress(done + 1, outcome.losses[-1])
        yield ridge, outcome
        worse = 0 if outcome.score >= best or math.isnan(outcome.score) else worse + 1
        best = max(best, outcome.score) if math.isfinite(outcome.score) else best
        if worse >= WORSE:
            break


@dataclass(frozen=True, eq=False)
class _Part:
    """Some texts of train, with all layers' states in memory if they fit."""

    read: Callable[[Any], Read]  # from a mix
    gold: Sequence[Gold]
    targets: int


def _parts_of(head: MixHead, train: tuple[Source, Examples]) -> list[_Part]:
    source, examples = train
    order = sorted(range(len(source)), key=lambda text: source.lengths[text])
    parts, size = [], 0
    for texts in chunks(order, SCORING_BATCH):
        gold = [examples.gold[text] for text in texts]
        read = source.read(texts, side_by_side)  # [texts, words, layers * width]
        size += read.words.numel() * read.words.element_size()
        if size <= MAX_STATE_BYTES:
            states = read.words.split(head.mix.mean.shape[1], -1)

            def read_part(mix: Any, states: Any = states, read: Read = read) -> Read:
                return replace(read, words=mix(states) * read.there[..., None])
        else:

            def read_part(mix: Any, texts: Sequence[int] = texts) -> Read:  # type: ignore[misc]
                mixed: Read = source.read(texts, mix)
                return mixed

        parts.append(_Part(read_part, gold, head.targets(gold, read)))
    return [part for part in parts if part.targets]


def steps_of(texts: int, plan: Plan) -> int:
    """Number of steps of an attempt without early stopping."""
    return plan.max_epochs * math.ceil(texts / plan.batch_size)


def guessed(head: Predictor, fitting: Fitting, source: Source, examples: Examples) -> list[Any]:
    """The predictions for every text, in the order of the corpus."""
    predictions: list[Any] = [None] * len(source)
    words = np.diff(examples.batch.word_offsets).tolist()
    order = sorted(range(len(source)), key=lambda text: source.lengths[text])
    head.eval()
    fitting.body.train(False)
    room = Limit()

    def guess(some: Places) -> list[Any]:
        read = source.read(some.places, head.mix)
        return head.guesses(head(read), read, [words[text] for text in some.places])

    with torch.no_grad():
        for texts in chunks(order, SCORING_BATCH):
            some = Places(texts, source.lengths[texts[-1]])
            for part, guesses in in_halves(guess, some, room):
                for text, prediction in zip(part.places, guesses, strict=True):
                    predictions[text] = prediction
    return predictions


def _score(task: Task, head: Predictor, fitting: Fitting, dev: tuple[Source, Examples]) -> float:
    """The deciding metric on dev, with its sign so that more is better."""
    return task.sign * metrics_of(task, dev[1], guessed(head, fitting, *dev))[task.metric].value()


def _gradients(
    head: Predictor,
    train: tuple[Source, Examples],
    texts: Sequence[int],
    trained: Sequence[Tensor],
    room: Limit,
    consistency: float,
) -> Iterator[Part]:
    """Gradients of the loss of these texts, in parts if memory is short."""
    source, examples = train

    def back(some: Places) -> Part:
        with torch.enable_grad():
            read = source.read(some.places, head.mix)
            gold = [examples.gold[text] for text in some.places]
            outputs = head(read)
            loss = head.loss(outputs, gold, read)
            if consistency:
                other = source.read(some.places, head.mix)  # by another random route
                of_words = read.there if head.task.kind in ("tags", "entities") else None
                loss = loss + consistency * disagreement(outputs, head(other), of_words)
            gradients = torch.autograd.grad(loss, trained, allow_unused=True)
        n_targets = 1 if len(some) == len(texts) else head.targets(gold, read)
        return loss.detach(), n_targets, gradients

    whole = Places(texts, max(source.lengths[text] for text in texts))
    return (gradients for _, gradients in in_halves(back, whole, room))


def disagreement(first: Tensor, second: Tensor, there: Tensor | None) -> Tensor:
    """The symmetric divergence of two predictions, a mean over texts or words; of scores squared.

    # [batch, outputs], [batch, words, outputs] where words are `there`, or [batch, 2, places]
    """
    if first.shape[-1] == 1:
        return (first - second).square().mean()
    if there is not None:
        first, second = first[there], second[there]
    a, b = first.log_softmax(-1), second.log_softmax(-1)
    # the mean of KL(a, b) and KL(b, a)
    return ((a.exp() - b.exp()) * (a - b)).sum(-1).mean() / 2


def _learner(head: Predictor, fitting: Fitting, plan: Plan, steps: int) -> Learner:
    """AdamW with warm-up and linear decay; each group of the body's weights starts at its step."""
    head_weights = list(head.parameters())
    groups = [Group(head_weights), *fitting.groups] if head_weights else fitting.groups
    warmup_steps = max(1, round(WARMUP * steps))

    def curve(group: Group) -> Callable[[int], float]:
        first = round(group.begins * steps)

        def factor(step: int) -> float:
            if step < first:
                return 0.0
            return min(
                (step - first + 1) / warmup_steps,
                (steps - step) / max(1, steps - warmup_steps),
                1.0,
            )

        return factor

    return Learner(
        [
            {"params": list(group.weights), "lr": plan.learning_rate * group.rate_factor}
            for group in groups
        ],
        [curve(group) for group in groups],
        fused=True,
    )


def _batches(lengths: Sequence[int], plan: Plan, epoch: int) -> Iterator[Sequence[int]]:
    """Batches of one epoch: each text once, in random order, with texts of similar length."""
    random = np.random.default_rng([plan.seed, epoch])
    order = random.permutation(len(lengths)).tolist()
    batches: list[Sequence[int]] = []
    for some in chunks(order, plan.batch_size * SORTED_BATCHES):
        batches += chunks(sorted(some, key=lambda text: lengths[text]), plan.batch_size)
    for index in random.permutation(len(batches)):
        yield batches[index]


# --- trials: learning rates, seeds, ridge strengths -----------------------------------------------
#
# Attempts at one task with one method: a grid of learning rates with the first seed, then the
# other seeds with the best learning rate.
#
# The learning rate with the best dev score is used; an attempt whose loss is NaN counts as the
# worst. A plain head over a frozen model is trained to its optimum for a grid of ridge strengths
# instead; that is the same for every seed, so it is computed once. Every attempt keeps its
# predictions, and the best attempt its weights. Costs: one fine-tuning per learning rate and per
# further seed, and the memory of two.

LATEST = 10  # steps whose mean loss decides between attempts with equal dev scores
ATTEMPT = "attempt"  # the start of a checkpoint's name
OnProgress = Callable[[float, str], object]  # the fraction done, and the current activity


@dataclass(eq=False)
class Trial:
    """One attempt; only the best attempt keeps its weights."""

    seed: int
    learning_rate: float  # 0: a linear head at its optimum
    ridge: float  # 0: none
    outcome: Outcome
    guesses: list[Any]  # for every scored text; empty for learning rates not chosen
    trainable: int
    size: float  # MiB of the weights that learn
    seconds: float
    memory: float  # peak, in MiB
    weights: "tuple[Fitting, Predictor] | None"

    def forget(self) -> None:
        """Free the body and the head."""
        self.weights = None


@dataclass(frozen=True, eq=False)
class Adapter:
    """A model, a task, and the method and settings that adapt the model to the task."""

    model: Model
    split: Split
    method: Method
    head: HeadKind
    settings: Adapting
    home: Path  # folder for the states of a frozen model
    read: dict[int, Source] = field(default_factory=dict)  # of a frozen model, by split
    moments: dict[str, torch.Tensor] = field(default_factory=dict)  # of the head's inputs

    @property
    def learning_rates(self) -> tuple[float, ...]:
        """The learning rates to try."""
        default = default_learning_rates(self.method, self.model, self.head == "lstm")
        return self.settings.learning_rates or default

    @property
    def max_epochs(self) -> int:
        """The maximum number of epochs."""
        return self.settings.max_epochs or default_epochs(self.method, self.head == "lstm")


def checkpoints(home: Path) -> list[Path]:
    """The checkpoints of attempts of an interrupted run."""
    return sorted(home.glob(f"{ATTEMPT}-*.safetensors"))


def trials(adapter: Adapter, on_progress: OnProgress) -> tuple[list[Trial], list[Trial], list[str]]:
    """All attempts, the chosen attempts (one per seed), and notes for the user."""
    if adapter.method == "frozen" and adapter.head == "plain":
        return _linear(adapter, on_progress)
    seeds, learning_rates = adapter.settings.seeds, adapter.learning_rates
    total = len(learning_rates) + len(seeds) - 1
    notes: list[str] = []
    attempts: list[Trial] = []
    best_so_far: list[Trial] = []

    def attempt(seed: int, learning_rate: float) -> Trial:
        what = f"seed {seed}, learning rate {learning_rate:g}"
        trial = _attempt(
            adapter,
            seed,
            learning_rate,
            lambda at, s: on_progress((len(attempts) + at) / total, s),
            what,
        )
        attempts.append(trial)
        if len(attempts) > len(learning_rates):
            _guess(adapter, trial)
        if best_so_far and _dev_rank(best_so_far[0]) >= _dev_rank(trial):
            trial.forget()
        else:
            for other in best_so_far:
                other.forget()
            best_so_far[:] = [trial]
        return trial

    first_seed = [attempt(seeds[0], learning_rate) for learning_rate in learning_rates]
    best = max(range(len(learning_rates)), key=lambda place: _dev_rank(first_seed[place]))
    _guess(adapter, first_seed[best])
    if diverged := [f"{other.learning_rate:g}" for other in first_seed if other.outcome.diverged]:
        notes.append(
            f"The loss became NaN or infinite at learning rate {', '.join(diverged)}; these "
            "attempts count as the worst."
        )
    if len(learning_rates) > 2 and best in (0, len(learning_rates) - 1):
        notes.append(
            f"The best learning rate, {learning_rates[best]:g}, is the "
            f"{'lowest' if best == 0 else 'highest'} of those tried "
            f"({', '.join(f'{rate:g}' for rate in learning_rates)}). A wider grid may help."
        )
    chosen = [first_seed[best], *(attempt(seed, learning_rates[best]) for seed in seeds[1:])]
    if n_not_converged := sum(not other.outcome.converged for other in chosen):
        notes.append(
            f"Not converged: the dev score was best in the last of {adapter.max_epochs} epochs for "
            f"{of_all(n_not_converged, len(chosen), 'seed')}. Raise max_epochs."
        )
    return attempts, chosen, notes


def _linear(
    adapter: Adapter, on_progress: OnProgress
) -> tuple[list[Trial], list[Trial], list[str]]:
    """Attempts of a plain head over a frozen model, at the optimum of every ridge strength."""
    settings, split = adapter.settings, adapter.split
    attempts: list[Trial] = []
    body = body_of(adapter.model)
    fitting = fitting_of(body, adapter.method, settings.part_sizes, settings.seeds[0])
    head = _head(adapter, body, settings.seeds[0])
    assert isinstance(head, MixHead), "a plain one"
    train, dev, test = (
        source_of(adapter, fitting, part) for part in (split.train, split.dev, split.test)
    )
    trained = list(head.parameters())
    n_trained = sum(weights.numel() for weights in trained)
    size = sum(weights.numel() * weights.element_size() for weights in trained) / MEBI
    _standardise(adapter, head, train)
    best, best_state = -1, head.state_dict()
    started, total = perf_counter(), len(set(settings.ridge_strengths))
    with stretch(adapter.model.device) as whole:
        for ridge, outcome in fit_linear(
            split.task, head, fitting, (train, split.train), (dev, split.dev),
            settings.ridge_strengths,
            lambda done, loss: on_progress(
                done / total, f"fitting: ridge {done} of {total}, loss {loss:.3f}"
            ),
        ):  # fmt: skip
            now = perf_counter()
            attempts.append(
                Trial(settings.seeds[0], 0.0, ridge, outcome, [], n_trained, size, now - started,
                      math.nan, None)
            )  # fmt: skip
            started = now
            if best < 0 or _dev(attempts[-1]) > _dev(
                attempts[best]
            ):  # ties go to the stronger ridge
                best = len(attempts) - 1
                best_state = {name: value.clone() for name, value in head.state_dict().items()}
    head.load_state_dict(best_state)
    chosen = attempts[best]
    chosen.weights = (fitting, head)
    chosen.guesses = guessed(head, fitting, test, split.test)
    for trial in attempts:
        trial.memory = whole.memory
    notes = []
    if 0 < best == len(attempts) - 1 or (best == 0 and len(attempts) > 1):
        notes.append(
            f"The best ridge strength, {chosen.ridge:g}, is the "
            f"{'strongest' if best == 0 else 'weakest'} of those tried. A wider grid may help."
        )
    if not chosen.outcome.converged:
        notes.append(
            f"Not converged: the frozen head was cut off after {MAX_PASSES} passes over train."
        )
    # without the weights: they belong to one trial, which frees them
    others = [replace(chosen, seed=seed, weights=None) for seed in settings.seeds[1:]]
    return [*attempts, *others], [chosen, *others], notes


def _guess(adapter: Adapter, trial: Trial) -> None:
    """Compute the predictions for the scored texts, while the attempt still has its weights."""
    assert trial.weights is not None, "predictions need the weights"
    fitting, head = trial.weights
    test = adapter.split.test
    trial.guesses = guessed(head, fitting, source_of(adapter, fitting, test), test)


def _dev_rank(trial: Trial) -> tuple[float, float]:
    """Sort key of an attempt: its dev score, then the lower training loss; diverged ones last."""
    score, losses = trial.outcome.score, trial.outcome.losses[-LATEST:]
    if trial.outcome.diverged or math.isnan(score):  # its losses have no order
        return -math.inf, -math.inf if math.isnan(score) else score
    return score, -sum(losses) / len(losses)


def _dev(trial: Trial) -> float:
    score = trial.outcome.score
    return -math.inf if math.isnan(score) else score


def _attempt(
    adapter: Adapter,
    seed: int,
    learning_rate: float,
    on_progress: Callable[[float, str], object],
    what: str,
) -> Trial:
    settings, split = adapter.settings, adapter.split
    with stretch(adapter.model.device) as cost:
        body = _body(adapter, seed)
        head = _head(adapter, body, seed)
        fitting = fitting_of(body, adapter.method, settings.part_sizes, seed)
        for weights in head.parameters():  # of a net, whose weights peft freezes
            weights.requires_grad_(True)
        train, dev = (source_of(adapter, fitting, part) for part in (split.train, split.dev))
        if isinstance(head, MixHead):
            _standardise(adapter, head, train)
        plan = Plan(learning_rate, adapter.max_epochs, settings.batch_size, settings.patience, seed)
        outcome = train_head(
            split.task,
            head,
            fitting,
            (train, split.train),
            (dev, split.dev),
            plan,
            lambda step, steps, loss: on_progress(
                step / steps, f"training: {what}, loss {loss:.3f}"
            ),
            Checkpoint(adapter.home / f"{ATTEMPT}-{seed}-{learning_rate:g}.safetensors"),
        )
        if adapter.method == "adamix":
            merge(require_transformer(body.model, "has no adapters", ""))
    trained = [*fitting.trained_weights, *head.parameters()]
    return Trial(
        seed,
        learning_rate,
        0.0,
        outcome,
        [],
        sum(weights.numel() for weights in trained),
        sum(weights.numel() * weights.element_size() for weights in trained) / MEBI,
        cost.seconds + outcome.seconds,
        cost.memory,
        (fitting, head),
    )


def _body(adapter: Adapter, seed: int) -> Body:
    """A copy of the model that learns; under a standard head, with that head."""
    if adapter.head != "standard":
        return body_of(adapter.model, whole=adapter.head == "text")
    task, gold = adapter.split.task, adapter.split.train.gold
    net = require_transformer(adapter.model, "has no standard task head", "Set head to plain.")
    tuned = with_standard_head(net, task, seed)
    tuned.task_head = StandardHead(task, Scale.of(gold, task, centred=has_bias(tuned)))
    return body_of(tuned)


def _head(adapter: Adapter, body: Body, seed: int) -> Predictor:
    task, width = adapter.split.task, adapter.model.width
    if adapter.head == "standard":
        standard: StandardHead = body.model.task_head
        standard.own_weights = own_weights(body)
        return standard
    if adapter.head == "text":
        if adapter.method == "frozen":
            raise WorkbenchError(
                "a frozen model with the head text has no weights that learn.",
                code="setting-invalid",
                where=adapter.model.name,
                remedy="Set another method, or set head to plain.",
            )
        if adapter.method == "adamix" and adapter.settings.part_sizes.consistency:
            raise WorkbenchError(
                "a model that writes its label makes no prediction whose consistency can be "
                "measured.",
                code="setting-invalid",
                where=adapter.model.name,
                remedy="Set consistency to 0, or set head to plain.",
            )
        train = adapter.split.train
        return Writer(task, body, train.batch, Scale.of(train.gold, task))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scale = Scale.of(adapter.split.train.gold, task)
        head = MixHead(task, body.layers, width, adapter.head == "lstm", scale)
    return head.to(body.model.device)


def own_weights(body: Body) -> list[Tensor]:
    """The weights of a standard head: those of the net that its states do not depend on."""
    inside = {id(weights) for weights in body.weights.values()}
    named = body.model.named_weights()
    return [named[name] for name in body.model.weight_places() if id(named[name]) not in inside]


def _standardise(adapter: Adapter, head: MixHead, train: Source) -> None:
    """Standardise with the untrained model's states, so that every attempt has the same inputs."""
    if not adapter.moments:
        head.standardise(train)
        adapter.moments.update({name: value.clone() for name, value in head.named_buffers()})
    for name, value in head.named_buffers():
        value.copy_(adapter.moments[name])


def source_of(adapter: Adapter, fitting: Fitting, part: Examples) -> Source:
    """The source of a split; for a frozen body its states are computed once and reused."""
    if adapter.head == "text":
        return Written(fitting.body, part.batch)
    if adapter.head == "standard":
        return Live(fitting.body, part.batch, fitting.body.model.task_head)
    if not fitting.groups:
        if id(part) not in adapter.read:
            adapter.read[id(part)] = Cached(adapter.model, part.batch, adapter.home)
        return adapter.read[id(part)]
    return Live(fitting.body, part.batch)
