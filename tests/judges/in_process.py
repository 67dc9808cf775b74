"""Other experiments asked within this process, for judges of experiments that ask others.

A run would be a process and a folder for each question; here it is a function call. Costs what the
experiments asked cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tests.judges.odd import Quiet
from workbench import Result, experiments
from workbench.experiment import Caveat, Inputs
from workbench.experiment.definition import SubrunRequest

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Answered:
    """What a run would have left."""

    name: str
    tables: Mapping[str, pd.DataFrame]
    arrays: Arrays = field(default_factory=dict)
    caveats: tuple[Caveat, ...] = ()
    model: Path | None = None


@dataclass
class Asking:
    """Answers questions one after another, and keeps what was asked and answered."""

    questions: list[SubrunRequest] = field(default_factory=list)
    answers: list[Answered] = field(default_factory=list)

    def __call__(
        self,
        questions: Sequence[SubrunRequest],
        told: Callable[[int], object] = lambda done: None,
        later: int | None = 0,
    ) -> Sequence[Answered]:
        found = [self._one(question) for question in questions]
        self.questions += questions
        self.answers += found
        return found

    def _one(self, asked: SubrunRequest) -> Answered:
        result = run(
            asked.experiment, asked.models, asked.corpora, asked.seed, self, asked.split,
            **asked.settings,
        )  # fmt: skip
        name = f"{asked.experiment}-{len(self.answers)}"
        return Answered(name, result.tables, result.arrays, result.caveats)


def run(
    experiment: str,
    models: Any,
    corpora: Any,
    seed: int = 0,
    asking: Asking | None = None,
    split: str | None = None,
    **settings: Any,
) -> Result:
    """An experiment's result, with those it asks answered in this process."""
    kind = experiments()[experiment]
    chosen = kind.settings(**settings)
    part = split or (kind.split_of(corpora[0], None) if corpora else None)
    inputs = Inputs(
        tuple(models), tuple(corpora), split=part, seed=seed, limit=chosen.max_sentences,
        run_subruns=asking or Asking(),
    )  # fmt: skip
    return kind.run(inputs, chosen, Quiet())
