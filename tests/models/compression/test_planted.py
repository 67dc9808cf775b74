"""Models with useless weights, neurons, layers, pieces and bits: the methods find them.

Random twins have none, so what is taken from them changes what they compute.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch

import workbench as wb
from tests.models import headed
from tests.night import mostly
from workbench.engine.batch import Batch
from workbench.models.compression.layers import cut_layers, influence
from workbench.models.compression.neurons import cut_neurons
from workbench.models.compression.quantisation import quantise
from workbench.models.compression.vocabulary import cut_vocabulary, piece_counts, removable_pieces
from workbench.models.compression.weights import matrices, prune_weights
from workbench.models.huggingface import HuggingFace

TEXTS = ["The dog sees Mary .", "Ben has an old boat today ."]
KINDS = {
    "bert": "BertForMaskedLM",
    "gpt2": "GPT2LMHeadModel",
    "t5": "T5ForConditionalGeneration",
    "llama": "LlamaForCausalLM",
}
OUTPUTS = {  # of feed-forward layers, and the dimension of their neurons
    "bert": (".output.dense.weight", 1),
    "gpt2": ("mlp.c_proj.weight", 0),
    "t5": ("DenseReluDense.wo.weight", 1),
    "llama": ("down_proj.weight", 1),
}
SHARE = 0.5


@pytest.fixture(scope="module")
def texts() -> Batch:
    return wb.encode(list(wb.read(TEXTS).docs()))


def change(one: HuggingFace, other: HuggingFace, texts: Batch) -> float:
    """The largest difference of logits."""
    with torch.no_grad():
        first, second = (
            each.forward(each.encode(texts), hidden=False, logits=True).logits
            for each in (one, other)
        )
    assert first is not None and second is not None
    return float((first - second).abs().max())


def useless(model: HuggingFace, part: str) -> HuggingFace:
    """A copy in which half of the weights, or of the neurons of each layer, do nothing."""
    twin = model.copy()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        if part == "weights":
            for module, name in matrices(twin):
                weights = getattr(module, name)
                weights *= torch.rand(weights.shape, generator=generator) > SHARE
        else:
            ending, dimension = OUTPUTS[model.family]
            for name, weights in twin.net.named_parameters():
                if name.endswith(ending) and "attention.output" not in name:
                    n = weights.shape[dimension]
                    dead = torch.randperm(n, generator=generator)[: round(SHARE * n)]
                    weights.index_fill_(dimension, dead, 0)
    return twin


METHODS: dict[str, Callable[..., HuggingFace]] = {"weights": prune_weights, "neurons": cut_neurons}


@pytest.mark.parametrize(
    ("family", "part"),
    mostly(product(KINDS, METHODS), *(("bert", part) for part in METHODS), ("gpt2", "neurons")),
)
def test_useless_parts_are_found(family: str, part: str, texts: Batch) -> None:
    model = headed.made(family, KINDS[family])
    planted, method = useless(model, part), METHODS[part]
    amount = SHARE - 0.02 if part == "weights" else SHARE
    assert change(planted, method(planted, amount), texts) < 1e-5
    for order in ("random", "reversed"):
        assert change(planted, method(planted, amount, order=order), texts) > 0.1
    assert change(model, method(model, amount), texts) > 0.1  # its random twin has none


def test_each_matrix_loses_its_share() -> None:
    model = headed.made("bert", "BertForMaskedLM")
    cut = prune_weights(model, 0.25, scope="matrix")
    for module, name in matrices(cut):
        assert float((getattr(module, name) == 0).float().mean()) == pytest.approx(0.25, abs=1e-3)
    cut = prune_weights(model, 0.25)
    zeros = torch.cat([(getattr(*each) == 0).flatten() for each in matrices(cut)]).float()
    assert float(zeros.mean()) == pytest.approx(0.25, abs=1e-3)


@pytest.mark.parametrize(("family", "names"), [
    ("gpt2", ("h.1.attn.c_proj", "h.1.mlp.c_proj")),
    ("llama", ("layers.0.self_attn.o_proj", "layers.0.mlp.down_proj")),
])  # fmt: skip
def test_a_layer_that_does_nothing_is_found(
    family: str, names: tuple[str, ...], texts: Batch
) -> None:
    model = headed.made(family, KINDS[family])
    planted = model.copy()
    with torch.no_grad():
        for name, weights in planted.net.named_parameters():
            if any(each in name for each in names):
                weights.zero_()
    own = influence(planted, texts)["decoder"]
    assert own.min() < 1e-6 < 1e-2 < own.max()
    assert change(planted, cut_layers(planted, 0.5, texts=texts), texts) < 1e-5
    assert change(planted, cut_layers(planted, 0.5, texts=texts, order="reversed"), texts) > 0.1
    assert change(model, cut_layers(model, 0.5, texts=texts), texts) > 0.1
    assert influence(model, texts)["decoder"].min() > 1e-2


@pytest.mark.parametrize("family", mostly(KINDS, "bert", "gpt2"))
def test_pieces_that_no_text_has_are_found(family: str, texts: Batch) -> None:
    model = headed.made(family, KINDS[family])
    counts = piece_counts(model, texts)[removable_pieces(model)]
    amount = float((counts == 0).float().mean())
    assert 0.3 < amount < 1
    small = cut_vocabulary(model, amount, texts=texts)
    assert small.net.config.vocab_size == len(small.tokenizer) < model.net.config.vocab_size
    old, new = model.encode(texts), small.encode(texts)
    shown = [each.shown_pieces(read) for each, read in ((model, old), (small, new))]
    assert shown[0] == shown[1]
    with torch.no_grad():
        one, other = (m.forward(read).final for m, read in ((model, old), (small, new)))
    assert all(torch.allclose(one[stack], other[stack], atol=1e-5) for stack in one)
    # without its words it reads characters
    fewest = cut_vocabulary(model, 1.0, texts=texts, order="reversed")
    assert fewest.encode(texts).ids.shape[1] > old.ids.shape[1]


@pytest.mark.parametrize("family", ["bert", "t5", "llama"])
def test_bits_that_a_model_does_not_use_are_found(family: str, texts: Batch) -> None:
    pytest.importorskip("torchao", reason='needs torchao: pip install "lm-workbench[quant]"')
    model = headed.made(family, KINDS[family])
    four = quantise(model, 4)
    planted: Any = model.copy()
    with torch.no_grad():
        for (module, name), (other, _) in zip(matrices(planted), matrices(four), strict=True):
            if isinstance(module, torch.nn.Linear):
                getattr(module, name).copy_(getattr(other, name).dequantize())
    assert change(planted, quantise(planted, 4), texts) < 1e-4
    changes = [change(model, quantise(model, bits), texts) for bits in (8, 4)]
    assert 1e-3 < 3 * changes[0] < changes[1]  # of its random twin
    alone = [change(model, quantise(model, 4, layer=layer), texts) for layer in (0, 1)]
    assert all(0 < each < 2 * changes[1] for each in alone) and alone[0] != alone[1]
