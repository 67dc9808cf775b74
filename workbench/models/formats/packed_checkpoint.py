"""A model on disk in few bits: `packed.safetensors`, and `packed.json` with forms of weights.

    NAME.numbers    [bytes] two weights of 4 bits a byte, or one of 8
    NAME.scale      [channels] or [1]
    NAME.left       [rows, rank] and NAME.right [rank, columns], of a matrix of low rank

`wb.load` unpacks the weights, so the model takes less disk, but no less memory or time. Plain
transformers finds no weights under the names that it knows, and never opens a wrong model. A weight
that has been trained since it was rounded is stored whole. Costs: a pass over the weights.
"""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, read_json, require_regular, write_atomically
from workbench.models.formats.pruned_checkpoint import fill
from workbench.models.transformer import T, Transformer

MANIFEST, WEIGHTS = "packed.json", "packed.safetensors"
RANGE = "input_range"  # a buffer of each linear layer whose inputs are rounded
_VERSION = 1
EXACT = 1e-5  # largest difference of a packed weight, relative to the largest of its matrix
TINY = 1e-30


@dataclass(frozen=True)
class Grid:
    """Symmetric whole numbers of 8 or 4 bits, with a scale per index of an axis, or one for all."""

    bits: int
    axis: int | None = 0

    @property
    def highest(self) -> int:
        return int(2 ** (self.bits - 1)) - 1

    def scale(self, weights: Tensor) -> Tensor:
        """# [channels] or [1]"""
        size = weights.detach().abs().float()
        rows = size.reshape(1, -1) if self.axis is None else size.movedim(self.axis, 0).flatten(1)
        return (rows.amax(1) / self.highest).clamp(min=TINY)


@dataclass(frozen=True)
class LowRank:
    """A product of two matrices."""

    rank: int


Form = Grid | LowRank


def on_grid(weights: Tensor, grid: Grid) -> Tensor:
    """The weights rounded to the grid; gradients pass straight through."""
    scale, highest = grid.scale(weights), grid.highest
    wide = weights.float()
    if grid.axis is None:
        rounded = torch.fake_quantize_per_tensor_affine(
            wide, scale[0], torch.zeros_like(scale[0], dtype=torch.int32), -highest, highest
        )
    else:
        rounded = torch.fake_quantize_per_channel_affine(
            wide, scale, torch.zeros_like(scale, dtype=torch.int32), grid.axis, -highest, highest
        )
    return rounded.to(weights.dtype)


def round_inputs(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A forward hook of a linear layer: its inputs in 8 bits, within its range."""
    first, *others = inputs
    scale = (getattr(module, RANGE).float() / 127).clamp(min=TINY)
    zero = torch.zeros_like(scale, dtype=torch.int32)
    rounded = torch.fake_quantize_per_tensor_affine(first.float(), scale, zero, -127, 127)
    return (rounded.to(first.dtype), *others)


def factors(table: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The best product of this rank, by singular values.  # [rows, rank], [rank, columns]"""
    wide = table.detach().double()
    _, vectors = torch.linalg.eigh(wide.T @ wide)  # right singular vectors, smallest first
    right = vectors[:, len(vectors) - rank :].T
    return (wide @ right.T).float(), right.float()


# --- packing --------------------------------------------------------------------------------------


def packed(weights: Tensor, form: Form) -> dict[str, Tensor]:
    """A weight in its form."""
    if isinstance(form, LowRank):
        left, right = factors(weights, form.rank)
        return {"left": left.contiguous(), "right": right.contiguous()}
    scale = form.scale(weights)
    numbers = (weights.detach().float() / _along(scale, weights.ndim, form)).round().to(torch.int8)
    if form.bits == 4:
        flat = (numbers.flatten() + 8).to(torch.uint8)  # 1 to 15
        flat = torch.cat([flat, flat.new_zeros(len(flat) % 2)])
        numbers = flat[::2] | flat[1::2] << 4
    return {"numbers": numbers, "scale": scale}


def unpacked(parts: Mapping[str, Tensor], form: Form, shape: torch.Size) -> Tensor:
    """The weight of a form, in float32."""
    if isinstance(form, LowRank):
        return (parts["left"].double() @ parts["right"].double()).float()
    numbers = parts["numbers"]
    if form.bits == 4:
        both = torch.stack([numbers & 15, numbers >> 4], 1).flatten()[: shape.numel()]
        numbers = both.to(torch.int8) - 8
    return numbers.view(shape).float() * _along(parts["scale"], len(shape), form)


def _along(scale: Tensor, n_dimensions: int, grid: Grid) -> Tensor:
    """The scale, so that it broadcasts over the weights."""
    if grid.axis is None:
        return scale
    return scale.view([-1 if n == grid.axis else 1 for n in range(n_dimensions)])


# --- folders --------------------------------------------------------------------------------------


def rounds_inputs(model: Transformer) -> bool:
    """Whether layers of the net round their inputs, which no class of transformers does."""
    return any(name.endswith(RANGE) for name, _ in model.net.named_buffers())


def is_needed(model: Transformer) -> bool:
    """Whether a model is saved in this form."""
    return bool(model.packed) or rounds_inputs(model)


def save(model: Transformer, folder: Path) -> None:
    """Write a model with packed weights, its tokenizer and, last, the manifest."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    config: Any = copy.deepcopy(model.net.config)
    config.architectures = [type(model.net).__name__]
    config.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    pointers: set[int] = set()
    state: dict[str, Tensor] = {}
    forms: dict[str, dict[str, Any]] = {}
    for name, weights in model.net.state_dict().items():
        if weights.data_ptr() in pointers:
            continue  # tied
        pointers.add(weights.data_ptr())
        whole, form = weights.detach().cpu().contiguous(), model.packed.get(name)
        parts = {} if form is None else packed(whole, form)
        if form is None or not _is_exact(whole, unpacked(parts, form, whole.shape)):
            state[name] = whole
            continue
        state |= {f"{name}.{part}": each for part, each in parts.items()}
        forms[name] = asdict(form)
    with atomic_write(folder / WEIGHTS) as draft:
        save_file(state, draft)
    content = {"version": _VERSION, "forms": forms}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1) + "\n")


def _is_exact(whole: Tensor, other: Tensor) -> bool:
    return bool((whole.float() - other).abs().max() <= EXACT * whole.float().abs().max())


def manifest(folder: Path) -> dict[str, Form] | None:
    """The form of each packed weight of a folder; None of other folders."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        content = read_json(path)
        if content["version"] != _VERSION:
            raise ValueError(f"its version is {content['version']!r}")
        return {str(name): _form(**form) for name, form in content["forms"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _misfit(folder, f"the manifest cannot be read: {error}") from None


def _form(bits: int = 0, axis: int | None = None, rank: int = 0) -> Form:
    if not (rank >= 1 or (bits in (4, 8) and axis in (None, 0, 1))):
        raise ValueError("a form has other bits, axis or rank")
    return LowRank(rank) if rank else Grid(bits, axis)


def opened(
    folder: Path,
    forms: Mapping[str, Form],
    config: PretrainedConfig,
    build: Callable[[PretrainedConfig], T],
) -> T:
    """Build the model of the config, and unpack its weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    model = build(config)
    net: nn.Module = model.net
    shapes = {name: weights.shape for name, weights in net.state_dict().items()}
    try:
        state = load_file(require_regular(folder / WEIGHTS))
        for name, form in forms.items():
            names = ("left", "right") if isinstance(form, LowRank) else ("numbers", "scale")
            parts = {part: state.pop(f"{name}.{part}") for part in names}
            state[name] = unpacked(parts, form, shapes[name])
        for name in [each for each in state if each.endswith(f".{RANGE}")]:
            module = net.get_submodule(name.removesuffix(f".{RANGE}"))
            module.register_buffer(RANGE, torch.zeros(()))
            module.register_forward_pre_hook(round_inputs)
    except (SafetensorError, OSError, LookupError, RuntimeError, AttributeError) as error:
        raise _misfit(folder, f"the weights cannot be read: {error}") from None
    fill(model.net, state, lambda reason: _misfit(folder, reason))
    model.packed = dict(forms)
    model.stored_as = _in_words(forms)
    return model


def _in_words(forms: Mapping[str, Form]) -> str:
    bits = sorted({form.bits for form in forms.values() if isinstance(form, Grid)})
    kinds = [f"{each} bits" for each in bits]
    kinds += ["low rank"] * any(isinstance(form, LowRank) for form in forms.values())
    return f"{len(forms)} matrices packed ({', '.join(kinds)})" if forms else ""


def _misfit(folder: Path, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"the packed model does not fit: {reason}.",
        code="file-format",
        where=str(folder / MANIFEST),
        remedy="Save the model again, or copy packed.json and packed.safetensors from the same "
        "folder.",
    )
