"""The heads of a model side by side, and gates that close some of them.

Costs nothing.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import HEAD
from workbench.engine.batch import sent
from workbench.engine.taps import Site
from workbench.models.huggingface import HuggingFace

Head = tuple[int, int]  # its site, and its number there
CPU = torch.device("cpu")


def heads_of(model: HuggingFace) -> list[Head]:
    """All heads, site by site."""
    return [(site.index, head) for site in model.sites for head in range(site.heads)]


def require_heads(model: HuggingFace) -> None:
    if not heads_of(model):
        raise WorkbenchError(
            "every head of this model was taken out already.",
            where=model.name,
            remedy="Choose the model that it was made from.",
        )


def named(site: Site, head: int) -> dict[str, object]:
    """The columns that say which head a row is of."""
    return dict(zip(HEAD, (site.stack, site.kind, site.layer, head), strict=True))


def opened(model: HuggingFace, *shape: int, device: torch.device | None = None) -> Tensor:
    """Gates that are all open, on the model's device by itself.  # [..., sites, heads]"""
    heads = max((site.heads for site in model.sites), default=0)
    return torch.ones(*shape, len(model.sites), heads, device=device or model.device)


def closed(model: HuggingFace, gone: Iterable[Head]) -> Tensor:
    """Gates that are open but for these heads.  # [sites, heads]"""
    return sent(_closed(model, gone), model.device)


def each_closed(model: HuggingFace, sets: Sequence[Sequence[Head]], texts: int) -> Tensor:
    """For each set of heads so many rows with those closed.  # [sets * texts, sites, heads]"""
    gates = torch.stack([_closed(model, gone) for gone in sets])
    return sent(gates, model.device).repeat_interleave(texts, 0)


def _closed(model: HuggingFace, gone: Iterable[Head]) -> Tensor:
    """The same on the host, where they are written one by one."""
    gates = opened(model, device=CPU)
    for site, head in gone:
        gates[site, head] = 0
    return gates
