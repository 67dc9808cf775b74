"""A checkpoint's config and tokenizer, read with transformers: no code of its own, sound numbers.

    config = read_config(folder)              no module of the checkpoint is imported
    tokenizer = read_tokenizer(folder)
    check_size(build, config, folder)         before any weight has memory

A config is text that anybody may have written, so its numbers are checked here and nowhere else:
each for itself as it stands in the file, before transformers makes lists as long as they say; again
with the defaults of its family; then together, by building the model on the meta device, against
the numbers in the weight files and the machine's memory. Costs the headers of the weight files and
a build without memory: tens of milliseconds.
"""

import math
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.nn.modules.module import register_module_module_registration_hook
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.core.files import parsed_json, read_regular, reason_of, require_regular
from workbench.core.machine import machine_memory, ran_out
from workbench.models.tokenization import require_fast

MODULES = 1_000  # layers, groups or experts; more are a mistake or an attack
PARTS = 200_000  # modules in modules that a build may make, whatever its numbers are called
LABELS = 1_000_000  # names that transformers makes up where a config has none
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
CONFIG = 16 << 20  # bytes of a config.json
WIDEST = 2**20  # of any width; the widest of today's models have a quarter of it
LONGEST = 2**26  # of a vocabulary, or of positions; some parts of transformers make tables of them
SPARE = 1_000_000  # parameters that a config may have beyond its weights' (a new head)
_PRECISIONS = {"F32": "fp32", "BF16": "bf16", "F16": "fp16"}  # in the words of safetensors
_FP32 = torch.finfo(torch.float32).max
_MODULES = re.compile(r"(^|_)(layers?|groups|experts|blocks|depths?)$|^inner_group_num$")
_WIDTHS = re.compile(
    r"(^|_)(heads?|head_dim)$|^(hidden|embedding|intermediate)_size$|^d_(model|kv|ff|inner|head)$"
    r"|^n_embd$|^(hidden_)?dim$|_ffn_dim$"
)
_LENGTHS = re.compile(r"^vocab_size$|^n_(positions|ctx)$|^max_position_embeddings$")
_SHARES = re.compile(r"dropout|pdrop|_drop$")
WHOLE = (
    "The folder needs config.json, model.safetensors and the tokenizer's files, all of one "
    "checkpoint."
)
T = TypeVar("T")
N = TypeVar("N", bound=torch.nn.Module)


def read_config(source: str) -> PretrainedConfig:
    """The config of a folder; a number that can be none of a model's is an error."""
    _require_files(Path(source))
    written: Mapping[str, Any] = opened(
        lambda: PretrainedConfig.get_config_dict(source, local_files_only=True)[0], source
    )
    _check_numbers(written, source)
    config: PretrainedConfig = opened(
        lambda: AutoConfig.from_pretrained(source, local_files_only=True, trust_remote_code=False),
        source,
    )
    _check_numbers(config.to_dict(), source)
    _check_start(config, source)
    if getattr(config, "chunk_size_feed_forward", 0):
        config.chunk_size_feed_forward = 0  # saves memory only, and fails where lengths do not fit
    return config


def read_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder."""
    _require_files(Path(source))

    def whole() -> PreTrainedTokenizerBase:
        found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source, local_files_only=True, trust_remote_code=False
        )
        require_fast(found)
        found.convert_tokens_to_ids("")  # looks for an unknown piece, without end if it is unknown
        return found

    try:
        found = opened(whole, source)
    except WorkbenchError:
        _require_objects(Path(source))  # else the library's words, which name no file
        raise
    longest = found.model_max_length
    if not isinstance(longest, int | float) or not 1 <= longest < math.inf:
        raise _bad_value("model_max_length", longest, "1 or more", source, "tokenizer_config.json")
    largest = max(found.get_vocab().values(), default=0)
    if largest > LONGEST:  # written down, it makes a table of so many
        told = f"{LONGEST:,} or less"
        raise _bad_value("the number of a piece", largest, told, source, "tokenizer.json")
    return found


def check_size(
    build: Callable[[PretrainedConfig], N],
    config: PretrainedConfig,
    source: str,
    weights: Path | None,
    width: int = 4,
) -> N:
    """What a config describes, on `meta`; it must fit the weights and this machine's memory.

    `weights` is the folder of its weight files; None where there are none to compare with. `width`
    is the bytes of a number as it will be held.
    """
    with torch.device("meta"), _few_modules(source):
        net = opened(lambda: build(config), source)
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
    needed, there = width * parameters + 4 * buffers, machine_memory()
    if needed > there:
        raise WorkbenchError(
            f"config.json describes a model that needs {needed / 2**30:,.0f} GiB of memory; this "
            f"machine has {there / 2**30:,.0f}.",
            where=source,
            remedy="Check the sizes in config.json, or open it on a machine with more memory.",
        )
    return net


@contextmanager
def _few_modules(source: str) -> Iterator[None]:
    """A build that makes modules without end is stopped, whatever number of its config asks it."""
    made = 0

    def count(*registered: object) -> None:
        nonlocal made
        made += 1
        if made > PARTS:
            raise WorkbenchError(
                f"config.json describes a model of more than {PARTS:,} modules.",
                where=source,
                remedy="Restore config.json from the checkpoint it belongs to.",
            )

    hook = register_module_module_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def numbers_stored(folder: Path) -> int | None:
    """How many numbers the safetensors files of a folder hold, by their headers; None of none."""
    files = sorted(folder.glob("*.safetensors"))
    return (
        sum(math.prod(s) for path in files for s in _headers(path, lambda each: each.get_shape()))
        if files
        else None
    )


def precisions_stored(folder: Path) -> set[str]:
    """The precisions of what the safetensors files of a folder hold, by their headers."""
    paths = sorted(folder.glob("*.safetensors"))
    found = {kind for path in paths for kind in _headers(path, lambda each: each.get_dtype())}
    floats = {kind for kind in found if kind.startswith(("F", "BF"))}
    return {_PRECISIONS.get(kind, kind) for kind in floats}


def opened(read: Callable[[], T], source: str, remedy: str = WHOLE) -> T:
    """Run one of transformers' readers; whatever goes wrong becomes a `WorkbenchError`."""
    try:
        return read()
    except WorkbenchError:
        raise
    except Exception as error:
        raise _unreadable(error, source, remedy) from None


def _unreadable(error: Exception, source: str, remedy: str) -> WorkbenchError:
    if ran_out(error):
        return WorkbenchError(
            "there is not enough memory to open it.",
            where=source,
            remedy="Check the sizes in config.json, or open it on a machine with more memory.",
        )
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = (" ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1]))[:300]
    if "trust_remote_code" in str(error):
        return WorkbenchError(
            "the checkpoint needs code of its own, and Workbench never runs a checkpoint's code.",
            where=source,
            remedy="Use a checkpoint of an architecture that transformers has, without auto_map.",
        )
    reason = reason or type(error).__name__
    return WorkbenchError(f"cannot be loaded: {reason}", where=source, remedy=remedy)


def _require_files(folder: Path) -> None:
    """A pipe or device among the files would be waited for without end."""
    for path in (*folder.iterdir(), *folder.glob("additional_chat_templates/*")):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise WorkbenchError(
                "this is a pipe, socket or device, not a file.",
                where=str(path),
                remedy="Put the checkpoint's own files into the folder, and nothing else.",
            )
    for index in folder.glob("*.index.json"):
        _require_beside(index)
    config = folder / "config.json"
    if config.is_file() and (size := config.stat().st_size) > CONFIG:
        raise WorkbenchError(
            f"it has {size:,} bytes; a config has {CONFIG:,} at most.",
            where=str(config),
            remedy="Restore config.json from the checkpoint it belongs to.",
        )


def _require_objects(folder: Path) -> None:
    """Each file of a tokenizer is a JSON object."""
    for name in TOKENIZER:
        path = folder / name
        if not path.is_file():
            continue
        try:
            found = parsed_json(read_regular(path))
            if isinstance(found, dict):
                continue
            said = f"it is a JSON {type(found).__name__}, not an object"
        except (OSError, ValueError) as error:
            said = reason_of(error)
        raise WorkbenchError(
            f"{name} cannot be read: {said}.",
            where=str(path),
            remedy=f"Copy {name} again from where the checkpoint came from.",
        ) from None


def _require_beside(index: Path) -> None:
    """The files that weights are read from lie beside the list of them, not anywhere else."""
    try:
        files = parsed_json(read_regular(index))["weight_map"].values()
        away = [name for name in files if not isinstance(name, str) or Path(name).name != name]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise WorkbenchError(
            f"cannot be read as a list of weight files: {reason_of(error)}.",
            where=str(index),
            remedy="Copy it again from where the checkpoint came from.",
        ) from None
    if away:
        raise WorkbenchError(
            f"it names a weight file that is not beside it: {away[0]!r:.80}.",
            where=str(index),
            remedy="Put the checkpoint's weight files into one folder, without folders in it.",
        )


def _check_numbers(fields: Mapping[str, Any], source: str) -> None:
    named = fields.get("architectures")
    if named is not None and not (
        isinstance(named, list) and all(isinstance(name, str) for name in named)
    ):
        raise _bad_value("architectures", named, "a list of names", source)
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
    """Every number of a config by its name, those of configs within it too."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(name), value


def _check_start(config: PretrainedConfig, source: str) -> None:
    """A decoder's first symbol is looked up in its table at every pass."""
    start = getattr(config, "decoder_start_token_id", None)
    if not config.is_encoder_decoder or start is None:
        return
    if not isinstance(start, int) or not 0 <= start < config.vocab_size:
        wanted = f"between 0 and {config.vocab_size - 1:,}"
        raise _bad_value("decoder_start_token_id", start, wanted, source)


def _bad_value(
    name: str, value: object, wanted: str, source: str, file: str = "config.json"
) -> WorkbenchError:
    return WorkbenchError(
        f"{name} is {value!r:.80}; it must be {wanted}.",
        where=f"{source}/{file}",
        remedy=f"Restore {file} from the checkpoint it belongs to.",
    )


def _headers(path: Path, told: Callable[[Any], T]) -> list[T]:
    """What the header of a safetensors file tells of each tensor."""
    try:
        with safe_open(require_regular(path), framework="pt") as file:
            return [told(file.get_slice(name)) for name in file.keys()]  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise WorkbenchError(
            f"cannot be loaded: it is no safetensors file ({type(error).__name__}).",
            where=str(path),
            remedy="Copy the file again from where the checkpoint came from.",
        ) from None


def in_half_precision(source: Path, folder: Path, left_out: Collection[str] = ()) -> Path:
    """A copy of a model's folder with its float32 weights in half precision."""
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
