"""A trained model on disk: its files first, `training.json` last, which says that it is whole.

Files are made in a folder beside and moved into place one by one. Costs the weights' bytes, once.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import nn
from transformers import PreTrainedTokenizerBase

from workbench.errors import WorkbenchError
from workbench.files import parsed_json, read_regular, reason_of, unwritable, written_whole
from workbench.models.bilm import BiLM
from workbench.training.curves import Row, write_curves
from workbench.training.quiet import quietly
from workbench.training.skipgram import SkipGram
from workbench.training.task import Progress
from workbench.training.tokenizers import save_tokenizer

RECIPE, CURVES, SCRATCH = "training.json", "curves.csv", ".training"


def save_trained(
    net: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    out: Path,
    scratch: Path,
    recipe: Mapping[str, Any],
    rows: Sequence[Row],
    progress: Progress,
) -> None:
    """Write all that opens a model again; a failure leaves the checkpoint in `scratch`."""
    aside = scratch / "model"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir(parents=True)
        _save(net, tokenizer, aside, progress)
        for file in sorted(path for path in aside.rglob("*") if path.is_file()):
            target = out / file.relative_to(aside)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    except (OSError, SafetensorError) as error:
        raise unwritable(
            out,
            error,
            "Then run the same again: the last checkpoint is kept.",
            needed=sum(part.nbytes for part in net.state_dict().values()),
        ) from None
    write_curves(rows, out / CURVES)
    with written_whole(out / RECIPE) as draft:
        draft.write_text(json.dumps(recipe, indent=2) + "\n", "utf-8")


def read_recipe(folder: Path) -> dict[str, Any] | None:
    """What a folder was trained with; None where no training was finished in it."""
    path = folder / RECIPE
    if not os.path.lexists(path):
        return None
    try:
        found = parsed_json(read_regular(path))
        if not isinstance(found, dict):
            raise ValueError("it is no JSON object")
    except (OSError, ValueError) as error:
        raise WorkbenchError(
            f"cannot be read as a training's recipe: {reason_of(error)}.",
            where=str(path),
            remedy="Copy the folder again from where it was trained, or train into a new one.",
        ) from None
    return found


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    return {name: version(name) for name in ("torch", "transformers", "tokenizers")}


def _save(
    net: nn.Module, tokenizer: PreTrainedTokenizerBase, folder: Path, progress: Progress
) -> None:
    if isinstance(net, SkipGram):
        net.save(folder)
        return
    if isinstance(net, BiLM):
        if not net.save(folder):
            progress.warn(
                "h5py is not installed: weights.hdf5, which the original reads, was left out."
            )
        return
    model: Any = net
    with quietly():
        model.eval().save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
