"""AdaMix: routes at random, two that shall agree, and one adapter that is left."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.analyses.transfer.test_ways import fitted, head_of, split
from tests.judges.odd import run_here
from tests.minis import shared
from tests.models.gated import opened
from workbench.analyses.transfer import trainer
from workbench.analyses.transfer.adaptation import fitting_of
from workbench.analyses.transfer.backbone import body_of
from workbench.analyses.transfer.experiments import Sizes
from workbench.analyses.transfer.features import Live
from workbench.analyses.transfer.trainer import disagreement
from workbench.engine.halving import Limit
from workbench.models import added_modules
from workbench.models.added_modules import Adapter, Mixing, Mixture

WIDTH, INNER = 7, 3


def mixture(mixing: Mixing, seed: int = 0) -> Mixture:
    torch.manual_seed(seed)
    made = Mixture(WIDTH, INNER, mixing)
    with torch.no_grad():
        for weights in made.parameters():
            weights.normal_()
    return made


def adapters(made: Mixture) -> list[list[Adapter]]:
    """The adapter of each route: of each first map and each second one."""
    routes = []
    for down in made.down:
        routes.append([])
        for up in made.up:
            one = Adapter(WIDTH, INNER)
            one.down, one.up = down, up
            routes[-1].append(one)
    return routes


def test_a_pass_in_training_takes_one_map_of_each_kind_and_all_come_up() -> None:
    made, states = mixture(Mixing(3, share_up=False)), torch.randn(2, 4, WIDTH)
    outputs = {
        (i, j): one(states) for i, row in enumerate(adapters(made)) for j, one in enumerate(row)
    }
    taken = set()
    for _ in range(80):
        output = made.train()(states)
        same = [route for route, known in outputs.items() if torch.allclose(output, known)]
        assert len(same) == 1
        taken |= {*same}
    assert taken == set(outputs)


@pytest.mark.parametrize("share_up", [True, False])
def test_the_average_of_equal_adapters_is_any_of_them(share_up: bool) -> None:
    made, states = mixture(Mixing(4, share_up)), torch.randn(2, 5, WIDTH)
    assert len(made.up) == (1 if share_up else 4)
    for maps in (made.down, made.up):
        for each in maps:
            each.load_state_dict(maps[0].state_dict())
    one = adapters(made)[0][0]
    torch.testing.assert_close(made.merged()(states), one(states))
    torch.testing.assert_close(made.eval()(states), one(states))


@pytest.mark.parametrize("keep", ["average", "first"])
def test_what_is_left_is_what_was_scored(keep: Any) -> None:
    made, states = mixture(Mixing(4, share_up=False, keep=keep)), torch.randn(3, WIDTH)
    merged = made.merged()
    torch.testing.assert_close(merged(states), made.eval()(states))
    first = adapters(made)[0][0](states)
    assert torch.allclose(merged(states), first) == (keep == "first")
    plain = sum(down.weight for down in made.down) / 4 if keep == "average" else made.down[0].weight
    torch.testing.assert_close(merged.down.weight, plain)


def test_routes_with_known_predictions_have_the_known_divergence() -> None:
    a, b = (torch.tensor([[p, 1 - p]]).log() for p in (0.5, 0.8))
    there = 0.5 * math.log(0.5 / 0.8) + 0.5 * math.log(0.5 / 0.2)
    back = 0.8 * math.log(0.8 / 0.5) + 0.2 * math.log(0.2 / 0.5)
    found = float(disagreement(a, b, None))
    assert math.isclose(found, (there + back) / 2, rel_tol=1e-6)
    assert float(disagreement(a, a, None)) == 0
    assert float(disagreement(torch.tensor([[1.0]]), torch.tensor([[3.0]]), None)) == 4
    words = torch.tensor([[True, False, True]])
    x, y = torch.randn(1, 3, 5), torch.randn(1, 3, 5)
    plainly = [
        sum(
            (p - q) * (math.log(p) - math.log(q)) / 2
            for p, q in zip(x[0, w].softmax(0).tolist(), y[0, w].softmax(0).tolist(), strict=True)
        )
        for w in (0, 2)
    ]
    assert math.isclose(float(disagreement(x, y, words)), sum(plainly) / 2, rel_tol=1e-5)


@pytest.mark.parametrize("consistency", [0.0, 2.0])
def test_a_step_is_a_loss_and_the_divergence_of_two_routes(consistency: float) -> None:
    """The gradients are those of a plain loop over the two routes that chance took."""
    parts, body = split(), body_of(opened("bert"))
    sizes = Sizes(adapter_width=4, n_adapters=3, share_up=False, consistency=consistency)
    made, head = fitting_of(body, "adamix", sizes, 0), head_of(body, parts).eval()
    body.train(False)
    body.model.added.modules.train()  # type: ignore[attr-defined]
    with torch.no_grad():
        for weights in made.trained_weights:
            weights += 0.3 * torch.randn_like(weights)
    source, texts = Live(body, parts.train.batch), [0, 3, 5]
    gold = [parts.train.gold[text] for text in texts]
    torch.manual_seed(11)
    ((loss, _, found),) = trainer._gradients(
        head, (source, parts.train), texts, made.trained_weights, Limit(), made.consistency
    )
    torch.manual_seed(11)
    first, second = (head(source.read(texts, head.mix)) for _ in range(2))
    expected = -torch.stack(
        [row.log_softmax(0)[label] for row, label in zip(first, gold, strict=True)]
    ).mean()
    if consistency:
        for p, q in zip(first.softmax(-1), second.softmax(-1), strict=True):
            both = (p * (p / q).log()).sum() + (q * (q / p).log()).sum()
            expected = expected + consistency * both / 2 / len(texts)
    assert math.isclose(loss.item(), expected.item(), rel_tol=1e-5)
    plainly = torch.autograd.grad(expected, made.trained_weights, allow_unused=True)
    for a, b in zip(found, plainly, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_after_training_there_are_ordinary_adapters(tmp_path: Path) -> None:
    made, _ = fitted(opened("bert"), "adamix")
    model: Any = made.body.model
    parts = split()
    mixed = model.states(model.encode(parts.test.batch))[-1]
    added_modules.merge(model)
    torch.testing.assert_close(model.states(model.encode(parts.test.batch))[-1], mixed)
    model.save(tmp_path)
    again = wb.load(tmp_path, device="cpu")
    assert again.added.kind == "adapters"  # type: ignore[attr-defined]
    torch.testing.assert_close(again.states(again.encode(parts.test.batch))[-1], mixed)


def test_it_is_a_method_of_finetune() -> None:
    result = run_here(
        "finetune", opened("bert"), wb.read("primer/sentiment:size=60"), method="adamix",
        seeds=(0,), learning_rates=(1e-2,), max_epochs=1, max_train=16, max_dev=8, max_test=8,
    )  # fmt: skip
    assert result.tables["means"]["method"].tolist() == ["adamix"]
    with pytest.raises(wb.WorkbenchError, match="consistency"):
        run_here(
            "finetune", shared("mini:t5"), wb.read("primer/sentiment:size=60"),
            method="adamix", head="text", seeds=(0,), max_train=8, max_dev=4, max_test=4,
        )  # fmt: skip
