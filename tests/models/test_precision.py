"""Half precision: buffers stay exact, maps are made in float32, and what learns keeps learning.

All on the CPU in bf16 or fp16, which is where a GPU's numbers can be looked at without one.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer

import workbench as wb
from tests.models.conftest import IN_HALF
from tests.models.gated import shared
from tests.models.test_attention import INTERFACE, pieces
from tests.models.test_elmo import FORMS, SENTENCES
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench import encode
from workbench import read as read_corpus
from workbench.engine.taps import View
from workbench.engine.task import Task
from workbench.models.elmo import Elmo
from workbench.models.formats.pruned_checkpoint import save
from workbench.models.head_removal import units, without
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load
from workbench.models.output_heads.lm_heads import placed
from workbench.models.output_heads.standard_heads import with_standard_head
from workbench.models.scoring.eval_tasks import Plan, eval_task_of, learn

Folder = Callable[[str], Path]
ROTARY = ("llama", "gpt-neox", "modernbert")
WAYS = ("load", "random", "twin", "pruned", "pruned random")


def _made(way: str, folder: Path, precision: str, home: Path) -> HuggingFace:
    """A model in this precision, in each way there is of making one."""
    if way in ("load", "random"):
        model = load(f"{folder}{'@random' if way == 'random' else ''}", "cpu", precision)
    elif way == "twin":
        model = load(str(folder), "cpu", precision).reinitialised(1)
    else:
        whole = load(str(folder), "cpu")
        assert isinstance(whole, HuggingFace)
        save(without(whole, list(units(whole)[0].heads)), home)
        model = load(f"{home}{'@random' if 'random' in way else ''}", "cpu", precision)
    assert isinstance(model, HuggingFace)
    return model


def _buffers(model: HuggingFace) -> dict[str, Tensor]:
    return {name: b for name, b in model.net.named_buffers() if b.is_floating_point()}


@pytest.mark.parametrize(
    ("name", "way"),
    mostly(
        product(ROTARY, WAYS),
        ("gpt-neox", "load"),
        ("llama", "load"),
        ("llama", "twin"),
        ("llama", "pruned random"),
    ),
)
def test_what_positions_are_stays_in_float32(
    name: str, way: str, zoo_folder: Folder, tmp_path: Path
) -> None:
    """Rotary frequencies in bf16 turn the states at position 2,047 by a cosine of 0.2."""
    exact = _buffers(_made(way, zoo_folder(name), "fp32", tmp_path / "fp32"))
    model = _made(way, zoo_folder(name), "bf16", tmp_path / "bf16")
    assert model.precision == "bf16" and model.net.dtype == torch.bfloat16
    assert {weight.dtype for weight in model.net.parameters()} == {torch.bfloat16}
    found = _buffers(model)
    assert found.keys() == exact.keys() and any("inv_freq" in each for each in found)
    for each, buffer in found.items():
        assert buffer.dtype == torch.float32 and torch.equal(buffer, exact[each]), each


def test_a_classifier_keeps_them_too(zoo_folder: Folder) -> None:
    model = load(str(zoo_folder("llama")), "cpu", "bf16")
    assert isinstance(model, HuggingFace)
    task = Task("kind", "class", "kind", ("one", "two"), False, "accuracy")
    made = with_standard_head(model, task, 0)
    assert {buffer.dtype for buffer in _buffers(made).values()} == {torch.float32}
    assert made.net.dtype == torch.bfloat16


@pytest.mark.parametrize("way", ["load", "random"])
def test_what_overflows_in_fp16_stays_in_float32(way: str, zoo_folder: Folder) -> None:
    net = _made(way, zoo_folder("t5"), "fp16", Path()).net
    kinds = {"wo" in name.split("."): weight.dtype for name, weight in net.named_parameters()}
    assert kinds == {True: torch.float32, False: torch.float16}


@pytest.mark.parametrize(("name", "precision"), IN_HALF)
def test_every_architecture_answers(name: str, precision: str, zoo_folder: Folder) -> None:
    exact, model = shared(name), load(str(zoo_folder(name)), "cpu", precision)
    assert isinstance(model, HuggingFace)
    text = pieces(model, 3, 9, True)
    with torch.no_grad():
        found, expected = (m.forward(text, hidden=False).final for m in (model, exact))
    for stack, states in found.items():
        apart = (states.float() - expected[stack]).norm() / expected[stack].norm()
        assert apart < 0.1, stack


class _Seen:
    """Keeps every view of a pass."""

    needs_probabilities = True

    def __init__(self) -> None:
        self.views: list[View] = []

    def wants(self, site: Any) -> bool:
        return True

    def see(self, view: View) -> None:
        self.views.append(view)

    def close(self, whole: bool) -> None: ...


@pytest.mark.parametrize(
    ("name", "under_autocast"),
    mostly(product(INTERFACE, (False, True)), ("bert", True), ("llama", False), ("t5-3-2", False)),
)
def test_maps_are_made_in_float32(name: str, under_autocast: bool) -> None:
    """Scores rounded to bf16 tie, and then the argmax of a row is another word."""
    model, seen = shared(name, torch.bfloat16), _Seen()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=under_autocast):
        model.forward(pieces(model, 2, 9, False), taps=[seen], hidden=False)
    assert seen.views
    for view in seen.views:
        assert view.probabilities.dtype == torch.float32 and view.vectors is not None
        query, key = view.vectors.query.double(), view.vectors.key.double()
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        scores = view.vectors.scale * (query @ key.mT)
        if view.vectors.bias is not None:
            scores += view.vectors.bias.double()
        scores = scores.masked_fill(view.probabilities == 0, -torch.inf)
        assert torch.allclose(view.probabilities.double(), scores.softmax(-1), atol=1e-5)


@pytest.mark.parametrize("form", mostly(FORMS, "no clipping"))
def test_an_elmo_learns_under_autocast(form: str) -> None:
    """Weights in float32, products in bf16, as on a GPU."""
    options = replace(FORMS[form], cell_clip=None, projection_clip=None)

    def gradients(enabled: bool) -> dict[str, Tensor]:
        elmo = Elmo.random(options, seed=0)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            layers, _ = elmo(SENTENCES)
            loss = torch.stack([layer.float().square().sum() for layer in layers]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return {name: weight.grad for name, weight in elmo.weights.items()}  # type: ignore[misc]

    exact = gradients(False)
    for name, gradient in gradients(True).items():
        assert gradient.dtype == torch.float32 and gradient.isfinite().all() and gradient.any(), (
            name
        )
        # where two letters are as good, rounding chooses which of them a filter learns from
        bound = 0.3 if "W_cnn" in name or name == "char_embed" else 0.1
        assert (gradient - exact[name]).norm() < bound * exact[name].norm(), name


def test_a_fine_tuning_in_bf16_adds_up_small_steps() -> None:
    """A step is often below bf16's spacing: added to rounded weights, it would be lost."""
    batch = encode(list(wb.read("primer:size=16").docs("train")))
    moved: dict[str, Tensor] = {}
    for precision in ("fp32", "bf16"):
        model = wb.load("mini:gpt", "cpu", precision)
        assert isinstance(model, HuggingFace)
        before = _flat(model)
        found = learn(model, eval_task_of(model), batch, range(16), Plan(24, rate=3e-5, texts=2))
        assert np.isfinite(found.losses).all()
        assert {weight.dtype for weight in model.net.parameters()} == {model.net.dtype}
        moved[precision] = _flat(model) - before
    length = moved["bf16"].norm() / moved["fp32"].norm()
    alike = torch.cosine_similarity(moved["bf16"], moved["fp32"], dim=0)
    assert 0.8 < length < 1.25 and alike > 0.8


def _flat(model: HuggingFace) -> Tensor:
    return torch.cat([w.detach().double().flatten() for w in model.net.parameters()])


@pytest.mark.parametrize("name", mostly(["bert", "gpt2", "t5", "bart", "llama"], "bert", "t5"))
def test_logits_of_half_weights_are_not_rounded(name: str, zoo_folder: Folder) -> None:
    """Rounded to bf16, the two likeliest pieces often have the same logit, and the first wins."""
    kind = getattr(transformers, HEADED[name])
    torch.manual_seed(0)
    net = kind(AutoConfig.from_pretrained(zoo_folder(name)))
    tokenizer = AutoTokenizer.from_pretrained(zoo_folder(name))
    model = HuggingFace(placed(net, torch.device("cpu"), torch.bfloat16), tokenizer, name)
    head = net.get_output_embeddings()
    read: list[Tensor] = []
    hook = head.register_forward_pre_hook(lambda module, args: read.append(args[0]))
    text = model.encode(encode(read_corpus("primer:size=20").docs("train")))
    with torch.no_grad():
        logits = model.forward(text, logits=text.mask).logits
    hook.remove()
    assert logits is not None and logits.dtype == torch.float32
    exact = read[0].double() @ head.weight.double().T
    if head.bias is not None:
        exact = exact + head.bias.double()
    made = exact if exact.ndim == 2 else exact[text.mask]
    torch.testing.assert_close(logits.double(), made, atol=1e-5, rtol=1e-5)
    assert "forward" not in head.__dict__
