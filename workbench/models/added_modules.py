"""Small modules added to a net whose own weights stay: adapters, a prefix or a prompt.

    added = add(model, "adapters", 32, seed=0)   # `model.added`; its modules learn
    added = restored(model, folder)              # what `save` wrote

Adapters are bottlenecks after every block (Houlsby et al. 2019), or mixtures of several until they
are merged (AdaMix, Wang et al. 2022). A prompt is a few learnt vectors
before the text; a prefix has such vectors before every layer (P-tuning v2), which attention reads
as keys and values. They replace `forward` of the net's own blocks, so they work for every
architecture, run in every pass, and go along when a model is copied. Costs: the parameters added.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, read_json, require_regular, write_atomically
from workbench.engine.model import refusal
from workbench.models.net_parts import blocks
from workbench.models.transformer import Added, AddedKind, Transformer

KINDS: tuple[AddedKind, ...] = get_args(AddedKind)
DESCRIPTION, WEIGHTS = "added.json", "added.safetensors"
REMEDY = "Set method to frozen, fine-tuned, gradual or top."


class Adapter(nn.Module):
    """A bottleneck after a block, added to its output; initially zero."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, inner), nn.Linear(inner, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, states: Tensor) -> Tensor:
        adapted: Tensor = states + self.up(functional.gelu(self.down(states)))
        return adapted


@dataclass(frozen=True)
class Mixing:
    """How many adapters a mixture has, whether they share their second map, and what is left."""

    count: int = 4
    share_up: bool = True
    keep: Literal["average", "first"] = "average"


class Mixture(nn.Module):
    """Several adapters: in training a pass takes maps at random, else those that are kept."""

    def __init__(self, width: int, inner: int, mixing: Mixing) -> None:
        super().__init__()
        self.keep = mixing.keep
        made = [Adapter(width, inner) for _ in range(mixing.count)]
        self.down = nn.ModuleList(each.down for each in made)
        self.up = nn.ModuleList(each.up for each in (made[:1] if mixing.share_up else made))

    def forward(self, states: Tensor) -> Tensor:
        down, up = map(self._chosen, (self.down, self.up))
        inner = functional.gelu(functional.linear(states, *down))
        return states + functional.linear(inner, *up)

    def _chosen(self, maps: nn.ModuleList) -> tuple[Tensor, Tensor]:
        """The weight and bias of a map at random, or of the mean or the first of the maps."""
        layers: list[Any] = [*maps]
        if self.training:
            layers = [layers[int(torch.randint(len(layers), ()))]]
        elif self.keep == "first":
            layers = layers[:1]
        weight = torch.stack([layer.weight for layer in layers]).mean(0)
        return weight, torch.stack([layer.bias for layer in layers]).mean(0)

    @torch.no_grad()
    def merged(self) -> Adapter:
        """One adapter with the maps that are kept."""
        self.eval()
        (down, down_bias), (up, up_bias) = map(self._chosen, (self.down, self.up))
        made = Adapter(down.shape[1], down.shape[0]).to(down.device, down.dtype)
        parts = {"down.weight": down, "down.bias": down_bias, "up.weight": up, "up.bias": up_bias}
        made.load_state_dict(parts)
        return made


class Vectors(nn.Module):
    """Learnt vectors."""

    def __init__(self, count: int, width: int, spread: float) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.randn(count, width) * spread)


def add(
    model: Transformer, kind: AddedKind, size: int, seed: int, mixing: Mixing | None = None
) -> Added:
    """Add modules with random weights by the seed, in place; adapters may be mixtures."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        modules = _MAKERS[kind](model, size) if mixing is None else _mixtures(model, size, mixing)
    modules.to(model.device, model.net.dtype)
    added = Added(kind, size, modules)
    _attach(model, added)
    return added


def merge(model: Transformer) -> None:
    """Replace each mixture by one adapter, in place; then they are adapters like any other."""
    assert model.added is not None, "a model with mixtures has added modules"
    for name, block in zip(model.added.modules, _blocks(model, "adapters"), strict=True):
        mixture: Any = model.added.modules[name]
        adapted: Any = block.forward
        adapted.adapter = model.added.modules[name] = mixture.merged()


def _blocks(model: Transformer, kind: AddedKind) -> Sequence[nn.Module]:
    stack = model.stacks[0]
    found = blocks(model.body(stack.name), stack.layers)
    if found is None:
        what = f"cannot be adapted with {kind}: its layers share weights"
        raise refusal(model, what, REMEDY)
    return list(found)


def _table(model: Transformer) -> Any:
    body: Any = model.body(model.stacks[0].name)
    return body.get_input_embeddings()


def _adapters(model: Transformer, size: int) -> nn.ModuleDict:
    number = len(_blocks(model, "adapters"))
    return nn.ModuleDict({str(n): Adapter(model.width, size) for n in range(number)})


def _mixtures(model: Transformer, size: int, mixing: Mixing) -> nn.ModuleDict:
    number = len(_blocks(model, "adapters"))
    return nn.ModuleDict({str(n): Mixture(model.width, size, mixing) for n in range(number)})


def _prompt(model: Transformer, size: int) -> nn.ModuleDict:
    _require_room(model, size)
    weight: Tensor = _table(model).weight
    spread = float(weight.detach().float().std())
    return nn.ModuleDict({"prompt": Vectors(size, weight.shape[1], spread)})


def _prefix(model: Transformer, size: int) -> nn.ModuleDict:
    number = len(_blocks(model, "prefix"))
    _require_room(model, size)
    layers = {f"layer{n}": Vectors(size, model.width, 0.5) for n in range(number)}
    return nn.ModuleDict(layers)


def _require_room(model: Transformer, count: int) -> None:
    if model.max_pieces is not None and count >= model.max_pieces // 2:
        raise WorkbenchError(
            f"{count} vectors leave too few of the model's {model.max_pieces} positions for the "
            "text.",
            code="setting-invalid",
            where=model.name,
            remedy=f"Set prefix_length to about {max(1, model.max_pieces // 8)}.",
        )


_MAKERS: dict[AddedKind, Callable[[Transformer, int], nn.ModuleDict]] = {
    "adapters": _adapters,
    "prefix": _prefix,
    "prompt": _prompt,
}


# --- within the net -------------------------------------------------------------------------------
#
# Objects instead of closures, because `copy.deepcopy` of a net with its `Added` then copies both.


class _Adapted:
    """The forward of a block, with an adapter after it."""

    def __init__(self, run: Callable[..., Any], adapter: nn.Module) -> None:
        self.run, self.adapter = run, adapter

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.run(*args, **kwargs)
        if isinstance(output, tuple | list):
            return type(output)([self.adapter(output[0]), *output[1:]])
        return self.adapter(output)


class _Prefixed:
    """The forward of a block that reads learnt vectors before the text."""

    def __init__(self, run: Callable[..., Any], vectors: Vectors, axis: int) -> None:
        self.run, self.vectors, self.axis = run, vectors, axis

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (_with_vectors(args[0], self.vectors.values, self.axis), *args[1:])
        else:
            states = _with_vectors(kwargs["hidden_states"], self.vectors.values, self.axis)
            kwargs = {**kwargs, "hidden_states": states}
        return self.run(*args, **kwargs)


class _Prompted:
    """The forward of an embedding table that reads learnt vectors before the text.

    Stacks may share the table, so it does so only while its own stack runs.
    """

    def __init__(self, run: Callable[..., Any], vectors: Vectors) -> None:
        self.run, self.vectors, self.is_read = run, vectors, True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.run(*args, **kwargs)
        if not self.is_read or output.ndim != 3:
            return output
        return _with_vectors(output, self.vectors.values, 1)


class _Other:
    """The forward of a stack that shares the table of a prompt, and reads no prompt."""

    def __init__(self, run: Callable[..., Any], prompted: _Prompted) -> None:
        self.run, self.prompted = run, prompted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before, self.prompted.is_read = self.prompted.is_read, False
        try:
            return self.run(*args, **kwargs)
        finally:
            self.prompted.is_read = before


def _attach(model: Transformer, added: Added) -> None:
    """Let the net's own modules run the added ones."""
    modules: Any = added.modules
    if added.kind == "prompt":
        table = _table(model)
        table.forward = prompted = _Prompted(table.forward, modules["prompt"])
        for stack in model.stacks[1:]:
            other: Any = model.body(stack.name)
            other.forward = _Other(other.forward, prompted)
    else:
        axis = 0 if model.sequence_first else 1  # of pieces
        for block, own in zip(_blocks(model, added.kind), modules.values(), strict=True):
            wrapped: Any = (
                _Adapted(block.forward, own)
                if added.kind == "adapters"
                else _Prefixed(block.forward, own, axis)
            )
            block.forward = wrapped
    if model.max_pieces is not None:
        model.max_pieces -= added.room
    model.added = added


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


# --- on disk --------------------------------------------------------------------------------------


def save(added: Added, folder: Path) -> None:
    """Write the added modules into a folder."""
    from safetensors.torch import save_file

    state = {n: w.detach().cpu().contiguous() for n, w in added.modules.state_dict().items()}
    with atomic_write(folder / WEIGHTS) as draft:
        save_file(state, draft)
    write_atomically(
        folder / DESCRIPTION, json.dumps({"kind": added.kind, "size": added.size}) + "\n"
    )


def restore(model: Transformer, folder: Path) -> None:
    """Add the modules that `save` wrote, if there are any, in place."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (folder / DESCRIPTION).is_file():
        return
    try:
        description = read_json(folder / DESCRIPTION)
        kind, size = description["kind"], description["size"]
        if kind not in KINDS or not isinstance(size, int) or not 0 < size <= 2**16:
            raise ValueError(f"there are no modules {kind!r} of size {size!r}")
        state = load_file(require_regular(folder / WEIGHTS))
        added = add(model, kind, size, 0)
        added.modules.load_state_dict(state)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise WorkbenchError(
            f"the added modules cannot be read: {str(error).splitlines()[0]}.",
            code="file-unreadable",
            where=str(folder),
            remedy="Copy the whole folder again, or run finetune again.",
        ) from None
