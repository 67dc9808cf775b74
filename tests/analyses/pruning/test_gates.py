"""Trained gates: their distribution, their budgets, and the heads that they must keep."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from workbench import WorkbenchError
from workbench.analyses.pruning.ablation import ablated
from workbench.analyses.pruning.evaluation import Evaluation
from workbench.analyses.pruning.gates import Gates, hard_concrete, open_probability, relaxed_subset
from workbench.analyses.pruning.head_masks import heads_of
from workbench.models.head_removal import units, without
from workbench.models.scoring.eval_tasks import CHECK, PATIENCE, Plan, learn, loss_of

RATE = 0.2  # of gates
Mini = Callable[..., Evaluation]


@pytest.mark.parametrize("log_a", [-2.0, 0.0, 1.5])
def test_a_gate_is_open_as_often_as_it_says(log_a: float) -> None:
    uniform = torch.rand(200_000, 1, generator=torch.Generator().manual_seed(0))
    drawn = hard_concrete(torch.tensor([log_a]), uniform)
    often = float((drawn > 0).double().mean())
    assert often == pytest.approx(float(open_probability(torch.tensor(log_a))), abs=0.005)
    assert float(drawn.min()) == 0 and float(drawn.max()) == 1


def test_the_price_is_as_published() -> None:
    """P(open) = sigma(log a - tau log(0.1 / 1.1)), tau 0.33."""
    found = float(open_probability(torch.tensor(0.7)))
    assert found == pytest.approx(1 / (1 + math.exp(-(0.7 - 0.33 * math.log(0.1 / 1.1)))))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_subset_has_its_size_and_becomes_a_choice(size: int) -> None:
    scores = torch.tensor([0.3, -1.0, 2.0, 0.9, -0.2, 1.4])
    soft = relaxed_subset(scores, size, 4.0)
    assert float(soft.sum()) == pytest.approx(size, abs=0.05) and float(soft.max()) < 0.9
    hard = relaxed_subset(scores, size, 0.01)
    assert set(hard.topk(size).indices.tolist()) == set(scores.topk(size).indices.tolist())
    assert float(hard.topk(size).values.min()) > 0.9


def _learnt(
    evaluation: Evaluation, size: int | None, price: float, steps: int = 80
) -> list[tuple[int, int]]:
    return [
        head
        for unit in _gates(evaluation, size, price, steps).kept()
        for head in _unit(evaluation, unit)
    ]


def _unit(evaluation: Evaluation, unit: int) -> Sequence[tuple[int, int]]:
    return units(evaluation.model)[unit].heads


def _gates(evaluation: Evaluation, size: int | None, price: float, steps: int = 80) -> Gates:
    gates = Gates(evaluation.model, units(evaluation.model), 0, size)
    plan = Plan(steps, texts=12)
    learn(
        evaluation.model,
        evaluation.aim,
        evaluation.batch,
        range(len(evaluation.batch)),
        plan,
        on_progress=lambda step, loss: gates.cool(step / plan.steps),
        taps=gates.drawn,
        weights=[],
        more=[{"params": [gates.scores], "lr": RATE}],
        penalty=(lambda: price * open_probability(gates.scores).sum()) if size is None else None,
    )
    return gates


def _lost(evaluation: Evaluation) -> dict[tuple[int, int], float]:
    """What the loss gains without each head."""
    heads = heads_of(evaluation.model)
    found = ablated(
        evaluation.model, evaluation.aim, evaluation.questions, [[head] for head in heads]
    )
    lost = found.values("loss") - found.base.value("loss")
    return dict(zip(heads, lost.tolist(), strict=True))


@pytest.fixture(scope="module")
def lost(mini: Mini) -> dict[tuple[int, int], float]:
    return _lost(mini("gpt", 60))


def test_a_head_stays_open_if_it_is_worth_its_price(
    mini: Mini, lost: dict[tuple[int, int], float]
) -> None:
    """And closes if it is worth much less."""
    evaluation, price = mini("gpt", 60), 0.1
    gates = _gates(evaluation, None, price)
    kept = {head for unit in gates.kept() for head in _unit(evaluation, unit)}
    assert gates.converged(RATE) and not gates.converged(0.01)  # too slow to close and open again
    assert {head for head, worth in lost.items() if worth > 1.5 * price} <= kept
    assert not {head for head, worth in lost.items() if worth < price / 4} & kept


@pytest.mark.slow  # by day `test_a_head_stays_open_if_it_is_worth_its_price`
def test_a_budget_is_spent_on_the_heads_that_most_is_lost_without(
    mini: Mini, lost: dict[tuple[int, int], float]
) -> None:
    evaluation = mini("gpt", 60)
    best = sorted(lost, key=lambda head: -lost[head])[:4]
    assert sorted(_learnt(evaluation, 4, 0.0)) == sorted(best)


def test_gates_alone_learn_and_weights_stay(mini: Mini) -> None:
    evaluation = mini("bert")
    before = evaluation.model.content_hash
    del evaluation.model.content_hash
    assert not _gates(evaluation, None, 0.01, 20).converged(RATE)  # too few steps
    assert evaluation.model.content_hash == before
    assert all(weight.requires_grad for weight in evaluation.model.net.parameters())


def test_learning_lowers_the_loss_and_is_the_same_again(mini: Mini) -> None:
    evaluation = mini("gpt")
    steps_seen: list[int] = []
    runs = []
    for _ in range(2):
        model = without(evaluation.model, [(0, 0), (1, 2), (3, 3)])
        runs.append(
            learn(model, evaluation.aim, evaluation.batch, range(30), Plan(20, rate=1e-3, texts=10),
                  on_progress=lambda step, loss: steps_seen.append(step))
        )  # fmt: skip
    assert runs[0] == runs[1] and steps_seen == 2 * [10, 20]
    losses = runs[0].losses
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2


def test_learning_stops_where_dev_does_and_takes_the_best_weights(mini: Mini) -> None:
    """On four texts it learns them by heart: dev gets worse, and the best weights come back."""
    evaluation = mini("gpt")
    model, dev = without(evaluation.model, []), evaluation.questions
    found = learn(
        model, evaluation.aim, evaluation.batch, range(4), Plan(400, 3e-3, texts=4), dev=dev
    )
    assert found.converged and len(found.losses) < 400
    assert found.dev[found.best] == min(found.dev.values()) < max(found.dev.values())
    assert found.best <= len(found.losses) <= found.best + CHECK * PATIENCE
    assert loss_of(model, evaluation.aim, dev) == pytest.approx(found.dev[found.best], abs=1e-6)


def test_learning_that_is_cut_off_is_not_converged(mini: Mini) -> None:
    evaluation = mini("gpt")
    model = without(evaluation.model, [(0, 0), (1, 2), (3, 3)])
    plan = Plan(2 * CHECK, 1e-4, texts=10)
    found = learn(
        model, evaluation.aim, evaluation.batch, range(30), plan, dev=evaluation.questions
    )
    assert not found.converged and found.best == 2 * CHECK and list(found.dev) == [0, 10, 20]


def test_a_learning_rate_that_is_too_high_is_an_error(mini: Mini) -> None:
    evaluation = mini("gpt")
    model = without(evaluation.model, [])
    with torch.no_grad():
        next(model.net.parameters()).fill_(math.nan)
    with pytest.raises(WorkbenchError, match="training-diverged"):
        learn(model, evaluation.aim, evaluation.batch, range(30), Plan(3))


def test_training_without_texts_is_an_error(mini: Mini) -> None:
    evaluation = mini("gpt")
    with pytest.raises(WorkbenchError, match="too-few-sentences"):
        learn(evaluation.model, evaluation.aim, evaluation.batch, [], Plan(3))
