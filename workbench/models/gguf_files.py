"""Checks a GGUF file (of llama.cpp) before transformers reads it, and says how it is quantised.

A file may come from an untrusted source: transformers' reader checks neither its length nor its
architecture. `loading` opens a checked file; transformers rebuilds the config and the tokenizer
from the header, and dequantises the weights. Costs: reading the header.
"""

from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig

from workbench.core.errors import WorkbenchError
from workbench.core.files import open_regular

MAGIC = b"GGUF"
NEEDED = ("gguf", "accelerate")  # packages of the extra
FULL = ("F64", "F32", "F16", "BF16")  # types of weights that are not quantised


def quantisation(path: Path) -> str:
    """Return the types of a file's matrices, such as `Q4_K, Q6_K`; raise if it cannot be read."""
    _require_packages(path)
    with open_regular(path) as file:
        if file.read(len(MAGIC)) != MAGIC:
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
        types = _types(reader.tensors)
    except Exception as error:  # the reader fails in many ways
        raise WorkbenchError(
            "the file is damaged or cut off.",
            code="file-format",
            where=str(path),
            remedy="Download it again, and compare its size with that of the original.",
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
    return types


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


def _types(tensors: Iterable[Any]) -> str:
    """The types of the matrices by their share of the weights; vectors are never quantised."""
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.data.size == 0:
            raise ValueError(f"{tensor.name} is empty")
        if len(tensor.shape) > 1:
            sizes[tensor.tensor_type.name] += int(tensor.n_elements)
    if not sizes:
        raise ValueError("there are no weights")
    return ", ".join(name for name, _ in sizes.most_common())


def _architectures() -> frozenset[str]:
    """Names of architectures that transformers reads, as they stand in files."""
    from transformers.modeling_gguf_pytorch_utils import GGUF_SUPPORTED_ARCHITECTURES

    return frozenset({name.replace("_", "") for name in GGUF_SUPPORTED_ARCHITECTURES}).union(
        GGUF_SUPPORTED_ARCHITECTURES, ("t5encoder",)
    )


def _require_packages(path: Path) -> None:
    """Raise if a package that reads GGUF files is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise WorkbenchError(
            f"reading a GGUF file needs {' and '.join(missing)}.",
            code="package-missing",
            where=str(path),
            remedy='Install the extra: pip install "workbench[gguf]".',
        )
