"""The residual stream is a sum: states and outputs of sublayers add up in every architecture."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from transformers import Olmo2Config, Olmo2ForCausalLM

from tests.models import zoo
from tests.models.headed import made
from tests.models.test_attention import cases
from tests.models.test_logits import HEADED
from tests.night import of_zoo
from tests.planted import bert, gpt2
from tests.planted.model import Planted
from workbench import Gate, WorkbenchError
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.residual_stream import plan, residual_stream

PRE_NORM = {"modernbert", "gpt2", "bloom", "llama", "t5", "t5-3-2", "t5-6-12", "mt5"}
PARALLEL = {"gpt-neox"}


@cache
def model_of(name: str) -> HuggingFace:
    return made(name, HEADED[name])


@pytest.mark.parametrize("name", HEADED)
def test_the_plan_says_how_blocks_add(name: str) -> None:
    found = [layer for layers in plan(model_of(name)).layers.values() for layer in layers]
    expected = (name not in PRE_NORM | PARALLEL, name in PARALLEL)
    assert {(layer.post_norm, layer.parallel) for layer in found} == {expected}


@pytest.mark.parametrize("name", of_zoo(HEADED, "gpt-neox"))
def test_states_are_those_of_the_pass(name: str) -> None:
    model = model_of(name)
    where = plan(model)
    for text, target in cases(model):
        with torch.no_grad():
            stream = residual_stream(model, text, target, where=where)
            output = model.forward(text, targets=target)
        for stack in model.stacks:
            steps, states = stream.steps[stack.name], output.hidden[stack.name]
            real = output.texts[stack.name].mask
            torch.testing.assert_close(stream.embeddings(stack.name)[real], states[0][real])
            assert len(steps) == stack.layers
            for layer, after in zip(steps, states[1:], strict=True):
                torch.testing.assert_close(layer[-1].after[real], after[real])
                kinds = [step.site.kind if step.site else "mlp" for step in layer]
                assert kinds == [*stack.kinds, "mlp"]
                for step in layer:
                    if step.norm is not None:
                        again = step.norm.module(step.norm.read)
                        torch.testing.assert_close(step.after[real], again[real])
            norm = stream.final_norms[stack.name]
            last = states[-1] if norm is None else norm.output
            torch.testing.assert_close(last[real], output.final[stack.name][real])


@pytest.mark.parametrize("name", of_zoo(HEADED, "gpt-neox"))
def test_an_attention_without_heads_adds_only_its_bias(name: str) -> None:
    """With all gates closed, what an attention adds is the same for every piece of every text."""
    model = model_of(name)
    text, target = next(iter(cases(model)))
    closed = Gate(torch.zeros(len(model.sites), 4))
    with torch.no_grad():
        open_stream = residual_stream(model, text, target)
        stream = residual_stream(model, text, target, taps=[closed])
    for stack in model.stacks:
        real = stream.output.texts[stack.name].mask
        pairs = zip(stream.steps[stack.name], open_stream.steps[stack.name], strict=True)
        for steps, before in pairs:
            for step, with_heads in zip(steps, before, strict=True):
                spread = step.added[real].std(0).max()
                if step.site is None:
                    assert spread > 1e-3, "an MLP reads its piece"
                else:
                    assert spread < 1e-5
                    assert with_heads.added[real].std(0).max() > 1e-3


def test_the_stream_that_predicts_is_read_in_xlnet() -> None:
    """XLNet predicts a hidden piece from a second stream, which starts at one vector."""
    model = model_of("xlnet")
    text, _ = next(iter(cases(model)))
    unseen = torch.zeros_like(text.mask)
    unseen[:, 1] = True
    text = replace(text, unseen=unseen)
    with torch.no_grad():
        stream = residual_stream(model, text, logits=True)
        first = stream.embeddings("encoder")
        assert torch.equal(first, first[:1, :1].expand_as(first))
        state = stream.steps["encoder"][-1][-1].after
        logits = stream.output.logits
        assert logits is not None
        net: Any = model.net
        torch.testing.assert_close(net.lm_loss(state), logits)


@pytest.mark.parametrize("build", [bert.build, gpt2.build])
def test_outputs_of_zero_do_not_mislead(build: object) -> None:
    """Most heads and every MLP of a planted model write nothing; its states repeat."""
    planted: Planted = build()  # type: ignore[operator]
    model = HuggingFace(planted.model, planted.tokenizer, "planted")
    where = plan(model)
    (layers,) = where.layers.values()
    assert not any(layer.parallel for layer in layers)
    assert {len(layer.calls) for layer in layers} == {2 if layers[0].post_norm else 1}


def test_norms_on_the_outputs_of_attention_are_rejected() -> None:
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    net = Olmo2ForCausalLM(Olmo2Config(vocab_size=64, intermediate_size=64, **sizes))
    net.train(False)
    model = HuggingFace(net, zoo.words_of("llama"), "olmo")
    with pytest.raises(WorkbenchError, match="add up"):
        plan(model)


def test_gradients_flow_and_no_hook_stays() -> None:
    model = model_of("bart")
    text, target = next(iter(cases(model)))
    n_hooks = _hooks(model)
    stream = residual_stream(model, text, target)
    state = stream.steps["decoder"][1][1].after
    (gradient,) = torch.autograd.grad(stream.steps["decoder"][-1][-1].after.sum(), state)
    assert gradient.abs().max() > 0
    assert _hooks(model) == n_hooks


def _hooks(model: HuggingFace) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.net.modules())
