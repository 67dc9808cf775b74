"""The engine changes nothing, sees all, and gates exactly: every architecture, against eager."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
)
from transformers.masking_utils import eager_mask

from tests.models import zoo
from tests.models.gated import opened, shared
from tests.night import of_zoo
from workbench import Capture, Gate, Reduce, WorkbenchError
from workbench.engine.batch import NO_WORD, Pieces
from workbench.engine.taps import Site, View
from workbench.models.attention_hooks import unrolled
from workbench.models.huggingface import HuggingFace

OWN_WAY = ("xlnet", "openai-gpt", "deberta-v2", "longformer", "bloom")
INTERFACE = tuple(name for name in zoo.NAMES if name not in OWN_WAY)
BATCHES = ((1, 7, False), (5, 9, False), (5, 9, True))


def pieces(model: HuggingFace, batch: int, length: int, padded: bool) -> Pieces:
    """Random ids; where padded, row i lacks i mod 4 pieces at its end."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(
        5, min(model.net.config.vocab_size, 60), (batch, length), generator=generator
    )
    mask = torch.ones(batch, length, dtype=torch.bool)
    for row in range(batch if padded else 0):
        mask[row, length - (row + 1) % 4 :] = (row + 1) % 4 == 0
    words = torch.full_like(ids, NO_WORD)
    one = torch.ones(batch, dtype=torch.int64)
    return Pieces(ids, mask, words, words >= 0, None, one, one, one)


def inputs(model: HuggingFace, text: Pieces, target: Pieces) -> dict[str, Tensor | bool]:
    found: dict[str, Tensor | bool] = {"input_ids": text.ids, "attention_mask": text.mask.long()}
    if model.two_sided:
        read = model._shifted(target)
        found |= {"decoder_input_ids": read.ids, "decoder_attention_mask": read.mask.long()}
    return found


def cases(model: HuggingFace) -> Iterator[tuple[Pieces, Pieces]]:
    for batch, length, padded in BATCHES:
        yield pieces(model, batch, length, padded), pieces(model, batch, 5, padded)


def eager_maps(answer: Any, family: str) -> dict[tuple[str, str], list[Tensor]]:
    """Eager's maps by stack and kind, as the engine names them.  # [batch, heads, q, k]"""
    if "cross_attentions" in answer and answer.cross_attentions:
        return {
            ("encoder", "self"): list(answer.encoder_attentions),
            ("decoder", "causal"): list(answer.decoder_attentions),
            ("decoder", "cross"): list(answer.cross_attentions),
        }
    maps = list(answer.attentions)
    if family == "longformer":
        return {("encoder", "self"): [unrolled_slowly(m.transpose(1, 2)) for m in maps]}
    causal = all(bool((m.triu(1) == 0).all()) for m in maps)
    return {("decoder", "causal") if causal else ("encoder", "self"): maps}


def unrolled_slowly(bands: Tensor) -> Tensor:
    """Longformer's bands as maps, one number at a time."""
    batch, length, heads, band = bands.shape
    maps = torch.zeros(batch, heads, length, length)
    for query in range(length):
        for place in range(band):
            if 0 <= (key := query + place - band // 2) < length:
                maps[:, :, query, key] = bands[:, query, :, place]
    return maps


@pytest.mark.parametrize("name", of_zoo(zoo.NAMES, "llama"))
def test_states_with_the_engine_on_are_eagers(name: str) -> None:
    model, plain = shared(name), zoo.built(name, "eager")
    for text, target in cases(model):
        with torch.no_grad():
            expected = plain(**inputs(model, text, target)).last_hidden_state
            for taps in ([], [Capture()], [Gate(torch.ones(len(model.sites), 4))]):
                output = model.forward(text, targets=target, taps=taps)
                stack = model.stacks[-1].name
                real = output.texts[stack].mask
                found = output.final[stack][real]
                torch.testing.assert_close(found, expected[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_captured_maps_are_eagers_and_rows_sum_to_one(name: str) -> None:
    model, plain = shared(name), zoo.built(name, "eager")
    for text, target in cases(model):
        capture = Capture()
        with torch.no_grad():
            output = model.forward(text, targets=target, taps=[capture])
            answer = plain(**inputs(model, text, target), output_attentions=True)
        expected = eager_maps(answer, model.family)
        assert sum(map(len, expected.values())) == len(capture.maps) == len(model.sites)
        for site, (found,) in capture.maps.items():
            wanted = expected[site.stack, site.kind][site.layer]
            queries = output.texts[site.stack].mask
            keys = output.texts["encoder" if site.kind == "cross" else site.stack].mask
            rows = found.transpose(1, 2)[queries]  # [real queries, heads, keys]
            torch.testing.assert_close(
                rows, wanted.transpose(1, 2)[queries].float(), atol=1e-6, rtol=0
            )
            torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))
            padding = (rows * ~keys.repeat_interleave(queries.sum(1), dim=0)[:, None, :]).abs()
            assert padding.max() == 0, "padding is attended to"


def scaled_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, None]:
    """Textbook attention whose probabilities are scaled, call by call, by `GATES`."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scaling = kwargs.get("scaling")
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key)
    scores = scores * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    for extra in (kwargs.get("position_bias"), mask):
        scores = scores if extra is None else scores + extra
    probabilities = scores.softmax(-1) * GATES.pop(0)[:, :, None, None]
    return torch.einsum("bhqk,bhkd->bqhd", probabilities, value), None


GATES: list[Tensor] = []


def gates_for(model: HuggingFace, batch: int) -> Tensor:
    """0, 0.5 and 1 in every order.  # [batch, sites, heads]"""
    generator = torch.Generator().manual_seed(batch)
    return torch.randint(0, 3, (batch, len(model.sites), 4), generator=generator).double() / 2


@pytest.mark.parametrize("name", of_zoo(INTERFACE, "llama", "albert"))
def test_a_gate_equals_scaling_the_probabilities(name: str) -> None:
    AttentionInterface.register("scaled-for-test", scaled_attention)
    AttentionMaskInterface.register("scaled-for-test", eager_mask)
    model = shared(name, torch.float64)
    plain = zoo.built(name, "scaled-for-test", torch.float64)
    for text, target in cases(model):
        gates = gates_for(model, len(text))
        GATES[:] = [gates[:, site] for site in range(len(model.sites))]
        with torch.no_grad():
            expected = plain(**inputs(model, text, target)).last_hidden_state
            for extra in ([], [Capture()]):
                output = model.forward(text, targets=target, taps=[Gate(gates), *extra])
                real = output.texts[model.stacks[-1].name].mask
                found = output.final[model.stacks[-1].name]
                torch.testing.assert_close(found[real], expected[real], atol=1e-6, rtol=1e-5)
        assert GATES == []


@pytest.mark.parametrize("name", OWN_WAY)
def test_a_gate_equals_scaling_a_heads_values(name: str) -> None:
    """For those that go their own way: the same as scaling what the head reads."""
    model, plain = shared(name), deepcopy(zoo.built(name, "eager"))
    gates = gates_for(model, 1)[0]  # [sites, heads]
    scale_values(plain, name, gates)
    for text, target in cases(model):
        with torch.no_grad():
            expected = plain(**inputs(model, text, target)).last_hidden_state
            found = model.forward(text, targets=target, taps=[Gate(gates)]).final
            real = text.mask
            (states,) = found.values()
            torch.testing.assert_close(states[real], expected[real], atol=1e-5, rtol=1e-5)
    assert gates.unique().tolist() == [0.0, 0.5, 1.0]


@torch.no_grad()
def scale_values(net: Any, name: str, gates: Tensor) -> None:
    by_column = gates.repeat_interleave(8, dim=1)  # [sites, width]
    for layer, columns in enumerate(by_column):
        if name == "xlnet":
            net.layer[layer].rel_attn.v *= gates[layer][None, :, None]
        elif name == "bloom":
            mixed = net.h[layer].self_attention.query_key_value  # [heads, 3, width of a head]
            mixed.weight.view(4, 3, 8, 32)[:, 2] *= gates[layer][:, None, None]
            mixed.bias.view(4, 3, 8)[:, 2] *= gates[layer][:, None]
        elif name == "openai-gpt":
            net.h[layer].attn.c_attn.weight[:, 64:] *= columns
            net.h[layer].attn.c_attn.bias[64:] *= columns
        else:
            attention = net.encoder.layer[layer].attention.self
            linear = attention.value_proj if name == "deberta-v2" else attention.value
            linear.weight *= columns[:, None]
            linear.bias *= columns


def losses(model: HuggingFace, text: Pieces, target: Pieces, gates: Tensor) -> Tensor:
    """A loss a row, of the real pieces' states.  # [batch]"""
    output = model.forward(text, targets=target, taps=[Gate(gates)])
    stack = model.stacks[-1].name
    states = output.final[stack] * output.texts[stack].mask[..., None]
    return (states**2).sum((1, 2)) + states.sum((1, 2))


@pytest.mark.parametrize("name", of_zoo(zoo.NAMES, "llama"))
def test_gate_gradients_of_a_batch_are_those_of_its_rows(name: str) -> None:
    single = name in ("xlnet", "longformer")  # they do not run in float64 throughout
    dtype = torch.float32 if single else torch.float64
    model = shared(name, dtype)
    text, target = pieces(model, 4, 6, True), pieces(model, 4, 5, True)
    gates = torch.full((4, len(model.sites), 4), 0.9, dtype=dtype, requires_grad=True)
    (batched,) = torch.autograd.grad(losses(model, text, target, gates).sum(), gates)
    for row in range(4):
        own = gates[row : row + 1].detach().clone().requires_grad_()
        loss = losses(model, text.take([row]), target.take([row]), own)
        (alone,) = torch.autograd.grad(loss.sum(), own)
        tolerance = {"atol": 1e-3, "rtol": 1e-3} if single else {"atol": 1e-5, "rtol": 1e-5}
        torch.testing.assert_close(batched[row], alone[0], **tolerance)
    assert batched.abs().amax(dim=(0, 2)).min() > 1e-3, "a site whose gates do nothing"


@pytest.mark.parametrize(
    "name", of_zoo(["bert", "albert", "gpt2", "bart", "electra", "openai-gpt"])
)
def test_gate_gradients_are_finite_differences(name: str) -> None:
    """For the models that compute in float64 throughout; T5 and Llama norm in float32."""
    model = shared(name, torch.float64)
    text, target = pieces(model, 3, 6, True), pieces(model, 3, 5, True)
    gates = torch.full((3, len(model.sites), 4), 0.9, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(losses(model, text, target, gates).sum(), gates)
    step = 1e-5
    for site in range(len(model.sites)):
        moved = torch.zeros_like(gates)
        moved[:, site, site % 4] = step
        with torch.no_grad():
            up, down = (losses(model, text, target, gates + sign * moved) for sign in (1, -1))
        difference = (up - down) / (2 * step)  # [batch]
        torch.testing.assert_close(gradient[:, site, site % 4], difference, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("name", of_zoo(name for name in zoo.NAMES if name != "longformer"))
def test_maps_are_before_dropout_in_train_mode(name: str) -> None:
    model = opened(name)
    text = pieces(model, 2, 8, False)
    seen = Capture(lambda site: site.index == 0)
    with torch.no_grad():
        model.forward(text, taps=[seen])
        model.net.train()
        for module in model.net.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.5
        model.forward(text, taps=[seen], hidden=False)
    for maps in seen.maps.values():
        for one in maps:
            torch.testing.assert_close(one.sum(-1), torch.ones_like(one[..., 0]))


def test_longformer_says_what_it_cannot_show() -> None:
    model = opened("longformer")
    text = pieces(model, 1, 6, False)
    model.net.train()
    with pytest.raises(WorkbenchError, match="eval mode only"):
        model.forward(text, taps=[Capture()])
    model.forward(text, taps=[Gate(torch.ones(2, 4))])


def test_bands_unroll_to_maps() -> None:
    bands = torch.rand(2, 6, 3, 5)  # [batch, queries, heads, bands]
    torch.testing.assert_close(unrolled(bands, 2), unrolled_slowly(bands))


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "bart", "modernbert", "llama"])
def test_the_last_block_is_kept_apart_from_the_final_norm(name: str) -> None:
    model, plain = shared(name), zoo.built(name, "eager")
    text = pieces(model, 3, 7, True)
    with torch.no_grad():
        output = model.forward(text)
        answer = plain(**inputs(model, text, text), output_hidden_states=True)
    for stack in model.stacks:
        prefix = f"{stack.name}_" if model.two_sided else ""
        expected = answer[f"{prefix}hidden_states"]
        found = output.hidden[stack.name]
        real = output.texts[stack.name].mask
        assert len(found) == stack.layers + 1 == len(expected)
        for one, other in zip(found[:-1], expected[:-1], strict=True):
            torch.testing.assert_close(one[real], other[real], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            output.final[stack.name][real], expected[-1][real], atol=1e-5, rtol=1e-5
        )
        normed = name not in ("bert", "bart")
        same = torch.allclose(found[-1][real], output.final[stack.name][real], atol=1e-3)
        assert same != normed
        if normed:
            norm = final_norm(plain, stack.name, model.two_sided)
            torch.testing.assert_close(
                norm(found[-1])[real], expected[-1][real], atol=1e-5, rtol=1e-5
            )


def final_norm(net: Any, stack: str, two_sided: bool) -> nn.Module:
    body = net if not two_sided else net.get_encoder() if stack == "encoder" else net.get_decoder()
    for attribute in ("ln_f", "norm", "final_norm", "final_layer_norm"):
        if hasattr(body, attribute):
            return getattr(body, attribute)  # type: ignore[no-any-return]
    raise AssertionError("no final norm")


def test_shared_layers_are_separate_sites() -> None:
    model = shared("albert")
    assert [site.layer for site in model.sites] == [0, 1, 2]
    capture = Capture()
    with torch.no_grad():
        model.forward(pieces(model, 1, 6, False), taps=[capture])
    first, second, _ = (maps[0] for maps in capture.maps.values())
    assert not torch.allclose(first, second)


def test_grouped_queries_tell_their_groups() -> None:
    model = shared("llama")
    assert {(site.heads, site.groups) for site in model.sites} == {(4, 2)}


def test_rectangular_models_number_their_sites() -> None:
    for name, encoder, decoder in (("t5-6-12", 6, 12), ("bart-12-6", 12, 6)):
        model = shared(name)
        assert [(s.name, s.layers) for s in model.stacks] == [
            ("encoder", encoder),
            ("decoder", decoder),
        ]
        for kind, layers in (("self", encoder), ("causal", decoder), ("cross", decoder)):
            assert [s.layer for s in model.sites if s.kind == kind] == list(range(layers))


def test_a_reduction_is_the_sum_over_batches_of_what_the_maps_say() -> None:
    model = shared("bart")

    def mass(view: View) -> Tensor:
        return view.probabilities.amax(-1).sum((0, 2))[:, None]  # [heads, 1]

    reduce, capture = Reduce(mass), Capture()
    with torch.no_grad():
        for length in (5, 8):
            model.forward(pieces(model, 3, length, False), taps=[reduce, capture])
    for site, maps in capture.maps.items():
        expected = sum(one.double().amax(-1).sum((0, 2)) for one in maps)
        torch.testing.assert_close(reduce.total[site][:, 0], expected, atol=1e-4, rtol=1e-5)


def test_capture_keeps_only_the_requested_sites_and_heads() -> None:
    model = shared("t5")
    capture = Capture(lambda site: site.kind == "cross" and site.layer == 1, heads=[2])
    with torch.no_grad():
        model.forward(
            pieces(model, 2, 6, False), targets=pieces(model, 2, 5, False), taps=[capture]
        )
    ((site, (found,)),) = capture.maps.items()
    assert site.name == "decoder.1.cross"
    assert found.shape == (2, 1, 5, 6)


def test_head_mask_is_refused_and_so_is_what_no_one_knows() -> None:
    model = shared("bert")
    text = pieces(model, 1, 5, False)
    with pytest.raises(WorkbenchError, match=r"head_mask.*\n.*Gate"):
        model.forward(text, head_mask=torch.ones(2, 4))
    with pytest.raises(WorkbenchError, match="no argument output_attentions"):
        model.forward(text, output_attentions=True)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 3), (2, 2, 4), (2, 4, 4, 1)])
def test_gates_that_do_not_fit_are_refused_with_both_shapes(shape: tuple[int, ...]) -> None:
    model = shared("bert")
    with pytest.raises(WorkbenchError, match=r"gates of shape .* do not fit site \d"):
        model.forward(pieces(model, 3, 5, False), taps=[Gate(torch.ones(shape))])


def test_a_failed_pass_leaves_no_session_behind() -> None:
    model = shared("bert")
    text = pieces(model, 1, 5, False)

    def broken(view: View) -> Tensor:
        raise ValueError(view.site.name)

    with torch.no_grad():
        before = model.forward(text).final["encoder"]
        with pytest.raises(ValueError, match=r"encoder\.0\.self"):
            model.forward(text, taps=[Reduce(broken)])
        torch.testing.assert_close(model.forward(text).final["encoder"], before)


def test_a_site_is_named_by_stack_layer_and_kind() -> None:
    assert Site(3, "decoder", "cross", 1, 8, 8).name == "decoder.1.cross"


def test_gates_do_not_go_with_gradient_checkpoints() -> None:
    """The backward pass would run the blocks again without them, and no one would know."""
    model = opened("bert")
    model.net.gradient_checkpointing_enable()
    model.net.train()
    with pytest.raises(WorkbenchError, match="gradient checkpointing"):
        model.forward(pieces(model, 1, 5, False), taps=[Gate(torch.ones(2, 4))])
