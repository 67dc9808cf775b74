"""Ways to adapt a model: what of it learns, what is put into it, when, and how fast.

Frozen leaves every weight as it is. LoRA comes from peft; adapters, prefixes and prompts are small
modules that hang on a model's own blocks, so that they serve every architecture. A prompt is some
vectors before the text; a prefix such vectors before every layer (P-tuning v2), which attention
reads as keys and values. Costs what each puts in.
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
from workbench.models.huggingface import HuggingFace, transformer_of
from workbench.models.net_parts import blocks
from workbench.transfer.backbone import Body
from workbench.transfer.experiments import Method, Sizes

METHODS: tuple[Method, ...] = get_args(Method)
PEFT = ("lora", "adapters", "prefix", "prompt", "bitfit")  # few weights learn
SLOWER = 2.6  # the rate of a layer over that of the one below (Howard and Ruder 2018)
SMALL = 20_000_000  # parameters; smaller models learn at higher rates
RATES: Mapping[Method, tuple[tuple[float, ...], tuple[float, ...]]] = {  # of small and large ones
    "frozen": ((0.0,), (0.0,)),  # under a plain head, which is trained to its optimum
    "fine-tuned": ((5e-4, 1.5e-3), (2e-5, 5e-5)),
    "gradual": ((1e-3, 2e-3), (5e-5, 1e-4)),
    "top": ((5e-4, 1.5e-3), (2e-5, 5e-5)),
    "lora": ((1e-3, 3e-3), (2e-4, 5e-4)),
    "adapters": ((1e-3, 3e-3), (2e-4, 5e-4)),
    "prefix": ((3e-3, 1e-2), (1e-3, 5e-3)),
    "prompt": ((3e-3, 1e-2), (3e-3, 1e-2)),
    "bitfit": ((1e-3, 3e-3), (2e-4, 1e-3)),
}


EPOCHS: Mapping[Method, int] = {  # what learns little at a time learns longer
    "lora": 6, "adapters": 6, "prefix": 6, "prompt": 6, "bitfit": 6,
}  # fmt: skip
USUAL = 5  # epochs of what is fine-tuned
STRONG = 6  # of a frozen model under an LSTM
STRONG_RATES = (3e-3, 6e-3), (1e-3, 3e-3)  # of it; of small and large models


@dataclass(frozen=True)
class Group:
    """Weights that begin to learn at the same time, at the same rate."""

    weights: Sequence[Tensor]
    rate: float = 1.0  # times the head's
    begins: float = 0.0  # share of the steps before which they stay as they are


@dataclass
class Fitting:
    """A body made ready for a way of adapting it."""

    body: Body
    groups: list[Group] = field(default_factory=list)
    modules: nn.ModuleDict = field(default_factory=nn.ModuleDict)  # what was put in
    widened: Callable[[Pieces], Pieces] = lambda text: text
    hooks: ExitStack = field(default_factory=ExitStack)

    @property
    def moving(self) -> list[Tensor]:
        """Every weight that learns."""
        return [weights for group in self.groups for weights in group.weights]

    @property
    def trainable(self) -> int:
        return sum(weights.numel() for weights in self.moving)

    def close(self) -> None:
        """Take what hangs on the model off again."""
        self.hooks.close()


def rates_of(method: Method, model: Model, lstm: bool = False) -> tuple[float, ...]:
    """The grid of rates that is tried, where none is said."""
    grids = STRONG_RATES if method == "frozen" and lstm else RATES[method]
    return grids[0 if model.parameters < SMALL else 1]


def epochs_of(method: Method, lstm: bool) -> int:
    """How often it goes through the texts at most, where nothing is said."""
    return STRONG if method == "frozen" and lstm else EPOCHS.get(method, USUAL)


def fitting_of(body: Body, method: Method, sizes: Sizes, seed: int) -> Fitting:
    """Make a body ready; what it cannot do is an error that says why."""
    made = Fitting(body)
    if method == "frozen":
        return made
    if method == "fine-tuned":
        made.groups.append(Group(list(body.weights.values())))
    elif method == "gradual":
        made.groups += _gradual(body)
    elif method == "top":
        made.groups.append(Group(_top(body, sizes.top)))
    elif method == "bitfit":
        made.groups.append(Group(_biases(body)))
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            _PUT_IN[method](made, sizes)
    for weights in made.moving:
        weights.requires_grad_(True)
    return made


def _gradual(body: Body) -> list[Group]:
    """The topmost layer first, one more after each stretch; each slower than the one above."""
    layers = sorted({body.depth(name) for name in body.weights}, reverse=True)
    stretch = 0.5 / max(1, len(layers) - 1)  # all learn from halfway on
    return [
        Group(
            [weights for name, weights in body.weights.items() if body.depth(name) == layer],
            SLOWER**-number,
            number * stretch,
        )
        for number, layer in enumerate(layers)
    ]


def _top(body: Body, number: int) -> list[Tensor]:
    found = [w for name, w in body.weights.items() if body.depth(name) > body.layers - number]
    if not found or number >= body.layers:
        raise WorkbenchError(
            f"the top {number} of {body.layers} layers cannot learn by themselves.",
            where=body.model.name,
            remedy=f"Set top to 1 to {body.layers - 1}, or fine-tune all of it."
            if body.layers > 1
            else "Fine-tune all of it.",
        )
    return found


def _biases(body: Body) -> list[Tensor]:
    found = [w for name, w in body.weights.items() if w.ndim == 1 and name.endswith("bias")]
    if not found:
        raise _unsuited(body.model, "bitfit", "it has no biases")
    return found


# --- what is put in -------------------------------------------------------------------------------


def _lora(made: Fitting, sizes: Sizes) -> None:
    """Low-rank steps beside the maps that attention compares and hands on by."""
    from peft import LoraConfig, inject_adapter_in_model
    from peft.tuners.lora import LoraLayer

    model = _transformer(made.body.model, "lora")
    targets = [
        name for name, module in model.net.named_modules() if _is_map(made, model, name, module)
    ]
    if not targets:
        raise _unsuited(model, "lora", "its attention has no linear maps as modules")
    config = LoraConfig(
        r=sizes.rank,
        lora_alpha=2 * sizes.rank,
        lora_dropout=0.0,
        target_modules=targets,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.net.modules()),
    )
    before = set(dict(model.net.named_parameters()))
    inject_adapter_in_model(config, model.net)
    found = {n: w for n, w in model.net.named_parameters() if "lora_" in n and n not in before}
    for number, module in enumerate(m for m in model.net.modules() if isinstance(m, LoraLayer)):
        assert isinstance(module, nn.Module), "peft's layers are modules"
        made.modules[f"lora{number}"] = nn.ModuleList([module.lora_A, module.lora_B])
    made.groups.append(Group(list(found.values())))


def merged(model: Model) -> None:
    """Add what LoRA has learnt to the weights it stands beside, and take it out."""
    from peft.tuners.lora import LoraLayer

    net = _transformer(model, "lora").net
    for name, module in list(net.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            above, _, own = name.rpartition(".")
            setattr(net.get_submodule(above), own, module.get_base_layer())


def _is_map(made: Fitting, model: HuggingFace, name: str, module: nn.Module) -> bool:
    """A linear map within a block of the stack that reads, of weights that count."""
    if not isinstance(module, nn.Linear | Conv1D):
        return False
    place = made.body.places.get(model.bare_name(f"{name}.weight"))
    inside = place is not None and place.layer not in (None, 0)
    return inside and ("att" in name.lower() or "q_lin" in name or "_proj" in name)


class Adapter(nn.Module):
    """Down, up and added; at first it adds nothing (Houlsby et al. 2019, after each block)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, inner), nn.Linear(inner, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, states: Tensor) -> Tensor:
        found: Tensor = states + self.up(functional.gelu(self.down(states)))
        return found


def _adapters(made: Fitting, sizes: Sizes) -> None:
    model = _transformer(made.body.model, "adapters")
    for number, block in enumerate(_blocks(made.body, "adapters")):
        adapter = Adapter(model.width, sizes.adapter).to(model.device, model.net.dtype)
        made.modules[str(number)] = adapter

        def after(module: nn.Module, args: Any, output: Any, adapter: nn.Module = adapter) -> Any:
            if isinstance(output, tuple | list):
                return type(output)([adapter(output[0]), *output[1:]])
            return adapter(output)

        made.hooks.callback(block.register_forward_hook(after).remove)
    made.groups.append(Group(list(made.modules.parameters())))


class Vectors(nn.Module):
    """Some vectors, drawn as embeddings are."""

    def __init__(self, number: int, width: int, spread: float) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.randn(number, width) * spread)


def _prompt(made: Fitting, sizes: Sizes) -> None:
    model = _room(made, "prompt", sizes.length)
    body: Any = model.body(made.body.stack)
    table = body.get_input_embeddings()
    spread = float(table.weight.detach().float().std())
    prompt = Vectors(sizes.length, table.weight.shape[1], spread).to(model.device, model.net.dtype)
    made.modules["prompt"] = prompt

    def embedded(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return _begun(output, prompt.values, 1)

    made.hooks.callback(table.register_forward_hook(embedded).remove)
    made.groups.append(Group(list(prompt.parameters())))


def _prefix(made: Fitting, sizes: Sizes) -> None:
    """What stands in the room before the text is another at every block."""
    found = list(_blocks(made.body, "prefix"))
    model = _room(made, "prefix", sizes.length)
    axis = 0 if model.sequence_first else 1  # of pieces
    for number, block in enumerate(found):
        own = Vectors(sizes.length, model.width, 0.5).to(model.device, model.net.dtype)
        made.modules[f"layer{number}"] = own

        def before(module: nn.Module, args: Any, kwargs: Any, own: Vectors = own) -> Any:
            if args:
                return (_begun(args[0], own.values, axis), *args[1:]), kwargs
            states = _begun(kwargs["hidden_states"], own.values, axis)
            return args, {**kwargs, "hidden_states": states}

        hook = block.register_forward_pre_hook(before, with_kwargs=True)
        made.hooks.callback(hook.remove)
    made.groups.append(Group(list(made.modules.parameters())))


def _begun(states: Tensor, values: Tensor, axis: int) -> Tensor:
    """States whose first pieces are these vectors.  # [batch, pieces, width]"""
    number = len(values)
    if states.shape[axis] <= number:
        return states
    rest = states.narrow(axis, number, states.shape[axis] - number)
    own = values.unsqueeze(1 - axis).expand(
        *(number if a == axis else states.shape[a] for a in range(2)), -1
    )
    return torch.cat([own.to(states.dtype), rest], axis)


def _room(made: Fitting, method: str, number: int) -> HuggingFace:
    """Room for so many vectors before each text; a model's positions must do for them too."""
    model = _transformer(made.body.model, method)
    if model.max_pieces is not None:
        if number >= model.max_pieces // 2:
            raise WorkbenchError(
                f"{number} vectors leave too little of {model.max_pieces} places for the text.",
                where=model.name,
                remedy=f"Set length to {max(1, model.max_pieces // 8)} or so.",
            )
        model.max_pieces -= number

    def widened(text: Pieces) -> Pieces:
        """Room for vectors before each text: pieces that no word owns."""
        return text.prefixed(number, int(text.ids[0, 0]) if text.ids.numel() else 0)

    made.widened = widened
    return model


def _blocks(body: Body, method: str) -> Iterable[nn.Module]:
    model = _transformer(body.model, method)
    found = blocks(model.body(body.stack), body.layers)
    if found is None:
        raise _unsuited(model, method, "its layers share their weights")
    return found


def _transformer(model: Model, method: str) -> HuggingFace:
    why = f"cannot be adapted by {method}: it has no blocks with attention"
    return transformer_of(model, why, _remedy(model))


def _unsuited(model: Model, method: str, why: str) -> WorkbenchError:
    return refusal(model, f"cannot be adapted by {method}: {why}", _remedy(model))


def _remedy(model: Model) -> str:
    if model.stacks[0].layers == 0:
        return "Choose frozen or fine-tuned."
    return "Choose frozen, fine-tuned, gradual or top."


_PUT_IN: Mapping[str, Callable[[Fitting, Sizes], None]] = {
    "lora": _lora,
    "adapters": _adapters,
    "prefix": _prefix,
    "prompt": _prompt,
}
