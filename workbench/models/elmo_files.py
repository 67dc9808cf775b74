"""ELMo's `weights.hdf5`: read whole or refused by dataset, and written in the same layout.

The names and shapes are the original's (see `elmo_options.dataset_shapes`), so what is written here
runs there, and the reverse. Costs the file's bytes once: 4 a parameter.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.errors import WorkbenchError, missing_package
from workbench.files import require_regular, written_whole
from workbench.models.elmo_characters import CHARACTERS
from workbench.models.elmo_options import ElmoOptions, dataset_shapes, options_as_json

if TYPE_CHECKING:
    import h5py

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"


def read_weights(path: Path, options: ElmoOptions) -> dict[str, Tensor]:
    """Every dataset that the options call for, as float32 by its name in the file."""
    shapes = dataset_shapes(options)
    try:
        with _h5py().File(require_regular(path), "r") as file:
            _refuse_unknown(file, shapes, path)
            return {
                name: torch.from_numpy(_read(file, name, shape, path))
                for name, shape in shapes.items()
            }
    except (OSError, KeyError, RuntimeError, ValueError) as error:  # all of h5py's own
        reason = f"cannot be read as HDF5: {error}." if path.is_file() else "there is no such file."
        raise WorkbenchError(
            reason,
            where=str(path),
            remedy="Name the weights.hdf5 that belongs to the options, copied whole.",
        ) from None


def write_original(folder: Path, options: ElmoOptions, weights: Mapping[str, Tensor]) -> None:
    """Write `options.json` and `weights.hdf5` as the original has them."""
    with (
        written_whole(folder / WEIGHTS) as draft,
        _h5py().File(draft, "w") as file,
    ):
        for name in dataset_shapes(options):
            file[name] = weights[name].detach().float().cpu().numpy()
    write_options(folder, options)


def write_options(folder: Path, options: ElmoOptions) -> None:
    """Write `options.json` alone."""
    with written_whole(folder / OPTIONS) as draft:
        draft.write_text(json.dumps(options_as_json(options), indent=2) + "\n", "utf-8")


def _read(file: "h5py.File", name: str, shape: tuple[int, ...], path: Path) -> NDArray[np.float32]:
    dataset = file.get(name)
    if not isinstance(dataset, _h5py().Dataset):
        raise _mismatch(f"has no dataset {name!r}, expected with shape {list(shape)}.", path)
    if dataset.dtype.kind != "f":
        raise _mismatch(f"dataset {name!r} holds {dataset.dtype}, not floats.", path)
    if name == "char_embed" and dataset.shape == (CHARACTERS + 1, *shape[1:]):
        return _without_the_spare(dataset[...].astype(np.float32))
    if dataset.shape != shape:
        found = list(dataset.shape or ())
        raise _mismatch(f"dataset {name!r} has shape {found}, expected {list(shape)}.", path)
    values: NDArray[np.float32] = dataset[...].astype(np.float32)
    return values


def _without_the_spare(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """A 262nd row is the run time's zeros, put first, or else one that training never used."""
    return rows[1:] if not rows[0].any() else rows[:-1]


def _refuse_unknown(file: "h5py.File", shapes: Mapping[str, Any], path: Path) -> None:
    """A layer, filter or highway more than the options say would else be left out in silence."""
    names: list[str | bytes] = []  # bytes where a damaged file's name is no UTF-8
    file.visit(names.append)
    for name in (os.fsdecode(name) for name in names):
        known = name in shapes or any(other.startswith(f"{name}/") for other in shapes)
        if name.startswith(("CNN", "RNN_")) and not known:
            raise _mismatch(f"has {name!r}, which the options do not call for.", path)


def _mismatch(what: str, path: Path) -> WorkbenchError:
    return WorkbenchError(
        what, where=str(path), remedy="Give the options.json that these weights were made with."
    )


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise missing_package("h5py", "ELMo's weights file") from None
    return h5py
