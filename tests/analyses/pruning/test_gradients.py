"""Importance: gradients of single texts, all in one backward pass."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.analyses.pruning.models import planted, texts
from tests.night import mostly
from workbench import Gate, read
from workbench.analyses.pruning.evaluation import Evaluation, TextScores, build_head_evaluation
from workbench.analyses.pruning.head_masks import heads_of, opened
from workbench.analyses.pruning.importance import GateGradients, gate_gradients
from workbench.models.huggingface import HuggingFace

Mini = Callable[..., Evaluation]
ONE_EACH = TextScores(np.zeros(2), np.zeros(2), np.ones(2))  # two texts of one piece
QUARTET = pytest.mark.parametrize("name", ["bert", "gpt", "t5"])


@pytest.fixture
def in_double(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mini]:
    """A built-in model in float64: float32 leaves T5 four digits of a gradient."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)

    def made(name: str) -> Evaluation:
        model = wb.load(f"mini:{name}")
        assert isinstance(model, HuggingFace)
        model.net.double()
        return build_head_evaluation(model, list(read("primer").docs("test", 8)), "", 0)

    yield made
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", mostly(("bert", "gpt", "t5"), "t5"))
def test_all_texts_at_once_are_as_one_by_one(name: str, in_double: Mini) -> None:
    evaluation = in_double(name)
    together = gate_gradients(evaluation.model, evaluation.aim, evaluation.questions)
    alone = []
    for question in evaluation.questions:
        for row in range(len(question)):
            one = question.take(torch.tensor([row]))
            gates = opened(evaluation.model, 1).requires_grad_(True)
            nats = evaluation.aim.answer(evaluation.model, one, [Gate(gates)]).nats.sum()
            (gradient,) = torch.autograd.grad(nats, gates)
            alone.append([float(gradient[0, site, head]) for site, head in together.heads])
    assert np.allclose(together.values, alone, rtol=0, atol=1e-9)
    assert np.abs(together.values).max() > 0.1


@pytest.mark.parametrize("name", mostly(("bert", "gpt", "t5"), "bert"))
def test_a_gradient_is_what_a_little_of_a_gate_changes(name: str, mini: Mini) -> None:
    evaluation = mini(name)
    found = gate_gradients(evaluation.model, evaluation.aim, evaluation.questions)
    question, little = evaluation.questions[0], 2e-3
    for place, (site, head) in list(enumerate(found.heads))[::5]:
        sums = []
        for sign in (1, -1):
            gates = opened(evaluation.model)
            gates[site, head] += sign * little
            with torch.no_grad():
                answer = evaluation.aim.answer(evaluation.model, question, [Gate(gates)])
            sums.append(answer.nats.double())
        wanted = ((sums[0] - sums[1]) / (2 * little)).numpy()
        apart = np.abs(found.values[: len(question), place] - wanted)
        assert np.median(apart) < 0.02 and np.quantile(apart, 0.9) < 0.1  # a relu has corners


def test_effects_of_texts_do_not_cancel() -> None:
    """What helps one text and harms another as much matters: the batch's gradient would be zero."""
    found = GateGradients([(0, 0), (0, 1)], np.array([[3.0, 0.1], [-3.0, 0.1]]), ONE_EACH)
    assert found.importance().tolist() == [3.0, 0.1]
    assert found.values.sum(0)[0] == 0


def test_heads_of_one_gate_add_up_text_by_text() -> None:
    found = GateGradients([(0, 0), (1, 0)], np.array([[1.0, -1.0], [2.0, 2.0]]), ONE_EACH)
    assert found.together([[(0, 0), (1, 0)], [(0, 0)]]).tolist() == [2.0, 1.5]


@QUARTET
def test_a_head_that_writes_nothing_is_of_no_importance(name: str, mini: Mini) -> None:
    from workbench.models.head_removal import parts, without

    model = without(mini(name).model, [])  # a copy
    part: Any = parts(model)[0].output
    with torch.no_grad():
        part.weight[:, : part.weight.shape[1] // 4] = 0  # of four heads the first
        if hasattr(part, "nf"):
            part.weight[:] = mini(name).model.net.state_dict()[_name(model, part)]
            part.weight[: part.weight.shape[0] // 4] = 0
    evaluation = mini(name)
    found = gate_gradients(model, evaluation.aim, evaluation.questions)
    numbers = dict(zip(found.heads, found.importance(), strict=True))
    assert numbers[0, 0] == 0
    assert numbers[0, 1] > 0


def _name(model: Any, part: Any) -> str:
    return next(f"{name}.weight" for name, each in model.net.named_modules() if each is part)


def test_more_of_a_value_and_less_of_its_output_change_no_importance(mini: Mini) -> None:
    """A layer may be scaled, so long as it does the same: its ranking stays, and its numbers."""
    from workbench.models.head_removal import parts, without

    evaluation = mini("bert")
    model = without(evaluation.model, [])
    module: Any = parts(model)[1].module
    output: Any = parts(model)[1].output
    with torch.no_grad():
        module.value.weight.mul_(8)
        module.value.bias.mul_(8)
        output.weight.div_(8)
    before = gate_gradients(evaluation.model, evaluation.aim, evaluation.questions).importance()
    after = gate_gradients(model, evaluation.aim, evaluation.questions).importance()
    assert np.allclose(before, after, rtol=1e-4, atol=1e-6)


def test_nothing_is_left_behind(mini: Mini) -> None:
    """Weights may learn again, and have no gradients of their own; two passes are not added up."""
    evaluation = mini("bert")
    one, other = (
        gate_gradients(evaluation.model, evaluation.aim, evaluation.questions) for _ in range(2)
    )
    assert np.array_equal(one.values, other.values)
    assert all(w.requires_grad and w.grad is None for w in evaluation.model.net.parameters())


def test_a_sure_answer_has_no_gradient_though_all_depends_on_it() -> None:
    """The head that answers every question: to first order it is worth nothing."""
    from tests.analyses.pruning.models import INDUCTION
    from workbench.analyses.pruning.ablation import ablated

    model = planted()
    evaluation = build_head_evaluation(model, texts(model), "", 0)
    heads = heads_of(model)
    importance = dict(
        zip(
            heads,
            gate_gradients(model, evaluation.aim, evaluation.questions).importance(),
            strict=True,
        )
    )
    found = ablated(model, evaluation.aim, evaluation.questions, [[head] for head in heads])
    lost = dict(zip(heads, found.values("loss") - found.base.value("loss"), strict=True))
    assert importance[INDUCTION] < 1e-3 < 1 < lost[INDUCTION]
