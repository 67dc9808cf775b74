"""`frozen-vs-finetuned` recomputed from its cells' predictions by a plain paired bootstrap.

The cells are real, if small, fine-tunings in this process; deltas, intervals, p-values and verdicts
are made here from nothing but the right and wrong predictions of each text. A sign-flip permutation
test of the same differences must agree wherever the matter is clear.
"""

import numpy as np
import pytest

import workbench as wb
from tests.judges.in_process import Asking, run
from workbench import Result

SIZES = {"max_train": 16, "max_dev": 8, "max_test": 80}
DRAWS = 4000


def correct(asking: Asking, run_name: str, seeds: int) -> np.ndarray:
    """Right or wrong.  # [seeds, texts]"""
    (answer,) = (each for each in asking.answers if each.name == run_name)
    said = answer.tables["predictions"]
    right = (said["gold"] == said["guess"]).to_numpy(dtype=float)
    return right.reshape(seeds, -1)


def bootstrapped(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Means over texts and seeds, both drawn with replacement.  # [seeds, texts] -> [draws]"""
    seeds, texts = values.shape
    found = []
    for _ in range(DRAWS):
        some = values[random.integers(0, seeds, seeds)][:, random.integers(0, texts, texts)]
        found.append(some.mean())
    return np.array(found)


def flipped(values: np.ndarray, random: np.random.Generator) -> float:
    """Two-sided p of the mean difference, by flipping the sign of each text's."""
    each = values.mean(0)
    signs = random.choice([-1, 1], size=(DRAWS, len(each)))
    return float((np.abs((signs * each).mean(1)) >= abs(each.mean()) - 1e-12).mean())


def judge(result: Result, asking: Asking, seeds: int) -> None:
    random = np.random.default_rng(7)
    cells = result.tables["cells"].set_index(["task", "model", "method", "head"])["run"]
    means = result.tables["means"].set_index(["task", "model", "method", "head"])
    for _, row in result.tables["delta"].iterrows():
        at = (row["task"], row["model"])
        frozen = correct(asking, cells[(*at, "frozen", "plain")], seeds)
        tuned = correct(asking, cells[(*at, row["method"], "plain")], seeds)
        assert row["frozen"] == pytest.approx(frozen.mean(), abs=1e-12)
        assert row["tuned"] == pytest.approx(tuned.mean(), abs=1e-12)
        assert row["delta"] == pytest.approx((tuned - frozen).mean(), abs=1e-12)
        draws = bootstrapped(tuned - frozen, random)
        lower, upper = np.percentile(draws, [2.5, 97.5])
        assert row["lower"] == pytest.approx(lower, abs=0.03)
        assert row["upper"] == pytest.approx(upper, abs=0.03)
        p = min(1.0, 2 * min((draws <= 0).mean(), (draws >= 0).mean()))
        assert row["p_value"] == pytest.approx(p, abs=0.06)
        other = flipped(tuned - frozen, random)
        if other < 0.001 or other > 0.2:
            assert (row["p_value"] < 0.05) == (other < 0.05), (row["p_value"], other)
        assert row["verdict"] in ("helps", "hurts", "undecided", "not learned")
        if row["verdict"] == "helps":
            assert lower > -0.03 and tuned.mean() > row["majority"]
    for key, name in cells.items():
        right = correct(asking, name, seeds)
        own = means.loc[key]
        assert own["value"] == pytest.approx(right.mean(), abs=1e-12)
        assert own["lower"] <= right.mean() <= own["upper"]


def test_deltas_intervals_and_p_values_of_small_cells() -> None:
    asking = Asking()
    result = run(
        "frozen-vs-finetuned", [wb.load("mini:elmo")], [wb.read("primer:size=800")], asking=asking,
        tasks=("sentiment",), lstm_baseline=False, seeds=(0, 1), max_epochs=1,
        learning_rates=(3e-3,), **SIZES,
    )  # fmt: skip
    judge(result, asking, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_deltas_intervals_and_p_values_of_larger_cells(name: str) -> None:
    asking = Asking()
    result = run(
        "frozen-vs-finetuned", [wb.load(f"mini:{name}")], [wb.read("primer")], asking=asking,
        tasks=("sentiment", "entailment"), methods=("fine-tuned", "lora"), seeds=(0, 1, 2),
        max_epochs=3, max_train=150, max_dev=60, max_test=200,
    )  # fmt: skip
    judge(result, asking, 3)
