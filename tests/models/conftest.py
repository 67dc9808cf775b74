"""The zoo, made once a session."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerBase

from tests.models import vocabularies, zoo

_FP16 = ("bert", "gpt2", "llama", "t5", "bart", "openai-gpt")
IN_HALF = [  # every model in bf16; in fp16 some by day, the others at night
    pytest.param(
        name, width, marks=pytest.mark.slow if width == "fp16" and name not in _FP16 else ()
    )
    for name in zoo.NAMES
    for width in ("bf16", "fp16")
]


@pytest.fixture(scope="session")
def zoo_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model by its name in the zoo, created on first use."""
    return cache(lambda name: zoo.make(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="session")
def tokenizer() -> Callable[[str], PreTrainedTokenizerBase]:
    """A tokenizer by its kind, shared by all tests: do not change it."""
    return cache(vocabularies.tokenizer)
