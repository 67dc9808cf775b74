"""A model in one folder with all that it was made for: `Model.save` writes it, `wb.load` opens it.

    model.safetensors, …             the net; with a standard task head, which transformers opens
    body/                            the net, if transformers would not see some of the parts
    task/task.json                   the task, and the form of its head
    task/head.safetensors            the weights of a head that is not the net's own
    task/added.json, .safetensors    added modules: adapters, a prefix or a prompt
    language-model/                  the language-model head that a standard task head has replaced

A head on a mix of layers, and added modules, are no part of any class of transformers. Their net is
in a folder of its own, so that `from_pretrained` of the whole folder ends with an error and never
with a random head. Costs: the bytes of the weights.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, read_json, require_regular, write_atomically
from workbench.engine.model import Model
from workbench.engine.task import Task, language_model
from workbench.models import added_modules
from workbench.models.formats import checkpoint, packed_checkpoint, pruned_checkpoint
from workbench.models.output_heads.task_heads import MixHead, Scale, StandardHead, TaskHead
from workbench.models.output_heads.text_head import TextHead
from workbench.models.references import BODY, HEAD, LANGUAGE, TASK
from workbench.models.transformer import LanguageHead, Transformer

FORMAT = 4


def save(model: Transformer, folder: Path) -> None:
    """Write a transformers model into a folder, with its task head."""
    own = isinstance(model.task_head, MixHead) or model.added is not None
    net_folder = folder / BODY if own else folder
    net_folder.mkdir(parents=True, exist_ok=True)
    if model.n_removed_heads:
        pruned_checkpoint.save(model, net_folder)
    elif packed_checkpoint.is_needed(model):
        packed_checkpoint.save(model, net_folder)
    else:
        model.net.save_pretrained(net_folder)
        model.tokenizer.save_pretrained(net_folder)
    save_task(model, folder)
    if model.added is not None:
        (folder / TASK).parent.mkdir(exist_ok=True)
        added_modules.save(model.added, (folder / TASK).parent)
    if (head := model.language_head) is not None:
        (folder / LANGUAGE).mkdir(exist_ok=True)
        _write_weights(head.weights, folder / LANGUAGE / "head.safetensors")
        _write(folder / LANGUAGE / "head.json", {"class": head.class_name, "kind": head.task.kind})


def save_task(model: Model, folder: Path) -> None:
    """Write the description of a model's task head, and its weights if the net has none of them."""
    head: TaskHead | None = model.task_head
    if head is None:
        return
    (folder / TASK).parent.mkdir(exist_ok=True)
    if isinstance(head, MixHead):
        _write_weights(head.state_dict(), folder / HEAD)
    _write(folder / TASK, {"format": FORMAT, **_form(head)})


def _form(head: TaskHead) -> dict[str, Any]:
    """The task of a head, and what its weights depend on, as plain data."""
    form: dict[str, Any] = {"task": asdict(head.task), "method": head.method}
    if isinstance(head, MixHead):
        form |= {
            "layers": head.mix.layers - 1,
            "width": head.mix.mean.shape[1],
            "lstm": head.reader is not None,
            "scale": [head.scale.mean, head.scale.spread],
        }
    return form


def _write(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def _write_weights(weights: dict[str, torch.Tensor], path: Path) -> None:
    from safetensors.torch import save_file

    state = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    with atomic_write(path) as draft:
        save_file(state, draft)


def restore_head(model: Model, folder: Path) -> None:
    """Give an opened model the task head of its folder, in place."""
    if (folder / TASK).is_file():
        model.task_head = head_of(folder, model.device)


def restore_parts(model: Transformer, folder: Path) -> None:
    """Give an opened transformers model what its folder has beside the net, in place."""
    added_modules.restore(model, (folder / TASK).parent)
    model.language_head = language_head_of(folder)


def head_of(folder: Path, device: torch.device) -> TaskHead:
    """The task head of a folder; one of the net itself as its description alone."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        content: dict[str, Any] = read_json(folder / TASK)
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        fields = content["task"]
        task = Task(**{**fields, "names": tuple(fields["names"])})
        head: TaskHead
        if "layers" in content:
            scale = Scale(*content["scale"])
            head = MixHead(task, content["layers"], content["width"], content["lstm"], scale)
            head.load_state_dict(load_file(require_regular(folder / HEAD)))
        elif task.kind == "text":
            head = TextHead(task)
        else:
            head = StandardHead(task)
        head.method = str(content["method"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise WorkbenchError(
            f"the task head cannot be read: {str(error).splitlines()[0]}.",
            code="file-unreadable",
            where=str(folder),
            remedy="Copy the whole folder again, or run finetune again.",
        ) from None
    return head.to(device).eval()


def language_head_of(folder: Path) -> LanguageHead | None:
    """The language-model head that a standard task head has replaced; None without one."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = folder / LANGUAGE
    if not folder.is_dir():
        return None
    try:
        content = read_json(folder / "head.json")
        name = str(content["class"])
        if checkpoint.class_of(name) is None:
            raise ValueError(f"transformers has no {name[:60]!r}")
        weights = load_file(require_regular(folder / "head.safetensors"))
        return LanguageHead(name, language_model(content["kind"]), weights)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise WorkbenchError(
            f"the language-model head cannot be read: {str(error).splitlines()[0]}.",
            code="file-unreadable",
            where=str(folder),
            remedy="Copy the whole folder again, or remove this subfolder.",
        ) from None


def update_hash(digest: Any, model: Model) -> None:
    """Add a model's task head and added modules to the hash of its content."""
    head: TaskHead | None = model.task_head
    states = []
    if isinstance(head, MixHead) or (head is not None and head.task.label):
        digest.update(json.dumps(_form(head), sort_keys=True).encode())
        states.append(head.state_dict())
    if (added := getattr(model, "added", None)) is not None:
        digest.update(f"{added.kind} {added.size}".encode())
        states.append(added.modules.state_dict())
    for state in states:
        for name, weights in sorted(state.items()):
            digest.update(name.encode())
            digest.update(weights.detach().cpu().contiguous().view(-1).numpy().tobytes())
