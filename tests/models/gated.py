"""Models of the zoo and texts for what is done to their heads. Costs some ms a model, once read."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

import workbench as wb
from workbench import Batch, encode, read
from workbench.models.huggingface import HuggingFace


@cache
def _read(folder: Path) -> HuggingFace:
    model = wb.load(str(folder))
    assert isinstance(model, HuggingFace)
    return model


def opened(name: str, zoo_folder: Callable[[str], Path]) -> HuggingFace:
    """A model of its own for each test: a copy is made in a tenth of the time of reading."""
    return deepcopy(_read(zoo_folder(name)))


@cache
def sentences(number: int) -> Batch:
    return encode(read("primer:size=200").docs("test", number))


def gates(model: HuggingFace, gone: Iterable[tuple[int, int]]) -> Tensor:
    """One but for the heads that are gone.  # [sites, heads]"""
    values = torch.ones(len(model.sites), max(site.heads for site in model.sites))
    for site, head in gone:
        values[site, head] = 0
    return values
