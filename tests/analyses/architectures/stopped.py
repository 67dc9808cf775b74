"""Runs of the experiments of this folder on a small text, and progress that stops them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import workbench as wb
from tests.judges.odd import Quiet
from workbench import experiments
from workbench.experiment import Inputs

CORPUS = "primer:size=300"


class StoppedError(Exception):
    """What a stopped run raises."""


class Stops(Quiet):
    """Progress that stops the run in the fifth of eight trainings."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        if total == 24 and done > 13:
            raise StoppedError


def run_of(
    name: str,
    small: Mapping[str, Any],
    scratch: Path | None = None,
    progress: Any = None,
    **settings: Any,
) -> Any:
    """The result of an experiment with small settings, and others."""
    kind = experiments()[name]
    inputs = Inputs((), (wb.read(CORPUS),), "train", scratch=scratch)
    return kind.run(inputs, kind.settings(**{**small, **settings}), progress or Quiet())
