"""A judge of cut models: the whole net with what was removed masked, three families, odd shapes.

Which weights are smallest, what a neuron adds, what a layer changes and how a matrix is rounded are
worked out here by plain loops. The saved model is opened again in a new process, by plain
transformers, and must give the outputs of the masked one to 1e-5.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model
from tests.models import headed
from tests.night import mostly
from workbench.models.compression.layers import cut_layers
from workbench.models.compression.neurons import cut_neurons
from workbench.models.compression.quantisation import quantise
from workbench.models.compression.weights import prune_weights

OPEN = """
import json, sys, torch, transformers
from transformers.utils import logging
logging.disable_progress_bar()
for line in sys.stdin:
    name, folder, ids = json.loads(line)
    net = getattr(transformers, name).from_pretrained(folder).eval()
    with torch.no_grad():
        more = {"decoder_input_ids": torch.tensor(ids)} if net.config.is_encoder_decoder else {}
        torch.save(net(input_ids=torch.tensor(ids), **more).logits, folder + "/logits")
"""
Ids = list[list[int]]


def models() -> dict[str, Any]:
    return {
        "odd BERT": odd_model(odd_corpus({"test": 8}, longest=12), outlier=3.0, offset=0.5),
        "GPT-2": headed.made("gpt2", "GPT2LMHeadModel"),
        "T5": headed.made("t5-gated", "T5ForConditionalGeneration"),
    }


def ids_of(model: Any) -> Ids:
    generator = torch.Generator().manual_seed(0)
    n = model.net.config.vocab_size
    ids: Ids = torch.randint(n - 6, (3, 11), generator=generator).add(6).tolist()
    return ids


def logits(net: Any, ids: Ids) -> Tensor:
    more = {"decoder_input_ids": torch.tensor(ids)} if net.config.is_encoder_decoder else {}
    with torch.no_grad():
        out: Tensor = net(input_ids=torch.tensor(ids), **more).logits
    return out


def lists_of_blocks(net: Any) -> list[nn.ModuleList]:
    if net.config.model_type == "bert":
        return [net.bert.encoder.layer]
    return [net.transformer.h] if net.config.model_type == "gpt2" else [
        net.encoder.block, net.decoder.block,
    ]  # fmt: skip


def matrices_in(block: nn.Module) -> list[nn.Module]:
    """Modules with a matrix, of either orientation."""
    return [
        m for m in block.modules()
        if getattr(getattr(m, "weight", None), "ndim", 0) == 2 and not isinstance(m, nn.Embedding)
    ]  # fmt: skip


def mask_weights(net: Any) -> None:
    found: Any = [m for blocks in lists_of_blocks(net) for b in blocks for m in matrices_in(b)]
    every = torch.cat([m.weight.detach().abs().flatten() for m in found])
    bound = every.sort().values[round(0.4 * len(every))]
    with torch.no_grad():
        for module in found:
            module.weight[module.weight.abs() < bound] = 0


def mask_neurons(net: Any) -> None:
    for blocks in lists_of_blocks(net):
        for block in blocks:
            b: Any = block
            if net.config.model_type == "bert":
                into, out = [b.intermediate.dense.weight], b.output.dense.weight
            elif net.config.model_type == "gpt2":
                into, out = [b.mlp.c_fc.weight.T], b.mlp.c_proj.weight.T
            else:
                dense = b.layer[-1].DenseReluDense
                into, out = [dense.wi_0.weight, dense.wi_1.weight], dense.wo.weight
            adds = []
            for neuron in range(out.shape[1]):
                size = float(out[:, neuron].detach().norm())
                for matrix in into:
                    size *= float(matrix[neuron].detach().norm())
                adds.append(size)
            order = sorted(range(len(adds)), key=lambda n: adds[n])
            with torch.no_grad():
                for neuron in order[: round(0.4 * len(order))]:
                    out[:, neuron] = 0


def skip_layers(net: Any, model: Any, texts: Any) -> None:
    """Leave out the layers whose states before and after are most alike."""
    pieces = model.encode(texts)
    with torch.no_grad():
        hidden = model.forward(pieces).hidden
    for blocks, stack in zip(lists_of_blocks(net), hidden, strict=True):
        states, alike = hidden[stack], []
        # a decoder reads its target shifted by one; texts here have no padding
        for before, after in pairwise(states):
            cosines = [
                torch.dot(a, b) / (a.norm() * b.norm())
                for x, y in zip(before, after, strict=True)
                for a, b in zip(x, y, strict=True)
            ]
            alike.append(float(torch.stack(cosines).mean()))
        order = sorted(range(len(alike)), key=lambda n: -alike[n])
        for layer in order[: round(0.4 * len(order))]:
            blocks[layer].register_forward_hook(
                lambda _, args, out: (args[0], *out[1:]) if isinstance(out, tuple) else args[0]
            )


Cut = Callable[[str, str], tuple[Path, Tensor]]


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Cut:
    """A saved model by its name and method, with the outputs expected of it."""

    @cache
    def made(name: str, method: str) -> tuple[Path, Tensor]:
        model = models()[name]
        doc = next(wb.read(["the dog sees a boat ."]).docs())
        texts, ids, net = wb.encode([doc]), ids_of(model), model.copy().net
        if method == "weights":
            small = prune_weights(model, 0.4)
            mask_weights(net)
        elif method == "neurons":
            small = cut_neurons(model, 0.4)
            mask_neurons(net)
        else:
            small = cut_layers(model, 0.4, texts=texts)
            skip_layers(net, model, texts)
        folder = tmp_path_factory.mktemp("cut")
        small.save(folder)
        assert method == "weights" or small.parameters < model.parameters
        return folder, logits(net, ids)

    return made


CASES = [
    (name, method)
    for name in ("odd BERT", "GPT-2", "T5")
    for method in ("weights", "neurons", "layers")
]
BY_DAY = (("odd BERT", "weights"), ("T5", "neurons"))


@pytest.mark.parametrize(("name", "method"), mostly(CASES, *BY_DAY))
def test_saved_models_compute_what_masked_ones_do(cut: Cut, name: str, method: str) -> None:
    folder, expected = cut(name, method)
    scale = max(1.0, float(expected.abs().max()))
    own: Any = wb.load(folder, device="cpu")
    plain = type(own.net).from_pretrained(folder).eval()
    for net in (own.net, plain):
        assert float((logits(net, ids_of(own)) - expected).abs().max()) < 1e-5 * scale


@pytest.mark.slow
def test_plain_transformers_opens_them_in_a_new_process(cut: Cut) -> None:
    lines = []
    for name, method in CASES:
        folder, _ = cut(name, method)
        config = json.loads((folder / "config.json").read_text())
        lines.append(json.dumps([config["architectures"][0], str(folder), ids_of(models()[name])]))
    subprocess.run(
        [sys.executable, "-c", OPEN], input="\n".join(lines), text=True, check=True, timeout=120
    )
    for folder, expected in (cut(*case) for case in CASES):
        plain = torch.load(folder / "logits", weights_only=True)
        scale = max(1.0, float(expected.abs().max()))
        assert float((plain - expected).abs().max()) < 1e-5 * scale


@pytest.mark.parametrize("name", ["odd BERT", "T5"])
def test_quantised_models_compute_with_rounded_matrices(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torchao", reason='needs torchao: pip install "lm-workbench[quant]"')
    model = models()[name]
    ids = ids_of(model)
    for bits, per in ((8, "channel"), (8, "tensor"), (4, "channel")):
        net = model.copy().net
        for blocks in lists_of_blocks(net):
            for block in blocks:
                for module in matrices_in(block):
                    if isinstance(module, nn.Linear):
                        with torch.no_grad():
                            module.weight.copy_(rounded(module.weight, bits, per))
        expected = logits(net, ids)
        quantise(model, bits, per=per).save(tmp_path / f"{bits}{per}")
        opened: Any = wb.load(tmp_path / f"{bits}{per}", device="cpu")
        scale = float(expected.abs().max())
        assert float((logits(opened.net, ids) - expected).abs().max()) < 1e-4 * scale
        assert opened.content_hash != model.content_hash


def rounded(weights: Tensor, bits: int, per: str) -> Tensor:
    rows = weights if per == "channel" else weights.reshape(1, -1)
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    found = []
    for row in rows:
        if bits == 8:  # the largest weight is half a step beyond the grid: which way, in float32
            scale = row.abs().max() / ((highest - lowest) / 2)
        else:
            scale = torch.maximum(row.min() / lowest, row.max() / highest)
        found.append((row * (1 / scale)).round().clamp(lowest, highest) * scale)
    return torch.stack(found).reshape(weights.shape)
