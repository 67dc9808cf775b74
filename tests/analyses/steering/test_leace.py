"""Erasure in closed form: nothing linear is left, with the least change; random subspaces alike."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from workbench.analyses.steering.leace import Whitened, fitted, random_eraser, without

N, WIDTH, KINDS = 600, 12, 4


def labelled(seed: int = 0) -> tuple[Tensor, Tensor]:
    """States with uneven, correlated numbers, in which the labels are in two directions."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, KINDS, (N,), generator=generator)
    mix = torch.randn(WIDTH, WIDTH, generator=generator)
    centres = torch.randn(KINDS, 2, generator=generator) @ torch.randn(
        2, WIDTH, generator=generator
    )
    states = torch.randn(N, WIDTH, generator=generator) @ mix + 3 * centres[labels] + 5
    return states, labels


def test_after_the_erasure_all_classes_have_one_mean_and_no_probe_finds_them() -> None:
    states, labels = labelled()
    eraser = fitted(states, labels)
    erased = eraser.erased(states)
    means = torch.stack([erased[labels == kind].mean(0) for kind in range(KINDS)])
    before = torch.stack([states[labels == kind].mean(0) for kind in range(KINDS)])
    assert (means - means.mean(0)).abs().max() < 1e-3 < (before - before.mean(0)).abs().max()
    probe = LogisticRegression(max_iter=2000).fit(states.numpy(), labels.numpy())
    assert probe.score(states.numpy(), labels.numpy()) > 0.7
    probe = LogisticRegression(max_iter=2000).fit(erased.numpy(), labels.numpy())
    most = labels.bincount().max().item() / N
    assert probe.score(erased.numpy(), labels.numpy()) < most + 0.02
    torch.testing.assert_close(erased.mean(0), states.mean(0), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(eraser.erased(erased), erased, atol=1e-3, rtol=1e-3)
    assert eraser.rank == 3 == np.linalg.matrix_rank(np.eye(WIDTH) - eraser.map.numpy(), tol=1e-4)


def test_it_is_the_formula_of_the_paper() -> None:
    """I - W^+ (W S)(W S)^+ W with W the inverse root of the covariance, S that with the labels."""
    states, labels = labelled(1)
    space = Whitened.of(states)
    x = states.double().numpy() - states.double().numpy().mean(0)
    z = np.eye(KINDS)[labels.numpy()]
    w = space.whiten.numpy()
    s = x.T @ (z - z.mean(0)) / (N - 1)
    matrix = np.eye(WIDTH) - np.linalg.pinv(w) @ (w @ s) @ np.linalg.pinv(w @ s, 1e-6) @ w
    expected = (matrix @ x.T).T + states.numpy().mean(0)
    np.testing.assert_allclose(fitted(states, labels).erased(states).numpy(), expected, atol=1e-3)
    covariance = x.T @ x / (N - 1)
    level = np.diag(covariance).mean()
    whitened = w @ (0.99 * covariance + 0.01 * level * np.eye(WIDTH)) @ w
    np.testing.assert_allclose(whitened, np.eye(WIDTH), atol=1e-6)
    np.testing.assert_allclose(w @ space.colour.numpy(), np.eye(WIDTH), atol=1e-6)


def test_no_other_eraser_of_the_labels_changes_states_less() -> None:
    states, labels = labelled(2)
    least = (fitted(states, labels).erased(states) - states).norm()
    directions = torch.stack([states[labels == k].mean(0) for k in range(KINDS)])
    orthogonal = without(directions[1:] - directions[:1])
    changed = (
        orthogonal.erased(states) - states - (orthogonal.erased(states) - states).mean(0)
    ).norm()
    assert least < changed


def test_a_random_subspace_of_as_many_directions_leaves_the_labels() -> None:
    states, labels = labelled(3)
    space, generator = Whitened.of(states), torch.Generator().manual_seed(0)
    eraser = random_eraser(space, 3, generator)
    assert np.linalg.matrix_rank(np.eye(WIDTH) - eraser.map.numpy(), tol=1e-4) == 3
    erased = eraser.erased(states).numpy()
    probe = LogisticRegression(max_iter=2000).fit(erased, labels.numpy())
    assert probe.score(erased, labels.numpy()) > 0.6


@pytest.mark.parametrize("n", [1, 3])
def test_directions_of_ones_own_are_projected_away(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    states = torch.randn(20, WIDTH, generator=generator)
    directions = torch.randn(n, WIDTH, generator=generator)
    eraser = without(torch.cat([directions, 2 * directions[:1]]))
    assert eraser.rank == n
    assert (eraser.erased(states) @ directions.T).abs().max() < 1e-4
    assert (eraser.erased(states) - states).norm(dim=1).min() > 1e-3
