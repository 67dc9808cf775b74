"""The zoo, made once a session."""

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from tests.models import vocabularies, zoo
from tests.night import mostly

IN_HALF = mostly(
    product(zoo.NAMES, ("bf16", "fp16")),
    ("bert", "bf16"),
    ("xlnet", "bf16"),
    ("llama", "fp16"),
    ("t5-3-2", "fp16"),
)


@pytest.fixture(scope="session")
def zoo_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model by its name in the zoo, created on first use."""
    return cache(lambda name: zoo.make(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="session")
def tokenizer() -> Callable[[str], PreTrainedTokenizerBase]:
    """A tokenizer by its kind, shared by all tests: do not change it."""
    return cache(vocabularies.tokenizer)
