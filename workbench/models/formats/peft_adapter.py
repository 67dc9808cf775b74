"""LoRA by peft: its updates in a net, merged, saved as an adapter, and opened again.

    inject(model, names, rank=8, seed=0)       # low-rank updates of these linear maps
    save(model, new, folder, base)             # adapter_config.json, adapter_model.safetensors
    merge(model)                               # the updates become part of the weights
    model = opened(folder, open_base)          # a base, with the adapter of a folder merged into it

A saved adapter holds the updates and the modules that its base lacks, such as a task head, under
the names of transformers' own class for the task. `PeftModel.from_pretrained` opens it on the base.
Weights are read from safetensors only. Costs: the bytes of the updates and of the new modules.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, read_json, require_regular
from workbench.engine.task import METRICS, Task
from workbench.models.formats import checkpoint
from workbench.models.formats.task_checkpoint import head_of
from workbench.models.output_heads import standard_heads
from workbench.models.references import ADAPTER, TASK
from workbench.models.transformer import Transformer

WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."  # of the names in an adapter
_TYPES = {  # peft's name of a task, by its kind
    "class": "SEQ_CLS",
    "score": "SEQ_CLS",
    "tags": "TOKEN_CLS",
    "entities": "TOKEN_CLS",
    "answers": "QUESTION_ANS",
}
_HEADS = ("classifier.out_proj", "classifier", "score", "qa_outputs", "logits_proj")  # last layers


def inject(model: Transformer, names: Collection[str], rank: int, seed: int) -> list[Tensor]:
    """Add a low-rank update to each of these modules, in place; returns the weights that learn."""
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        target_modules=sorted(names),
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.net.modules()),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model.net)
    return [weights for name, weights in model.net.named_parameters() if "lora_" in name]


def merge(model: Transformer) -> None:
    """Add the updates to the weights they belong to, and remove their modules."""
    from peft.tuners.lora import LoraLayer

    net: Any = model.net
    for name, module in list(net.named_modules()):
        if isinstance(module, LoraLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(net.get_submodule(parent), child, module.get_base_layer())
    net.__dict__.pop("peft_config", None)


def save(model: Transformer, original: Transformer, folder: Path, base: str) -> None:
    """Write the updates of a model as an adapter of its base; `original` is the model before."""
    from safetensors.torch import save_file

    net: Any = model.net
    plain = {name.replace(".base_layer", "") for name in net.state_dict() if "lora_" not in name}
    known = set(map(original.bare_name, original.net.state_dict()))
    modules = {_module(model, name) for name in plain if model.bare_name(name) not in known}
    modules |= {name for name, child in net.named_children() if _has_weights(model, name, child)}
    config = net.peft_config["default"]
    config.base_model_name_or_path = base
    config.task_type = _TYPES.get(model.predicts.kind) if model.predicts is not None else None
    config.modules_to_save = sorted(modules) or None
    config.target_modules = sorted(config.target_modules)
    config.inference_mode = True
    state = {}
    for name, weights in net.state_dict().items():
        is_update = "lora_" in name
        if is_update or _module(model, name) in modules:
            state[f"{PREFIX}{name.replace('.default', '')}"] = weights.detach().cpu().contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / WEIGHTS) as draft:
        save_file(state, draft, metadata={"format": "pt"})
    config.save_pretrained(folder)


def _module(model: Transformer, name: str) -> str:
    """The module that a weight belongs to, below the net or below its body."""
    return model.bare_name(name).partition(".")[0]


def _has_weights(model: Transformer, name: str, child: nn.Module) -> bool:
    """Whether a child of the net is a part of its head with weights."""
    return name != model.net.base_model_prefix and any(True for _ in child.parameters())


# --- a folder that holds an adapter alone ---------------------------------------------------------


def base_of(folder: Path) -> str:
    """The reference of the base that the adapter of a folder names."""
    try:
        base = read_json(folder / ADAPTER)["base_model_name_or_path"]
        if not isinstance(base, str) or not base:
            raise ValueError("it names no base model")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(folder, error) from None
    return base


def opened(folder: Path, open_base: "Callable[[str], Any]") -> Transformer:
    """The base of an adapter, with the adapter merged into it."""
    from peft import PeftModel

    if not (folder / WEIGHTS).is_file():
        raise WorkbenchError(
            f"the adapter has no {WEIGHTS}; other files, such as adapter_model.bin, may be pickles "
            "and are not read.",
            code="file-not-found",
            where=str(folder),
            remedy="Save it again with peft's save_pretrained, which writes safetensors.",
        )
    base = base_of(folder)
    try:
        model: Any = open_base(base)
    except WorkbenchError as error:
        raise WorkbenchError(
            f"the adapter needs its base model {base}, which cannot be opened: {error.what}",
            code=error.code,
            where=str(folder),
            remedy=f"Name it in {ADAPTER} (base_model_name_or_path): a hub id, or a folder of this "
            f"machine. {error.remedy}",
        ) from None
    if not hasattr(model, "net"):
        raise _unreadable(folder, ValueError(f"its base {base} is no model of transformers"))
    name = model.name
    if (task := _task(folder)) is not None:
        model = standard_heads.with_standard_head(model, task, 0)
        if not (folder / TASK).is_file():  # then the net that was wrapped names no task either
            model.net.config.problem_type = None
            del model.net.config.finetuning_task

    checkpoint.require_regular_files(folder)

    def merged() -> Any:
        peft_model: Any = PeftModel.from_pretrained(model.net, str(folder))
        return peft_model.merge_and_unload()

    net = checkpoint.opened(merged, str(folder), _REMEDY)
    net.train(False).requires_grad_(False)
    made = type(model)(net, _tokenizer(folder) or model.tokenizer, name)
    made.take_heads(model)
    return made  # type: ignore[no-any-return]


_REMEDY = "Copy the adapter again, and name the base that it was trained on."


def _tokenizer(folder: Path) -> Any:
    return checkpoint.read_tokenizer(str(folder)) if has_tokenizer(folder) else None


def has_tokenizer(folder: Path) -> bool:
    """Whether the folder of an adapter holds a tokenizer of its own."""
    return (folder / "tokenizer.json").is_file()


def _task(folder: Path) -> Task | None:
    """The task of an adapter's head: as it was saved here, or by its type and the head's size."""
    from safetensors import SafetensorError, safe_open

    if (folder / TASK).is_file():
        return head_of(folder, torch.device("cpu")).task
    kind = read_json(folder / ADAPTER).get("task_type")
    if kind not in _TYPES.values():
        return None
    try:
        with safe_open(require_regular(folder / WEIGHTS), framework="pt") as file:
            sizes = dict(_sizes(file))
    except (OSError, SafetensorError) as error:
        raise _unreadable(folder, error) from None
    if not sizes:
        raise _unreadable(folder, ValueError("it has no weights of a task head"))
    number = next(iter(sizes.values()))
    if kind == "QUESTION_ANS":
        return Task("its answers", "answers", "", (), True, METRICS["answers"][0])
    names = tuple(f"LABEL_{index}" for index in range(number))
    if kind == "TOKEN_CLS":
        return Task("its tags", "tags", "", names, False, METRICS["tags"][0])
    if number == 1:
        return Task("its score", "score", "", (), None, METRICS["score"][0])
    return Task("its classes", "class", "", names, None, METRICS["class"][0])


def _sizes(file: Any) -> Iterator[tuple[str, int]]:
    """The number of outputs of each last layer of a head among the weights of an adapter."""
    for head in _HEADS:
        for name in file.keys():  # noqa: SIM118
            if name.removeprefix(PREFIX) == f"{head}.weight":
                yield head, file.get_slice(name).get_shape()[0]


def _unreadable(folder: Path, error: Exception) -> WorkbenchError:
    return WorkbenchError(
        f"the adapter cannot be read: {str(error).splitlines()[0]}.",
        code="file-unreadable",
        where=str(folder),
        remedy=_REMEDY,
    )
