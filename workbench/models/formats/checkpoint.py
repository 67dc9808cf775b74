"""A checkpoint's config and tokenizer, read safely with transformers and with checked numbers.

    config = read_config(folder)              imports no module of the checkpoint
    tokenizer = read_tokenizer(folder)
    check_size(build, config, folder)         before any weight is allocated

A config may come from an untrusted source, so its numbers are checked here and nowhere else. First
each number is checked as it stands in the file, before transformers allocates lists of that length;
then again with the family's defaults. Finally the model is built on the meta device, and its size
is compared with the weight files and the machine's memory. Costs: reading the headers of the weight
files and a build without memory, tens of milliseconds.
"""

import math
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.nn import init
from torch.nn.modules.module import register_module_module_registration_hook
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase
from transformers.utils import logging

from workbench.core.errors import WorkbenchError
from workbench.core.files import read_json, reason_of, require_regular
from workbench.core.machine import is_out_of_memory, machine_memory
from workbench.models.tokenization import require_fast

MODULES = 1_000  # maximum number of layers, groups or experts; more is an error or an attack
PARTS = 200_000  # maximum number of modules that a build may create
LABELS = 1_000_000  # maximum number of label names that transformers generates
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
CONFIG = 16 << 20  # maximum number of bytes of a config.json
WIDEST = 2**20  # maximum of any width; today's widest models have a quarter of it
LONGEST = 2**26  # maximum vocabulary size or number of positions; transformers makes tables of them
SPARE = 1_000_000  # parameters that a config may have beyond its weight files (a new head)
_PRECISIONS = {"F32": "fp32", "BF16": "bf16", "F16": "fp16"}  # safetensors' names
_FP32 = torch.finfo(torch.float32).max
_MODULES = re.compile(r"(^|_)(layers?|groups|experts|blocks|depths?)$|^inner_group_num$")
_WIDTHS = re.compile(
    r"(^|_)(heads?|head_dim)$|^(hidden|embedding|intermediate)_size$|^d_(model|kv|ff|inner|head)$"
    r"|^n_embd$|^(hidden_)?dim$|_ffn_dim$"
)
_LENGTHS = re.compile(r"^vocab_size$|^n_(positions|ctx)$|^max_position_embeddings$")
_SHARES = re.compile(r"dropout|pdrop|_drop$")
WHOLE = (
    "The folder needs config.json, model.safetensors and the tokenizer files, all from the same "
    "checkpoint."
)
IMPORTING = 30.0  # seconds to wait for a class whose module another thread imports
T = TypeVar("T")
N = TypeVar("N", bound=torch.nn.Module)


def read_config(source: str, **gguf: str) -> PretrainedConfig:
    """The config of a folder; raises if a number is outside any model's range.

    `gguf_file="…"` names a GGUF file in the folder, whose header has the config.
    """
    require_regular_files(Path(source))
    raw: Mapping[str, Any] = opened(
        lambda: PretrainedConfig.get_config_dict(source, local_files_only=True, **gguf)[0], source
    )
    _check_numbers(raw, source)
    config: PretrainedConfig = opened(
        lambda: AutoConfig.from_pretrained(
            source, local_files_only=True, trust_remote_code=False, **gguf
        ),
        source,
    )
    _check_numbers(config.to_dict(), source)
    _check_start(config, source)
    if getattr(config, "chunk_size_feed_forward", 0):
        config.chunk_size_feed_forward = 0  # only saves memory, and fails for some lengths
    return config


def read_tokenizer(source: str, **gguf: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder, or of a GGUF file in it."""
    require_regular_files(Path(source))

    def read() -> PreTrainedTokenizerBase:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source, local_files_only=True, trust_remote_code=False, **gguf
        )
        require_fast(tokenizer)
        # would recurse without end if the unknown piece is missing
        tokenizer.convert_tokens_to_ids("")
        return tokenizer

    try:
        tokenizer = opened(read, source)
    except WorkbenchError:
        _require_objects(Path(source))  # this error names the file; the library's does not
        raise
    longest = tokenizer.model_max_length
    if not isinstance(longest, int | float) or not 1 <= longest < math.inf:
        raise _bad_value("model_max_length", longest, "1 or more", source, "tokenizer_config.json")
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest > LONGEST:  # saving the tokenizer allocates a table of this size
        expected = f"{LONGEST:,} or less"
        raise _bad_value("a piece id", largest, expected, source, "tokenizer.json")
    return tokenizer


def check_size(
    build: Callable[[PretrainedConfig], N],
    config: PretrainedConfig,
    source: str,
    weights: Path | None,
    width: int = 4,
) -> N:
    """The model of a config on `meta`; raises if it does not fit its weights or the memory.

    `weights` is the folder of the weight files; None where there are none to compare with. `width`
    is the number of bytes per parameter in memory.
    """
    with torch.device("meta"), _few_modules(source), _Undrawn():
        net = opened(lambda: build(config), source)
    parameters = sum(each.numel() for each in net.parameters())
    buffers = sum(each.numel() for each in net.buffers())
    stored = numbers_stored(weights) if weights is not None else None
    if stored is not None and parameters > 2 * stored + SPARE:
        raise WorkbenchError(
            f"config.json describes a model of {parameters:,} parameters, but the weight files "
            f"hold {stored:,}.",
            code="file-format",
            where=source,
            remedy="Copy config.json and the weights from the same checkpoint.",
        )
    needed, available = width * parameters + 4 * buffers, machine_memory()
    if needed > available:
        raise WorkbenchError(
            f"config.json describes a model that needs {needed / 2**30:,.0f} GiB of memory; this "
            f"machine has {available / 2**30:,.0f} GiB.",
            code="out-of-memory",
            where=source,
            remedy="Check the sizes in config.json, or use a machine with more memory.",
        )
    return net


class _Undrawn(TorchFunctionMode):
    """Draw no initial weights on `meta`: there, that takes half of a build and changes nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is init.normal_ and kwargs["tensor"].is_meta and kwargs["std"] >= 0:
            return kwargs["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def _few_modules(source: str) -> Iterator[None]:
    """Stop a build that creates too many modules, whatever config number causes it."""
    made = 0

    def count(*registered: object) -> None:
        nonlocal made
        made += 1
        if made > PARTS:
            raise WorkbenchError(
                f"config.json describes a model of more than {PARTS:,} modules.",
                code="file-format",
                where=source,
                remedy="Restore config.json from its original checkpoint.",
            )

    hook = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def numbers_stored(folder: Path) -> int | None:
    """How many numbers a folder's safetensors files hold, by their headers; None without files."""
    files = sorted(folder.glob("*.safetensors"))
    return (
        sum(math.prod(s) for path in files for s in _headers(path, lambda each: each.get_shape()))
        if files
        else None
    )


def precisions_stored(folder: Path) -> set[str]:
    """The precisions stored in a folder's safetensors files, by their headers."""
    paths = sorted(folder.glob("*.safetensors"))
    kinds = {kind for path in paths for kind in _headers(path, lambda each: each.get_dtype())}
    floats = {kind for kind in kinds if kind.startswith(("F", "BF"))}
    return {_PRECISIONS.get(kind, kind) for kind in floats}


def opened(read: Callable[[], T], source: str, remedy: str = WHOLE) -> T:
    """Run one of transformers' readers; any exception becomes a `WorkbenchError`."""
    try:
        return read()
    except WorkbenchError:
        raise
    except Exception as error:
        raise _unreadable(error, source, remedy) from None


def _unreadable(error: Exception, source: str, remedy: str) -> WorkbenchError:
    if is_out_of_memory(error):
        return WorkbenchError(
            "there is not enough memory to open the model.",
            code="out-of-memory",
            where=source,
            remedy="Check the sizes in config.json, or use a machine with more memory.",
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = (" ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1]))[:300]
    if "trust_remote_code" in str(error):
        return WorkbenchError(
            "the checkpoint needs its own Python code, and Workbench never runs such code.",
            code="model-unsupported",
            where=source,
            remedy="Use a checkpoint of an architecture in transformers, without auto_map.",
        )
    if "ignore_mismatched_sizes" in str(error):
        return WorkbenchError(
            "the sizes in config.json are not those of the weights.",
            code="file-format",
            where=source,
            remedy="Copy config.json and the weights from the same checkpoint.",
        )
    reason = reason or type(error).__name__
    return WorkbenchError(
        f"its files cannot be loaded: {reason}",
        code="file-unreadable",
        where=source,
        remedy=remedy,
    )


def require_regular_files(folder: Path) -> None:
    """Raise on a pipe, socket or device among the files: reading it would never end."""
    for path in (*folder.iterdir(), *folder.glob("additional_chat_templates/*")):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise WorkbenchError(
                "this is a pipe, socket or device, not a regular file.",
                code="unsafe-path",
                where=str(path),
                remedy="Keep only the checkpoint's regular files in the folder.",
            )
    for index in folder.glob("*.index.json"):
        _require_same_folder(index)
    config = folder / "config.json"
    if config.is_file() and (size := config.stat().st_size) > CONFIG:
        raise WorkbenchError(
            f"config.json has {size:,} bytes; the maximum is {CONFIG:,}.",
            code="file-format",
            where=str(config),
            remedy="Restore config.json from its original checkpoint.",
        )


def _require_objects(folder: Path) -> None:
    """Raise if a tokenizer file is not a JSON object."""
    for name in TOKENIZER:
        path = folder / name
        if not path.is_file():
            continue
        try:
            parsed = read_json(path)
            if isinstance(parsed, dict):
                continue
            reason = f"it is a JSON {type(parsed).__name__}, not an object"
        except (OSError, ValueError) as error:
            reason = reason_of(error)
        raise WorkbenchError(
            f"{name} cannot be read: {reason}.",
            code="file-format",
            where=str(path),
            remedy=f"Copy {name} again from the original checkpoint.",
        ) from None


def _require_same_folder(index: Path) -> None:
    """Raise if the weight index names a file outside its own folder."""
    try:
        files = read_json(index)["weight_map"].values()
        outside = [name for name in files if not isinstance(name, str) or Path(name).name != name]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise WorkbenchError(
            f"this index of weight files cannot be read: {reason_of(error)}.",
            code="file-format",
            where=str(index),
            remedy="Copy the index again from the original checkpoint.",
        ) from None
    if outside:
        raise WorkbenchError(
            f"the index names a weight file outside its folder: {outside[0]!r:.80}.",
            code="unsafe-path",
            where=str(index),
            remedy="Put all weight files of the checkpoint into one folder, without subfolders.",
        )


def _check_numbers(fields: Mapping[str, Any], source: str) -> None:
    """Raise if a number of a config is outside its range."""
    architectures = fields.get("architectures")
    if architectures is not None and not (
        isinstance(architectures, list) and all(isinstance(name, str) for name in architectures)
    ):
        raise _bad_value("architectures", architectures, "a list of names", source)
    for name, value in _numbers(fields):
        if not math.isfinite(value):
            raise _bad_value(name, value, "a finite number", source)
        if _SHARES.search(name) and not 0 <= value <= 1:
            raise _bad_value(name, value, "between 0 and 1", source)
        if _MODULES.search(name) and not 0 < value <= MODULES:
            raise _bad_value(name, value, f"between 1 and {MODULES:,}", source)
        if _WIDTHS.search(name) and not 0 < value <= WIDEST:
            raise _bad_value(name, value, f"between 1 and {WIDEST:,}", source)
        if _LENGTHS.search(name) and not 0 < value <= LONGEST:
            raise _bad_value(name, value, f"between 1 and {LONGEST:,}", source)
        if name == "num_labels" and not 0 <= value <= LABELS:
            raise _bad_value(name, value, f"between 0 and {LABELS:,}", source)
        if isinstance(value, float) and abs(value) > _FP32:
            raise _bad_value(name, value, "a number that fp32 can hold", source)


def _numbers(fields: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """Every number of a config and of its nested configs, by name."""
    for name, value in fields.items():
        if name == "quantization_config":  # sizes of blocks, and -1 for a last dimension
            continue
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(name), value


def _check_start(config: PretrainedConfig, source: str) -> None:
    """Raise if the decoder's start token is not in its vocabulary."""
    start = getattr(config, "decoder_start_token_id", None)
    if not config.is_encoder_decoder or start is None:
        return
    if not isinstance(start, int) or not 0 <= start < config.vocab_size:
        expected = f"between 0 and {config.vocab_size - 1:,}"
        raise _bad_value("decoder_start_token_id", start, expected, source)


def _bad_value(
    name: str, value: object, expected: str, source: str, file: str = "config.json"
) -> WorkbenchError:
    return WorkbenchError(
        f"{name} is {value!r:.80}; it must be {expected}.",
        code="file-format",
        where=f"{source}/{file}",
        remedy=f"Restore {file} from its original checkpoint.",
    )


def _headers(path: Path, read: Callable[[Any], T]) -> list[T]:
    """One value per tensor, read from the header of a safetensors file."""
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            return [read(file.get_slice(name)) for name in file.keys()]  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise WorkbenchError(
            f"this is not a safetensors file ({type(error).__name__}).",
            code="file-format",
            where=str(path),
            remedy="Copy the file again from the original checkpoint.",
        ) from None


def class_of(name: str) -> Any:
    """The class of transformers with this name; None if there is none.

    While another thread imports its module, transformers may not find a class that it has: without
    another look, the model would be opened without its head.
    """
    until = time.monotonic() + IMPORTING
    while (found := getattr(transformers, name, None)) is None and name in dir(transformers):
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return found


def in_half_precision(source: Path, folder: Path, left_out: Collection[str] = ()) -> Path:
    """Copy a model folder, with its float32 weights in half precision."""
    folder.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.name in left_out:
            continue
        if path.suffix != ".safetensors":
            shutil.copyfile(require_regular(path), folder / path.name)
            continue
        with safe_open(require_regular(path), framework="pt") as file:
            metadata = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        halves = {
            name: tensor.half() if tensor.dtype == torch.float32 else tensor
            for name, tensor in tensors.items()
        }
        save_file(halves, folder / path.name, metadata)
    return folder


# --- silence while transformers reads and writes --------------------------------------------------
#
# Progress bars and load reports are hidden; missing weights are reported where a model is opened.
# Costs: nothing.


@contextmanager
def silenced() -> Iterator[None]:
    """Show errors of transformers only, without progress bars."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
