"""Models of the zoo and texts for what is done to their heads. Costs some ms a model, once read."""

from collections.abc import Iterable
from copy import deepcopy
from functools import cache

import torch
from torch import Tensor

from tests.models import zoo
from workbench import encode, read
from workbench.engine.batch import Batch
from workbench.models.huggingface import HuggingFace


@cache
def shared(name: str, dtype: torch.dtype = torch.float32) -> HuggingFace:
    """A model of the zoo, shared by all tests: do not change it."""
    return HuggingFace(deepcopy(zoo.built(name, None, dtype)), zoo.words_of(name), name)


def opened(name: str, dtype: torch.dtype = torch.float32) -> HuggingFace:
    """A model of its own for each test: a copy is made in a fifth of the time of reading."""
    return deepcopy(shared(name, dtype))


@cache
def sentences(number: int) -> Batch:
    return encode(read("primer:size=200").docs("test", number))


def gates(model: HuggingFace, gone: Iterable[tuple[int, int]]) -> Tensor:
    """One but for the heads that are gone.  # [sites, heads]"""
    values = torch.ones(len(model.sites), max(site.heads for site in model.sites))
    for site, head in gone:
        values[site, head] = 0
    return values
