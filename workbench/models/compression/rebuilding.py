"""A transformers net built again from a changed config, with slices of the weights of another.

Which dimension of a weight is cut follows from the shapes of the two nets; so no architecture is
named. Costs: a copy of the weights that are kept.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.engine.model import Model
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.output_heads.lm_heads import placed

Order = Literal["best", "random", "reversed"]  # of what goes first: by the method's own scores
READ = "_is_hf_initialized"  # transformers' mark of weights that were read from a file
Choose = Callable[[str, Tensor, torch.Size], Tensor]  # name, weights, new shape -> new weights


def require_whole(model: Model, what: str) -> HuggingFace:
    """The model, if its net is one that transformers builds from a config; else an error."""
    net = require_transformer(
        model, f"has no {what} that can be cut", "Choose a transformer, such as mini:bert."
    )
    if net.n_removed_heads or net.added is not None:
        part = "removed heads" if net.n_removed_heads else f"added modules ({net.added})"
        raise WorkbenchError(
            f"no config of transformers describes a model with {part}.",
            code="model-unsupported",
            where=model.name,
            remedy="Cut the model first, and remove heads or add modules afterwards.",
        )
    return net


def number_left(n: int, amount: float) -> int:
    """How many of n are left without this share of them; at least one."""
    if not 0 <= amount <= 1:
        raise WorkbenchError(
            f"the amount is {amount:g}; it is a share that is removed.",
            code="setting-invalid",
            remedy="Choose an amount between 0 and 1.",
        )
    return max(1, n - round(amount * n))


def last(scores: Tensor, left: int, order: Order, seed: int) -> Tensor:
    """Indices, ascending, of those that are left: by default, those of the highest scores.

    # [n] -> [left]
    """
    if order == "random":
        generator = torch.Generator().manual_seed(seed)
        scores = torch.rand(len(scores), generator=generator)
    ranked = scores.argsort(stable=True, descending=order == "reversed")
    return ranked[len(scores) - left :].sort().values


def built(model: HuggingFace, config: PretrainedConfig, device: str = "meta") -> Any:
    """A net of the model's class from another config; the random state stays as it is."""
    with torch.random.fork_rng(devices=[]), torch.device(device):
        return type(model.net)(copy.deepcopy(config))


def rebuilt(
    model: HuggingFace,
    config: PretrainedConfig,
    state: Mapping[str, Tensor],
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> HuggingFace:
    """The model of a config with these weights, and with the task head of another model."""
    net = built(model, config, "cpu")
    net.load_state_dict(state)
    net.tie_weights()
    mark_read(net, model)
    placed(net, model.device, model.net.dtype)
    smaller = HuggingFace(net, tokenizer or model.tokenizer, model.name)
    smaller.take_heads(model)
    smaller.task_head = copy.deepcopy(model.task_head)
    return smaller


def mark_read(net: Any, model: HuggingFace) -> None:
    """Mark the weights that were read from files, as in the model: see `lm_heads.partly_random`."""
    marks = {name: getattr(old, READ, False) for name, old in model.net.named_parameters()}
    for name, weights in net.named_parameters():
        setattr(weights, READ, marks.get(name, True))  # a new one was computed from others


def cut_state(model: HuggingFace, config: PretrainedConfig, choose: Choose) -> dict[str, Tensor]:
    """The weights of the model in the shapes of the config: `choose` cuts those that differ."""
    shapes = {name: weights.shape for name, weights in built(model, config).state_dict().items()}
    return {
        name: weights if weights.shape == shapes[name] else choose(name, weights, shapes[name])
        for name, weights in model.net.state_dict().items()
    }


def cut_dimension(weights: Tensor, shape: torch.Size) -> int:
    """The dimension in which a weight is smaller in the new shape."""
    return next(
        n for n, (old, new) in enumerate(zip(weights.shape, shape, strict=True)) if old != new
    )
