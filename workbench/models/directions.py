"""Directions that runs stored, for edits of models: `mini:gpt@edit:3.steering-mini-gpt=2`.

A run of `steering` stores the difference of mean states for each pair of words and each layer, in
the array `directions`. A run of one's own is named by its name or the beginning of it, a built-in
result without `built-in/`. Costs: reading a small file, when a model with such an edit is opened.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import read_regular
from workbench.core.findings import plural
from workbench.core.head_names import at_state

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "directions"  # of the array
_FILE = f"arrays/{NAME}.safetensors"
_BUILT_IN = Path(__file__).parents[1] / "runs" / "built_in"
_AGAIN = "Run steering again, with workbench run steering."
LONGEST = 200  # characters of the name of a run
_LIST = "List the runs with: workbench runs list"


def direction(run: str, pair: int, layer: int) -> "NDArray[np.float32]":
    """The direction of a layer (0: the embeddings) and of a pair of words, counted from 1.

    # [width]

    Raises:
        WorkbenchError: There is no such run, or it has no such direction.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    folder = _folder(run)
    try:
        array: NDArray[np.float32] = load(read_regular(folder / _FILE))[NAME]
        pairs, layers, _ = array.shape
    except FileNotFoundError:
        raise _missing(
            f"the run {folder.name} has stored no directions",
            _AGAIN,
        ) from None
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise _missing(
            f"the directions of {folder.name} cannot be read ({error})",
            _AGAIN,
        ) from None
    if pair > pairs:
        what = f"{folder.name} has directions of {plural(pairs, 'pair')} of words, not {pair}"
        raise _missing(what, f"Name a pair from 1 to {pairs}.")
    if layer >= layers:
        what = f"{folder.name} has no direction of {at_state(layer)}"
        raise _missing(what, f"Its last layer is {layers - 1}.", "layer-missing")
    chosen: NDArray[np.float32] = array[pair - 1, layer]
    return chosen


def _folder(run: str) -> Path:
    """The folder of the run with this name, or with the only name that begins like it."""
    for parent in (machine.runs(), _BUILT_IN) if len(run) < LONGEST else ():
        exact = parent / run
        found = [exact] if exact.is_dir() else [*parent.glob(f"{run}*")] if parent.is_dir() else []
        own = [each for each in found if each.is_dir() and not each.is_symlink()]
        if len(own) > 1:
            raise _missing(f"{len(own)} runs begin with {run}", f"Write more of the name. {_LIST}")
        if own:
            return own[0]
    raise _missing(
        f"there is no run {run[:LONGEST]}, whose direction is added", _LIST, "run-not-found"
    )


def _missing(what: str, remedy: str, code: str = "direction-missing") -> WorkbenchError:
    return WorkbenchError(f"{what}.", code=code, remedy=remedy)
