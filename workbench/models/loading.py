"""From what a user names to a model, offline first.

A folder is read from disk and nothing is fetched; a hub id stands for its folder in the cache,
whose files come from the hub where they are not there. `REF@random` is the same architecture with
fresh weights. Weights come from safetensors; pickled ones only where asked for, with a warning, and
then without running any code in them. Code that comes with a model is neither fetched nor run, and
its config is checked before anything is built (`checkpoint`). Weights are mapped from their files
and go to the device one at a time, each in the precision asked for, so the host never holds a copy
of them all. Fresh weights, and those of a pruned model, are made on the host in float32 first: 4
bytes a parameter.
"""

import os
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import torch
import transformers
from transformers import AutoModel, PretrainedConfig, PreTrainedModel

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.machine import require_cuda
from workbench.core.public import public
from workbench.engine.model import Model
from workbench.models import budget, checkpoint, pruned_checkpoint, split
from workbench.models.huggingface import HuggingFace
from workbench.models.lm_heads import CLASSIFIER, placed
from workbench.models.references import RANDOM, facts, folder_of, is_folder, located, require_model
from workbench.models.word_models import ELMO, VECTORS, Opener, open_elmo, open_vectors, word_folder

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
PICKLED = (".bin", ".pt", ".pth", ".ckpt")  # endings of weights that torch.save writes
# What is fetched of a hub id, by name; code, weights of other libraries and pickles are not.
CONFIG_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt",
    "*.model", "*.tiktoken",
)  # fmt: skip
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
PICKLED_FILES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin")
_ONE_PRECISION = ("openai-gpt",)  # its masks must be made in the precision of its weights
_alone = RLock()  # transformers makes models on a device that it sets for all threads
_HEADS = (
    "ForMaskedLM", "ForPreTraining", "ForCausalLM", "LMHeadModel", "ForConditionalGeneration",
    CLASSIFIER,
)  # fmt: skip


@public
def load(
    ref: str | os.PathLike[str],
    device: str | None = None,
    precision: str = "auto",
    *,
    seed: int = 0,
    pickled: bool = False,
) -> Model:
    """Open a model by folder, hub id, run, `mini:bert`, `elmo:OPTIONS,WEIGHTS` or `vectors:FILE`.

    Args:
        ref: A folder (of transformers, or an ELMo or vectors as training writes them), a hub id,
            the name of a run that trained a model, `elmo:OPTIONS.json,WEIGHTS.hdf5`,
            `vectors:FILE`, or a built-in name (`mini:bert`, `mini:gpt`, `mini:elmo`, `mini:t5`).
            `REF@random` is the same architecture with fresh weights.
        device: `cpu`, `cuda`, `cuda:1`, or several cards (`cuda:0,cuda:1`) that share the model's
            blocks; text goes to the first, and each card keeps the states of its layers
            (default: a GPU where there is one).
        precision: `fp32`, `bf16`, `fp16` or `auto`: bf16 on a GPU that has it, else fp32.
        seed: Draws the weights of a `@random` model.
        pickled: Also read weights that are not safetensors, without running code in them.

    Returns:
        A `Model`.

    Raises:
        WorkbenchError: There is no such model, its files are unsound, or it does not fit into
            memory.

    Example:
        >>> wb.load("mini:bert", device="cpu")
        <Model mini:bert: bert; encoder of 4 layers x 4 heads; width 128; 1,082,752 parameters;
        cpu, fp32>
    """
    name = os.fspath(ref)
    with _alone:
        found = _opened(located(name), device, precision, seed, pickled)
    found.name = name
    return found


def _opened(name: str, device: str | None, precision: str, seed: int, pickled: bool) -> Model:
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    places = chosen_devices(device)
    place, several = places[0], len(places) > 1
    source, fresh = name.removesuffix(RANDOM), name.endswith(RANDOM)
    local = is_folder(source)
    if opener := _of_words(name, Path(source).expanduser() if local else None):
        _require_one(several, "a model of words", name)
        own = torch.float32 if precision == "auto" else _dtype(precision, place)
        return opener(name, place, own, seed)
    dtype = _dtype(precision, place)
    require_model(name)
    source = str(Path(source).expanduser() if local else _fetched(source, fresh, pickled))
    config = checkpoint.read_config(source)
    told = pruned_checkpoint.manifest(Path(source)) if local else None
    if not (fresh or pickled or list(Path(source).glob("*.safetensors"))):
        raise _no_safetensors(source if local else name, local)
    compared = Path(source) if told is None else None
    width = 4 if fresh or told is not None else dtype.itemsize  # those are made in fp32
    outline = checkpoint.check_size(_built, config, source, compared, width)
    if told is not None:
        _require_one(several, "a pruned model", name)
    else:
        if several:
            split.require_splits(config.model_type, name)
        budget.require_room(outline, dtype, places, name)
    tokenizer = checkpoint.read_tokenizer(source)
    if told is not None:

        def build(whole: PretrainedConfig) -> HuggingFace:
            net = _fresh(whole, seed)
            net.train(False)
            return HuggingFace(net, tokenizer, source)

        def part() -> Model:
            smaller = pruned_checkpoint.opened(Path(source), told, config, build, fresh)
            placed(smaller.net, place, dtype)
            return smaller

        return checkpoint.opened(part, source)

    def whole() -> Model:
        net = _fresh(config, seed) if fresh else _weights(source, config, pickled, dtype)
        split.placed_over(net, places, dtype) if several else placed(net, place, dtype)
        return HuggingFace(net, tokenizer, name)  # runs it once: then its numbers fit together

    return checkpoint.opened(whole, source)


def _fetched(name: str, fresh: bool, pickled: bool) -> str:
    """The folder of a hub id: from the cache where it is whole there, else from the hub."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    weights = () if fresh else PICKLED_FILES if pickled else WEIGHT_FILES
    ask = partial(snapshot_download, name, allow_patterns=[*CONFIG_FILES, *weights])

    def folder() -> str:
        with suppress(LocalEntryNotFoundError):
            found = Path(ask(local_files_only=True))
            if next(found.glob("config.json"), None) and (
                fresh or any(next(found.glob(pattern), None) for pattern in weights)
            ):
                return str(found)
        return ask()

    remedy = (
        "Is the name right, and the network there? Offline, copy the model's files into a folder "
        f"and name that, or put them into the cache with: hf download {name}"
    )
    return checkpoint.opened(folder, name, remedy)


def facts_of_files(ref: str, seed: int = 0, pickled: bool = False) -> dict[str, Any]:
    """The facts of a model as it is when opened in fp32, in as little memory as can be."""
    with suppress(WorkbenchError):  # what is wrong is said by opening it in fp32
        precision = "fp32" if pickled else precision_of_files(ref)
        if precision != "fp32":
            model = load(ref, "cpu", precision)
            if found := model.content_hash_in_fp32():
                vars(model)["content_hash"] = found
                return facts(model) | {"precision": "fp32"}
            del model  # before it is opened again
    return facts(load(ref, "cpu", "fp32", seed=seed, pickled=pickled))


def precision_of_files(ref: str) -> str:
    """The precision in which a model's safetensors hold it; fp32 where they do not say one."""
    name = located(ref)
    folder = folder_of(name)
    if name.endswith(RANDOM) or folder is None or _of_words(name, folder):
        return "fp32"
    if (
        pruned_checkpoint.manifest(folder) is not None
    ):  # it is made in fp32 before its weights are read
        return "fp32"
    stored = checkpoint.precisions_stored(folder)
    return next(iter(stored & PRECISIONS.keys())) if len(stored) == 1 else "fp32"


def _of_words(name: str, folder: Path | None) -> Opener | None:
    """What opens a model that reads whole words; None for any other."""
    for prefix, opener in ((ELMO, open_elmo), (VECTORS, open_vectors)):
        if name.startswith(prefix):
            return opener
    return word_folder(folder) if folder is not None else None


def chosen_devices(asked: str | None) -> list[torch.device]:
    """One device, or the cards that share a model: `cuda:0,cuda:1`."""
    names = [each.strip() for each in (asked or "").split(",")]
    if len(names) == 1:
        return [chosen_device(asked)]
    devices = [_device(name, asked) for name in names]
    if any(device.type == "cpu" for device in devices):
        raise WorkbenchError(
            f"a model is split over GPUs, and {asked!r} names the cpu too.",
            remedy="Use cpu alone, or GPUs with their numbers, such as cuda:0,cuda:1.",
        )
    there = {torch.device("cuda", index) for index in range(torch.cuda.device_count())}
    if len(set(devices)) < len(devices) or not set(devices) <= there:
        raise WorkbenchError(
            f"{asked!r} does not name several GPUs of this machine, which has {len(there)}.",
            remedy="Name each once and with its number, such as cuda:0,cuda:1.",
        )
    return devices


def _require_one(several: bool, what: str, where: str) -> None:
    if several:
        raise WorkbenchError(
            f"{what} is not split over several cards.", where=where, remedy="Name one device."
        )


def chosen_device(asked: str | None) -> torch.device:
    """The device of this name; by default a GPU where there is one."""
    if "," in (asked or ""):
        chosen_devices(asked)  # what it names may be wrong as well
        raise WorkbenchError(
            f"one device is used here, and {asked!r} names several.",
            remedy="Open the model with wb.load(REF, device=…), and pass the model itself.",
        )
    default = "cuda" if torch.cuda.is_available() else "cpu"
    return _device(default if asked is None else asked, asked)


def _device(name: str, asked: str | None) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):  # mps has no float64
        raise WorkbenchError(f"there is no device {asked!r}.", remedy="Use cpu, cuda or cuda:1.")
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
            remedy=did_you_mean(precision, [*PRECISIONS, "auto"]),
        )
    return PRECISIONS[precision]


def _architecture(config: PretrainedConfig) -> Any:
    """The class the weights were saved from, if its head predicts; else the bare model."""
    for name in config.architectures or ():
        if name.endswith(_HEADS) and hasattr(transformers, name):
            return getattr(transformers, name)
    return AutoModel


def _fresh(config: PretrainedConfig, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _built(config)


def _built(config: PretrainedConfig) -> PreTrainedModel:
    kind = _architecture(config)
    if kind is AutoModel:
        kind = partial(AutoModel.from_config, trust_remote_code=False)
    net: PreTrainedModel = kind(config)
    return net


def _weights(
    source: str, config: PretrainedConfig, pickled: bool, dtype: torch.dtype
) -> PreTrainedModel:
    if pickled:
        warnings.warn(
            f"{source}: reading pickled weights; only their tensors are read.", stacklevel=3
        )
    kind = _architecture(config)
    own = {"trust_remote_code": False} if kind is AutoModel else {}

    def read() -> PreTrainedModel:
        return kind.from_pretrained(  # type: ignore[no-any-return]
            source,
            config=config,
            dtype=_read_in(source, config, pickled, dtype),
            local_files_only=True,
            use_safetensors=not pickled,
            weights_only=True,
            **own,
        )

    return checkpoint.opened(read, source)


def _read_in(
    source: str, config: PretrainedConfig, pickled: bool, dtype: torch.dtype
) -> torch.dtype:
    """The precision that weights are read in, which `placed` makes the one asked for.

    Read as they are stored, weights stay on disk, mapped into memory, until each goes to its
    device. Where they would have to be widened there, they are read in the precision asked for:
    weights that no file has are drawn in it.
    """
    folder = None if pickled or config.model_type in _ONE_PRECISION else folder_of(source)
    stored = checkpoint.precisions_stored(folder) if folder is not None else set()
    return torch.float32 if stored == {"fp32"} else dtype


def _no_safetensors(source: str, local: bool) -> WorkbenchError:
    pickled = [path for ending in PICKLED for path in Path(source).glob(f"*{ending}")]
    if local and not pickled:
        return WorkbenchError(
            "there are no weights in this folder.",
            where=source,
            remedy="Copy it whole: beside config.json belongs a model.safetensors.",
        )
    return WorkbenchError(
        "no safetensors weights were found; pickled ones can run code and are not read unasked.",
        where=source,
        remedy="Convert them with save_pretrained, or, if you trust them, ask for them with "
        "pickled=True (--pickled).",
    )
