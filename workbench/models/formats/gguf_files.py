"""Checks a GGUF file (of llama.cpp) before transformers reads it, and says how it is quantised.

A file may come from an untrusted source: transformers' reader checks neither its length nor its
architecture. `loading` opens a checked file; transformers rebuilds the config and the tokenizer
from the header, and dequantises the weights. Costs: reading the header.
"""

import copy
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from workbench.core.errors import WorkbenchError, require_extra
from workbench.core.files import open_regular
from workbench.models.formats.checkpoint import WHOLE

MAGIC = b"GGUF"
NEEDED = ("gguf", "accelerate")  # packages of the extra
FULL = ("F64", "F32", "F16", "BF16")  # types of weights that are not quantised
FACTORS = "rope_freqs.weight"  # divisors of the frequencies of Llama 3; no weights of the model
_NO_ARCHITECTURES = {"general", "tokenizer"}  # other entries of transformers' table
_AGAIN = "Download it again, and compare its size with that of the original."
_WHOLE = "Convert the model to GGUF again, or open its safetensors."


@dataclass(frozen=True)
class Header:
    """What Workbench needs to know of a file before transformers reads it."""

    types: str  # of the matrices, such as `Q4_K, Q6_K`, by their share of the weights
    n_weights: int
    n_output: int  # weights of the output projection, which some architectures never read
    factors: np.ndarray | None  # [width of a head / 2]; None if the file has none


def header(path: Path) -> Header:
    """Return what the header of a file says; raise if it cannot be read."""
    require_extra("gguf", NEEDED, "Reading a GGUF file", str(path))
    try:
        with open_regular(path) as file:
            begin = file.read(len(MAGIC))
    except OSError as error:
        raise WorkbenchError(
            "this file cannot be read.",
            code="file-unreadable",
            where=str(path),
            remedy="Name a regular file that you may read.",
        ) from error
    if begin != MAGIC:
        raise WorkbenchError(
            "this is not a GGUF file.",
            code="file-format",
            where=str(path),
            remedy="A GGUF file begins with the letters GGUF. Download it again.",
        )
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        field = reader.get_field("general.architecture")
        architecture = str(field.contents()) if field is not None else ""
        found = _header(reader.tensors)
    except Exception as error:  # the reader fails in many ways
        raise WorkbenchError(
            "the file is damaged or cut off.",
            code="file-format",
            where=str(path),
            remedy=_AGAIN,
        ) from error
    supported = _architectures()
    if architecture not in supported:
        raise WorkbenchError(
            f"transformers cannot read the architecture {architecture!r} from GGUF.",
            code="model-unsupported",
            where=str(path),
            remedy=f"It reads {', '.join(sorted(supported))}. Of other models, open the "
            "safetensors.",
        )
    return found


@contextmanager
def alone(file: Path) -> Iterator[tuple[str, str]]:
    """Yield a folder that has only this file, and its name there; errors name the file itself.

    transformers prefers a tokenizer or an adapter next to the file to what the file holds.
    """
    with tempfile.TemporaryDirectory() as folder:
        name = "model.gguf"
        (Path(folder) / name).symlink_to(file.resolve())
        try:
            yield folder, name
        except WorkbenchError as error:
            raise WorkbenchError(
                error.what.replace("config.json", "the header"),
                code=error.code,
                where=error.where if error.code == "out-of-memory" else str(file),
                remedy=_WHOLE if error.remedy == WHOLE else error.remedy,
            ) from None


def in_words(types: str) -> str:
    """Return what the weights were in the file, for the limits of a model."""
    is_full = all(each in FULL for each in types.split(", "))
    return f"weights from GGUF ({types}{'' if is_full else ', dequantised'})"


def add_class(config: PretrainedConfig) -> None:
    """Add the class of the model with its language-model head, which a GGUF file does not name."""
    from transformers.models.auto import modeling_auto

    for classes in (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    ):
        if not config.architectures and (name := classes.get(config.model_type)):
            config.architectures = [name]


def add_rope_scaling(config: PretrainedConfig, found: Header, file: Path) -> None:
    """Add the RoPE scaling of Llama 3, which transformers does not read from GGUF.

    The file holds only the divisors of the frequencies. They are those of Llama 3 with one free
    number, the largest; raises if they are any others.
    """
    if found.factors is None:
        return
    theta = float((config.rope_parameters or {}).get("rope_theta", 10_000.0))
    trial = copy.deepcopy(config)
    trial.rope_parameters = {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": float(found.factors.max()),
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](trial, torch.device("cpu"))
    n_pairs = len(scaled)
    plain = theta ** -(torch.arange(n_pairs, dtype=torch.float64) / n_pairs)
    divisors = (plain / scaled.double()).numpy()
    if divisors.shape != found.factors.shape or not np.allclose(divisors, found.factors, rtol=1e-3):
        raise WorkbenchError(
            "its RoPE scaling is not that of Llama 3, and transformers reads no other from GGUF.",
            code="model-unsupported",
            where=str(file),
            remedy="Open the safetensors of this model.",
        )
    config.rope_parameters = trial.rope_parameters


def require_same_weights(
    net: PreTrainedModel, missing: Sequence[str], found: Header, file: Path
) -> None:
    """Raise if the file lacks weights, which would be random, or has more than the model reads."""
    if missing:
        raise WorkbenchError(
            f"the file lacks {len(missing)} weights of the model, such as {min(missing)}.",
            code="file-format",
            where=str(file),
            remedy="If the model is split into several files, merge them with llama-gguf-split "
            "--merge. Otherwise convert it to GGUF again.",
        )
    read = {part.data_ptr(): part.numel() for part in net.state_dict().values()}
    extra = found.n_weights - sum(read.values())
    if extra > 0 and not (net.config.tie_word_embeddings and extra == found.n_output):
        raise WorkbenchError(
            f"the file holds {extra:,} numbers that transformers would ignore.",
            code="model-unsupported",
            where=str(file),
            remedy="Open the safetensors of this model.",
        )


def as_dense(net: PreTrainedModel, file: Path) -> PreTrainedModel:
    """Remove the marks of a quantised model, whose weights are now like any others, and name it.

    Otherwise the file's name would be part of the content hash, and the model could not be saved.
    """
    for name in ("hf_quantizer", "is_quantized", "quantization_method"):
        vars(net).pop(name, None)
    if hasattr(net.config, "quantization_config"):
        del net.config.quantization_config
    net.name_or_path = net.config.name_or_path = str(file)
    return net


def reading_options() -> dict[str, Any]:
    """Options with which transformers dequantises all weights; without, some stay packed."""
    import transformers

    if kind := getattr(transformers, "GgufConfig", None):  # older versions always dequantise
        return {"quantization_config": kind(dequantize=True)}
    return {}


def _header(tensors: Sequence[Any]) -> Header:
    """What the tensors of a file are; vectors are never quantised."""
    sizes: Counter[str] = Counter()
    total, output, factors = 0, 0, None
    for tensor in tensors:
        if tensor.data.size == 0:
            raise ValueError(f"{tensor.name} is empty")
        if tensor.name == FACTORS:
            factors = np.array(tensor.data, dtype=np.float64)
            continue
        total += int(tensor.n_elements)
        if tensor.name == "output.weight":
            output = int(tensor.n_elements)
        if len(tensor.shape) > 1:
            sizes[tensor.tensor_type.name] += int(tensor.n_elements)
    if not sizes:
        raise ValueError("there are no weights")
    types = ", ".join(name for name, _ in sizes.most_common())
    return Header(types, total, output, factors)


def _architectures() -> frozenset[str]:
    """Names of architectures that transformers reads, as they stand in files."""
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    names = {*GGUF_SUPPORTED_ARCHITECTURES, "t5encoder"} - _NO_ARCHITECTURES
    return frozenset(names | {name.replace("_", "") for name in names})
