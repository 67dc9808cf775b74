"""Methods that adapt a model: which weights learn, which modules are added, when and how fast.

Frozen leaves every weight as it is. LoRA comes from peft. Adapters, prefixes and prompts are small
modules hooked to the model's own blocks, so they work for every architecture. A prompt is a few
learnt vectors before the text; a prefix has such vectors before every layer (P-tuning v2), which
attention reads as keys and values. Costs: the parameters that the method adds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Pieces
from workbench.engine.model import Model, refusal
from workbench.models.huggingface import HuggingFace, require_transformer
from workbench.models.net_parts import blocks
from workbench.transfer.backbone import Body
from workbench.transfer.experiments import Method, Sizes

METHODS: tuple[Method, ...] = get_args(Method)
PEFT = (
    "lora",
    "adapters",
    "prefix",
    "prompt",
    "bitfit",
)  # parameter-efficient methods: few weights learn
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
    "prefix": ((3e-3, 1e-2), (1e-3, 5e-3)),
    "prompt": ((3e-3, 1e-2), (3e-3, 1e-2)),
    "bitfit": ((1e-3, 3e-3), (2e-4, 1e-3)),
}


EPOCHS: Mapping[Method, int] = {  # methods with few weights need more epochs
    "lora": 6, "adapters": 6, "prefix": 6, "prompt": 6, "bitfit": 6,
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
    modules: nn.ModuleDict = field(default_factory=nn.ModuleDict)  # added to the body
    make_room: Callable[[Pieces], Pieces] = lambda text: text  # for vectors before each text
    hooks: ExitStack = field(default_factory=ExitStack)

    @property
    def trained_weights(self) -> list[Tensor]:
        """Every weight that learns."""
        return [weights for group in self.groups for weights in group.weights]

    @property
    def trainable(self) -> int:
        """Number of parameters that learn."""
        return sum(weights.numel() for weights in self.trained_weights)

    def close(self) -> None:
        """Remove the hooks from the model."""
        self.hooks.close()


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
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            _ADDED[method](made, sizes)
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


def _lora(made: Fitting, sizes: Sizes) -> None:
    """Add low-rank updates to the query, key, value and output maps of attention."""
    from peft import LoraConfig, inject_adapter_in_model
    from peft.tuners.lora import LoraLayer

    model = _transformer(made.body.model, "lora")
    targets = [
        name for name, module in model.net.named_modules() if _is_map(made, model, name, module)
    ]
    if not targets:
        raise _unsupported(model, "lora", "its attention has no linear modules")
    config = LoraConfig(
        r=sizes.lora_rank,
        lora_alpha=2 * sizes.lora_rank,
        lora_dropout=0.0,
        target_modules=targets,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.net.modules()),
    )
    before = set(dict(model.net.named_parameters()))
    inject_adapter_in_model(config, model.net)
    added = {n: w for n, w in model.net.named_parameters() if "lora_" in n and n not in before}
    for index, module in enumerate(m for m in model.net.modules() if isinstance(m, LoraLayer)):
        assert isinstance(module, nn.Module), "peft's layers are modules"
        made.modules[f"lora{index}"] = nn.ModuleList([module.lora_A, module.lora_B])
    made.groups.append(Group(list(added.values())))


def merge_lora(model: Model) -> None:
    """Add the LoRA updates to the weights they belong to, and remove the LoRA modules."""
    from peft.tuners.lora import LoraLayer

    net = _transformer(model, "lora").net
    for name, module in list(net.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(net.get_submodule(parent), child, module.get_base_layer())


def _is_map(made: Fitting, model: HuggingFace, name: str, module: nn.Module) -> bool:
    """Whether a module is a linear map of attention within a block of the body's stack."""
    if not isinstance(module, nn.Linear | Conv1D):
        return False
    place = made.body.places.get(model.bare_name(f"{name}.weight"))
    inside = place is not None and place.layer not in (None, 0)
    return inside and ("att" in name.lower() or "q_lin" in name or "_proj" in name)


class Adapter(nn.Module):
    """A bottleneck after a block, added to its output; initially zero (Houlsby et al. 2019)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, inner), nn.Linear(inner, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, states: Tensor) -> Tensor:
        adapted: Tensor = states + self.up(functional.gelu(self.down(states)))
        return adapted


def _adapters(made: Fitting, sizes: Sizes) -> None:
    model = _transformer(made.body.model, "adapters")
    for index, block in enumerate(_blocks(made.body, "adapters")):
        adapter = Adapter(model.width, sizes.adapter_width).to(model.device, model.net.dtype)
        made.modules[str(index)] = adapter

        def after(module: nn.Module, args: Any, output: Any, adapter: nn.Module = adapter) -> Any:
            if isinstance(output, tuple | list):
                return type(output)([adapter(output[0]), *output[1:]])
            return adapter(output)

        made.hooks.callback(block.register_forward_hook(after).remove)
    made.groups.append(Group(list(made.modules.parameters())))


class Vectors(nn.Module):
    """Learnt vectors, initialised with the standard deviation of the embeddings."""

    def __init__(self, count: int, width: int, spread: float) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.randn(count, width) * spread)


def _prompt(made: Fitting, sizes: Sizes) -> None:
    model = _room(made, "prompt", sizes.prefix_length)
    body: Any = model.body(made.body.stack)
    table = body.get_input_embeddings()
    spread = float(table.weight.detach().float().std())
    prompt = Vectors(sizes.prefix_length, table.weight.shape[1], spread).to(
        model.device, model.net.dtype
    )
    made.modules["prompt"] = prompt

    def with_prompt(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return _with_vectors(output, prompt.values, 1)

    made.hooks.callback(table.register_forward_hook(with_prompt).remove)
    made.groups.append(Group(list(prompt.parameters())))


def _prefix(made: Fitting, sizes: Sizes) -> None:
    """Put other learnt vectors before the text at every block."""
    body_blocks = list(_blocks(made.body, "prefix"))
    model = _room(made, "prefix", sizes.prefix_length)
    axis = 0 if model.sequence_first else 1  # of pieces
    for index, block in enumerate(body_blocks):
        vectors = Vectors(sizes.prefix_length, model.width, 0.5).to(model.device, model.net.dtype)
        made.modules[f"layer{index}"] = vectors

        def before(module: nn.Module, args: Any, kwargs: Any, vectors: Vectors = vectors) -> Any:
            if args:
                return (_with_vectors(args[0], vectors.values, axis), *args[1:]), kwargs
            states = _with_vectors(kwargs["hidden_states"], vectors.values, axis)
            return args, {**kwargs, "hidden_states": states}

        hook = block.register_forward_pre_hook(before, with_kwargs=True)
        made.hooks.callback(hook.remove)
    made.groups.append(Group(list(made.modules.parameters())))


def _with_vectors(states: Tensor, values: Tensor, axis: int) -> Tensor:
    """The states with their first pieces replaced by these vectors.  # [batch, pieces, width]"""
    count = len(values)
    if states.shape[axis] <= count:
        return states
    rest = states.narrow(axis, count, states.shape[axis] - count)
    vectors = values.unsqueeze(1 - axis).expand(
        *(count if a == axis else states.shape[a] for a in range(2)), -1
    )
    return torch.cat([vectors.to(states.dtype), rest], axis)


def _room(made: Fitting, method: str, count: int) -> HuggingFace:
    """Make room for `count` vectors before each text, within the model's maximum length."""
    model = _transformer(made.body.model, method)
    if model.max_pieces is not None:
        if count >= model.max_pieces // 2:
            raise WorkbenchError(
                f"{count} vectors leave too few of the model's {model.max_pieces} positions for "
                "the text.",
                code="setting-invalid",
                where=model.name,
                remedy=f"Set prefix_length to about {max(1, model.max_pieces // 8)}.",
            )
        model.max_pieces -= count

    def make_room(text: Pieces) -> Pieces:
        """Add pieces that belong to no word before each text."""
        return text.prefixed(count, int(text.ids[0, 0]) if text.ids.numel() else 0)

    made.make_room = make_room
    return model


def _blocks(body: Body, method: str) -> Iterable[nn.Module]:
    model = _transformer(body.model, method)
    body_blocks = blocks(model.body(body.stack), body.layers)
    if body_blocks is None:
        raise _unsupported(model, method, "its layers share weights")
    return body_blocks


def _transformer(model: Model, method: str) -> HuggingFace:
    why = f"cannot be adapted with {method}: it has no attention blocks"
    return require_transformer(model, why, _remedy(model))


def _unsupported(model: Model, method: str, why: str) -> WorkbenchError:
    return refusal(model, f"cannot be adapted with {method}: {why}", _remedy(model))


def _remedy(model: Model) -> str:
    if model.stacks[0].layers == 0:
        return "Set method to frozen or fine-tuned."
    return "Set method to frozen, fine-tuned, gradual or top."


_ADDED: Mapping[str, Callable[[Fitting, Sizes], None]] = {
    "lora": _lora,
    "adapters": _adapters,
    "prefix": _prefix,
    "prompt": _prompt,
}
