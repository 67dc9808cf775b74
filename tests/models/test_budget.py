"""Predicted memory equals that of a real pass, and a model that does not fit is rejected."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from tests.engine.card import card
from tests.models.test_attention import pieces
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench import Capture, WorkbenchError
from workbench.models import loading
from workbench.models.budget import batch_memory, memory, weights
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load
from workbench.models.output_heads.lm_heads import placed

Folder = Callable[[str], Path]
FAMILIES = ("bert", "gpt2", "llama", "t5", "bart", "gpt-neox", "modernbert")


def size(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def headed(name: str, folder: Path, dtype: torch.dtype) -> HuggingFace:
    net = getattr(transformers, HEADED[name])(AutoConfig.from_pretrained(folder))
    placed(net, torch.device("cpu"), dtype)
    return HuggingFace(net, AutoTokenizer.from_pretrained(folder), name)


@pytest.mark.parametrize(
    ("name", "dtype"),
    mostly(
        product(FAMILIES, (torch.float32, torch.bfloat16)),
        ("bert", torch.float32), ("llama", torch.bfloat16), ("t5", torch.float32),
    ),
)  # fmt: skip
def test_predicted_memory_is_what_a_pass_allocates(
    name: str, dtype: torch.dtype, zoo_folder: Folder
) -> None:
    model, capture = headed(name, zoo_folder(name), dtype), Capture()
    text = pieces(model, 3, 9, False)
    with torch.no_grad():
        output = model.forward(text, taps=[capture], logits=True)
    predicted = batch_memory(model.net, dtype, 3, 9)
    assert weights(model.net, dtype) == size(model.net.parameters())
    assert predicted.states == sum(size(states) for states in output.hidden.values())
    assert predicted.attention_map == max(size(maps) for maps in capture.maps.values())
    assert output.logits is not None and predicted.logits == size([output.logits])


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart", "gpt-neox"])
def test_the_cache_is_what_generating_keeps(name: str, zoo_folder: Folder) -> None:
    model = headed(name, zoo_folder(name), torch.float32)
    ids = pieces(model, 3, 9, False).ids
    decoder = {"decoder_input_ids": ids} if model.two_sided else {}
    with torch.no_grad():
        cache = model.net(input_ids=ids, **decoder, use_cache=True).past_key_values
    parts = [cache.self_attention_cache, cache.cross_attention_cache] if decoder else [cache]
    layers = [layer for part in parts for layer in part.layers]
    kept = size([tensor for layer in layers for tensor in (layer.keys, layer.values)])
    assert batch_memory(model.net, torch.float32, 3, 9).cache == kept > 0


def test_memory_of_a_seven_billion_llama_follows_from_its_shape() -> None:
    """Numbers by hand: 2 x 32,000 x 4,096 + 32 x (4 x 4,096² + 3 x 4,096 x 11,008 + 2 x 4,096)
    + 4,096 = 6,738,415,616 parameters."""
    with torch.device("meta"):
        net = LlamaForCausalLM(LlamaConfig())
    assert weights(net, torch.bfloat16) == 2 * 6_738_415_616
    assert weights(net, torch.float32) == 4 * 6_738_415_616
    predicted = batch_memory(net, torch.bfloat16, 64, 512)
    assert predicted.states == 33 * 64 * 512 * 4_096 * 2
    assert predicted.attention_map == 64 * 32 * 512 * 512 * 4
    assert predicted.logits == 64 * 512 * 32_000 * 4
    assert predicted.cache == 2 * 32 * 64 * 512 * 4_096 * 2


def test_weights_that_stay_in_float32_count_as_such(zoo_folder: Folder) -> None:
    half = placed(
        headed("t5", zoo_folder("t5"), torch.float32).net, torch.device("cpu"), torch.half
    )
    assert weights(half, torch.half) == size(half.parameters()) > 2 * half.num_parameters()


def test_what_does_not_fit_a_card_is_refused_before_it_is_read(
    zoo_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = zoo_folder("bert")
    needed = weights(load(folder, "cpu", "fp32").net, torch.float32)  # type: ignore[attr-defined]
    with card(free=needed):
        assert load(folder, "cuda", "fp32").device.type == "cuda"
    monkeypatch.setattr(loading, "_weights", lambda *a: pytest.fail("it was read"))
    with card(free=needed - 1), pytest.raises(WorkbenchError, match="free") as caught:
        load(folder, "cuda", "fp32")
    assert "cuda" in caught.value.what and "bf16" in caught.value.remedy


def test_an_open_model_tells_its_memory() -> None:
    model = load("mini:bert", "cpu", "fp32")
    assert isinstance(model, HuggingFace)
    found = memory(model)
    assert found["weights"] == 4 * model.parameters
    assert found["texts"] * found["length"] <= 2_048
