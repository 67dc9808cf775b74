"""Every experiment in bf16 on a GPU, as by default there: close to float32, and finite.

The card is one that is not there (`card.Card`): a tensor made on the host in between is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.engine.card import card
from tests.night import mostly


@dataclass(frozen=True)
class Case:
    """A corpus and settings that keep it small; a column of numbers, and how far it may be off."""

    table: str
    column: str
    bound: float  # on average
    corpus: str = "primer:size=40"
    settings: Mapping[str, Any] = field(default_factory=dict)


EXPERIMENTS = {
    "attention-averages": Case("heads", "words", 2e-3),
    "attention-probe": Case("means", "value", 0.05, "primer:size=24", {"seeds": (0,)}),
    "attribution": Case(
        "methods", "gain", 0.05, "primer:size=40", {"max_predictions": 8, "random_models": 0}
    ),
    "description-length": Case(
        "summary", "compression", 0.03, "primer:size=24", {"tasks": ["pos"]}
    ),
    "edge-probing": Case(
        "means", "mean", 0.05, "primer:size=16",
        {"tasks": ["roles"], "effort": "quick", "max_epochs": 5, "random_baseline": False},
    ),
    "erasure": Case(
        "layers", "effect", 0.3, "primer:size=60",
        {"max_words": 60, "max_predictions": 10, "random_directions": 20},
    ),
    "finetune": Case(
        "scores", "value", 0.05, "primer/sentiment:size=40",
        {"task": "sentiment", "max_epochs": 1, "learning_rates": (1e-3,), "seeds": (0,)},
    ),
    "geometry": Case(
        "layers", "value", 0.01, "primer:size=40", {"random_models": 0, "min_contexts": 3}
    ),
    "head-ablation": Case("ablation", "delta", 4e-3, "primer:size=24"),
    "head-importance": Case("importance", "importance", 2e-3),
    "head-pruning": Case(
        "curve", "value", 0.02, "primer:size=12", {"steps": 2, "random_orders": 1}
    ),
    "heads": Case(
        "heads", "confidence", 2e-3, "primer:size=24", {"n_shuffles": 120, "n_bootstrap": 20}
    ),
    "lens": Case("final", "cumulative", 0.05, "primer:size=24", {"random_models": 0}),
    "minimal-pairs": Case("pairs", "gap", 0.1, "primer/acceptability:size=40"),
    "patching": Case(
        "states", "nats", 0.1, "primer/counterfactuals:size=70",
        {"max_pairs": 6, "restore": ("states",), "random_pairs": 1},
    ),
    "neighbours": Case(
        "neighbours", "share", 0.05, "primer:size=40",
        {"random_models": 0, "n_permutations": 19, "min_count": 4},
    ),
    "profile": Case("losses", "value", 0.02),  # AVX2 sums bf16 less exactly: 0.015
    "similarity": Case("similarity", "cka", 2e-3),
    "steering": Case(
        "directions", "effect", 0.3, "primer/counterfactuals",
        {"max_words": 1, "max_texts": 24, "random_directions": 20},
    ),
    "structural-probe": Case("means", "value", 0.05, "primer:size=24", {"seeds": (0,)}),
}  # fmt: skip
CHANCE = {"p_value", "control_p"}  # of so few sentences hardly the same twice


@pytest.mark.parametrize("name", mostly(EXPERIMENTS, "finetune"))
def test_an_experiment_in_bf16_on_a_card_says_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    request = EXPERIMENTS[name]
    corpus: Any = wb.read(request.corpus)
    model = wb.load("mini:bert", "cpu", "fp32")
    exact = wb.run(name, model=model, corpus=corpus, **request.settings).tables
    with card():
        model = wb.load("mini:bert", "cuda", "bf16")
        half = wb.run(name, model=model, corpus=corpus, **request.settings).tables
    apart = np.abs(exact[request.table][request.column] - half[request.table][request.column])
    assert apart.mean() <= request.bound
    assert set(exact) == set(half)
    for each in exact:
        one, other = exact[each], half[each]
        assert list(one.columns) == list(other.columns), each
        for number in one.columns.difference([*CHANCE]) if len(one) == len(other) else ():
            if one[number].dtype.kind == "f":
                missing = one[number].isna().to_numpy(), other[number].isna().to_numpy()
                assert (missing[0] == missing[1]).all(), f"{each}.{number}"
