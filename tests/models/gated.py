"""Models of the zoo and texts for what is done to their heads. Costs a few tens of ms a model."""

from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor

import workbench as wb
from workbench.corpora import encode, read
from workbench.engine.batch import Batch
from workbench.models.huggingface import HuggingFace


def opened(name: str, zoo_folder: Callable[[str], Path]) -> HuggingFace:
    model = wb.load(str(zoo_folder(name)))
    assert isinstance(model, HuggingFace)
    return model


def sentences(number: int) -> Batch:
    return encode(read("primer").docs("test", number))


def gates(model: HuggingFace, gone: Iterable[tuple[int, int]]) -> Tensor:
    """One but for the heads that are gone.  # [sites, heads]"""
    values = torch.ones(len(model.sites), max(site.heads for site in model.sites))
    for site, head in gone:
        values[site, head] = 0
    return values
