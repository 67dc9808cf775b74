"""Weights and bits that go while a model learns: what training shows to be useless goes first."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parametrize

import workbench as wb
from tests.models import headed
from tests.models.compression.test_planted import TEXTS, change, useless
from tests.night import mostly
from workbench.engine.batch import Batch
from workbench.models.compression.in_training import (
    BEGIN,
    END,
    prune_in_training,
    quantise_in_training,
    share_at,
)
from workbench.models.compression.rounding import round_weights
from workbench.models.compression.weights import matrices
from workbench.models.huggingface import HuggingFace

STEPS = 8
LARGE, SMALL = 0.6, 0.1


@pytest.fixture(scope="module")
def texts() -> Batch:
    return wb.encode(list(wb.read(TEXTS).docs()))


@pytest.fixture(scope="module")
def bert() -> HuggingFace:
    return headed.made("bert", "BertForMaskedLM")


def nothing(model: HuggingFace, each_step: Callable[[int], object]) -> None:
    """A training that changes no weight."""
    for step in range(STEPS):
        each_step(step + 1)


def pruned_matrices(net: Any) -> Iterator[tuple[Any, str]]:
    for module in net.modules():
        if parametrize.is_parametrized(module):
            yield from ((module, name) for name in module.parametrizations)


def shrinking(marks: list[Tensor]) -> Callable[..., None]:
    """A training in which marked weights move to zero, and all others away from it."""

    def train(model: HuggingFace, each_step: Callable[[int], object]) -> None:
        found = list(pruned_matrices(model.net))
        own = [module.parametrizations[name].original for module, name in found]
        optimiser = torch.optim.SGD(own, lr=0.01)
        for step in range(STEPS):
            optimiser.zero_grad()
            loss = torch.zeros(())
            for (module, name), marked in zip(found, marks, strict=True):
                loss = loss + (getattr(module, name) ** 2 * (2.0 * marked - 1)).sum()
            loss.backward()
            optimiser.step()
            each_step(step + 1)

    return train


@pytest.fixture(scope="module")
def planted(bert: HuggingFace) -> tuple[HuggingFace, list[Tensor]]:
    """A model of which half of the weights are large, and their masks."""
    twin = bert.copy()
    generator = torch.Generator().manual_seed(0)
    marks = []
    with torch.no_grad():
        for module, name in matrices(twin):
            weights = getattr(module, name)
            marked = torch.rand(weights.shape, generator=generator) < 0.5
            weights.copy_(torch.where(marked, LARGE, SMALL) * weights.sign())
            marks.append(marked)
    return twin, marks


def gone(model: HuggingFace) -> Tensor:
    return torch.cat([(getattr(*each) == 0).flatten() for each in matrices(model)])


def test_movement_removes_large_weights_that_move_to_zero(
    planted: tuple[HuggingFace, list[Tensor]],
) -> None:
    model, marks = planted
    every = torch.cat([marked.flatten() for marked in marks])
    amount = float(every.float().mean()) - 0.01
    train = shrinking(marks)
    moved = gone(prune_in_training(model, amount, train, STEPS, by="movement"))
    assert float(moved.float().mean()) == pytest.approx(amount, abs=1e-3)
    assert bool(every[moved].all())
    assert not bool(every[gone(prune_in_training(model, amount, train, STEPS))].any())
    back = prune_in_training(
        model, 1 - amount - 0.02, train, STEPS, by="movement", order="reversed"
    )
    assert not bool(every[gone(back)].any())
    # its random twin, where others move, loses those; a random order finds neither
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.rand(marked.shape, generator=generator) < 0.5 for marked in marks]
    twin = gone(prune_in_training(model, 0.4, shrinking(drawn), STEPS, by="movement"))
    assert bool(torch.cat([each.flatten() for each in drawn])[twin].all())
    assert not bool(every[twin].all())
    random = gone(
        prune_in_training(model, 0.4, train, STEPS, by="movement", order="random", seed=7)
    )
    assert 0.45 < float(every[random].float().mean()) < 0.55


def test_the_schedule_is_cubic() -> None:
    steps, amount = 100, 0.8
    for done in range(steps + 1):
        passed = (done - BEGIN * steps) / ((END - BEGIN) * steps)
        expected = 0.0 if passed < 0 else amount + (0 - amount) * (1 - min(passed, 1.0)) ** 3
        assert share_at(done, steps, amount) == pytest.approx(expected)
    assert share_at(0, steps, amount, "before") == amount
    assert [share_at(n, steps, amount, "after") for n in (0, 99, 100)] == [0, 0, amount]


@pytest.mark.parametrize("when", mostly(["before", "while", "after"], "while"))
def test_useless_weights_are_found_at_any_time(
    bert: HuggingFace, texts: Batch, tmp_path: Path, when: Any
) -> None:
    model, amount = useless(bert, "weights"), 0.48
    cut = prune_in_training(model, amount, nothing, STEPS, when=when)
    assert change(model, cut, texts) < 1e-5
    assert float(gone(cut).float().mean()) >= amount
    for order in ("random", "reversed"):
        other = prune_in_training(model, amount, nothing, STEPS, when=when, order=order)  # type: ignore[arg-type]
        assert change(model, other, texts) > 0.1
    twin = prune_in_training(bert, amount, nothing, STEPS, when=when)
    assert change(bert, twin, texts) > 0.1
    twin.save(tmp_path)
    opened: Any = wb.load(tmp_path, device="cpu")
    assert change(twin, opened, texts) < 1e-5


def test_what_is_gone_stays_away(planted: tuple[HuggingFace, list[Tensor]]) -> None:
    model, marks = planted
    seen: list[Tensor] = []

    def train(twin: HuggingFace, each_step: Callable[[int], object]) -> None:
        def step(done: int) -> None:
            each_step(done)
            found = list(pruned_matrices(twin.net))
            seen.append(torch.cat([(getattr(*each) == 0).flatten() for each in found]))

        shrinking(marks)(twin, step)

    last = gone(prune_in_training(model, 0.7, train, STEPS))
    for before, after in zip(seen, [*seen[1:], last], strict=True):
        assert bool(after[before].all())
    assert 0 < float(seen[2].float().mean()) < 0.7


def imitating(model: HuggingFace, texts: Batch, rate: float) -> Callable[..., None]:
    """A training towards the logits of a model."""
    pieces = model.encode(texts)
    with torch.no_grad():
        goal = model.forward(pieces, hidden=False, logits=True).logits

    def train(twin: HuggingFace, each_step: Callable[[int], object]) -> None:
        optimiser = torch.optim.Adam(twin.net.parameters(), lr=rate)
        for step in range(20):
            optimiser.zero_grad()
            out = twin.forward(pieces, hidden=False, logits=True).logits
            assert out is not None and goal is not None
            torch.nn.functional.mse_loss(out, goal).backward()
            optimiser.step()
            each_step(step + 1)

    return train


@pytest.mark.parametrize(
    ("bits", "rate", "per"),
    mostly(
        [
            (bits, rate, per)
            for bits, rate in ((8, 3e-6), (4, 1e-3))
            for per in ("channel", "tensor")
        ],
        (4, 1e-3, "channel"),
    ),
)
def test_training_makes_up_for_bits(
    bert: HuggingFace, texts: Batch, bits: Any, rate: float, per: Any, tmp_path: Path
) -> None:
    after = round_weights(bert, bits, per=per)
    untrained = quantise_in_training(bert, nothing, bits, per=per)
    assert change(after, untrained, texts) < 1e-5
    aware = quantise_in_training(bert, imitating(bert, texts, rate), bits, per=per)
    assert change(bert, aware, texts) < change(bert, after, texts)
    # what it computes is what its rounded weights do: rounding again changes nothing
    assert change(aware, round_weights(aware, bits, per=per), texts) < 1e-5
    aware.save(tmp_path)
    opened: Any = wb.load(tmp_path, device="cpu")
    assert change(aware, opened, texts) < 1e-5


def test_inputs_are_rounded_in_training_and_after(
    bert: HuggingFace, texts: Batch, tmp_path: Path
) -> None:
    weights = round_weights(bert, 8)
    both = round_weights(bert, 8, activations=True, texts=texts)
    assert change(weights, both, texts) > 1e-4
    aware = quantise_in_training(bert, imitating(bert, texts, 1e-4), 8, activations=True)
    assert change(bert, aware, texts) < change(bert, both, texts)
    for model in (both, aware):
        model.save(tmp_path / "inputs")
        opened: Any = wb.load(tmp_path / "inputs", device="cpu")
        assert change(model, opened, texts) < 1e-5
        assert opened.content_hash == model.content_hash != weights.content_hash
    with pytest.raises(wb.WorkbenchError, match="texts"):
        round_weights(bert, 8, activations=True)
    with pytest.raises(wb.WorkbenchError, match="inputs"):
        wb.export_model(str(tmp_path / "inputs"), tmp_path / "plain")
