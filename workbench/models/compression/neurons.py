"""Neurons of the feed-forward layers removed: their matrices get smaller, in every layer alike.

A neuron's score is the product of the norms of its incoming and outgoing weights: without either it
does nothing. The config gets the new width, so plain transformers opens the saved model. Costs: a
copy of the weights that are kept.
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from workbench.engine.model import refusal
from workbench.models.compression.rebuilding import (
    Order,
    built,
    cut_dimension,
    cut_state,
    last,
    number_left,
    rebuilt,
    require_whole,
)
from workbench.models.huggingface import HuggingFace

WIDTHS = (  # names that architectures give to the number of neurons of a layer
    "intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "d_inner", "n_inner",
    "hidden_dim",
)  # fmt: skip
Group = tuple[str | None, int | None]  # stack and layer


def cut_neurons(
    model: HuggingFace, amount: float, *, order: Order = "best", seed: int = 0
) -> HuggingFace:
    """The model without this share of the neurons of each layer."""
    model = require_whole(model, "feed-forward layers")
    config, n = _narrower(model, amount)
    shapes = {name: each.shape for name, each in built(model, config).state_dict().items()}
    weights = model.net.state_dict()
    differing = {name: each for name, each in weights.items() if each.shape != shapes[name]}
    if not differing and amount:
        raise refusal(
            model, "has no width of its feed-forward layers in its config",
            "Cut layers, weights or bits of this architecture instead.",
        )  # fmt: skip
    places = model.weight_places()
    group_of = {name: places[model.bare_name(name)][:2] for name in differing}
    left: dict[Group, Tensor] = {}
    for number, group in enumerate(dict.fromkeys(group_of.values())):
        own = {name: each for name, each in differing.items() if group_of[name] == group}
        scores = neuron_scores(own, shapes, n)
        left[group] = last(scores, number_left(len(scores), amount), order, seed + 1000 * number)

    def choose(name: str, each: Tensor, shape: torch.Size) -> Tensor:
        dimension, kept = cut_dimension(each, shape), left[group_of[name]]
        blocks = shape[dimension] // len(kept)  # two where a gate is stored with the neurons
        n_before = each.shape[dimension] // blocks
        index = torch.cat([kept + block * n_before for block in range(blocks)])
        return each.index_select(dimension, index.to(each.device))

    return rebuilt(model, config, cut_state(model, config, choose))


def neuron_scores(
    weights: Mapping[str, Tensor], shapes: Mapping[str, torch.Size], neurons: int
) -> Tensor:
    """The product of the norms of each neuron's weights in the matrices of one layer.

    # [neurons]
    """
    scores = torch.ones(0)
    for name, each in weights.items():
        if each.ndim < 2:
            continue  # biases
        rows = each.detach().float().cpu().movedim(cut_dimension(each, shapes[name]), 0)
        norms = rows.flatten(1).norm(dim=1)  # [neurons], or twice as many with a gate
        for part in norms.split(min(neurons, len(norms))):
            scores = part * scores if len(scores) else part
    return scores


def _narrower(model: HuggingFace, amount: float) -> tuple[Any, int]:
    """The config with fewer neurons, and their number before."""
    config: Any = copy.deepcopy(model.net.config)
    if getattr(config, "n_inner", 0) is None:  # GPT-2's default
        config.n_inner = 4 * config.hidden_size
    named = {name: n for name in WIDTHS if isinstance(n := getattr(config, name, None), int) and n}
    for name, n in named.items():
        setattr(config, name, number_left(n, amount))
    return config, max(named.values(), default=1)
