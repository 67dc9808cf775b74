"""Training objectives: pure functions from token batches to inputs and targets.

    corrupt(tokens, special, generator, vocabulary, **settings) -> tensors for the model

`tokens` [batch, length] are not modified; `special` tokens, padding included, are never corrupted;
all random numbers come from the generator. Names follow transformers' models: `input_ids`,
`attention_mask`, `labels` with -100 for no loss, `decoder_input_ids`. Objectives that have the
parameter `sentences` get the sentence starts.

A module of this folder announces its objectives in `OBJECTIVES`, by name, and those of static word
vectors in `OF_WORDS`; nothing else names them.
Costs: see each module.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from workbench.analyses.training.task import Objective, WordObjective, has


@cache
def known() -> Mapping[str, Objective]:
    """The objectives of models that read pieces, by name."""
    return _announced("OBJECTIVES")


@cache
def of_words() -> Mapping[str, WordObjective]:
    """The objectives of static word vectors, by name."""
    return _announced("OF_WORDS")


def _announced(table: str) -> dict[str, Any]:
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return {
        name: objective
        for module in modules
        for name, objective in getattr(module, table, {}).items()
    }


def takes(name: str, parameter: str) -> bool:
    """Whether the objective of this name has a parameter."""
    return name in known() and has(known()[name].corrupt, parameter)
