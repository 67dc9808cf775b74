"""Weights set to zero, smallest first: the matrices of all layers, together or one by one.

The zeros stay in the matrices, so the model is neither smaller on disk nor faster: what is measured
is how many weights it needs (Gordon et al. 2020). Embeddings, biases, norms and the output layer
are left alone. Costs: a copy of the weights, and a sort of them.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

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
    twin = copied(model, amount)
    found = matrices(twin)
    generator = torch.Generator().manual_seed(seed)
    scores = [sizes(getattr(*each).detach(), order, generator) for each in found]
    with torch.no_grad():
        for (module, name), mask in zip(found, kept(scores, amount, scope), strict=True):
            getattr(module, name).mul_(mask)
    mark_read(twin.net, model)
    return twin


def copied(model: HuggingFace, amount: float) -> HuggingFace:
    """A copy of a model whose matrices can be pruned by this amount."""
    number_left(1, amount)  # raises outside 0 to 1
    return require_transformer(
        model, "has no matrices that can be pruned", "Choose a transformer, such as mini:bert."
    ).copy()


def kept(scores: Sequence[Tensor], amount: float, scope: Scope = "global") -> list[Tensor]:
    """By matrix, which weights are left without this share of the lowest scores."""
    if scope == "matrix":
        return [mask for each in scores for mask in kept([each], amount)]
    every = torch.cat([each.flatten() for each in scores])
    mask = torch.ones_like(every, dtype=torch.bool)
    mask[every.topk(round(amount * len(every)), largest=False).indices] = False
    parts = torch.split(mask, [each.numel() for each in scores])
    return [part.view_as(each) for part, each in zip(parts, scores, strict=True)]


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


def sizes(weights: Tensor, order: Order, generator: torch.Generator) -> Tensor:
    """Scores by magnitude, each positive: what is removed first has the lowest score."""
    if order == "random":
        return torch.rand(weights.shape, generator=generator).to(weights.device) + TINY
    size = weights.abs().float()
    return size if order == "best" else 1 / (size + TINY)
