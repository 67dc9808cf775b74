"""The list of a model's heads, and gates that close some of them.

Costs: nothing.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import sent
from workbench.engine.taps import Site
from workbench.experiment.definition import HEAD
from workbench.models.huggingface import HuggingFace

Head = tuple[int, int]  # index of its site, and its number there
CPU = torch.device("cpu")


def heads_of(model: HuggingFace) -> list[Head]:
    """All heads, site by site."""
    return [(site.index, head) for site in model.sites for head in range(site.heads)]


def require_heads(model: HuggingFace) -> None:
    """Raise an error if all heads of the model were removed."""
    if not heads_of(model):
        raise WorkbenchError(
            "this model has no attention heads left: all were removed.",
            code="no-attention",
            where=model.name,
            remedy="Choose the model from which the heads were removed.",
        )


def named(site: Site, head: int) -> dict[str, object]:
    """The columns that identify the head of a row."""
    return dict(zip(HEAD, (site.stack, site.kind, site.layer, head), strict=True))


def opened(model: HuggingFace, *shape: int, device: torch.device | None = None) -> Tensor:
    """Gates that are all open, on the model's device by default.  # [..., sites, heads]"""
    heads = max((site.heads for site in model.sites), default=0)
    return torch.ones(*shape, len(model.sites), heads, device=device or model.device)


def closed(model: HuggingFace, removed: Iterable[Head]) -> Tensor:
    """Gates that close these heads and open all others.  # [sites, heads]"""
    return sent(_closed(model, removed), model.device)


def each_closed(model: HuggingFace, sets: Sequence[Sequence[Head]], texts: int) -> Tensor:
    """For each set of heads, `texts` rows that close it.  # [sets * texts, sites, heads]"""
    gates = torch.stack([_closed(model, removed) for removed in sets])
    return sent(gates, model.device).repeat_interleave(texts, 0)


def _closed(model: HuggingFace, removed: Iterable[Head]) -> Tensor:
    """The same gates on the CPU, where single values are cheap to set."""
    gates = opened(model, device=CPU)
    for site, head in removed:
        gates[site, head] = 0
    return gates
