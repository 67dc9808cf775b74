"""A checkpoint's config and tokenizer, read with transformers: no code of its own, sound numbers.

    config = read_config(source, local)       no module of the checkpoint is imported
    tokenizer = read_tokenizer(source, local)
    check_size(build, config, source)         before any weight has memory

A config is text that anybody may have written, so its numbers are checked here and nowhere else:
each for itself, then together, by building the model on the meta device, against the numbers in the
weight files and the machine's memory. Costs the headers of the weight files and a build without
memory: tens of milliseconds.
"""

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from workbench.errors import WorkbenchError
from workbench.files import require_regular

MODULES = 1_000  # layers, groups or experts; more are a mistake or an attack
LARGEST = 2**31 - 1  # of any size; tensors beyond it are no model's
SPARE = 1_000_000  # parameters that a config may have beyond its weights' (a new head)
_MODULES = re.compile(r"(^|_)(layers?|groups|experts)$|^inner_group_num$")
_SIZES = re.compile(
    r"(^|_)(heads?|head_dim)$|^(vocab|hidden|embedding|intermediate)_size$|^d_(model|kv|ff|inner)$"
    r"|^n_(embd|positions)$|^(hidden_)?dim$|_ffn_dim$|^max_position_embeddings$"
)
_SHARES = re.compile(r"dropout|pdrop|_drop$")
T = TypeVar("T")


def read_config(source: str, local: bool) -> PretrainedConfig:
    """The config of a folder or hub id; a number that can be none of a model's is an error."""
    if local:
        _require_files(Path(source))
    config: PretrainedConfig = opened(
        lambda: AutoConfig.from_pretrained(source, local_files_only=local, trust_remote_code=False),
        source,
        local,
    )
    _check_numbers(config, source)
    return config


def read_tokenizer(source: str, local: bool) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or hub id."""
    if local:
        _require_files(Path(source))
    found: PreTrainedTokenizerBase = opened(
        lambda: AutoTokenizer.from_pretrained(
            source, local_files_only=local, trust_remote_code=False
        ),
        source,
        local,
    )
    return found


def check_size(
    build: Callable[[PretrainedConfig], torch.nn.Module],
    config: PretrainedConfig,
    source: str,
    weights: Path | None,
) -> None:
    """Whether what a config describes can be built, fits the weights and this machine's memory.

    `weights` is the folder of its weight files; None where there are none to compare with.
    """
    with torch.device("meta"):
        net = opened(lambda: build(config), source, True)
    parameters = sum(each.numel() for each in net.parameters())
    buffers = sum(each.numel() for each in net.buffers())
    stored = numbers_stored(weights) if weights is not None else None
    if stored is not None and parameters > 2 * stored + SPARE:
        raise WorkbenchError(
            f"config.json describes a model of {parameters:,} parameters, and the weight files "
            f"hold {stored:,}.",
            where=source,
            remedy="Copy config.json and the weights from the same checkpoint.",
        )
    needed, there = 4 * (parameters + buffers), memory()
    if needed > there:
        raise WorkbenchError(
            f"config.json describes a model that needs {needed / 2**30:,.0f} GiB of memory; this "
            f"machine has {there / 2**30:,.0f}.",
            where=source,
            remedy="Check the sizes in config.json, or open it on a machine with more memory.",
        )


def memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def numbers_stored(folder: Path) -> int | None:
    """How many numbers the safetensors files of a folder hold, by their headers; None of none."""
    files = sorted(folder.glob("*.safetensors"))
    return sum(_stored(path) for path in files) if files else None


def opened(read: Callable[[], T], source: str, local: bool) -> T:
    """Run one of transformers' readers; whatever goes wrong becomes a `WorkbenchError`."""
    try:
        return read()
    except WorkbenchError:
        raise
    except Exception as error:
        raise _unreadable(error, source, local) from None


def _unreadable(error: Exception, source: str, local: bool) -> WorkbenchError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = (" ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1]))[:300]
    if "trust_remote_code" in str(error):
        return WorkbenchError(
            "the checkpoint needs code of its own, and Workbench never runs a checkpoint's code.",
            where=source,
            remedy="Use a checkpoint of an architecture that transformers has, without auto_map.",
        )
    if local:
        remedy = "The folder needs config.json, model.safetensors and the tokenizer's files."
    else:
        remedy = (
            "Is the name right, and the network there? Offline, copy the model's files into a "
            "folder and name that, or put them into the cache with: "
            f"huggingface-cli download {source}"
        )
    reason = reason or type(error).__name__
    return WorkbenchError(f"cannot be loaded: {reason}", where=source, remedy=remedy)


def _require_files(folder: Path) -> None:
    """A pipe or device among the files would be waited for without end."""
    for path in folder.iterdir():
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise WorkbenchError(
                "this is a pipe, socket or device, not a file.",
                where=str(path),
                remedy="Put the checkpoint's own files into the folder, and nothing else.",
            )


def _check_numbers(config: PretrainedConfig, source: str) -> None:
    named = config.architectures
    if named is not None and not (
        isinstance(named, list) and all(isinstance(name, str) for name in named)
    ):
        raise _bad_value("architectures", named, "a list of names", source)
    for name, value in config.to_dict().items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not math.isfinite(value):
            raise _bad_value(name, value, "a finite number", source)
        if _SHARES.search(name) and not 0 <= value <= 1:
            raise _bad_value(name, value, "between 0 and 1", source)
        if _MODULES.search(name) and not 0 < value <= MODULES:
            raise _bad_value(name, value, f"between 1 and {MODULES:,}", source)
        if _SIZES.search(name) and not 0 < value <= LARGEST:
            raise _bad_value(name, value, f"between 1 and {LARGEST:,}", source)


def _bad_value(name: str, value: object, wanted: str, source: str) -> WorkbenchError:
    return WorkbenchError(
        f"{name} is {value!r:.80}; it must be {wanted}.",
        where=f"{source}/config.json",
        remedy="Restore config.json from the checkpoint it belongs to.",
    )


def _stored(path: Path) -> int:
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise WorkbenchError(
            f"cannot be loaded: it is no safetensors file ({type(error).__name__}).",
            where=str(path),
            remedy="Copy the file again from where the checkpoint came from.",
        ) from None
