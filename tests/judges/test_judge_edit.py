"""A judge of edits: hooks of torch on transformers' own modules, in a net that nothing has opened.

Each part is a module of an oddly shaped net, named by hand: what it reads (heads, neurons) or
returns (attentions, MLPs) is scaled, or replaced by its mean in a loop over texts.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.models import zoo
from tests.models.headed import drawn
from tests.models.test_attention import inputs, pieces
from tests.night import mostly
from workbench import WorkbenchError
from workbench.engine.batch import of_texts
from workbench.engine.taps import Gate
from workbench.models.head_removal import without
from workbench.models.huggingface import HuggingFace

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
SHAPES: dict[str, tuple[str, int, dict[str, Any]]] = {  # the class, width of a head, and sizes
    "bert": ("BertForMaskedLM", 7, {
        "hidden_size": 42, "num_attention_heads": 6, "num_hidden_layers": 3,
        "intermediate_size": 37}),
    "gpt2": ("GPT2LMHeadModel", 6, {"n_embd": 30, "n_head": 5, "n_layer": 3, "n_inner": 23}),
    "llama": ("LlamaForCausalLM", 10, {
        "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 10,
        "num_hidden_layers": 3, "intermediate_size": 19}),
    "t5": ("T5ForConditionalGeneration", 6, {
        "d_model": 22, "d_kv": 6, "num_heads": 3, "d_ff": 17, "num_layers": 3,
        "num_decoder_layers": 2}),
}  # fmt: skip
MODULES = {  # by part: its output projection in each block
    "bert": {"": "bert.encoder.layer.{}.attention.output.dense",
             "mlp": "bert.encoder.layer.{}.output.dense"},
    "gpt2": {"": "transformer.h.{}.attn.c_proj", "mlp": "transformer.h.{}.mlp.c_proj"},
    "llama": {"": "model.layers.{}.self_attn.o_proj", "mlp": "model.layers.{}.mlp.down_proj"},
    "t5": {"": "encoder.block.{}.layer.0.SelfAttention.o",
           "mlp": "encoder.block.{}.layer.1.DenseReluDense.wo",
           "decoder": "decoder.block.{}.layer.0.SelfAttention.o",
           "cross": "decoder.block.{}.layer.1.EncDecAttention.o",
           "decoder mlp": "decoder.block.{}.layer.2.DenseReluDense.wo"},
}  # fmt: skip
# by hand: the part, the block, which of what it reads (out: what it returns), and the factor
Change = tuple[str, int, int | str, float]
OF_ALL: dict[str, list[Change]] = {
    "3.2=0": [("", 2, 1, 0.0)],
    "2.1=2,1.3=0.5,3.3=0": [("", 1, 0, 2.0), ("", 0, 2, 0.5), ("", 2, 2, 0.0)],
    "1.attention=0.5,3.attention=0": [("", 0, "out", 0.5), ("", 2, "out", 0.0)],
    "2.mlp=2": [("mlp", 1, "out", 2.0)],
    "1.n17=0,1.n2=-1.5,2.n5=2": [
        ("mlp", 0, 16, 0.0), ("mlp", 0, 1, -1.5), ("mlp", 1, 4, 2.0)
    ],
    "3.mlp=0,2.3=0.5,2.attention=2": [("mlp", 2, "out", 0.0), ("", 1, 2, 0.5), ("", 1, "out", 2.0)],
}  # fmt: skip
OF_T5: dict[str, list[Change]] = {
    "decoder.2.3=0,1.cross.2=2": [("decoder", 1, 2, 0.0), ("cross", 0, 1, 2.0)],
    "2.cross=0.5,decoder.1.mlp=0": [("cross", 1, "out", 0.5), ("decoder mlp", 0, "out", 0.0)],
    "decoder.2.n3=0,2.2=0": [("decoder mlp", 1, 2, 0.0), ("", 1, 1, 0.0)],
}
CASES = [(family, edit, by) for family in SHAPES for edit, by in OF_ALL.items()]
CASES += [("t5", edit, by) for edit, by in OF_T5.items()]


def net_of(family: str) -> Any:
    """A net that nothing has opened; the same each time."""
    name, _, sizes = SHAPES[family]
    net = drawn(zoo._config(family, **sizes), name, uniform=False)
    net.train(False)
    return net


@cache
def model_of(family: str) -> HuggingFace:
    return HuggingFace(net_of(family), zoo.words_of(family), family)


@contextmanager
def hooked(net: Any, family: str, changes: list[Change]) -> Iterator[None]:
    """What modules read or return is scaled."""
    width = SHAPES[family][1]
    hooks = []

    def scaled(states: Tensor, n: int, size: int, factor: float) -> Tensor:
        new = states.clone()
        new[..., n * size : (n + 1) * size] *= factor
        return new

    for part, layer, what, factor in changes:
        module = net.get_submodule(MODULES[family][part].format(layer))
        if isinstance(what, str):
            hook = module.register_forward_hook(lambda _, __, out, factor=factor: out * factor)
        else:
            size = 1 if part.endswith("mlp") else width
            hook = module.register_forward_pre_hook(
                lambda _, args, n=what, size=size, factor=factor: (
                    scaled(args[0], n, size, factor),
                )
            )
        hooks.append(hook)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def logits(model: Any, family: str, padded: bool = True, **more: Any) -> Tensor:
    """Of three texts of 9, 8, and 7 pieces."""
    text, target = pieces(model, 3, 9, padded), pieces(model, 3, 5, padded)
    targets = {"targets": target} if model.two_sided else {}
    with torch.no_grad():
        found = model.forward(text, logits=True, **targets, **more).logits
    assert isinstance(found, Tensor)
    return found[target.mask if model.two_sided else text.mask]


BY_DAY = [case for case in CASES if case[0] == "bert"][1::2]
BY_DAY += [case for case in CASES if case[1] in OF_T5][:2]
BY_DAY += [case for case in CASES if case[0] in ("gpt2", "llama")][::5]


@pytest.mark.parametrize(("family", "edit", "by_hand"), mostly(CASES, *BY_DAY))
def test_an_edit_is_hooks_on_the_plain_net(family: str, edit: str, by_hand: list[Change]) -> None:
    model, net = model_of(family), net_of(family)
    text, target = pieces(model, 3, 9, True), pieces(model, 3, 5, True)
    with torch.no_grad(), hooked(net, family, by_hand):
        expected = net(**inputs(model, text, target)).logits
    expected = expected[target.mask if model.two_sided else text.mask]
    before = logits(model, family)
    twin = model.edited(edit)
    torch.testing.assert_close(logits(twin, family), expected, **CLOSE)
    assert (expected - before).abs().max() > 1e-3
    assert torch.equal(logits(model, family), before), "the model itself is as it was"
    assert twin.parameters == model.parameters


@pytest.mark.parametrize("family", mostly(SHAPES, "llama", "t5"))
def test_heads_off_are_closed_gates_to_the_last_digit(family: str) -> None:
    """So they are ablated heads: `head-ablation` closes gates."""
    model = model_of(family)
    for factor in (0.0, 0.5, 2.0):
        gates = torch.ones(len(model.sites), max(site.heads for site in model.sites))
        gates[2, 1], gates[0, 2] = factor, factor
        twin = model.edited(f"3.2={factor},1.3={factor}")
        assert torch.equal(logits(twin, family), logits(model, family, taps=[Gate(gates)]))


def test_an_ablation_of_an_edited_model_is_one_of_both_heads() -> None:
    """Gates work within an edit, and count its heads as they are."""
    model = model_of("bert")
    gates = torch.ones(len(model.sites), 6)
    gates[1, 4] = 0
    twin = model.edited("3.2=0")
    found = logits(twin, "bert", taps=[Gate(gates)])
    gates[2, 1] = 0
    assert torch.equal(found, logits(model, "bert", taps=[Gate(gates)]))


@pytest.mark.parametrize("family", mostly(["bert", "gpt2", "llama"], "llama"))
def test_means_are_those_of_a_loop_over_the_texts(family: str) -> None:
    model, net, width = model_of(family), net_of(family), SHAPES[family][1]
    texts = ["the dog saw a cat .", "a cat ran and the dog ran ."]
    seen: dict[str, list[Tensor]] = {"": [], "mlp": []}
    places = {part: net.get_submodule(MODULES[family][part].format(1)) for part in ("", "mlp")}
    hooks = [
        places[part].register_forward_pre_hook(
            lambda _, args, part=part: seen[part].append(args[0][0].clone())
        )
        for part in places
    ]
    with torch.no_grad():
        for text in texts:
            ids = model.tokenizer(text, return_tensors="pt")["input_ids"]
            net(input_ids=ids)
        for hook in hooks:
            hook.remove()
        means = {part: torch.cat(own).mean(0) for part, own in seen.items()}

        def replaced(states: Tensor, part: str, at: slice) -> tuple[Tensor]:
            new = states.clone()
            new[..., at] = means[part][at]
            return (new,)

        head, neuron = slice(2 * width, 3 * width), slice(10, 11)
        for part, at in (("", head), ("mlp", neuron)):
            places[part].register_forward_pre_hook(
                lambda _, args, part=part, at=at: replaced(args[0], part, at)
            )
        text = pieces(model, 3, 9, True)
        expected = net(**inputs(model, text, text)).logits[text.mask]
    twin = model.edited("2.3=mean,2.n11=mean", texts)
    torch.testing.assert_close(logits(twin, family), expected, **CLOSE)
    assert twin.content_hash != model.edited("2.3=mean,2.n11=mean").content_hash


def test_default_means_are_those_of_the_built_in_corpus() -> None:
    from workbench.models.edit_terms import mean_texts

    docs = wb.read("primer").docs("test", limit=64)
    assert mean_texts() == [doc.text for doc in docs]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_an_empty_edit_is_the_model(family: str) -> None:
    model = model_of(family)
    for edit in ("", "3.2=1", "2.mlp=1.0,1.n3=1"):
        assert model.edited(edit) is model


def test_an_edit_has_one_name_and_one_hash_whatever_its_order() -> None:
    model = model_of("bert")
    one = model.edited("3.2=0,1.mlp=0.50")
    for other in (model.edited("1.mlp=0.5, 3.2=0.0"), model.edited("3.2=0").edited("1.mlp=0.5")):
        assert (other.name, other.content_hash) == (one.name, one.content_hash)
        assert torch.equal(logits(other, "bert"), logits(one, "bert"))
    assert one.name == "bert@edit:1.mlp=0.5,3.2=0"
    assert len({one.content_hash, model.content_hash, model.edited("3.2=0").content_hash}) == 3


@pytest.mark.parametrize("family", mostly(["bert", "gpt2", "llama", "t5"], "gpt2", "llama"))
def test_an_edit_in_the_weights_computes_the_same(family: str, tmp_path: Path) -> None:
    edit = "3.2=0,1.3=2,2.mlp=0.5,1.n3=0,2.attention=0.5"
    edit += ",1.n4=mean,2.1=mean" if family in ("bert", "gpt2") else ""
    twin = model_of(family).edited(edit)
    assert isinstance(twin, HuggingFace)
    expected = logits(twin, family)
    scale = {"atol": 1e-5 * float(expected.abs().max()), "rtol": 1e-5}
    twin.save(tmp_path / "saved")
    opened = wb.load(tmp_path / "saved", device="cpu")
    torch.testing.assert_close(logits(opened, family), expected, **scale)
    exported = wb.export_model(twin, tmp_path / "exported")
    assert exported.shape == "unchanged"
    if family != "llama":  # whose heads go by groups
        smaller = without(twin, [(2, 1)])  # the head that is off
        assert smaller.n_removed_heads == 1
        torch.testing.assert_close(logits(smaller, family), expected, **scale)


@pytest.mark.slow
@pytest.mark.parametrize("family", [name for name in zoo.NAMES if name != "albert"])
def test_every_architecture_computes_an_edit_in_its_passes_and_in_its_weights(family: str) -> None:
    """Two ways that share no code, bit for bit: the factors are powers of two."""
    model = HuggingFace(deepcopy(zoo.built(family)), zoo.words_of(family), family)
    text, stack = pieces(model, 2, 8, False), model.stacks[-1].name
    for edit in ("1.2=0,1.n3=2,2.mlp=0.5", "2.attention=0.5,2.n5=0"):
        twin: Any = model.edited(edit)
        with torch.no_grad():
            plain, found, saved = (
                each.forward(text).final[stack] for each in (model, twin, twin.in_weights())
            )
        assert torch.equal(found, saved) and (found - plain).abs().max() > 1e-2


@pytest.mark.parametrize(("family", "name", "edit"), [
    ("albert", "AlbertForMaskedLM", "1.2=0"), ("llama", "LlamaForCausalLM", "1.2=mean"),
    ("albert", "AlbertForMaskedLM", "2.n3=0"),
])  # fmt: skip
def test_what_no_weights_compute_is_not_saved(
    family: str, name: str, edit: str, tmp_path: Path
) -> None:
    net = drawn(zoo._config(family), name, uniform=False)
    twin = HuggingFace(net, zoo.words_of(family), family).edited(edit)
    with pytest.raises(WorkbenchError, match="weights"):
        twin.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_copies_random_twins_and_heads_of_tasks_keep_the_edit() -> None:
    model = model_of("bert")
    twin = model.edited("3.2=0,1.mlp=0.5")
    assert isinstance(twin, HuggingFace)
    assert torch.equal(logits(twin.copy(), "bert"), logits(twin, "bert"))
    assert twin.copy().content_hash == twin.content_hash
    random = twin.reinitialised(3)
    assert random.name == "bert@random@edit:1.mlp=0.5,3.2=0"
    plain = model.reinitialised(3)
    assert torch.equal(logits(random, "bert"), logits(plain.edited("3.2=0,1.mlp=0.5"), "bert"))
    steered = wb.Write("block 1", plus=1.0).into(twin)
    assert not torch.equal(logits(steered, "bert"), logits(twin, "bert"))
    both = wb.Write("block 1", plus=1.0).into(model).edited("3.2=0,1.mlp=0.5")
    torch.testing.assert_close(logits(both, "bert"), logits(steered, "bert"), **CLOSE)
    assert len({steered.content_hash, twin.content_hash, both.content_hash}) == 3


def test_an_edit_of_a_net_in_memory_follows_its_weights() -> None:
    net = net_of("gpt2")
    twin = wb.load(net, zoo.words_of("gpt2"), name="mine", edit="3.2=0")
    batch = of_texts(["the dog saw a cat ."])
    for step in range(3):
        with torch.no_grad():
            if step == 1:
                net.transformer.h[0].mlp.c_fc.weight.mul_(1.5)
            if step == 2:
                net.transformer.h[1].mlp.c_fc.weight = torch.nn.Parameter(
                    net.transformer.h[1].mlp.c_fc.weight * 0.5
                )
        text = twin.encode(batch)
        with torch.no_grad(), hooked(net, "gpt2", OF_ALL["3.2=0"]):
            expected = net(input_ids=text.ids).logits
        with torch.no_grad():
            found = twin.forward(text, logits=True).logits
        assert isinstance(found, Tensor)
        torch.testing.assert_close(found, expected, **CLOSE)
        fresh = wb.load(net, zoo.words_of("gpt2"), edit="3.2=0")
        assert twin.content_hash == fresh.content_hash
    assert twin.name == "mine"


@pytest.mark.parametrize(("family", "edit", "code"), [
    ("bert", "3.7=0", "head-missing"), ("bert", "4.1=0", "layer-missing"),
    ("bert", "1.n38=0", "head-missing"), ("bert", "3.2=0,3.2=2", "edit-invalid"),
    ("bert", "3.2", "edit-invalid"), ("bert", "3.0=0", "edit-invalid"),
    ("bert", "2=0", "layer-missing"), ("bert", "decoder.1.1=0", "layer-missing"),
    ("gpt2", "1.cross.1=0", "layer-missing"), ("t5", "decoder.3.1=0", "layer-missing"),
    ("bert", "3.2=off", "edit-invalid"), ("t5", "1.cross.4=0", "head-missing"),
])  # fmt: skip
def test_errors_say_what_there_is(family: str, edit: str, code: str) -> None:
    with pytest.raises(WorkbenchError) as caught:
        model_of(family).edited(edit)
    assert caught.value.code == code and caught.value.remedy


def test_elmo_has_layers_and_no_heads() -> None:
    model = wb.load("mini:elmo", device="cpu")
    for edit in ("1.2=0", "1.mlp=0", "1=mean"):
        with pytest.raises(WorkbenchError, match="no attention heads"):
            model.edited(edit)
    twin = wb.load("mini:elmo@edit:1=0.5", device="cpu")
    batch = of_texts(["Ben walks to the hill .", "Ann saw a dog ."])
    states, plain = (each.states(each.encode(batch)) for each in (twin, model))
    mask = model.encode(batch).mask
    assert torch.equal(states[1][mask], plain[1][mask] * 0.5)
    assert not torch.equal(states[2][mask], plain[2][mask])
    with pytest.raises(WorkbenchError, match="saved"):
        twin.save(Path("never"))


@pytest.mark.parametrize("ref", mostly(["mini:bert", "mini:gpt", "mini:t5"], "mini:gpt"))
def test_turning_a_head_off_answers_in_half_a_second(ref: str) -> None:
    model = wb.load(ref, device="cpu")
    text = model.encode(of_texts(["The girls were tall ."]))
    seconds = []
    for head in (1, 2, 3):
        started = time.process_time()  # of one core, whatever else the machine does
        model.edited(f"2.{head}=0").forward(text, logits=True)
        seconds.append(time.process_time() - started)
    assert min(seconds) < 0.5
