"""A judge of `distil`: losses in plain loops over transformers' eager outputs, and their gradients.

Texts of unequal length, students narrower and wider than their teachers, three families.
"""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models import headed
from tests.night import mostly
from workbench.analyses.distillation.experiments import LOSSES
from workbench.analyses.distillation.losses import Pair
from workbench.analyses.distillation.student import matched, student_of

CASES = {
    "bert": ("BertForMaskedLM", 2, None),
    "albert": ("AlbertForMaskedLM", 2, 20),  # its layers share weights
    "gpt2": ("GPT2LMHeadModel", 1, 12),
    "t5": ("T5ForConditionalGeneration", 2, 40),
}
TEMPERATURE = 3.0


def batch(two_sided: bool) -> dict[str, Tensor]:
    """Two texts of 6 and 4 pieces; three predicted pieces."""
    ids = torch.tensor([[7, 9, 11, 13, 8, 12], [9, 8, 10, 7, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    inputs = {"input_ids": ids, "attention_mask": mask}
    if two_sided:  # a row predicts at each of its real pieces
        inputs["decoder_input_ids"] = torch.tensor([[0, 9, 11], [0, 7, 0]])
        at = [0, 1, 2, 3, 4]
    else:
        at = [1, 4, 8]
    return {**inputs, "at": torch.tensor(at), "gold": torch.tensor([9, 12, 10, 7, 8][: len(at)])}


def outputs(net: Any, inputs: dict[str, Tensor]) -> Any:
    own = {name: value for name, value in inputs.items() if name not in ("at", "gold")}
    return net(**own, output_hidden_states=True, output_attentions=True)


def eager(net: Any) -> Any:
    made = copy.deepcopy(net).eval()
    made.set_attn_implementation("eager")
    return made


def centred(row: Tensor) -> dict[int, Tensor]:
    """The scores of the keys that a row sees, minus their mean."""
    scores = {key: value.log() for key, value in enumerate(row) if value.item() > 0}
    mean = torch.stack(list(scores.values())).mean()
    return {key: value - mean for key, value in scores.items()}


def plain(
    student: Any, teacher: Any, maps: Any, inputs: dict[str, Tensor], layers: Any
) -> dict[str, Tensor]:
    """The sum of each term over its targets or pieces."""
    own, theirs = outputs(student, inputs), outputs(teacher, inputs)
    sums = {name: torch.zeros(()) for name in LOSSES}
    length = own.logits.shape[1]
    for place, gold in zip(inputs["at"].tolist(), inputs["gold"].tolist(), strict=True):
        row, column = divmod(place, length)
        a, b = own.logits[row, column], theirs.logits[row, column].detach()
        sums["hard"] = sums["hard"] - a.softmax(0)[gold].log()
        p, q = (b / TEMPERATURE).softmax(0), (a / TEMPERATURE).softmax(0)
        sums["soft"] = sums["soft"] + TEMPERATURE**2 * (p * (p / q).log()).sum()
    for stack, matched_layers in layers.items():
        side = f"{stack}_" if student.config.is_encoder_decoder else ""
        states, others = own[f"{side}hidden_states"], theirs[f"{side}hidden_states"]
        real = inputs["attention_mask"] > 0
        if side == "decoder_":
            real = torch.tensor([[True, True, True], [True, True, False]])
        kinds = [f"{side}attentions", *(["cross_attentions"] if side == "decoder_" else [])]
        for row, column in real.nonzero().tolist():

            def pair(
                name: str, a: int, b: int, at: Any = (row, column), sides: Any = (states, others)
            ) -> tuple[Any, Any]:
                vector = sides[0][a][at]
                mapped = maps[name].weight @ vector if name in maps else vector
                return mapped, sides[1][b][at].detach()

            a, b = pair("cosine", -1, -1)
            sums["cosine"] = sums["cosine"] + 1 - (a @ b) / (a.norm() * b.norm())
            a, b = pair("embeddings", 0, 0)
            sums["embeddings"] = sums["embeddings"] + ((a - b) ** 2).sum() / len(b)
            for layer, of in enumerate(matched_layers, 1):
                a, b = pair("states", layer, of)
                sums["states"] = sums["states"] + ((a - b) ** 2).sum() / len(b)
                for kind in kinds:
                    heads = own[kind][layer - 1][row], theirs[kind][of - 1][row].detach()
                    gaps = []
                    for head in range(len(heads[0])):
                        x, y = (centred(each[head, column]) for each in heads)
                        gaps += [(x[key] - y[key]) ** 2 for key in x]
                    sums["maps"] = sums["maps"] + torch.stack(gaps).sum() / len(gaps)
    return sums


@pytest.mark.parametrize("family", mostly(CASES, "albert", "gpt2"))
def test_losses_and_their_gradients_are_those_of_plain_loops(family: str) -> None:
    architecture, n_layers, width = CASES[family]
    teacher = headed.made(family, architecture)
    layers = matched(teacher, n_layers, "uniform")
    student = student_of(teacher, layers, width, seed=3, copied=False)
    torch.manual_seed(5)
    with torch.no_grad():
        for weights in student.net.parameters():
            weights += 0.15 * torch.randn_like(weights)
    pair = Pair(student, teacher, layers, LOSSES, TEMPERATURE).eval()
    with torch.no_grad():
        for weights in pair.to_teacher.parameters():
            weights += 0.1 * torch.randn_like(weights)
    inputs = batch(teacher.two_sided)
    own, bare = pair(inputs), eager(student.net)
    maps = {name: copy.deepcopy(module) for name, module in pair.to_teacher.items()}
    expected = plain(bare, eager(teacher.net), maps, inputs, layers)
    for name, value in zip(LOSSES, own, strict=True):
        assert math.isclose(value.item(), expected[name].item(), rel_tol=1e-5), name
        known, made = dict(bare.named_parameters()), dict(student.net.named_parameters())
        mine = torch.autograd.grad(value, [*made.values()], retain_graph=True, allow_unused=True)
        plainly = torch.autograd.grad(
            expected[name], [known[each] for each in made], retain_graph=True, allow_unused=True
        )
        for weight, a, b in zip(made, mine, plainly, strict=True):
            a, b = (torch.zeros(1) if each is None else each for each in (a, b))
            scale = max(1.0, float(b.abs().max()))
            torch.testing.assert_close(
                a.expand_as(b) if a.numel() == 1 else a, b.expand_as(a) if b.numel() == 1 else b,
                rtol=1e-4, atol=1e-5 * scale, msg=lambda text, at=(name, weight): f"{at}: {text}",
            )  # fmt: skip
        for part, module in maps.items():
            if part == name:
                a, b = (
                    torch.autograd.grad(loss, of.weight, retain_graph=True)[0]
                    for loss, of in ((value, pair.to_teacher[part]), (expected[name], module))
                )
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", CASES)
def test_the_teacher_gets_no_gradient_and_no_dropout(family: str) -> None:
    teacher = headed.made(family, CASES[family][0])
    layers = matched(teacher, None, "uniform")
    student = student_of(teacher, layers, None, seed=0, copied=True)
    pair = Pair(student, teacher, layers, LOSSES, TEMPERATURE).train()
    assert student.net.training and not teacher.net.training
    pair(batch(teacher.two_sided)).sum().backward()
    assert all(weights.grad is None for weights in teacher.net.parameters())
    assert {id(each) for each in teacher.net.parameters()}.isdisjoint(map(id, pair.parameters()))
