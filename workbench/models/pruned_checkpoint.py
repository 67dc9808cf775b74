"""A model without some of its heads, on disk: its weights, and `heads.json`: which heads stayed.

`wb.load` opens such a folder as any other: it makes the model of its config, takes out the same
heads, and reads the weights into what is left. Where a config can say it, for every layer keeps
equally many heads and the width of a head has a name of its own (`head_dim`: Llama and its kin), it
does, and transformers' `from_pretrained` opens the folder too; anywhere else that is an error about
shapes, never a wrong model. Costs the weights' bytes, twice: a hash
of them stands in the manifest.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

from workbench.core.errors import WorkbenchError
from workbench.core.files import (
    open_regular,
    parsed_json,
    read_regular,
    require_regular,
    written_whole,
)
from workbench.models.head_removal import cut
from workbench.models.lm_heads import placed
from workbench.models.net_parts import probe

if TYPE_CHECKING:
    from workbench.models.huggingface import HuggingFace

MANIFEST = "heads.json"
_VERSION = 1
_REMEDY = "Save the model anew, or take the folder's heads.json and weights from one source."


def save(model: "HuggingFace", folder: Path) -> None:
    """Write a model, its tokenizer and which heads it kept; the manifest last."""
    folder.mkdir(parents=True, exist_ok=True)
    net: Any = model.net
    plain = _plain_config(model)
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
    told = {
        "version": _VERSION,
        "plain": plain is not None,
        "sites": sites,
        "check": _checked(sites, folder),
    }
    with written_whole(folder / MANIFEST) as draft:
        draft.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def manifest(folder: Path) -> dict[str, Any] | None:
    """What a folder's manifest says; None where there is none."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        found = parsed_json(read_regular(path).decode("utf-8"))
        _check(found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkbenchError(
            f"the manifest of heads cannot be read: {error}.", where=str(path), remedy=_REMEDY
        ) from None
    return found  # type: ignore[no-any-return]


def _check(found: Any) -> None:
    if found["version"] != _VERSION:
        raise ValueError(f"its version is {found['version']!r}, not {_VERSION}")
    if not isinstance(found["plain"], bool) or not isinstance(found["check"], str):
        raise ValueError("it is incomplete")
    for site in found["sites"]:
        if missing := {"stack", "kind", "layer", "kept", "of"} - set(site):
            raise ValueError(f"a site has no {', '.join(sorted(missing))}")
        kept, number = site["kept"], site["of"]
        if not isinstance(number, int) or kept != sorted(set(kept)):
            raise ValueError(f"heads are named twice, or not in order: {kept}")
        if not all(isinstance(head, int) and 0 <= head < number for head in kept):
            raise ValueError(f"of {number} heads it keeps {kept}")


def opened(
    folder: Path,
    told: Mapping[str, Any],
    config: PretrainedConfig,
    build: "Callable[[PretrainedConfig], HuggingFace]",
    fresh: bool,
) -> "HuggingFace":
    """Make the model of its config, take the same heads out, and read the weights that are left."""
    model = build(config)
    if not told["plain"]:
        _require_same_sites(model, told, folder)
        model = cut(model, {n: site["kept"] for n, site in enumerate(told["sites"])})
    if not fresh:
        _read(model.net, folder)
    if told["check"] != _checked(told["sites"], folder):
        raise _misfit(folder, "it was not written with these weights")
    return _numbered(model, told, folder)


def _checked(sites: Any, folder: Path) -> str:
    """A hash of which heads stayed and of the weights they stayed in."""
    digest = hashlib.sha256(json.dumps(sites, sort_keys=True).encode())
    for path in sorted(folder.glob("*.safetensors")):
        with open_regular(path) as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _numbered(model: "HuggingFace", told: Mapping[str, Any], folder: Path) -> "HuggingFace":
    """Remember which heads of the uncut model these are."""
    kept = {number: tuple(site["kept"]) for number, site in enumerate(told["sites"])}
    if {site.index: site.heads for site in model.sites} != {n: len(k) for n, k in kept.items()}:
        raise _misfit(folder, "its weights have other heads than it says")
    model.kept = kept
    model.whole = {number: site["of"] for number, site in enumerate(told["sites"])}
    return model


def _require_same_sites(model: "HuggingFace", told: Mapping[str, Any], folder: Path) -> None:
    own = [(site.stack, site.kind, site.layer, site.heads) for site in model.sites]
    theirs = [(s["stack"], s["kind"], s["layer"], s["of"]) for s in told["sites"]]
    if own != theirs:
        raise _misfit(folder, "it is of a model with other layers or heads than config.json says")


def _read(net: PreTrainedModel, folder: Path) -> None:
    """Every weight from the folder's safetensors; what is tied is there once."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise _misfit(folder, "there are no safetensors weights")
    net.tie_weights()
    try:
        state = {
            name: tensor
            for file in files
            for name, tensor in load_file(require_regular(file)).items()
        }
    except (SafetensorError, OSError) as error:
        raise _misfit(folder, f"the weights cannot be read: {error}") from None
    own = net.state_dict()
    for name, tensor in state.items():
        if name in own and own[name].shape != tensor.shape:
            raise _misfit(
                folder,
                f"{name} is {list(tensor.shape)} in the weights, and {list(own[name].shape)} by "
                "the manifest",
            )
    missing, strange = net.load_state_dict(state, strict=False)
    there = {own[name].data_ptr() for name in state if name in own}
    lost = [name for name in missing if own[name].numel() and own[name].data_ptr() not in there]
    if lost or strange:
        raise _misfit(folder, f"weights are missing or strange: {', '.join([*lost, *strange][:3])}")


def _misfit(folder: Path, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"the manifest of heads does not fit: {why}.",
        where=str(folder / MANIFEST),
        remedy=_REMEDY,
    )


def _plain_config(model: "HuggingFace") -> PretrainedConfig | None:
    """A config that says how many heads are left, if there is one and it makes the same model."""
    numbers = {site.heads for site in model.sites}
    wholes = {*model.whole.values()}
    if len(numbers) != 1 or len(wholes) != 1 or 0 in numbers:
        return None
    before, now = wholes.pop(), numbers.pop()
    config: Any = copy.deepcopy(model.net.config)
    if before == now:
        return config  # type: ignore[no-any-return]
    if not hasattr(config, "head_dim"):
        return None
    config.head_dim = config.head_dim or config.hidden_size // before
    config.num_attention_heads = now
    if hasattr(config, "num_key_value_heads"):
        config.num_key_value_heads = config.num_key_value_heads * now // before
    return config if _makes(config, model) else None


def _makes(config: PretrainedConfig, model: "HuggingFace") -> bool:
    """Whether transformers makes the very same model of it."""
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
