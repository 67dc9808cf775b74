"""Opens a model from a reference, offline first.

A folder is read from disk without any download. A hub id stands for its folder in the cache;
missing files are downloaded from the hub. `REF@random` is the same architecture with random
weights. Weights are read from safetensors; pickled weights only on request, with a warning, and
without running code in them. A model's own code is neither downloaded nor run, and its config is
checked before the model is built (`checkpoint`). Costs: weights are memory-mapped and moved to the
device one at a time in the requested precision, so the host never holds a copy of all. Random
weights, and those of a pruned model, are first created on the host in float32: 4 bytes per
parameter.
"""

import os
import re
import warnings
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoModel, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.findings import plural
from workbench.core.machine import require_cuda
from workbench.core.public import public
from workbench.engine.model import Model
from workbench.engine.task import chosen
from workbench.models import budget, live_net, split
from workbench.models.formats import (
    checkpoint,
    gguf_files,
    packed_checkpoint,
    peft_adapter,
    pruned_checkpoint,
    task_checkpoint,
)
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.lm_heads import placed
from workbench.models.output_heads.standard_heads import HEADS
from workbench.models.references import (
    facts,
    folder_of,
    gguf_of,
    has_adapter,
    is_folder,
    located,
    net_folder,
    require_model,
    split_ref,
)
from workbench.models.word_models import ELMO, VECTORS, Opener, open_elmo, open_vectors, word_folder

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
PICKLED = (".bin", ".pt", ".pth", ".ckpt")  # suffixes of weights that torch.save writes
# Files downloaded for a hub id; code, weights of other libraries and pickles are not.
CONFIG_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt",
    "*.model", "*.tiktoken",
)  # fmt: skip
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
PICKLED_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin")
_ONE_PRECISION = ("openai-gpt",)  # its masks must have the precision of its weights
_lock = RLock()  # transformers sets the device of new models for all threads


@public
def load(
    ref: "str | os.PathLike[str] | nn.Module",
    device: "str | PreTrainedTokenizerBase | None" = None,
    precision: str = "auto",
    *,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
    name: str = "",
    seed: int = 0,
    pickled: bool = False,
    objective: str = "",
    edit: str = "",
) -> Model:
    """Open a model by its reference, or a net of transformers that is in memory.

    `wb.load(net, tokenizer)` opens any net: fine-tuned a minute ago, wrapped by PEFT, in bf16, on
    any device. Its weights are shared, and the net itself is never touched: its mode, hooks,
    attention and gradients stay as they are. Changed weights are noticed. A net on `meta` has
    facts only. On a CPU one in half precision is computed with in fp32, like its saved folder.

    Args:
        ref: A folder (a transformers checkpoint, or an ELMo or vectors saved by training), a GGUF
            file, a hub id, the name of a run that trained a model,
            `elmo:OPTIONS.json,WEIGHTS.hdf5`, `vectors:FILE`, or a built-in name (`mini:bert`,
            `mini:gpt`, `mini:elmo`, `mini:t5`).
            `REF@random` is the same architecture with random weights, `REF@edit:3.7=0` the model
            without head 7 of layer 3. Or a net.
        device: `cpu`, `cuda`, `cuda:1`, or several GPUs (`cuda:0,cuda:1`) over which the model's
            blocks are split; inputs go to the first GPU, and states stay on the GPU of their layer
            (default: a GPU if available). After a net, its tokenizer.
        precision: `fp32`, `bf16`, `fp16` or `auto` (bf16 on a GPU that supports it, else fp32). Of
            a net: `fp32`, its own, or `auto` (fp32 on a CPU, else its own).
        tokenizer: Of a net (default: that of the files it was read from).
        name: Its name in tables and figures (default: the reference).
        seed: Seed of the weights of a `@random` model.
        pickled: Whether to read pickled weights too, without running code in them.
        objective: What the model is used for, of what it predicts: `language-model` of a fine-tuned
            model, for example (default: the task that it was fine-tuned for, else its language
            model).
        edit: Parts that are turned off, scaled or set to their means, as for `Model.edited`.

    Returns:
        A `Model`.

    Raises:
        WorkbenchError: There is no such model, its files are damaged, or it does not fit into
            memory.

    Example:
        >>> wb.load("mini:bert", device="cpu")
        <Model mini:bert: bert; encoder of 4 layers x 4 heads; width 128; 1,082,752 parameters;
        cpu, fp32>
        >>> from transformers import AutoModelForMaskedLM, AutoTokenizer
        >>> folder = wb.export_model("mini:bert", "a-folder").folder
        >>> net = AutoModelForMaskedLM.from_pretrained(folder).train()
        >>> wb.load(net, AutoTokenizer.from_pretrained(folder), name="mine")
        <Model mine: bert; encoder of 4 layers x 4 heads; width 128; ... parameters; cpu, fp32>
        >>> net.training
        True
    """
    if isinstance(ref, nn.Module):
        model = _opened_net(ref, tokenizer, device, precision, name)
        model = with_objective(model, objective).edited(edit)
        model.name = name or model.name
        return model
    if tokenizer is not None or not isinstance(device, str | None):
        raise WorkbenchError(
            "a tokenizer is passed with a net in memory only.",
            code="option-conflict",
            where=os.fspath(ref),
            remedy="Leave it out: a model is opened with the tokenizer that is next to its files.",
        )
    whole = split_ref(os.fspath(ref))
    with _lock:
        model = _opened(located(whole.unedited), device, precision, seed, pickled)
    model.name = whole.unedited
    if (folder := folder_of(whole.unedited)) is not None:
        task_checkpoint.restore_head(model, folder)
        if isinstance(model, HuggingFace):
            task_checkpoint.restore_parts(model, folder)
    model = with_objective(model, objective).edited(",".join(filter(None, (whole.edit, edit))))
    model.name = name or model.name
    return model


def _opened_net(
    net: nn.Module,
    tokenizer: "PreTrainedTokenizerBase | None",
    second: "str | PreTrainedTokenizerBase | None",
    precision: str,
    name: str,
) -> Model:
    """The model of a net in memory, on its device."""
    if isinstance(second, str):
        raise WorkbenchError(
            "a net in memory is used where it is.",
            code="option-conflict",
            remedy="Move it before, with net.to(...), and pass its tokenizer instead of a device.",
        )
    _dtype(precision, torch.device("cpu"))  # raises if there is no such precision
    return live_net.opened(net, tokenizer or second, name, precision)


def with_objective(model: Model, objective: str) -> Model:
    """The model as it is used for an objective, by its name; "" for what it was made for."""
    if not objective:
        return model
    return model.for_objective(chosen(objective, model.objectives, model.name))


def _opened(name: str, device: str | None, precision: str, seed: int, pickled: bool) -> Model:
    transformers.utils.logging.disable_progress_bar()
    devices = resolve_devices(device)
    first, several = devices[0], len(devices) > 1
    source, _, is_random, _ = split_ref(name)
    local = is_folder(source)
    if opener := _word_model_opener(name, Path(source).expanduser() if local else None):
        _require_one(several, "a whole-word model", name)
        dtype = torch.float32 if precision == "auto" else _dtype(precision, first)
        return opener(name, first, dtype, seed)
    if local and has_adapter(Path(source).expanduser()):
        folder = Path(source).expanduser()
        model = peft_adapter.opened(
            folder, lambda base: load(base, device, precision, pickled=pickled)
        )
        return model.reinitialised(seed) if is_random else model
    dtype = _dtype(precision, first)
    require_model(name)
    if file := gguf_of(source):
        return _opened_gguf(file.absolute(), name, devices, dtype, seed, is_random)
    source = str(
        net_folder(Path(source).expanduser()) if local else _fetched(source, is_random, pickled)
    )
    config = checkpoint.read_config(source)
    manifest = pruned_checkpoint.manifest(Path(source)) if local else None
    forms = packed_checkpoint.manifest(Path(source)) if local else None
    is_built = manifest is not None or forms is not None  # before its weights are read, in fp32
    if not (is_random or pickled or list(Path(source).glob("*.safetensors"))):
        raise _no_safetensors(source if local else name, local)
    compared = None if is_built else Path(source)
    width = 4 if is_random or is_built else dtype.itemsize
    outline = checkpoint.check_size(_built, config, source, compared, width)
    if is_built:
        _require_one(several, "a pruned or packed model", name)
    else:
        if several:
            split.require_splits(config.model_type, name)
        budget.require_room(outline, dtype, devices, name)
    tokenizer = checkpoint.read_tokenizer(source)
    if is_built:

        def build(config: PretrainedConfig) -> HuggingFace:
            net = _random_net(config, seed)
            net.train(False)
            return HuggingFace(net, tokenizer, source)

        def open_built() -> Model:
            if manifest is not None:
                smaller = pruned_checkpoint.opened(Path(source), manifest, config, build, is_random)
            elif is_random:
                smaller = build(config)
            else:
                smaller = packed_checkpoint.opened(Path(source), forms or {}, config, build)
            placed(smaller.net, first, dtype)
            return smaller

        return checkpoint.opened(open_built, source)

    def open_whole() -> Model:
        net = _random_net(config, seed) if is_random else _weights(source, config, pickled, dtype)
        split.placed_over(net, devices, dtype) if several else placed(net, first, dtype)
        return HuggingFace(net, tokenizer, name)  # runs it once, which checks its sizes

    return checkpoint.opened(open_whole, source)


def _opened_gguf(
    file: Path,
    name: str,
    devices: list[torch.device],
    dtype: torch.dtype,
    seed: int,
    is_random: bool,
) -> Model:
    """The model of a GGUF file, with dequantised weights."""
    _require_one(len(devices) > 1, "a GGUF model", name)
    found = gguf_files.header(file)
    with gguf_files.alone(file) as (folder, single):
        config = checkpoint.read_config(folder, gguf_file=single)
        gguf_files.add_class(config)
        gguf_files.add_rope_scaling(config, found, file)
        width = 4 if is_random else dtype.itemsize
        outline = checkpoint.check_size(_built, config, str(file), None, width)
        budget.require_room(outline, dtype, devices, name)
        tokenizer = checkpoint.read_tokenizer(folder, gguf_file=single)
        tokenizer.name_or_path = str(file)

        def read() -> PreTrainedModel:
            with checkpoint.silenced():
                net, notes = _architecture(config).from_pretrained(
                    folder,
                    gguf_file=single,
                    config=config,
                    dtype=dtype,
                    local_files_only=True,
                    output_loading_info=True,
                    **gguf_files.reading_options(),
                )
            gguf_files.require_same_weights(net, sorted(notes["missing_keys"]), found, file)
            return gguf_files.as_dense(net, file)

        def open_whole() -> Model:
            net = _random_net(config, seed) if is_random else read()
            placed(net, devices[0], dtype)
            model = HuggingFace(net, tokenizer, name)
            model.stored_as = gguf_files.in_words(found.types)
            return model

        return checkpoint.opened(open_whole, str(file))


def _fetched(name: str, is_random: bool, pickled: bool) -> str:
    """The folder of a hub id: from the cache if complete there, else from the hub."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    weights = () if is_random else PICKLED_FILES if pickled else WEIGHT_FILES
    download = partial(snapshot_download, name, allow_patterns=[*CONFIG_FILES, *weights])

    remedy = (
        "Check the name and the network connection. To work offline, copy the model's files into "
        f"a folder and name that folder, or fill the cache with: hf download {name}"
    )

    def folder() -> str:
        with suppress(LocalEntryNotFoundError):
            cached = Path(download(local_files_only=True))
            if next(cached.glob("config.json"), None) and (
                is_random or any(next(cached.glob(pattern), None) for pattern in weights)
            ):
                return str(cached)
        try:
            return download()
        except LocalEntryNotFoundError:
            raise WorkbenchError(
                "there is no folder of this name, its files are not in the cache, and the hub has "
                "none or cannot be reached.",
                code="hub-unreachable",
                where=name,
                remedy=remedy,
            ) from None

    return checkpoint.opened(folder, name, remedy)


def facts_of_files(ref: str, seed: int = 0, pickled: bool = False) -> dict[str, Any]:
    """The facts of a model opened in fp32, with as little memory as possible."""
    with suppress(WorkbenchError):  # opening it in fp32 below reports the error
        precision = "fp32" if pickled else precision_of_files(ref)
        if precision != "fp32":
            model = load(ref, "cpu", precision)
            if fp32_hash := model.content_hash_in_fp32():
                vars(model)["content_hash"] = fp32_hash
                return facts(model) | {"precision": "fp32"}
            del model  # frees memory before the model is opened again
    return facts(load(ref, "cpu", "fp32", seed=seed, pickled=pickled))


def precision_of_files(ref: str) -> str:
    """The precision of a model's safetensors; fp32 if they have several or none."""
    name = located(ref)
    folder = folder_of(name)
    if folder is None or _word_model_opener(name, folder):
        return "fp32"
    if has_adapter(folder):
        return "fp32"
    folder = net_folder(folder)
    if any(each.manifest(folder) is not None for each in (pruned_checkpoint, packed_checkpoint)):
        return "fp32"
    stored = checkpoint.precisions_stored(folder)
    return next(iter(stored & PRECISIONS.keys())) if len(stored) == 1 else "fp32"


def _word_model_opener(name: str, folder: Path | None) -> Opener | None:
    """The function that opens a whole-word model; None for other models."""
    for prefix, opener in ((ELMO, open_elmo), (VECTORS, open_vectors)):
        if name.startswith(prefix):
            return opener
    return word_folder(folder) if folder is not None else None


def resolve_devices(requested: str | None) -> list[torch.device]:
    """One device, or the GPUs over which a model is split: `cuda:0,cuda:1`."""
    names = [each.strip() for each in (requested or "").split(",")]
    if len(names) == 1:
        return [resolve_device(requested)]
    devices = [_device(name, requested) for name in names]
    if any(device.type == "cpu" for device in devices):
        raise WorkbenchError(
            f"a model can be split over GPUs only, but {requested!r} includes the cpu.",
            code="device-unavailable",
            remedy="Use cpu alone, or GPUs with their numbers, such as cuda:0,cuda:1.",
        )
    available = {torch.device("cuda", index) for index in range(torch.cuda.device_count())}
    if len(set(devices)) < len(devices) or not set(devices) <= available:
        raise WorkbenchError(
            f"{requested!r} does not name different GPUs of this machine, which has "
            f"{len(available)}.",
            code="device-unavailable",
            remedy="Name each GPU once and with its number, such as cuda:0,cuda:1.",
        )
    return devices


def _require_one(several: bool, what: str, where: str) -> None:
    if several:
        raise WorkbenchError(
            f"{what} cannot be split over several GPUs.",
            code="model-unsupported",
            where=where,
            remedy="Name one device.",
        )


def resolve_device(requested: str | None) -> torch.device:
    """The requested device (default: a GPU if available)."""
    if "," in (requested or ""):
        resolve_devices(requested)  # raises if the names themselves are wrong
        raise WorkbenchError(
            f"only one device can be used here, and {requested!r} names several.",
            code="setting-invalid",
            remedy="Open the model with wb.load(REF, device=…), and pass the model itself.",
        )
    default = "cuda" if torch.cuda.is_available() else "cpu"
    return _device(default if requested is None else requested, requested)


def _device(name: str, requested: str | None) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):  # mps has no float64
        raise WorkbenchError(
            f"there is no device {requested!r}.",
            code="device-unavailable",
            remedy="Use cpu, cuda or cuda:1.",
        )
    if device.type == "cuda":
        require_cuda()
    return device


def _dtype(precision: str, device: torch.device) -> torch.dtype:
    if precision == "auto":
        return (
            torch.bfloat16
            if device.type == "cuda" and torch.cuda.is_bf16_supported()
            else torch.float32
        )
    if precision not in PRECISIONS:
        raise WorkbenchError(
            f"there is no precision {precision!r}.",
            code="setting-invalid",
            remedy=did_you_mean(precision, [*PRECISIONS, "auto"]),
        )
    return PRECISIONS[precision]


def _architecture(config: PretrainedConfig) -> Any:
    """The class of the saved weights, if it has a prediction head; else the model without head."""
    for name in config.architectures or ():
        if name.endswith(HEADS) and (found := checkpoint.class_of(name)) is not None:
            return found
    return AutoModel


def _random_net(config: PretrainedConfig, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _built(config)


def _built(config: PretrainedConfig) -> PreTrainedModel:
    kind = _architecture(config)
    if kind is AutoModel:
        kind = partial(AutoModel.from_config, trust_remote_code=False)
    return kind(config)


def _weights(
    source: str, config: PretrainedConfig, pickled: bool, dtype: torch.dtype
) -> PreTrainedModel:
    if pickled:
        warnings.warn(
            f"{source}: reading pickled weights. Only tensors are read; no code in them runs.",
            stacklevel=3,
        )
    kind = _architecture(config)
    options = {"trust_remote_code": False} if kind is AutoModel else {}

    def read() -> PreTrainedModel:
        # weights that the files lack, such as a pooler's, are the same each time
        with torch.random.fork_rng(devices=[]), checkpoint.silenced():
            torch.manual_seed(0)
            net, notes = kind.from_pretrained(
                source,
                config=config,
                dtype=_reading_dtype(source, config, pickled, dtype),
                local_files_only=True,
                use_safetensors=not pickled,
                weights_only=True,
                output_loading_info=True,
                **options,
            )
        _require_blocks(notes["missing_keys"], source)
        return net

    return checkpoint.opened(read, source)


def _require_blocks(missing: Collection[str], source: str) -> None:
    """Raise if the files lack weights of a block, which would be random; heads may be missing."""
    if of_blocks := sorted(name for name in missing if re.search(r"\.\d+\.", name)):
        raise WorkbenchError(
            f"the files lack {plural(len(of_blocks), 'weight')} of the layers, such as "
            f"{of_blocks[0]}.",
            code="file-format",
            where=source,
            remedy="Copy the complete folder from the original checkpoint.",
        )


def _reading_dtype(
    source: str, config: PretrainedConfig, pickled: bool, dtype: torch.dtype
) -> torch.dtype:
    """The precision in which weights are read; `placed` converts them to the requested one.

    Weights read as stored stay on disk, memory-mapped, until each moves to its device. Weights that
    would have to be widened there are read in the requested precision, in which weights missing
    from the files are also drawn.
    """
    folder = None if pickled or config.model_type in _ONE_PRECISION else folder_of(source)
    stored = checkpoint.precisions_stored(folder) if folder is not None else set()
    return torch.float32 if stored == {"fp32"} else dtype


def _no_safetensors(source: str, local: bool) -> WorkbenchError:
    pickled = [path for ending in PICKLED for path in Path(source).glob(f"*{ending}")]
    if local and not pickled:
        return WorkbenchError(
            "there are no weights in this folder.",
            code="file-not-found",
            where=source,
            remedy="Copy the complete folder: it needs model.safetensors next to config.json.",
        )
    return WorkbenchError(
        "no safetensors weights were found; pickled weights can run code and are refused by "
        "default.",
        code="pickle-refused",
        where=source,
        remedy="Convert the weights with save_pretrained or, if you trust them, use pickled=True "
        "(--pickled).",
    )
