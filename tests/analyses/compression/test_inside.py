"""What a saved model has lost inside: planted counts of probes, and roles of heads."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from workbench.analyses.compression.findings import _inside as finding
from workbench.analyses.compression.inside import _table

SENTENCES, TARGETS = 120, 5


@dataclass
class Found:
    """The result of another experiment."""

    tables: dict[str, pd.DataFrame]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    caveats: tuple[Any, ...] = ()
    name: str = ""


def probed(right: dict[str, float], seed: int) -> Found:
    """Scores of two layers by task: the second is right with this probability, the first less."""
    random = np.random.default_rng(seed)
    rows, counts = [], []
    for task, share in right.items():
        for layer, p in ((1, share / 2), (2, share)):
            hits = random.binomial(TARGETS, p, SENTENCES)
            made = np.full(SENTENCES, TARGETS)
            counts.append(np.stack([hits, made, made], 1))  # [sentences, 3]
            rows.append(
                {
                    "task": task, "encoder": "model", "share": 1.0, "layer": layer,
                    "stack": "encoder", "seed": 0, "control": False, "probe": "edge",
                    "mode": "layer", "metric": "f1",
                    "value": hits.sum() / made.sum(), "n": made.sum(),
                }
            )  # fmt: skip
    arrays = {"counts": np.stack(counts), "sentences": np.arange(SENTENCES)}
    return Found({"scores": pd.DataFrame(rows)}, arrays)


def roles(*names: str | None) -> Found:
    return Found({"heads": pd.DataFrame({"role": names})})


def test_the_task_that_fell_is_found_and_the_other_is_not() -> None:
    before, after = probed({"pos": 0.9, "deps": 0.8}, 0), probed({"pos": 0.9, "deps": 0.5}, 1)
    table = _table({"edge-probing": (before, after)}).set_index("group")
    assert table.loc["deps", "p"] < 0.05 < table.loc["pos", "p"]
    assert table.loc["deps", "lower"] < -0.3 + 0.08 and table.loc["deps", "upper"] < -0.2
    assert table.loc["deps", "original"] == before.tables["scores"]["value"].iloc[3]  # layer 2
    said = finding(table.reset_index())
    assert said.verdict == "supported" and "deps" in said.claim and "1 of 2" in said.claim


@pytest.mark.slow  # by day `test_the_task_that_fell_is_found_and_the_other_is_not`
def test_of_equal_models_no_task_is_said_to_fall() -> None:
    said = [
        _table({"edge-probing": (probed({"pos": 0.7}, seed), probed({"pos": 0.7}, seed + 500))})
        for seed in range(60)
    ]
    assert sum(table["p"].iloc[0] < 0.05 for table in said) <= 8  # 99.5 % of draws with 5 %


def test_roles_are_counted() -> None:
    table = _table(
        {"heads": (roles("rare", "syntactic", "rare", None), roles(None, "syntactic", "rare"))}
    ).set_index("group")
    assert table["original"].to_dict() == {"rare": 2, "syntactic": 1}
    assert table["saved"].to_dict() == {"rare": 1, "syntactic": 1}
    said = finding(table.reset_index())
    assert said.verdict == "undecided" and "2 of its heads" in said.claim and "3 had" in said.claim
