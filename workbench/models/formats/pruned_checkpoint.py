"""A pruned model on disk: its weights, and `heads.json` with the heads that it kept.

`wb.load` opens such a folder like any other: it builds the model of the config, removes the same
heads, and reads the weights. If every layer keeps the same number of heads and the config has a
field for the head width (`head_dim`: Llama and similar models), the config describes the pruned
model, and transformers' `from_pretrained` opens the folder too. Otherwise `from_pretrained` raises
an error about shapes; it never loads a wrong model. Costs: reading the weights' bytes twice,
because the manifest holds their hash.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from workbench.core.errors import WorkbenchError
from workbench.core.files import open_regular, read_json, require_regular, write_atomically
from workbench.models.head_removal import cut
from workbench.models.net_parts import probe
from workbench.models.output_heads.lm_heads import placed
from workbench.models.transformer import T, Transformer

MANIFEST = "heads.json"
_VERSION = 1
_REMEDY = "Save the model again, or copy heads.json and the weights from the same folder."


def save(model: Transformer, folder: Path) -> None:
    """Write a model, its tokenizer and, last, the manifest of its heads."""
    folder.mkdir(parents=True, exist_ok=True)
    net: Any = model.net
    plain = plain_config(model)
    config = net.config
    try:
        if plain is not None:
            net.config = plain
        net.save_pretrained(folder)
    finally:
        net.config = config
    model.tokenizer.save_pretrained(folder)
    sites = [
        {
            "stack": site.stack,
            "kind": site.kind,
            "layer": site.layer,
            "kept": list(model.kept[site.index]),
            "of": model.whole[site.index],
        }
        for site in model.sites
    ]
    content = {
        "version": _VERSION,
        "plain": plain is not None,
        "sites": sites,
        "check": _hash(sites, folder),
    }
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1) + "\n")


def manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None without one."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        content = read_json(path)
        _check(content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkbenchError(
            f"the manifest of heads cannot be read: {error}.",
            code="file-format",
            where=str(path),
            remedy=_REMEDY,
        ) from None
    return content  # type: ignore[no-any-return]


def _check(content: Any) -> None:
    """Raise if the manifest's content is not valid."""
    if content["version"] != _VERSION:
        raise ValueError(f"its version is {content['version']!r}, not {_VERSION}")
    if not isinstance(content["plain"], bool) or not isinstance(content["check"], str):
        raise ValueError("it is incomplete")
    for site in content["sites"]:
        if missing := {"stack", "kind", "layer", "kept", "of"} - set(site):
            raise ValueError(f"a site has no {', '.join(sorted(missing))}")
        kept, n_heads = site["kept"], site["of"]
        if not isinstance(n_heads, int) or kept != sorted(set(kept)):
            raise ValueError(f"heads are repeated or not in order: {kept}")
        if not all(isinstance(head, int) and 0 <= head < n_heads for head in kept):
            raise ValueError(f"it keeps the heads {kept} of {n_heads}")


def opened(
    folder: Path,
    manifest: Mapping[str, Any],
    config: PretrainedConfig,
    build: Callable[[PretrainedConfig], T],
    is_random: bool,
) -> T:
    """Build the model of the config, remove the same heads, and read the remaining weights."""
    model = build(config)
    if not manifest["plain"]:
        _require_same_sites(model, manifest, folder)
        model = cut(model, {n: site["kept"] for n, site in enumerate(manifest["sites"])})
    if not is_random:
        _read(model.net, folder)
    if manifest["check"] != _hash(manifest["sites"], folder):
        raise _misfit(folder, "it was written with other weights")
    return _with_original_indices(model, manifest, folder)


def _hash(sites: Any, folder: Path) -> str:
    """A hash of the kept heads and of the weight files."""
    digest = hashlib.sha256(json.dumps(sites, sort_keys=True).encode())
    for path in sorted(folder.glob("*.safetensors")):
        with open_regular(path) as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _with_original_indices(model: T, manifest: Mapping[str, Any], folder: Path) -> T:
    """Set the heads' indices in the original model."""
    kept = {index: tuple(site["kept"]) for index, site in enumerate(manifest["sites"])}
    if {site.index: site.heads for site in model.sites} != {n: len(k) for n, k in kept.items()}:
        raise _misfit(folder, "the weights have other heads than the manifest")
    model.kept = kept
    model.whole = {index: site["of"] for index, site in enumerate(manifest["sites"])}
    return model


def _require_same_sites(model: Transformer, manifest: Mapping[str, Any], folder: Path) -> None:
    actual = [(site.stack, site.kind, site.layer, site.heads) for site in model.sites]
    expected = [(s["stack"], s["kind"], s["layer"], s["of"]) for s in manifest["sites"]]
    if actual != expected:
        raise _misfit(folder, "it describes other layers or heads than config.json")


def _read(net: PreTrainedModel, folder: Path) -> None:
    """Read every weight from the folder's safetensors."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise _misfit(folder, "there are no safetensors weights")
    try:
        state = {
            name: tensor
            for file in files
            for name, tensor in load_file(require_regular(file)).items()
        }
    except (SafetensorError, OSError) as error:
        raise _misfit(folder, f"the weights cannot be read: {error}") from None
    fill(net, state, partial(_misfit, folder))


def fill(
    net: PreTrainedModel, state: Mapping[str, Tensor], misfit: Callable[[str], WorkbenchError]
) -> None:
    """Give a net all of its weights, in place; a tied weight is stored once."""
    net.tie_weights()
    current = net.state_dict()
    for name, tensor in state.items():
        if name in current and current[name].shape != tensor.shape:
            raise misfit(
                f"{name} has shape {list(tensor.shape)} in the weights, but "
                f"{list(current[name].shape)} by the manifest",
            )
    missing, unexpected = net.load_state_dict(state, strict=False)
    pointers = {current[name].data_ptr() for name in state if name in current}
    not_read = [
        name
        for name in missing
        if current[name].numel() and current[name].data_ptr() not in pointers
    ]
    if not_read or unexpected:
        names = ", ".join([*not_read, *unexpected][:3])
        raise misfit(f"weights are missing or unexpected: {names}")


def _misfit(folder: Path, reason: str) -> WorkbenchError:
    return WorkbenchError(
        f"the manifest of heads does not fit: {reason}.",
        code="file-format",
        where=str(folder / MANIFEST),
        remedy=_REMEDY,
    )


def plain_config(model: Transformer) -> PretrainedConfig | None:
    """A config with the remaining number of heads, if it exists and builds the same model."""
    head_counts = {site.heads for site in model.sites}
    original_counts = {*model.whole.values()}
    if len(head_counts) != 1 or len(original_counts) != 1 or 0 in head_counts:
        return None
    before, now = original_counts.pop(), head_counts.pop()
    config: Any = copy.deepcopy(model.net.config)
    if before == now:
        return config
    if not hasattr(config, "head_dim"):
        return None
    config.head_dim = config.head_dim or config.hidden_size // before
    config.num_attention_heads = now
    if hasattr(config, "num_key_value_heads"):
        config.num_key_value_heads = config.num_key_value_heads * now // before
    return config if _builds_same_model(config, model) else None


def _builds_same_model(config: PretrainedConfig, model: Transformer) -> bool:
    """Whether transformers builds the same model from the config."""
    try:
        net: Any = type(model.net)(config)
        net.load_state_dict(model.net.state_dict())
    except (RuntimeError, ValueError, TypeError):
        return False
    twin = type(model)(placed(net, model.device, model.net.dtype), model.tokenizer, "")
    text = probe(model.net)
    with torch.no_grad():
        one, other = (each.forward(text, hidden=False).final for each in (model, twin))
    return all(torch.allclose(one[stack], other[stack], atol=1e-5) for stack in one)
