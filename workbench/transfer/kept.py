"""A model with what it has learnt of a task, in one folder: the body, which opens as any other
model does, and beside it the head.

    model.safetensors, …    the body, with the heads that it was trained with before
    task/task.json          what the head answers, and how it reads
    task/head.safetensors   its weights

What was put into a body (adapters, prefixes, prompts) is no part of such a folder; LoRA is merged
before. Costs the bytes of the weights.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from workbench.engine.model import Model
from workbench.errors import WorkbenchError
from workbench.files import parsed_json, read_regular, require_regular, written_whole
from workbench.models import pruned
from workbench.models.huggingface import HuggingFace
from workbench.models.words import WordModel
from workbench.transfer.heads import Head, Scale
from workbench.transfer.tasks import Task

TASK, HEAD = "task/task.json", "task/head.safetensors"
FORMAT = 3


def save(model: Model, head: Head, folder: Path, method: str) -> None:
    """Write body and head."""
    from safetensors.torch import save_file

    save_body(model, folder)
    (folder / TASK).parent.mkdir(exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in head.state_dict().items()}
    with written_whole(folder / HEAD) as draft:
        save_file(state, draft)
    told = {
        "format": FORMAT,
        "task": asdict(head.task),
        "method": method,
        "layers": head.mix.layers - 1,
        "width": head.mix.mean.shape[1],
        "lstm": head.reader is not None,
        "scale": [head.scale.mean, head.scale.spread],
    }
    with written_whole(folder / TASK) as draft:
        draft.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def save_body(model: Model, folder: Path) -> None:
    """Write the body alone, as any model of its kind."""
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(model, HuggingFace):
        assert isinstance(model, WordModel) and model.save is not None, "there are no others"
        model.save(folder)
    elif model.lacking:
        pruned.save(model, folder)
    else:
        model.net.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)


def has_task(folder: Path) -> bool:
    """Whether a head for a task lies beside the model."""
    return (folder / TASK).is_file() and (folder / HEAD).is_file()


def head_of(folder: Path, device: torch.device) -> tuple[Head, str]:
    """The head of a folder, and the method it was learnt by."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        told: dict[str, Any] = parsed_json(read_regular(folder / TASK).decode("utf-8"))
        own = told["task"]
        task = Task(**{**own, "names": tuple(own["names"])})
        scale = Scale(*told["scale"])
        head = Head(task, told["layers"], told["width"], told["lstm"], scale)
        head.load_state_dict(load_file(require_regular(folder / HEAD)))
        if told["format"] != FORMAT:
            raise ValueError(f"its format is {told['format']!r}")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise WorkbenchError(
            f"the head of a task cannot be read: {str(error).splitlines()[0]}.",
            where=str(folder),
            remedy="Fine-tune anew, or copy the folder whole.",
        ) from None
    return head.to(device).eval(), str(told["method"])
