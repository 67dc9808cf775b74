"""Linear probes at their optimum: as good as scikit-learn's on states of any shape and size."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from workbench.analyses.probes import logistic
from workbench.analyses.probes.probe_training import Data, Probe, evaluate_probes
from workbench.analyses.probes.representations import Bank

WIDTH, TOLD = 48, 12  # features, and those that tell the class
DEV, TEST = 600, 1500
POINT = 0.01


def plain(states: Tensor) -> Tensor:
    return states


def outlier(states: Tensor) -> Tensor:
    return torch.cat([states[:, :20], 100 * states[:, 20:21], states[:, 21:]], 1)


def offset(states: Tensor) -> Tensor:
    signs = torch.randn(WIDTH, generator=torch.Generator().manual_seed(1)).sign()
    return states + 50 * signs


def small(states: Tensor) -> Tensor:
    """What tells the class varies a hundredth of the rest."""
    return torch.cat([states[:, :TOLD] / 100, states[:, TOLD:]], 1)


def turned(states: Tensor) -> Tensor:
    """Axes are turned: no feature by itself is large or small, their directions are."""
    generator = torch.Generator().manual_seed(2)
    rotation, _ = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator))
    return small(states) @ rotation


def drawn(targets: int, classes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """States and classes; the frequency of a class falls with its number, as labels' do."""
    random = torch.Generator().manual_seed(seed)
    number = targets + DEV + TEST
    frequency = 1 / torch.arange(1, classes + 1) ** 1.3
    gold = torch.multinomial(frequency, number, True, generator=random)
    states = torch.randn(number, WIDTH, generator=random)
    states[:, :TOLD] += torch.randn(classes, TOLD, generator=random)[gold]
    return states, gold


def seen_in_train(gold: Tensor, targets: int) -> tuple[Tensor, int]:
    """Classes by number; -1 of those that train does not have."""
    classes = gold[:targets].unique()
    number = torch.full((int(gold.max()) + 1,), -1)
    number[classes] = torch.arange(len(classes))
    return number[gold], len(classes)


def parts(data: Data, targets: int) -> tuple[Data, Data, Data]:
    ends = (0, targets, targets + DEV, targets + DEV + TEST)
    train, dev, test = (
        data.take(torch.arange(*ends[place : place + 2])) for place in range(3)
    )  # fmt: skip
    return train, dev, test


def judged(states: Tensor, gold: Tensor, targets: int) -> float:
    """scikit-learn, with the strength that scores best on the same dev."""
    scaled = StandardScaler().fit(states[:targets].numpy()).transform(states.numpy())
    first, last = targets, targets + DEV
    best = max(
        (
            LogisticRegression(C=c, max_iter=5000).fit(scaled[:targets], gold[:targets])
            for c in logistic.STRENGTHS
        ),
        key=lambda net: net.score(scaled[first:last], gold[first:last]),
    )
    return float(best.score(scaled[last:], gold[last:]))


CASES = [(targets, classes) for targets in (300, 1500, 20_000) for classes in (17, 50)]


@pytest.mark.parametrize("shape", [plain, outlier, offset, small, turned])
@pytest.mark.parametrize(
    ("targets", "classes"),
    [
        pytest.param(*case, marks=[] if case == (300, 17) else pytest.mark.slow)
        for case in CASES
    ],
)  # fmt: skip
def test_a_linear_probe_is_at_most_a_point_under_scikit_learn(
    shape: Callable[[Tensor], Tensor],
    targets: int,
    classes: int,
    bank: Callable[..., Bank],
    data: Callable[..., Data],
) -> None:
    states, gold = drawn(targets, classes)
    states = shape(states).half().float()  # as they are kept
    made = bank(states)
    known, number = seen_in_train(gold, targets)
    train, dev, test = parts(data(known, number, softmax=True), targets)
    found = logistic.logistic(made, [Probe((0,))], train, dev)
    control = torch.zeros(1, dtype=torch.long)
    score = float(
        evaluate_probes(found.shape, found.parameters, found.reads, control, made, test)[0]
    )
    assert score >= judged(states, gold, targets) - POINT
    assert bool(found.converged.all())


@pytest.mark.parametrize("softmax", [True, False])
def test_the_optimum_is_that_of_a_plain_optimiser(softmax: bool) -> None:
    """The objective of every ridge, against torch's own L-BFGS in double precision."""
    states, gold = drawn(200, 5)
    states, gold = outlier(states)[:200], gold[:200]
    states = (states - states.mean(0)) / states.std(0, correction=0)
    one_hot = torch.nn.functional.one_hot(gold, 5)
    wanted = torch.stack([one_hot, one_hot.roll(1, 0)]).bool()
    ridge = torch.tensor([1.0, 0.01, 0.01])
    control = torch.tensor([0, 0, 1])
    axes, size = logistic._principal_axes(states)
    problem = logistic._Problem(states @ axes, wanted, size, softmax)
    found = problem.minimised(control, ridge, logistic.TOLERANCE)
    for place in range(3):
        truth, decay = wanted[control[place]].double(), float(ridge[place])

        def objective(weights: Tensor, bias: Tensor, truth: Tensor = truth, decay: float = decay
                      ) -> Tensor:  # fmt: skip
            logits = states.double() @ weights + bias
            if softmax:
                loss = -(logits.log_softmax(1) * truth).sum(1).mean()
            else:
                each = torch.nn.functional.binary_cross_entropy_with_logits
                loss = each(logits, truth, reduction="none").sum(1).mean()
            return loss + decay / 2 * weights.square().sum()

        weights = torch.zeros(WIDTH, 5, dtype=torch.double, requires_grad=True)
        bias = torch.zeros(5, dtype=torch.double, requires_grad=True)
        plain = torch.optim.LBFGS([weights, bias], max_iter=500, line_search_fn="strong_wolfe")

        def closure(weights: Tensor = weights, bias: Tensor = bias, plain: torch.optim.LBFGS = plain
                    ) -> Tensor:  # fmt: skip
            plain.zero_grad()
            value = objective(weights, bias)
            value.backward()
            return value

        plain.step(closure)
        own = objective(
            (axes @ found.weights[place, 1:]).double(), found.weights[place, 0].double()
        )
        best = float(objective(weights, bias).detach())
        assert float(own) == pytest.approx(best, abs=1e-4)
    assert bool(found.converged.all())


def test_a_probe_stopped_before_its_optimum_is_marked(
    bank: Callable[..., Bank], data: Callable[..., Data], monkeypatch: pytest.MonkeyPatch
) -> None:
    states, gold = drawn(300, 17)
    known, number = seen_in_train(gold, 300)
    train, dev, _ = parts(data(known, number, softmax=True), 300)
    monkeypatch.setattr(logistic, "STEPS", 2)
    found = logistic.logistic(bank(states), [Probe((0,))], train, dev)
    assert not bool(found.converged.any())


def test_random_labels_converge_to_chance_and_no_more(
    bank: Callable[..., Bank], data: Callable[..., Data]
) -> None:
    states, gold = drawn(300, 4)
    gold = gold[torch.randperm(len(gold), generator=torch.Generator().manual_seed(3))]
    train, dev, test = parts(data(gold, 4, softmax=True), 300)
    made = bank(states)
    found = logistic.logistic(made, [Probe((0,))], train, dev)
    assert bool(found.converged.all())
    score = float(
        evaluate_probes(
            found.shape, found.parameters, found.reads, torch.zeros(1).long(), made, test
        )[0]
    )
    majority = float((gold[-TEST:] == 0).float().mean())
    deviation = np.sqrt(majority * (1 - majority) / TEST)
    assert score < majority + 3 * deviation


def test_layers_and_controls_side_by_side_are_each_alone(
    bank: Callable[..., Bank], data: Callable[..., Data]
) -> None:
    states, gold = drawn(300, 6)
    made = bank(states, outlier(states).flip(1))
    train, dev, _ = parts(data(gold, 6, softmax=True), 300)
    train = Data(
        train.spans, torch.stack([train.labels[0], train.labels[0].roll(1, 0)]), train.unseen,
        train.scored, True,
    )  # fmt: skip
    probes = [Probe((0,)), Probe((1,)), Probe((1,), control=True)]
    together = logistic.logistic(made, probes, train, dev)
    for place, probe in enumerate(probes):
        alone = logistic.logistic(made, [probe], train, dev)
        for name in ("out", "out_bias"):
            assert torch.allclose(
                alone.parameters[name][0], together.parameters[name][place], atol=2e-3
            ), name
