"""The loop: schedules, gradients, accumulation, what goes wrong, and what a model can learn."""

import math
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional

from tests.analyses.training.lessons import Told, lesson
from tests.analyses.training.texts import tokenizer
from workbench import WorkbenchError
from workbench.analyses.training import curves
from workbench.analyses.training.batches import piece_task, split_held_out
from workbench.analyses.training.distributed import Process
from workbench.analyses.training.families import SIZES, build
from workbench.analyses.training.objectives.chunked_lm_loss import head_start, linear_nats, nats_at
from workbench.analyses.training.packing import pack
from workbench.analyses.training.task import Micro, Plan, Quiet, Task, multiplier
from workbench.analyses.training.token_store import tokenize_text
from workbench.analyses.training.trainer import NAME, adamw, fit
from workbench.analyses.training.vocabulary import vocabulary_of

CPU = Process(torch.device("cpu"))
SIZE = replace(SIZES["tiny"], sequence_length=32)


# --- schedules ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["linear", "cosine", "constant", "wsd"])
def test_the_rate_rises_in_a_line(shape: str) -> None:
    assert multiplier(0.0, shape, 0.1) == 0
    assert multiplier(0.05, shape, 0.1) == pytest.approx(0.5)
    assert multiplier(0.1, shape, 0.1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("shape", "middle", "late", "end"),
    [
        ("linear", 0.5, 0.1, 0.0),
        ("cosine", 0.5, (1 + math.cos(0.9 * math.pi)) / 2, 0.0),
        ("constant", 1.0, 1.0, 1.0),
        ("wsd", 1.0, 0.5, 0.0),
    ],
)
def test_and_falls_by_its_shape(shape: str, middle: float, late: float, end: float) -> None:
    found = [multiplier(at, shape, 0.0) for at in (0.5, 0.9, 1.0)]
    assert found == pytest.approx([middle, late, end])


def test_plans_that_cannot_be_are_refused() -> None:
    for wrong, said in [
        ({"steps": None}, "either steps or a time budget"),
        ({"steps": 5, "seconds": 5.0}, "exactly one"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"learning_rate": math.nan}, "learning_rate is nan"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"),
        ({"warmup_fraction": 1.0}, "warmup_fraction is 1.0"),
    ]:
        with pytest.raises(WorkbenchError, match=said):
            Plan(**wrong)  # type: ignore[arg-type]
    with pytest.raises(WorkbenchError, match="multiple of 3"):
        Plan(batch_size=16).micros(3)
    assert Plan(batch_size=16, micro_batch_size=4).micros(2) == 4


# --- losses ---------------------------------------------------------------------------------------


def test_sliced_cross_entropy_is_the_whole_one() -> None:
    torch.manual_seed(0)
    states = torch.randn(700, 16, requires_grad=True)
    weight, bias = torch.randn(50, 16, requires_grad=True), torch.randn(50, requires_grad=True)
    gold = torch.randint(50, (700,))
    ours = linear_nats(states, weight, bias, gold)
    found = torch.autograd.grad(3 * ours, (states, weight, bias))
    whole = functional.cross_entropy(states @ weight.T + bias, gold, reduction="sum")
    wanted = torch.autograd.grad(3 * whole, (states, weight, bias))
    torch.testing.assert_close(ours, whole, rtol=1e-6, atol=1e-6)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["gpt", "spanbert", "bert", "roberta", "albert", "t5", "bart"])
def test_logits_where_they_are_wanted_give_the_loss_of_all(name: str) -> None:
    layout = {"gpt": "gpt", "t5": "t5", "roberta": "roberta", "bart": "roberta"}.get(name, "bert")
    torch.manual_seed(1)
    objective = "masked" if name == "spanbert" else ""
    net: Any = build(name, SIZE, tokenizer("bpe", layout), 0, objective).double().train()  # type: ignore[arg-type]
    ids = torch.randint(110, 300, (4, 20))
    wanted = torch.rand(4, 20) < 0.3
    at = wanted.flatten().nonzero()[:, 0]
    gold = torch.randint(110, 300, (len(at),))
    more = {"decoder_input_ids": ids.flip(1)} if net.config.is_encoder_decoder else {}
    nats, _ = nats_at(net, {"input_ids": ids, **more, "at": at, "gold": gold})
    nats.backward()
    found = {key: p.grad.clone() for key, p in net.named_parameters() if p.grad is not None}
    net.zero_grad()
    answer = net(input_ids=ids, **more)
    logits = answer["logits"] if "logits" in answer else answer["prediction_logits"]
    whole = functional.cross_entropy(logits.flatten(0, 1)[at], gold, reduction="sum")
    whole.backward()
    assert nats.item() == pytest.approx(whole.item(), rel=1e-6)
    assert head_start(net) is not None
    for key, parameter in net.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[key], parameter.grad, rtol=1e-6, atol=1e-6)


# --- steps ----------------------------------------------------------------------------------------


class Line(nn.Module):
    """y = w x + b, which a few numbers are to be put on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(1, 1)), nn.Parameter(torch.zeros(1))


def line_task(size: int, nan_at: int = -1) -> Task:
    """Micro-batches of points of y = 2 x + 1, of unlike numbers of them."""

    def draw(step: int, number: int) -> Micro:
        x = torch.arange(size) * 0.1 + number * size * 0.1
        x = x[: len(x) - (number == 0)]
        y = 2 * x + 1 + (math.nan if step == nan_at else 0)
        return Micro({"x": x, "y": y}, torch.tensor([len(x)]), len(x))

    def losses(net: nn.Module, inputs: Any) -> Tensor:
        found = net.weight[0, 0] * inputs["x"] + net.bias  # type: ignore[index]
        return ((found - inputs["y"]) ** 2).sum()[None]

    return Task(draw, losses)


def test_accumulation_changes_nothing() -> None:
    """Micro-batches of unlike size weigh by their targets."""
    whole, parts = Line(), Line()

    def together(step: int, number: int) -> Micro:
        micros = [line_task(4).draw(step, each) for each in range(4)]
        inputs = {key: torch.cat([m.inputs[key] for m in micros]) for key in ("x", "y")}
        return Micro(inputs, torch.stack([m.counts for m in micros]).sum(0), 0)

    plan = Plan(steps=20, batch_size=16, learning_rate=0.1, max_gradient_norm=0)
    fit(whole, replace(line_task(16), draw=together), plan, Quiet(), process=CPU)
    fit(parts, line_task(4), replace(plan, micro_batch_size=4), Quiet(), process=CPU)
    torch.testing.assert_close(whole.weight, parts.weight, rtol=0, atol=1e-5)
    assert abs(whole.bias.item()) > 0.1


def test_only_matrices_decay_and_the_optimiser_is_fused() -> None:
    optimizer = adamw(Line(), Plan(weight_decay=0.3), CPU.device)
    by_decay = {g["weight_decay"]: [p.ndim for p in g["params"]] for g in optimizer.param_groups}
    assert by_decay == {0.3: [2], 0.0: [1]}
    assert optimizer.defaults["fused"]


def test_a_budget_of_seconds_is_kept() -> None:
    told = Told()
    rows = fit(Line(), line_task(4), Plan(steps=None, seconds=0.5, points=5), told, process=CPU)
    assert 0.4 < rows[-1].seconds < 1.5
    assert 4 <= len(rows) <= 7
    assert rows[-1].rate < rows[1].rate
    assert all(total == 0 or total is None for _, total in told.progress)  # half a second, rounded


def test_a_loss_that_is_no_number_ends_the_run_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    plan = Plan(steps=40, learning_rate=0.1, checkpoint_steps=5)
    with pytest.raises(
        WorkbenchError, match=r"diverged at step 13.*\n.*lower learning rate.*still there"
    ):
        fit(Line(), line_task(4, nan_at=12), plan, Quiet(), process=CPU, scratch=tmp_path)
    with safe_open(tmp_path / NAME, framework="pt") as file:
        assert '"step": 10' in file.metadata()["reached"]
        assert all(file.get_tensor(key).isfinite().all() for key in file.keys())  # noqa: SIM118


def test_a_loss_that_climbs_ends_the_run() -> None:
    with pytest.raises(WorkbenchError, match="training-diverged"):
        fit(
            Line(),
            line_task(4),
            Plan(steps=500, learning_rate=1e3, max_gradient_norm=0),
            Quiet(),
            process=CPU,
        )


def test_a_full_disk_leaves_the_checkpoint_from_before(tmp_path: Path) -> None:
    net = nn.Linear(300, 300)

    def draw(step: int, number: int) -> Micro:
        if step == 7:  # no file may grow beyond 100 kB from here on
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        return Micro({"x": torch.ones(2, 300)}, torch.tensor([2]), 2)

    def losses(module: nn.Module, inputs: Any) -> Tensor:
        return (module(inputs["x"]) ** 2).mean(1).sum()[None]

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(WorkbenchError, match="cannot be written"):
            plan = Plan(steps=40, checkpoint_steps=5)
            fit(net, Task(draw, losses), plan, Quiet(), process=CPU, scratch=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    with safe_open(tmp_path / NAME, framework="pt") as file:
        assert '"step": 5' in file.metadata()["reached"]


# --- learning -------------------------------------------------------------------------------------


def test_a_model_can_learn_twelve_sentences_by_heart(tmp_path: Path) -> None:
    own = tokenizer("bpe", "gpt")
    lines = [line for line in lesson(3) if line]
    store = tokenize_text(lines, own, tmp_path, processes=1)
    packing = pack(store, vocabulary_of(own), 32)
    net = build("gpt", SIZE, own, 0)
    plan = Plan(steps=110, batch_size=8, learning_rate=4e-3, schedule="cosine")
    part, held = split_held_out(packing, 0.0)
    rows = fit(net, piece_task("causal", net, part, held, plan, 1), plan, Quiet(), process=CPU)
    assert rows[0].loss > 5
    assert rows[-1].loss < 0.3


# --- curves ---------------------------------------------------------------------------------------


def test_utilisation_is_the_formula() -> None:
    work = curves.Work(matrices=85_000_000, output_map=23_000_000, layers=12, width=768)
    flops = work.flops(length=512, with_logits=0.15)
    assert flops == 6 * (85e6 + 0.15 * 23e6) + 12 * 12 * 768 * 512
    assert curves.utilisation(800_000, flops, 989e12) == pytest.approx(800_000 * flops / 989e12)
    assert curves.utilisation(800_000, flops, curves.peak(torch.device("cpu"))) is None


def test_curves_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [
        curves.Row(1, 10, 0.1, 2.5, 1e-3, 100.0),
        curves.Row(2, 20, 0.2, 1 / 3, 1e-4, 99.5, 0.4, 2.25),
    ]
    curves.write_curves(rows, tmp_path / "curves.csv")
    assert curves.read_curves(tmp_path / "curves.csv") == rows
