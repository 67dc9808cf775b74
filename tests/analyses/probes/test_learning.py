"""Many probes, each at its own rate, stopped in its own time, and kept as it was at its best.

And each as if it were alone, however its tensors lie in memory: torch's fused kernel on the CPU
reads memory flat and says nothing where a gradient is a strided view.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.analyses.probes.test_attention_probe import maps_of, sentences_of, towards, uniform
from tests.analyses.probes.test_structure import exact, forest
from workbench.analyses.probes import attention_features, codes, probe_training
from workbench.analyses.probes.batched_adam import (
    BETAS,
    NO_FACTORS,
    TINY,
    Best,
    TrainingState,
    fitted,
    minimised,
    optimal,
)
from workbench.analyses.probes.probe_training import Data, Probe, Schedule
from workbench.analyses.probes.representations import MODEL, Bank, Source, build_banks
from workbench.analyses.probes.structural_training import Probe as TreeProbe
from workbench.analyses.probes.structural_training import States, trained

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    ),
]


def test_steps_are_those_of_adam_at_each_probes_own_rate() -> None:
    torch.manual_seed(0)
    start = torch.randn(3, 4, 5)
    rates = torch.tensor([1e-1, 1e-2, 1e-3])
    now = TrainingState.of({"own": start}, 0.1)
    now.learning_rate = rates
    plain = [start[place].clone().requires_grad_() for place in range(3)]
    optimisers = [
        torch.optim.Adam([one], float(rate)) for one, rate in zip(plain, rates, strict=True)
    ]
    for _ in range(7):
        slopes = torch.randn(3, 4, 5)
        now.step({"own": slopes})
        for one, slope, optimiser in zip(plain, slopes, optimisers, strict=True):
            one.grad = slope
            optimiser.step()
    for place, one in enumerate(plain):
        assert torch.allclose(now.parameters["own"][place], one, atol=1e-6)


def test_a_step_can_be_quicker_for_one_parameter() -> None:
    now = TrainingState.of({"slow": torch.zeros(1, 2), "quick": torch.zeros(1, 2)}, 0.1)
    now.step({name: torch.ones(1, 2) for name in now.parameters}, {"quick": 10.0})
    assert torch.allclose(now.parameters["quick"], 10 * now.parameters["slow"])
    assert (now.parameters["slow"] < 0).all()


def test_the_best_epoch_is_kept_by_value_and_not_the_last() -> None:
    """Weights that only ever grow; dev is best on the way, at a place of each probe's own."""
    targets = torch.tensor([0.22, 1.0, 10.0])
    ran = []

    def loss(weights: list[Tensor], running: Tensor, batch: str) -> tuple[Tensor, int]:
        if batch == "train":
            ran.append(running.tolist())
            return -weights[0][:, 0], 1
        return (weights[0][:, 0] - targets[running]).abs() + 0.01, 1

    start = torch.zeros(3, 1)
    found = fitted([start], loss, lambda epoch: ["train"], ["dev"], 0.1, epochs=14)
    assert found.weights[0][:, 0].tolist() == pytest.approx([0.2, 1.0, 1.4], abs=0.06)
    assert found.epochs.tolist()[1:] == [10, 14]
    assert ran[-1] != [0, 1, 2] and ran[0] == [0, 1, 2]  # what is done has left
    assert (start == 0).all()


def test_what_is_kept_does_not_change_with_what_is_trained() -> None:
    own = {"own": torch.ones(2, 3)}
    best = Best.of(own)
    best.update(torch.arange(2), own, torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 1.0]), 1)
    own["own"].fill_(7)
    best.update(torch.arange(2), own, torch.tensor([-2.0, -0.5]), torch.tensor([2.0, 0.5]), 2)
    own["own"].fill_(9)
    assert best.parameters["own"].tolist() == [[1, 1, 1], [7, 7, 7]]
    assert best.epoch.tolist() == [1, 2]


def test_the_loss_decides_between_equal_scores() -> None:
    own = {"own": torch.tensor([[1.0]])}
    best = Best.of(own)
    for at, (value, loss) in enumerate([(1.0, 0.5), (2.0, 0.4), (3.0, 0.6)]):
        own["own"].fill_(value)
        best.update(torch.arange(1), own, torch.tensor([0.9]), torch.tensor([loss]), at)
    assert best.parameters["own"].tolist() == [[2.0]] and best.epoch.tolist() == [1]


# --- however tensors lie in memory ----------------------------------------------------------------


def strided(tensor: Tensor) -> Tensor:
    """The same values with the first dimension innermost, as the gradient of an einsum often is."""
    return tensor.movedim(0, -1).contiguous().movedim(-1, 0)


@pytest.fixture
def plain_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Every gradient of a training is handed over strided, and every step of the stack is compared
    with each probe's own, in plain arithmetic; what it was off by."""
    gradients, step = torch.autograd.grad, TrainingState.step
    off: list[float] = []

    def handed(*args: Any, **more: Any) -> tuple[Tensor | None, ...]:
        return tuple(each if each is None else strided(each) for each in gradients(*args, **more))

    def compared(
        self: TrainingState, slopes: Mapping[str, Tensor], quicker: Mapping[str, float] = NO_FACTORS
    ) -> None:
        expected = {}
        for name, slope in slopes.items():
            for place in range(len(slope)):
                number = int(self.steps[name]) + 1
                one = slope[place].clone()
                mean = BETAS[0] * self.mean[name][place] + (1 - BETAS[0]) * one
                square = BETAS[1] * self.square[name][place] + (1 - BETAS[1]) * one**2
                size = (square / (1 - BETAS[1] ** number)).sqrt() + TINY
                rate = float(self.learning_rate[place]) * quicker.get(name, 1.0)
                move = rate * mean / (1 - BETAS[0] ** number) / size
                expected[name, place] = self.parameters[name][place] - move
        step(self, slopes, quicker)
        for (name, place), value in expected.items():
            off.append(float((self.parameters[name][place] - value).abs().max()))

    monkeypatch.setattr(torch.autograd, "grad", handed)
    monkeypatch.setattr(TrainingState, "step", compared)
    yield off
    assert all(each < 1e-6 for each in off)


@pytest.mark.parametrize("device", DEVICES)
def test_strided_gradients_give_the_steps_of_adam(device: str) -> None:
    torch.manual_seed(0)
    start = torch.randn(3, 2, 72, device=device)
    now = TrainingState.of({"own": strided(start)}, 0.05)
    plain = [each.clone().requires_grad_() for each in start]
    optimisers = [torch.optim.Adam([one], 0.05, foreach=False) for one in plain]
    for _ in range(5):
        gradients = torch.randn(3, 2, 72, device=device)
        now.step({"own": strided(gradients)})
        for one, gradient, optimiser in zip(plain, gradients, optimisers, strict=True):
            one.grad = gradient.clone()
            optimiser.step()
    for one, expected in zip(now.parameters["own"], plain, strict=True):
        assert torch.allclose(one, expected, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["edge", "linear", "mlp"])
def test_a_probe_of_spans_learns_the_same_alone_from_strided_states(
    kind: str,
    device: str,
    data: Callable[..., Data],
    plain_steps: list[float],
) -> None:
    torch.manual_seed(3)
    tables = [strided(torch.randn(90, 8)) for _ in range(2)]
    made = _bank(tables, device)
    whole = data(torch.randint(0, 3, (90,)), 3)
    known, dev = whole.take(torch.arange(60)), whole.take(torch.arange(60, 90))
    quick = Schedule(learning_rate=1e-2, batch_size=32, epochs=2)
    probes = [Probe((0,)), Probe((1,)), Probe((0,), control=True)]
    together = probe_training.train(kind, 8, made, probes, known, dev, quick, 0)  # type: ignore[arg-type]
    assert plain_steps
    for row, probe in enumerate(together.probes):
        alone = probe_training.train(kind, 8, made, [probe], known, dev, quick, 0)  # type: ignore[arg-type]
        for name, value in alone.parameters.items():
            assert torch.allclose(together.parameters[name][row], value[0], atol=1e-6), name


def _bank(tables: list[Tensor], device: str) -> Bank:
    sources = [Source(MODEL, "encoder", layer, table) for layer, table in enumerate(tables)]
    return build_banks(sources, torch.device(device), torch.arange(len(tables[0])))[0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_tree_probe_learns_the_same_alone_from_strided_states(
    device: str, plain_steps: list[float]
) -> None:
    every = forest(24, 5)
    train, dev = every[:16], every[16:]
    rows = np.concatenate([tree.rows for tree in train])
    tables = [strided(exact(every)), strided(exact(every).flip(0))]
    states = States.of(tables, rows, torch.device(device))
    probes = [TreeProbe(task, source, 0) for task in ("distance", "depth") for source in (0, 1)]
    together = trained(states, train, dev, probes, 4, epochs=2).weights[0]
    assert plain_steps
    for row, probe in enumerate(probes):
        alone = trained(states, train, dev, [probe], 4, epochs=2).weights[0]
        assert torch.allclose(together[row], alone[0], atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "kind",
    [
        "attention and words",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("attention", "words")),
    ],
)
def test_an_attention_probe_reaches_the_optimum_of_plain_adam(
    kind: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Task and control in one stack, from strided gradients: each optimum is Adam's own."""
    every = sentences_of(12, 6)
    maps = maps_of(every, lambda one: [uniform(one), towards(one) / 2, towards(one).T / 3])
    words = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    sizes = attention_features.sizes_of(maps, every)
    where = torch.device(device)
    seen = attention_features.cases(every, maps, sizes, words, (0,), where)
    heads = slice(0, 3)

    def made(number: int) -> tuple[list[Tensor], attention_features.Score]:
        if kind == "attention":
            return attention_features.by_attention(number, heads, where)
        if kind == "words":
            return attention_features.by_words_alone(number, 5, where)
        return attention_features.by_attention_and_words(number, heads, 5, where)

    weights, score = made(2)
    variants = torch.tensor([0, 1], device=where)
    gradients = torch.autograd.grad
    with monkeypatch.context() as patched:
        patched.setattr(
            torch.autograd,
            "grad",
            lambda *args, **more: tuple(strided(each) for each in gradients(*args, **more)),
        )
        found = attention_features.train_probes(weights, score, variants, seen, seen, decays=[0.1])
    assert found.converged.all()
    for row in range(2):
        own = [part.requires_grad_() for part in made(1)[0]]
        optimiser = torch.optim.Adam(own, 0.02, foreach=False)
        for _ in range(600):
            optimiser.zero_grad()
            log_p = [
                attention_features._log_probabilities(own, score, variants[[row]], c) for c in seen
            ]
            gold = [
                p[0].gather(-1, c.heads[row][..., None])[..., 0][c.scored].sum()
                for p, c in zip(log_p, seen, strict=True)
            ]
            loss = -sum(gold) / sum(int(c.scored.sum()) for c in seen)
            (loss + 0.05 * sum(part.square().sum() for part in own)).backward()
            optimiser.step()
        for ours, plain in zip(found.weights, own, strict=True):
            assert torch.allclose(ours[row], plain[0], atol=1e-2)


@pytest.mark.parametrize("device", DEVICES)
def test_a_bayesian_probe_learns_the_same_alone_from_strided_states(
    device: str, data: Callable[..., Data]
) -> None:
    torch.manual_seed(4)
    made = _bank([strided(torch.randn(60, 6)), strided(torch.randn(60, 6))], device)
    known = data(torch.randint(0, 3, (60,)), 3)
    probes = [Probe((0,)), Probe((1,)), Probe((1,), control=True)]
    together = codes.train_bayesian(4, made, probes, known, 5, 0)
    for row, probe in enumerate(probes):
        alone = codes.train_bayesian(4, made, [probe], known, 5, 0)
        for ours, own in zip(together.layers, alone.layers, strict=True):
            for name, value in own.items():
                assert torch.allclose(ours[name][row], value[0], atol=1e-6), name


# --- to the optimum -------------------------------------------------------------------------------


def test_the_minimum_of_many_quadratics_is_found_whatever_their_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(3, 6, 6, generator=generator)
    curves = root @ root.mT + 0.1 * torch.eye(6)
    curves = curves * torch.tensor([1.0, 100.0, 0.1])[:, None, None]
    goal = torch.randn(3, 6, generator=generator)

    def objective(at: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        turned = torch.einsum("pij,pj->pi", curves[which], at - goal[which])
        return ((at - goal[which]) * turned).sum(1).double() / 2, turned

    found = minimised(objective, torch.zeros(3, 6), 1e-4)
    assert found.converged.all() and torch.allclose(found.weights, goal, atol=1e-2)
    assert not minimised(objective, torch.zeros(3, 6), 1e-4, steps=2).converged.any()


def test_weight_decay_is_chosen_on_dev_for_each_probe() -> None:
    """Of two means, dev agrees with one probe's train and not with the other's."""
    near, far = torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.0])

    def loss(weights: list[Tensor], which: Tensor, batch: Tensor) -> tuple[Tensor, int]:
        return (weights[0][:, 0] - batch[which]).square() / 2, 1

    found = optimal([torch.zeros(2, 1)], loss, [near], [far])
    assert found.decays[0] <= 0.01 and found.decays[1] == 1.0
    assert found.converged.all()
