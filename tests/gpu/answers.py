"""The same answers as the CPU's, of every kind of architecture, in float32 and in bf16.

States, logits, maps, what a gate does, and gradients, of tiny random models with their heads. The
bounds are shares of a norm. Those of float32 are what adding up in another order can do; those of
bf16 are a few times what two layers in three digits lose on a CPU. Costs a second a family.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel

from tests.gpu.checks import Figures, Setting, apart
from tests.gpu.made import FAMILIES, batch_of, opened, saved
from tests.models import zoo
from tests.models.documents import states_by_document
from workbench import Capture, Gate, forward
from workbench.engine.batch import Pieces
from workbench.models.huggingface import HuggingFace

ARCHITECTURES = (
    "bert", "albert", "modernbert", "gpt2", "llama", "t5", "bart", "xlnet", "deberta-v2",
)  # fmt: skip
BOUNDS = {
    "fp32": {
        "states": 1e-4,
        "logits": 1e-4,
        "maps": 1e-4,
        "effect of gates": 1e-3,
        "gradients of gates": 1e-3,
    },
    "bf16": {
        "states": 0.05,
        "logits": 0.1,
        "maps": 0.1,
        "effect of gates": 0.2,
        "gradients of gates": 0.2,
    },
}
ROWS = 1e-5  # that a row of a map may lack of 1: maps are made in float32, whatever the weights
ROUNDED = {("xlnet", "bf16"): 1e-2}  # but where the model's own code makes them


def answers(setting: Setting, figures: Figures) -> None:
    """What the engine hands on is what transformers computes itself, and what the CPU finds."""
    for name in ARCHITECTURES[:3] if setting.small else ARCHITECTURES:
        folder = zoo.make(name, setting.folder / name)
        here, there = opened(folder), opened(folder, setting.device)
        text = here.encode(batch_of(7))
        expected = _run(here, text)
        states, maps = _run(there, text.to(setting.device))
        figures.at_most(f"{name} states", apart(states, expected[0]), 1e-4)
        figures.at_most(f"{name} maps", apart(maps, expected[1]), 1e-4)
        figures.at_most(f"{name} states by eager", apart(_eager(there, folder, text), states), 1e-4)
        gates = torch.ones(len(there.sites), 4, device=setting.device)
        fused, _ = _run(there, text.to(setting.device), [Gate(gates)], maps=False)
        figures.at_most(f"{name} states by the fast kernel", apart(fused, states), 1e-4)
    folder = setting.folder / "bert"
    here, there = opened(folder), opened(folder, setting.device)
    batch = batch_of(300)
    one, two = (states_by_document(model, batch, pieces=200) for model in (here, there))
    figures.holds("every document of a pass came", sorted(one) == sorted(two))
    far = max(apart(two[document], states) for document, states in one.items())
    figures.at_most("states of a pass with copies ahead", far, 1e-4)
    auto = opened(folder, setting.device, "auto")
    report = forward(auto, batch)
    figures.note("auto", f"{report.precision} on {report.device}")
    wanted = "bf16" if setting.on_gpu else "fp32"
    figures.holds("auto precision", report.precision == auto.precision == wanted)


def _run(
    model: HuggingFace, text: Pieces, taps: Any = (), maps: bool = True
) -> tuple[Tensor, Tensor]:
    """The last states of real pieces, and the maps of real queries, end to end."""
    capture = Capture()
    with torch.no_grad():
        output = model.forward(text, taps=[*taps, capture] if maps else taps)
    stack = model.stacks[-1].name
    states = output.final[stack][output.texts[stack].mask]
    return states, _flat(_real(capture, output.texts)) if maps else states[:0]


def _real(capture: Capture, texts: Any) -> Iterator[Tensor]:
    """Rows of maps, padding left out.  # [real queries, heads, keys]"""
    for site, (kept,) in sorted(capture.maps.items(), key=lambda item: item[0].index):
        yield kept.transpose(1, 2)[texts[site.stack].mask]


def _eager(model: HuggingFace, folder: Any, text: Pieces) -> Tensor:
    """The last states by transformers' own eager attention."""
    plain = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    plain.eval().to(model.device)
    text = text.to(model.device)
    given: dict[str, Tensor] = {"input_ids": text.ids, "attention_mask": text.mask.long()}
    if text.segments is not None:
        given["token_type_ids"] = text.segments
    if model.two_sided:
        with torch.no_grad():
            read = model.forward(text, hidden=False).texts["decoder"]
        given |= {"decoder_input_ids": read.ids, "decoder_attention_mask": read.mask.long()}
        text = read
    with torch.no_grad():
        states: Tensor = plain(**given).last_hidden_state[text.mask]
    return states


def families(setting: Setting, figures: Figures) -> None:
    """Nine families in two precisions, by all that the engine shows of a pass."""
    for name in FAMILIES:
        folder = saved(name, setting.folder)
        here = opened(folder)
        text = here.encode(batch_of(8))
        expected, _ = _seen(here, text)
        for precision, bounds in BOUNDS.items():
            found, rows = _seen(opened(folder, setting.device, precision), text)
            for what, bound in bounds.items():
                far = apart(found[what], expected[what])
                figures.at_most(f"{name} {precision} {what}", far, bound)
            figures.at_most(
                f"{name} {precision} rows of maps", rows, ROUNDED.get((name, precision), ROWS)
            )


def _seen(model: HuggingFace, text: Pieces) -> tuple[dict[str, Tensor], float]:
    """All that is compared, and by how much a row of a map misses 1 at most."""
    text, capture = text.to(model.device), Capture()
    heads = max(site.heads for site in model.sites)
    random = torch.Generator().manual_seed(1)
    closing = torch.rand(len(model.sites), heads, generator=random).to(model.device)
    with torch.no_grad():
        output = model.forward(text, taps=[capture], logits=True)
        gated = model.forward(text, taps=[Gate(closing)], hidden=False, logits=True)
    stack = model.stacks[-1].name
    read = output.texts[stack]
    assert output.logits is not None and gated.logits is not None
    maps = list(_real(capture, output.texts))
    gates = torch.ones_like(closing).requires_grad_(True)
    logits = model.forward(text, taps=[Gate(gates)], hidden=False, logits=True).logits
    assert logits is not None
    loss = functional.cross_entropy(logits[read.mask].float(), read.ids[read.mask])
    (gradient,) = torch.autograd.grad(loss, gates)
    found = {
        "states": torch.cat(
            [
                layer[output.texts[name].mask].float()
                for name, layers in output.hidden.items()
                for layer in layers
            ]
        ),
        "logits": output.logits[read.mask].float(),
        "maps": _flat(maps),
        "effect of gates": (gated.logits - output.logits)[read.mask].float(),
        "gradients of gates": gradient,
    }
    return found, max(float((rows.float().sum(-1) - 1).abs().max()) for rows in maps)


def _flat(tensors: Any) -> Tensor:
    return torch.cat([tensor.float().flatten() for tensor in tensors])
