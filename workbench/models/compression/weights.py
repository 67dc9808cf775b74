"""Weights set to zero, smallest first: the matrices of all layers, together or one by one.

The zeros stay in the matrices, so the model is neither smaller on disk nor faster: what is measured
is how many weights it needs (Gordon et al. 2020). Embeddings, biases, norms and the output layer
are left alone. Costs: a copy of the weights, and a sort of them.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from workbench.models.compression.rebuilding import Order, mark_read, number_left
from workbench.models.huggingface import HuggingFace, require_transformer

Scope = Literal["global", "matrix"]
TINY = 1e-30


def prune_weights(
    model: HuggingFace,
    amount: float,
    *,
    order: Order = "best",
    scope: Scope = "global",
    seed: int = 0,
) -> HuggingFace:
    """The model with this share of the weights of its matrices set to zero.

    `global` compares weights of all matrices; `matrix` removes the same share from each.
    """
    number_left(1, amount)  # raises outside 0 to 1
    twin = require_transformer(
        model, "has no matrices that can be pruned", "Choose a transformer, such as mini:bert."
    ).copy()
    found = matrices(twin)
    generator = torch.Generator().manual_seed(seed)
    scores = {each: _scores(getattr(*each).detach(), order, generator) for each in found}
    if scope == "global":
        prune.global_unstructured(found, prune.L1Unstructured, scores, amount=amount)
    else:
        for module, name in found:
            prune.l1_unstructured(module, name, amount, scores[module, name])  # type: ignore[no-untyped-call]
    for module, name in found:
        prune.remove(module, name)  # type: ignore[no-untyped-call]
    mark_read(twin.net, model)
    return twin


def matrices(model: HuggingFace) -> list[tuple[nn.Module, str]]:
    """The matrices of all layers, each with its module; shared ones once."""
    places = model.weight_places()
    seen: set[int] = set()
    found = []
    for path, module in model.net.named_modules():
        for name, weights in module.named_parameters(recurse=False):
            place = places.get(model.bare_name(f"{path}.{name}"))
            if (
                place is not None and place.layer and weights.ndim > 1 and id(weights) not in seen
                and not isinstance(module, nn.Embedding) and not name.endswith(("bias", "embed"))
            ):  # fmt: skip
                seen.add(id(weights))
                found.append((module, name))
    return found


def _scores(weights: Tensor, order: Order, generator: torch.Generator) -> Tensor:
    """What is removed first has the lowest score; each is positive."""
    if order == "random":
        return torch.rand(weights.shape, generator=generator).to(weights.device) + TINY
    size = weights.abs().float()
    return size if order == "best" else 1 / (size + TINY)
