"""Methods that adapt a model: which weights learn, which modules are added, when and how fast.

Frozen leaves every weight as it is. LoRA comes from peft; adapters, mixtures of them, prefixes and
prompts are those of `models.added_modules`. Costs: the parameters that the method adds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.analyses.transfer.backbone import Body
from workbench.analyses.transfer.experiments import Method, Sizes
from workbench.core.errors import WorkbenchError
from workbench.engine.model import Model, refusal
from workbench.models.added_modules import KINDS, Mixing, add
from workbench.models.formats import peft_adapter
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.transformer import AddedKind

METHODS: tuple[Method, ...] = get_args(Method)
LAYER_DECAY = 2.6  # learning rate of a layer over that of the layer below (Howard, Ruder 2018)
SMALL = 20_000_000  # parameters; smaller models need higher learning rates
# Learning rates to try for small and for large models.
LEARNING_RATES: Mapping[Method, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "frozen": ((0.0,), (0.0,)),  # a plain head is trained to its optimum
    "fine-tuned": ((5e-4, 1.5e-3), (2e-5, 5e-5)),
    "gradual": ((1e-3, 2e-3), (5e-5, 1e-4)),
    "top": ((5e-4, 1.5e-3), (2e-5, 5e-5)),
    "lora": ((1e-3, 3e-3), (2e-4, 5e-4)),
    "adapters": ((1e-3, 3e-3), (2e-4, 5e-4)),
    "adamix": ((1e-3, 3e-3), (2e-4, 5e-4)),
    "prefix": ((3e-3, 1e-2), (1e-3, 5e-3)),
    "prompt": ((3e-3, 1e-2), (3e-3, 1e-2)),
    "bitfit": ((1e-3, 3e-3), (2e-4, 1e-3)),
}


EPOCHS: Mapping[Method, int] = {  # methods with few weights need more epochs
    "lora": 6, "adapters": 6, "adamix": 6, "prefix": 6, "prompt": 6, "bitfit": 6,
}  # fmt: skip
DEFAULT_EPOCHS = 5
LSTM_EPOCHS = 6  # of a frozen model under an LSTM
LSTM_LEARNING_RATES = (3e-3, 6e-3), (1e-3, 3e-3)  # for small and for large models


@dataclass(frozen=True)
class Group:
    """Weights that start to learn at the same step, with the same learning rate."""

    weights: Sequence[Tensor]
    rate_factor: float = 1.0  # times the head's learning rate
    begins: float = 0.0  # fraction of the steps before these weights start to learn


@dataclass
class Fitting:
    """A body prepared for one adaptation method."""

    body: Body
    groups: list[Group] = field(default_factory=list)
    consistency: float = 0.0  # weight of the divergence between two passes

    @property
    def trained_weights(self) -> list[Tensor]:
        """Every weight that learns."""
        return [weights for group in self.groups for weights in group.weights]

    @property
    def trainable(self) -> int:
        """Number of parameters that learn."""
        return sum(weights.numel() for weights in self.trained_weights)


def default_learning_rates(method: Method, model: Model, lstm: bool = False) -> tuple[float, ...]:
    """The learning rates to try when the settings name none."""
    grids = LSTM_LEARNING_RATES if method == "frozen" and lstm else LEARNING_RATES[method]
    return grids[0 if model.parameters < SMALL else 1]


def default_epochs(method: Method, lstm: bool) -> int:
    """The maximum number of epochs when the settings give none."""
    return LSTM_EPOCHS if method == "frozen" and lstm else EPOCHS.get(method, DEFAULT_EPOCHS)


def fitting_of(body: Body, method: Method, sizes: Sizes, seed: int) -> Fitting:
    """Prepare a body for a method; a method it does not support raises an error with the reason."""
    made = Fitting(body)
    if method == "frozen":
        return made
    if method == "fine-tuned":
        made.groups.append(Group(list(body.weights.values())))
    elif method == "gradual":
        made.groups += _gradual(body)
    elif method == "top":
        made.groups.append(Group(_top(body, sizes.top_layers)))
    elif method == "bitfit":
        made.groups.append(Group(_biases(body)))
    else:
        _ADDED[method](made, sizes, seed)
    for weights in made.trained_weights:
        weights.requires_grad_(True)
    return made


def _gradual(body: Body) -> list[Group]:
    """One group per layer: the top layer first, then the next, each with a lower learning rate."""
    layers = sorted({body.depth(name) for name in body.weights}, reverse=True)
    stretch = 0.5 / max(1, len(layers) - 1)  # all layers learn from half of the steps on
    return [
        Group(
            [weights for name, weights in body.weights.items() if body.depth(name) == layer],
            LAYER_DECAY**-number,
            number * stretch,
        )
        for number, layer in enumerate(layers)
    ]


def _top(body: Body, count: int) -> list[Tensor]:
    top = [w for name, w in body.weights.items() if body.depth(name) > body.layers - count]
    if not top or count >= body.layers:
        raise WorkbenchError(
            f"the top {count} of {body.layers} layers cannot be trained alone.",
            code="setting-invalid",
            where=body.model.name,
            remedy=f"Set top_layers to 1 to {body.layers - 1}, or use the method fine-tuned."
            if body.layers > 1
            else "Use the method fine-tuned.",
        )
    return top


def _biases(body: Body) -> list[Tensor]:
    biases = [w for name, w in body.weights.items() if w.ndim == 1 and name.endswith("bias")]
    if not biases:
        raise _unsupported(body.model, "bitfit", "it has no bias weights")
    return biases


# --- modules that are added -----------------------------------------------------------------------


def _lora(made: Fitting, sizes: Sizes, seed: int) -> None:
    """Add low-rank updates to the query, key, value and output maps of attention."""
    model = _transformer(made.body.model, "lora")
    targets = [
        name for name, module in model.net.named_modules() if _is_map(made, model, name, module)
    ]
    if not targets:
        raise _unsupported(model, "lora", "its attention has no linear modules")
    made.groups.append(Group(peft_adapter.inject(model, targets, sizes.lora_rank, seed)))


def _is_map(made: Fitting, model: HuggingFace, name: str, module: nn.Module) -> bool:
    """Whether a module is a linear map of attention within a block of the body's stack."""
    if not isinstance(module, nn.Linear | Conv1D):
        return False
    place = made.body.places.get(model.bare_name(f"{name}.weight"))
    inside = place is not None and place.layer not in (None, 0)
    return inside and ("att" in name.lower() or "q_lin" in name or "_proj" in name)


def _add(kind: AddedKind) -> "Callable[[Fitting, Sizes, int], None]":
    """Add adapters, a prefix or a prompt, whose weights learn."""

    def prepare(made: Fitting, sizes: Sizes, seed: int) -> None:
        size = sizes.adapter_width if kind == "adapters" else sizes.prefix_length
        added = add(_transformer(made.body.model, kind), kind, size, seed)
        made.groups.append(Group(list(added.modules.parameters())))

    return prepare


def _adamix(made: Fitting, sizes: Sizes, seed: int) -> None:
    """Add mixtures of adapters: a pass takes one per block at random; two passes shall agree."""
    model = _transformer(made.body.model, "adamix")
    mixing = Mixing(sizes.n_adapters, sizes.share_up, sizes.keep_adapters)
    added = add(model, "adapters", sizes.adapter_width, seed, mixing)
    made.groups.append(Group(list(added.modules.parameters())))
    made.consistency = sizes.consistency


def _transformer(model: Model, method: str) -> HuggingFace:
    why = f"cannot be adapted with {method}: it has no attention blocks"
    return require_transformer(model, why, _remedy(model))


def _unsupported(model: Model, method: str, why: str) -> WorkbenchError:
    return refusal(model, f"cannot be adapted with {method}: {why}", _remedy(model))


def _remedy(model: Model) -> str:
    if model.stacks[0].layers == 0:
        return "Set method to frozen or fine-tuned."
    return "Set method to frozen, fine-tuned, gradual or top."


_ADDED: Mapping[str, Callable[[Fitting, Sizes, int], None]] = {
    "lora": _lora,
    "adamix": _adamix,
    **{kind: _add(kind) for kind in KINDS},
}
