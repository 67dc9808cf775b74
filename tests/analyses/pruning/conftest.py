"""Small models on sentences of the primer."""

from collections.abc import Callable
from functools import cache

import pytest

import workbench as wb
from workbench import read
from workbench.analyses.pruning.evaluation import Evaluation, build_head_evaluation


@pytest.fixture(scope="session")
def mini() -> Callable[..., Evaluation]:
    """A built-in model and some of the primer's texts."""

    @cache
    def made(name: str, texts: int = 30) -> Evaluation:
        return build_head_evaluation(
            wb.load(f"mini:{name}"), list(read("primer").docs("test", texts)), "", 0
        )

    return made
