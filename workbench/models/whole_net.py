"""A model as plain transformers opens it, with its removed heads written back where it must be.

    net, shape = plain_net(model)   # `net.save_pretrained(FOLDER)` gives a folder of equal outputs

A pruned net fits a config only where every layer keeps as many heads and the config can say how
wide a head is (Llama and others). Else the removed heads come back as zeros: their queries, keys,
values and slices of the output projection are 0, so that they add nothing. Which number of the
small net belongs where is found by removing the same heads from a net whose weights are their own
indices; so no architecture is named. Every result is compared with the model before it is used.
Costs: two copies of the weights, one of them with 8 bytes per weight.
"""

import copy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from workbench.core.errors import WorkbenchError
from workbench.engine.model import Model
from workbench.models import head_removal
from workbench.models.formats import packed_checkpoint, pruned_checkpoint
from workbench.models.huggingface import HuggingFace
from workbench.models.net_parts import probe
from workbench.models.output_heads.lm_heads import placed
from workbench.models.output_heads.task_heads import MixHead

Shape = Literal["unchanged", "smaller", "zeros"]
CLOSE = 1e-5  # largest difference of outputs, relative to the largest one
MORE = 12  # random pieces that both nets read


@dataclass(frozen=True)
class PlainNet:
    """A net of transformers that computes what a model computes, and how its removed heads went."""

    net: PreTrainedModel
    shape: Shape


def require_plain(model: Model) -> HuggingFace:
    """The model, if a class of transformers can compute what it does; else an error."""
    if not isinstance(model, HuggingFace):
        raise _not_plain(
            model,
            f"it is {_a(model.family)}, which transformers does not have",
            f"wb.load({model.name!r}) opens it; save it with model.save(FOLDER).",
        )
    if model.device.type == "meta":
        raise _not_plain(
            model,
            "it is on the device meta, without weights",
            "Open it with weights, and export that model.",
        )
    if model.added is not None:
        raise _not_plain(
            model,
            f"it has added modules ({model.added.kind}), which are no part of "
            f"{type(model.net).__name__}",
            f"wb.load({model.name!r}) opens it. To use it in transformers, fine-tune with method "
            "fine-tuned or lora.",
        )
    if packed_checkpoint.rounds_inputs(model):
        raise _not_plain(
            model,
            "its layers round their inputs",
            f"wb.load({model.name!r}) opens it. Round weights only, without activations.",
        )
    if isinstance(model.task_head, MixHead):
        raise _not_plain(
            model,
            "its task head reads a mix of all layers, and the heads of transformers read the last "
            "one",
            f"wb.load({model.name!r}) opens it. To use it in transformers, fine-tune with head "
            + (
                "standard; --objective language-model exports its language model."
                if any(task.is_language_model for task in model.objectives)
                else "standard."
            ),
        )
    return model.in_weights()


def _not_plain(model: Model, why: str, remedy: str) -> WorkbenchError:
    return WorkbenchError(
        f"the model cannot be exported to transformers: {why}.",
        code="model-unsupported",
        where=model.name,
        remedy=remedy,
    )


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def plain_net(model: HuggingFace) -> PlainNet:
    """The model as a plain net, checked against it."""
    if not model.n_removed_heads:
        return PlainNet(model.net, "unchanged")
    small = pruned_checkpoint.plain_config(model)
    if small is not None:
        net = copy.copy(model.net)
        net.config = small
        return PlainNet(net, "smaller")
    whole = _with_zeros(model)
    _require_equal(model, whole)
    return PlainNet(whole.net, "zeros")


def _built(model: HuggingFace, dtype: torch.dtype) -> HuggingFace:
    """The same architecture with all of its heads, on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net: Any = type(model.net)(copy.deepcopy(model.net.config))
    return HuggingFace(placed(net, torch.device("cpu"), dtype), model.tokenizer, model.name)


@torch.no_grad()
def _with_zeros(model: HuggingFace) -> HuggingFace:
    whole, marked = _built(model, model.net.dtype), _built(model, torch.float64)
    for weights in marked.net.parameters():
        weights.copy_(torch.arange(weights.numel(), dtype=weights.dtype).view_as(weights))
    removed: Any = head_removal.cut(marked, model.kept).net
    indices, values = removed.state_dict(), model.net.state_dict()
    state: dict[str, Tensor] = whole.net.state_dict()
    for name, old in state.items():
        new = values.get(name)
        if new is None or (new.numel() == 0 and name not in indices):
            old.zero_()
        elif new.shape == old.shape:
            old.copy_(new.to(old.device))
        else:
            flat = torch.zeros(old.numel(), dtype=old.dtype)
            flat[indices[name].long().flatten()] = new.detach().cpu().to(old.dtype).flatten()
            old.copy_(flat.view_as(old))
    whole.net.load_state_dict(state)
    whole.task_head, whole.language_head = model.task_head, model.language_head
    return whole


@torch.no_grad()
def _require_equal(model: HuggingFace, whole: HuggingFace) -> None:
    """Raise if the two nets give different outputs for two texts."""
    twin = model.copy()
    placed(twin.net, torch.device("cpu"), model.net.dtype)
    few = probe(twin.net)
    generator = torch.Generator().manual_seed(0)
    choices = torch.tensor(twin.pieces_to_draw())
    drawn = choices[torch.randint(len(choices), (1, MORE), generator=generator)]
    ids = torch.cat([few.ids, drawn], 1)
    no_word = torch.full_like(ids, -1)
    text = type(few)(
        ids, no_word < 0, no_word, no_word > 0, None, few.word_counts, few.kept, few.order
    )
    has_logits = model.predicts is not None
    for read in (few, text):
        one, other = (each.forward(read, hidden=False, logits=has_logits) for each in (twin, whole))
        pairs = [(one.final[stack], other.final[stack]) for stack in one.final]
        if one.logits is not None and other.logits is not None:
            pairs.append((one.logits, other.logits))
        for first, second in pairs:
            scale = max(float(first.abs().max()), 1.0)
            if not float((first - second).abs().max()) <= CLOSE * scale * (
                1 if model.net.dtype == torch.float32 else 1000
            ):
                raise _not_plain(
                    model,
                    f"the {model.family} of transformers with zeros for its removed heads gives "
                    "other outputs",
                    f"wb.load({model.name!r}) opens it.",
                )
