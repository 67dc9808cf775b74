"""Grids of alike cases: by day those that stand for the others, by night all of them."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.models.zoo import BY_DAY


def mostly(cases: Iterable[Any], *by_day: Any) -> list[Any]:
    """The cases of a parametrized test; all but these are marked `slow`. A tuple is one case."""
    every = list(cases)
    if missing := [case for case in by_day if case not in every]:
        raise ValueError(f"no such cases: {missing}")
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in by_day else pytest.mark.slow,
        )
        for case in every
    ]


def of_zoo(names: Iterable[str], *others: str) -> list[Any]:
    """Architectures that a test tries: by day the four of `BY_DAY`, and others if named."""
    every = list(names)
    return mostly(every, *(name for name in every if name in (*BY_DAY, *others)))
