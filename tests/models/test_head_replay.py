"""The head reads any layer: the last gives the model's own logits, layer 0 those by hand."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.models.gated import shared
from tests.models.headed import made
from tests.models.test_attention import cases
from tests.models.test_logits import HEADED
from tests.night import mostly, of_zoo
from workbench.engine.batch import Pieces
from workbench.engine.model import Direction
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.head_replay import (
    layer_logits,
    recorded_states,
    replay_head,
    replayed_logits,
)
from workbench.models.output_heads.lm_losses import logits_of

ROUNDINGS = 64  # of sums of up to 64 products, which kernels and threads add in other orders
MINIS = ["mini:bert", "mini:gpt", "mini:t5"]


def close(found: Tensor, expected: Tensor) -> None:
    """Equal but for rounding, which goes with the largest of the numbers that are added."""
    room = ROUNDINGS * torch.finfo(expected.dtype).eps * float(expected.abs().max())
    torch.testing.assert_close(found, expected, atol=room, rtol=1e-5)


@cache
def opened(name: str) -> HuggingFace:
    model = wb.load(name, device="cpu") if name in MINIS else made(name, HEADED[name], False)
    assert isinstance(model, HuggingFace)
    return model


def read(model: HuggingFace) -> Iterator[tuple[Pieces, Pieces | None, Tensor]]:
    """Texts, targets, and every piece of the stack that the head reads."""
    for text, target in cases(model):
        if model.symbols.mask is None and model.family == "xlnet":
            unseen = torch.zeros_like(text.mask)
            unseen[:, 1] = True
            yield replace(text, unseen=unseen), None, text.mask
        given = target if model.two_sided else None
        yield text, given, text.mask if given is None else given.mask


@pytest.mark.parametrize("name", of_zoo([*HEADED, *MINIS], "mini:t5"))
def test_the_last_layer_gives_the_models_logits(name: str) -> None:
    model = opened(name)
    with torch.no_grad():
        for text, target, mask in read(model):
            expected = logits_of(model, text, mask, target)
            recorded = recorded_states(model, text, target)
            passed = model.forward(text, targets=target).hidden
            for stack in model.stacks:
                logits = layer_logits(model, recorded, mask, stack.name)
                assert logits.shape == (stack.layers + 1, *expected.shape)
                close(logits[-1], expected)
                assert not torch.allclose(logits[0], expected, atol=1e-3)
                for layer in range(stack.layers):  # what the pass shows
                    if text.unseen is None:
                        close(passed[stack.name][layer], recorded.states[stack.name][layer])
    assert all("forward" not in vars(each) for each in model.net.modules())


@pytest.mark.parametrize("name", of_zoo([*HEADED, *MINIS], "mini:t5"))
def test_states_without_their_text_give_the_same(name: str) -> None:
    model = opened(name)
    head = replay_head(model)
    with torch.no_grad():
        for text, target, mask in read(model):
            recorded = recorded_states(model, text, target)
            logits = layer_logits(model, recorded, mask)
            for layer, states in enumerate(recorded.states[recorded.last]):
                close(head(states[mask]), logits[layer])


def test_layer_0_of_bert_by_hand() -> None:
    model = opened("mini:bert")
    net = model.net
    text = model.encode(wb.encode(wb.read("primer").docs("test", 3)))
    with torch.no_grad():
        embedded = net.bert.embeddings(input_ids=text.ids, token_type_ids=text.segments)
        expected = net.cls(embedded)[text.mask]
        logits = layer_logits(model, recorded_states(model, text), text.mask, layers=[0])
    close(logits[0], expected)


def test_layer_0_of_gpt2_by_hand() -> None:
    model = opened("gpt2")
    net = model.net
    text = model.encode(wb.encode(wb.read("primer").docs("test", 3)))
    with torch.no_grad():
        positions = net.transformer.wpe.weight[: text.ids.shape[1]]
        embedded = net.transformer.wte(text.ids) + positions
        expected = net.lm_head(net.transformer.ln_f(embedded))[text.mask]
        logits = layer_logits(model, recorded_states(model, text), text.mask, layers=[0])
    close(logits[0], expected)


@pytest.mark.parametrize("name", mostly(["mini:t5", "bart-3-2"], "bart-3-2"))
def test_an_encoder_layer_is_read_by_the_whole_decoder(name: str) -> None:
    """By hand: transformers' own decoder over the final norm of the states."""
    model = opened(name)
    net = model.net
    text, target = next(iter(cases(model)))
    norm = getattr(net.get_encoder(), "final_layer_norm", lambda states: states)
    with torch.no_grad():
        recorded = recorded_states(model, text, target)
        logits = layer_logits(model, recorded, target.mask, "encoder")
        for layer, states in enumerate(recorded.states["encoder"]):
            expected = net(
                encoder_outputs=(norm(states),),
                attention_mask=text.mask.long(),
                decoder_input_ids=model._shifted(target).ids,
                decoder_attention_mask=model._shifted(target).mask.long(),
            ).logits
            close(logits[layer], expected[target.mask])


@pytest.mark.parametrize("direction", ["next", "previous"])
def test_elmos_softmax_reads_every_layer(direction: Direction) -> None:
    model = wb.load("mini:elmo", device="cpu")
    text = model.encode(wb.encode(wb.read("primer").docs("test", 1)))
    words = text.ids.shape[1]
    with torch.no_grad():
        recorded = recorded_states(model, text)
        layers = model.states(text)
        for word in range(words):
            mask = torch.zeros(1, words + 2, dtype=torch.bool)
            mask[0, word + 1] = True
            logits = layer_logits(model, recorded, mask, direction=direction)
            expected = model.word_logits(text, word, direction)
            close(logits[-1], expected)
            for layer, states in enumerate(layers):
                by_hand = model.logits_of_states(states[:, word], direction)
                close(logits[layer], by_hand)
                again = replay_head(model)(states[:, word], direction)
                close(again, by_hand)


def test_a_change_of_states_reaches_the_head_with_its_gradient() -> None:
    model = opened("mini:gpt")
    text = model.encode(wb.encode(wb.read("primer").docs("test", 2)))
    shift = torch.zeros(model.width, requires_grad=True)
    with torch.no_grad():
        recorded = recorded_states(model, text)
        plain = layer_logits(model, recorded, text.mask)
    changed = layer_logits(
        model,
        recorded,
        text.mask,
        layers=[1, 2],
        change=lambda layer, states: states + shift * layer,
    )
    close(changed, plain[1:3])
    changed[1].log_softmax(-1)[:, 5].sum().backward()
    assert shift.grad is not None and bool(shift.grad.abs().max() > 0)


def test_given_rows_stand_for_documents_of_the_pass() -> None:
    model = opened("mini:t5")
    text, target = next(case for case in cases(model) if len(case[0]) > 1)
    with torch.no_grad():
        recorded = recorded_states(model, text, target)
        every = layer_logits(model, recorded, target.mask, "encoder", layers=[1])[0]
        second = replayed_logits(
            model, recorded, {"encoder": recorded.states["encoder"][1][[1]]},
            target.mask[[1]], torch.tensor([1]),
        )  # fmt: skip
    close(second, every[int(target.mask[0].sum()) :][: len(second)])


def test_models_without_a_head_are_refused() -> None:
    bare = shared("bert")
    text = bare.encode(wb.encode(wb.read("primer").docs("test", 1)))
    recorded = recorded_states(bare, text)
    with pytest.raises(wb.WorkbenchError, match="head"):
        layer_logits(bare, recorded, text.mask)
