"""Heads taken out for good: the smaller model is the gated one."""

import copy
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.models import zoo
from tests.models.gated import gates, sentences, shared
from tests.night import mostly, of_zoo
from workbench import Gate, WorkbenchError
from workbench.models.head_removal import Unit, units, without
from workbench.models.huggingface import HuggingFace


def _some(model: HuggingFace, all_: tuple[Unit, ...]) -> list[Unit]:
    return random.Random(1).sample(all_, max(1, len(all_) // 3))


def _first_layer(model: HuggingFace, all_: tuple[Unit, ...]) -> list[Unit]:
    return [unit for unit in all_ if unit.heads[0][0] == 0]


def _every(model: HuggingFace, all_: tuple[Unit, ...]) -> list[Unit]:
    return list(all_)


WHICH = (_some, _first_layer, _every)


@pytest.mark.parametrize("name", of_zoo(zoo.NAMES, "llama", "bloom", "albert"))
def test_a_model_without_heads_is_the_gated_one_and_smaller(name: str) -> None:
    model = shared(name)
    text, last = model.encode(sentences(4)), model.stacks[-1].name
    with torch.no_grad():
        whole = model.forward(text, hidden=False).final[last]
    for which in WHICH:
        gone = [head for unit in which(model, units(model)) for head in unit.heads]
        with torch.no_grad():
            gated = model.forward(text, taps=[Gate(gates(model, gone))], hidden=False).final[last]
            smaller = without(model, gone)
            found = smaller.forward(text, hidden=False).final[last]
        assert torch.allclose(gated, found, atol=1e-5)
        assert not torch.allclose(whole, found, atol=1e-3)
        assert smaller.parameters < model.parameters
        for site in smaller.sites:
            left = [head for head in range(4) if (site.index, head) not in gone]
            assert (site.heads, list(smaller.kept[site.index])) == (len(left), left)
    with torch.no_grad():
        still = model.forward(text, hidden=False).final[last]
    assert torch.equal(still, whole), "the model given was cut"


def test_heads_go_one_after_the_other_as_they_go_at_once() -> None:
    model = shared("t5")
    text = model.encode(sentences(2))
    gone = [(0, 1), (0, 2), (3, 0), (5, 3)]
    step = without(model, gone[:1])
    # what was head 2 of site 0 is head 1 now
    twice = without(step, [(0, 1), *gone[2:]])
    with torch.no_grad():
        once = without(model, gone).forward(text, hidden=False).final["decoder"]
        assert torch.equal(twice.forward(text, hidden=False).final["decoder"], once)
    assert twice.kept[0] == (0, 3)


CAUSAL = ("gpt2", "llama", "gpt-neox", "bloom")


@pytest.mark.parametrize(
    ("name", "which"), mostly(product(CAUSAL, WHICH), ("gpt2", _some), ("llama", _first_layer))
)
def test_cached_generation_is_the_uncached(
    name: str, which: Callable[..., list[Unit]], tmp_path: Path
) -> None:
    model = _with_head(name)
    gone = [head for unit in which(model, units(model)) for head in unit.heads]
    net: Any = without(model, gone).net
    ids = torch.arange(6, 14)[None]
    said = [
        net.generate(ids, max_new_tokens=12, do_sample=False, use_cache=cache, pad_token_id=0)
        for cache in (True, False)
    ]
    assert torch.equal(*said)


@pytest.mark.parametrize(
    ("name", "which", "beams"),
    mostly(product(("t5", "bart"), WHICH, (1, 3)), ("t5", _some, 1), ("bart", _every, 3)),
)
def test_an_encoder_decoder_writes_the_same_with_a_cache_and_without(
    name: str, which: Callable[..., list[Unit]], beams: int
) -> None:
    model = _with_head(name)
    gone = [head for unit in which(model, units(model)) for head in unit.heads]
    net: Any = without(model, gone).net
    ids = torch.arange(6, 14)[None]
    how = {"max_new_tokens": 10, "do_sample": False, "num_beams": beams, "min_new_tokens": 10}
    said = [net.generate(ids, use_cache=cache, **how) for cache in (True, False)]
    assert torch.equal(*said)


def _with_head(name: str) -> HuggingFace:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    """With as many layers in the decoder: transformers' own cache is too short for others' T5."""
    plain = shared(name)
    kind = AutoModelForSeq2SeqLM if plain.two_sided else AutoModelForCausalLM
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = copy.deepcopy(plain.net.config)
        if name == "t5":
            config.num_decoder_layers = config.num_layers
        net = kind.from_config(config)
        with torch.no_grad():
            for weights in net.parameters():
                weights += 0.15 * torch.randn_like(weights)
    return HuggingFace(net.train(False), plain.tokenizer, name)


def test_heads_that_share_weights_go_together() -> None:
    albert, llama = shared("albert"), shared("llama")
    assert [unit.heads for unit in units(albert)][1] == ((0, 1), (1, 1), (2, 1))
    assert [unit.heads for unit in units(llama)][1] == ((0, 2), (0, 3))
    with pytest.raises(WorkbenchError, match="every layer"):
        without(albert, [(0, 1)])
    with pytest.raises(WorkbenchError, match="group"):
        without(llama, [(0, 1)])


@pytest.mark.parametrize("head", [(9, 0), (0, 4), (-1, 0), (0, -1)])
def test_a_missing_head_is_an_error(head: tuple[int, int]) -> None:
    with pytest.raises(WorkbenchError, match="no head"):
        without(shared("bert"), [head])


@pytest.mark.parametrize("name", of_zoo(zoo.NAMES, "llama"))
def test_a_smaller_model_learns(name: str) -> None:
    """Gradients reach every map that was cut."""
    model = shared(name)
    chosen = [unit for unit in units(model) if unit.heads[0][1] == 0]  # of each layer one
    smaller = without(model, [head for unit in chosen for head in unit.heads])
    output = smaller.forward(smaller.encode(sentences(2)), hidden=False)
    output.final[smaller.stacks[-1].name].square().sum().backward()  # type: ignore[no-untyped-call]
    still = [
        key
        for key, weight in smaller.net.named_parameters()
        if weight.grad is None and weight.numel() and _used(key)
    ]
    assert not still


def _used(key: str) -> bool:
    """A pooler, a second stream and global attention are not needed."""
    unused = ("pooler", "mask_emb", "_global", "seg_embed", "r_s_bias")
    return not any(part in key for part in unused)
