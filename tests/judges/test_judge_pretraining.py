"""`pretraining` recomputed from its cells by a plain paired bootstrap.

Here trainings and fine-tunings are answered by canned results whose counts are drawn, so that the
tables can be judged in seconds: means, gains over the first arm and size, intervals and p-values.
The slow case trains and fine-tunes real, if tiny, models.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.judges.in_process import Answered
from tests.judges.odd import Quiet
from workbench import experiments
from workbench.experiment import Inputs
from workbench.experiment.definition import SubrunRequest

DRAWS = 4000
ROOM = 0.02  # of the level of a percentile: of 1,000 draws, the 2.5th one is the 1st to 4.5th
TEXTS = 40


@dataclass
class Canned:
    """Each model is right on a text with a probability of its own."""

    random: np.random.Generator
    right: dict[str, np.ndarray] = field(default_factory=dict)  # of each cell: [heads, texts]

    def __call__(
        self,
        questions: Sequence[SubrunRequest],
        told: Callable[[int], object] = lambda done: None,
        later: int | None = 0,
    ) -> list[Answered]:
        return [self._one(question) for question in questions]

    def _one(self, asked: SubrunRequest) -> Answered:
        if asked.experiment == "train":
            settings = asked.settings
            name = f"{settings['family']}-{settings['objective']}-{settings['size']}-{asked.seed}"
            facts = pd.DataFrame(
                {"fact": ["parameters", "tokens of text"], "value": ["1000", "900"]}
            )
            curves = pd.DataFrame(
                [{"step": 4, "tokens": 90, "loss": 2.0, "held_out": 2.0, "seconds": 1.0}]
            )
            return Answered(name, {"facts": facts, "curves": curves}, model=Path(name))
        head = asked.settings["head"]
        name = f"{asked.models[0]}|{head}"
        seeds = len(asked.settings["seeds"])
        chance = self.random.uniform(0.4, 0.9)
        right = (self.random.random((seeds, TEXTS)) < chance).astype(float)
        self.right[name] = right
        gold = np.arange(TEXTS) % 2  # the counts of accuracy: right, answered and wanted by class
        counts = np.zeros((seeds, TEXTS, 9))
        for seed in range(seeds):
            guess = np.where(right[seed] > 0, gold, 1 - gold)
            for text in range(TEXTS):
                counts[seed, text, 3 + guess[text]] = counts[seed, text, 6 + gold[text]] = 1
                counts[seed, text, gold[text]] = guess[text] == gold[text]
        scores = pd.DataFrame(
            [{"task": "sentiment", "model": str(asked.models[0]), "method": "fine-tuned",
              "head": head, "seed": seed, "split": "test", "metric": "accuracy",
              "value": right[seed].mean(), "size": 1.0} for seed in range(seeds)]
        )  # fmt: skip
        return Answered(name, {"scores": scores}, {"counts": counts})


def gain(one: np.ndarray, other: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Differences of means over drawn units and texts.  # [units, inner, texts] twice -> [draws]"""
    units, _, texts = one.shape
    change, found = (one - other).mean(1), []
    for _ in range(DRAWS):
        rows, columns = random.integers(0, units, units), random.integers(0, texts, texts)
        found.append(change[rows[:, None], columns].sum())
    return np.array(found) / (units * texts)


@pytest.mark.parametrize("pretrainings", [(0, 1), pytest.param((0,), marks=pytest.mark.slow)])
def test_tables_are_recomputed_from_their_cells(
    pretrainings: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.analyses.transfer import pretraining

    monkeypatch.setattr(pretraining, "_unigram", lambda corpus, answer: 3.0)
    kind = experiments()["pretraining"]
    settings = kind.settings(
        arms=("mlm", "ltr", "ltr+lstm"), sizes=("tiny", "mini"), pretraining_seeds=pretrainings,
        tasks=("sentiment",), seeds=(0, 1), max_train=20, max_dev=10, max_test=TEXTS,
    )  # fmt: skip
    canned = Canned(np.random.default_rng(1))
    inputs = Inputs((), (wb.read("primer:size=300"),), "test", 0, run_subruns=canned)
    result = kind.run(inputs, settings, Quiet())
    judge(result.tables, canned.right, pretrainings)


NAMES = {"mlm": ("bert-masked", "plain"), "ltr": ("gpt-causal", "plain"),
         "ltr+lstm": ("gpt-causal", "lstm")}  # fmt: skip


def is_percentile(value: float, draws: np.ndarray, percent: float) -> bool:
    """Whether as many draws lie under it; few units make few distinct draws, so by their ranks."""
    under, up_to = (draws < value - 1e-9).mean(), (draws <= value + 1e-9).mean()
    return bool(under <= percent / 100 + ROOM and up_to >= percent / 100 - ROOM)


def judge(tables: Any, right: dict[str, np.ndarray], pretrainings: tuple[int, ...]) -> None:
    random = np.random.default_rng(3)

    def of(arm: str, size: str) -> np.ndarray:
        name, head = NAMES[arm]
        every = np.stack([right[f"{name}-{size}-{seed}|{head}"] for seed in pretrainings])
        return every if len(pretrainings) > 1 else every.swapaxes(0, 1)  # [units, inner, texts]

    def same(row: Any, change: np.ndarray, names: Sequence[str]) -> None:
        lower, upper, p_value = (row[name] for name in names)
        assert is_percentile(lower, change, 2.5), (lower, row["arm"], row["size"])
        assert is_percentile(upper, change, 97.5), (upper, row["arm"], row["size"])
        p = min(1.0, 2 * min((change <= 0).mean(), (change >= 0).mean()))
        assert p_value == pytest.approx(p, abs=0.06), (row["arm"], row["size"])

    won = ("delta_lower", "delta_upper", "p_value")
    for _, row in tables["table"].iterrows():
        own = of(row["arm"], row["size"])
        assert row["value"] == pytest.approx(own.mean(), abs=1e-12)
        means = gain(own, np.zeros_like(own), random)
        assert is_percentile(row["lower"], means, 2.5) and is_percentile(row["upper"], means, 97.5)
        if row["arm"] == "mlm":
            assert np.isnan(row["delta"])
            continue
        first = of("mlm", row["size"])
        assert row["delta"] == pytest.approx(own.mean() - first.mean(), abs=1e-12)
        same(row, gain(own, first, random), won)
    for _, row in tables["sizes"].iterrows():
        own, first = of(row["arm"], row["size"]), of(row["arm"], "tiny")
        assert row["size"] == "mini" and row["against"] == "tiny"
        assert row["delta"] == pytest.approx(own.mean() - first.mean(), abs=1e-12)
        same(row, gain(own, first, random), won)
    scores = tables["scores"]
    assert len(scores) == 6 * len(pretrainings) * 2


@pytest.mark.slow
def test_the_table_is_the_mean_of_real_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench import open_run

    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    run = wb.run(
        "pretraining", corpus="primer:size=300", device="cpu", pretraining_steps=4,
        pretraining_batch_size=4, vocabulary_size=300,
        arms=["mlm", "ltr"], tasks=["sentiment"], max_train=40, max_dev=20, max_test=40,
        seeds=[0, 1], learning_rates=[1e-3], max_epochs=1,
    )  # fmt: skip
    cells = run.tables["cells"]
    for _, row in run.tables["table"].iterrows():
        (name,) = cells[cells["arm"] == row["arm"]]["run"]
        said = open_run(name).tables["predictions"]
        assert row["value"] == pytest.approx((said["gold"] == said["guess"]).mean(), abs=1e-12)
