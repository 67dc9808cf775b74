"""A training's state in one safetensors file, so that it can be killed at any time and go on.

Holds weights, both moments of the optimiser and its step counts, and how far the run is. Nothing
random has a state to keep: every draw is made from the seed, the step and the micro-batch. The file
is written beside the old one and takes its place in one rename; a full disk or a kill leaves the
old one. Costs 12 bytes a parameter, twice while it is written.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from workbench.errors import WorkbenchError
from workbench.files import parsed_json, reason_of, require_regular, written_whole
from workbench.training.curves import Course, Row

NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class Reached:
    """How far a run is; the data's position follows from the step."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    course: Course = field(default_factory=Course)
    rows: tuple[Row, ...] = ()


def save_checkpoint(
    path: Path, net: nn.Module, optimizer: Optimizer, reached: Reached, recipe: str
) -> None:
    """Write all of it, whole or not at all."""
    tensors = dict(_tensors(net, optimizer))
    metadata = {"recipe": recipe, "reached": json.dumps(asdict(reached))}
    with written_whole(path) as draft:
        try:
            save_file(tensors, draft, metadata=metadata)
        except SafetensorError as error:  # its own words for a full disk
            raise OSError(f"{error}") from None


def load_checkpoint(path: Path, net: nn.Module, optimizer: Optimizer, recipe: str) -> Reached:
    """Put a state back; nothing is changed, and the run begins, where there is none."""
    if not path.is_file():
        return Reached()
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("recipe") != recipe:
                raise _another(path)
            _restore(net, optimizer, file)
        raw = parsed_json(metadata["reached"])
        raw["rows"] = tuple(Row(**row) for row in raw["rows"])
        raw["course"] = Course(**raw["course"])
        return Reached(**raw)
    except (SafetensorError, OSError, ValueError, LookupError, TypeError) as error:
        raise WorkbenchError(
            f"cannot be read as a checkpoint: {reason_of(error)}.",
            where=str(path),
            remedy="Was it copied whole? Without it, training begins anew.",
        ) from None


def _tensors(net: nn.Module, optimizer: Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Every parameter, once though it be shared, and what the optimiser keeps of it."""
    for name, parameter in net.named_parameters():
        yield f"weights/{name}", parameter.detach().contiguous()
        for key, value in optimizer.state.get(parameter, {}).items():
            yield f"{key}/{name}", torch.as_tensor(value).contiguous()


def _restore(net: nn.Module, optimizer: Optimizer, file: Any) -> None:
    kept: dict[str, dict[str, Tensor]] = {}
    for place in file.keys():  # noqa: SIM118
        kind, _, name = place.partition("/")
        kept.setdefault(name, {})[kind] = file.get_tensor(place)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            state = kept[name]
            parameter.copy_(state.pop("weights"))
            if state:
                optimizer.state[parameter] = {
                    key: value.to(parameter.device) for key, value in state.items()
                }


def _another(path: Path) -> WorkbenchError:
    return WorkbenchError(
        "there is an unfinished training here, of another text, model or setting.",
        where=str(path),
        remedy="Name another folder, give the settings it was begun with, or remove the file.",
    )
