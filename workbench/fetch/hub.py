"""What the Hugging Face hub says of a repository before it is downloaded: size, licence, address.

Used before any model or data set of the hub that a visitor names; entries of the catalogue know
both themselves. Costs: one request, and a walk through one folder of the cache.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.core.errors import WorkbenchError
from workbench.fetch.catalogue import HUB

SECONDS = 10.0  # to wait for the hub
UNKNOWN = "not stated"
_READ = (".safetensors", ".json", ".txt", ".model")  # of a model, in the top folder


@dataclass(frozen=True)
class Repository:
    """A repository on the hub: what is read of it, in bytes, and its licence."""

    name: str
    size: int
    licence: str
    page: str


def look_up(name: str, kind: Literal["model", "dataset"]) -> Repository:
    """Return the size and the licence of a repository on the hub; no token is sent."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    api = HfApi(endpoint=HUB, token=False)
    try:
        ask = api.model_info if kind == "model" else api.dataset_info
        info = ask(name, timeout=SECONDS, files_metadata=True)
    except (RepositoryNotFoundError, HFValidationError):
        raise WorkbenchError(
            f"the hub has no public {kind} of this name.",
            code="not-on-hub",
            where=name,
            remedy="Check the name, with its owner: owner/name. Private and gated ones can be "
            "downloaded with the hub's own tools, and opened as a folder.",
        ) from None
    except Exception as error:  # of the network, the hub or huggingface_hub
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise WorkbenchError(
            f"the hub cannot be reached: {reason.rstrip('.')}.",
            code="hub-unreachable",
            where=HUB,
            remedy="Check the connection, or set HF_ENDPOINT to a mirror. Without a network, "
            "download it on another machine and open it as a folder.",
        ) from None
    files = [(file.rfilename, file.size or 0) for file in info.siblings or ()]
    if kind == "model":
        files = [(path, size) for path, size in files if "/" not in path and path.endswith(_READ)]
        if not any(path.endswith(".safetensors") for path, _ in files):
            raise WorkbenchError(
                "the repository has no safetensors weights; pickled weights can run code.",
                code="pickle-refused",
                where=name,
                remedy="Use a repository with model.safetensors.",
            )
    card = info.card_data
    licence = card.get("license") if card is not None else None
    folder = "datasets/" if kind == "dataset" else ""
    return Repository(
        name=name,
        size=sum(size for _, size in files),
        licence=", ".join(licence) if isinstance(licence, list) else str(licence or UNKNOWN),
        page=f"{HUB}/{folder}{name}",
    )


def received(name: str) -> int:
    """Return the bytes of a model in the hub's cache, complete or not."""
    from huggingface_hub.constants import HF_HUB_CACHE

    total = 0
    blobs = Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "blobs"
    with suppress(OSError), os.scandir(blobs) as files:
        for file in files:
            with suppress(OSError):  # renamed when it is complete
                total += file.stat(follow_symlinks=False).st_size
    return total
