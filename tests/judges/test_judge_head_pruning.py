"""Pruning curves: at each step the W_O slices of the heads removed so far are zero.

Orders are computed from the definitions (importance once and again after each step, exact ablation
likewise, the norm of the W_O slice), scores one text at a time, parameters by counting those of a
head, areas and p-values by numpy and scipy. Costs: minutes; the small case seconds.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain_heads import HEAD, Example, Head, Plain, heads_in, importance, normalised
from tests.models import headed
from workbench.analyses.pruning import curves

METHODS = ("importance", "ablation", "magnitude", "random")


def values(plain: Plain, examples: list[Example], removed: list[Head]) -> tuple[float, float]:
    """Loss and accuracy without these heads."""
    with plain.zeroed(removed):
        sums = plain.scores(examples).sum(0)
    return sums[0] / sums[2], sums[1] / sums[2]


def scores(
    plain: Plain, examples: list[Example], by: str, left: list[Head], removed: list[Head]
) -> list[float]:
    """The score of each remaining head."""
    if by == "magnitude":
        parts = [plain.slice_of(*head) for head in left]
        return [float(weight[part].detach().norm()) for weight, part in parts]
    if by == "ablation":
        return [values(plain, examples, [*removed, head])[0] for head in left]
    with plain.zeroed(removed):
        gradients, _ = importance(plain, examples)
    means = dict(zip(plain.all, np.abs(gradients).mean(0), strict=True))
    return list(normalised({head: means[head] for head in left}).values())


def order(
    plain: Plain, examples: list[Example], by: str, rescored: bool, steps: list[int]
) -> list[Head]:
    """Heads in the order in which they are removed."""
    left, removed = list(plain.all), []
    for wanted in steps[1:] if rescored else [len(left)]:
        found = scores(plain, examples, by, left, removed)
        ranked = [left[at] for at in np.argsort(found, kind="stable")][: wanted - len(removed)]
        removed += ranked
        left = [head for head in left if head not in ranked]
    return removed


def owned(plain: Plain) -> int:
    """Parameters of a head: its rows of the three maps and its slice of W_O."""
    weight, part = plain.slice_of(*plain.all[0])
    width, d = sorted(weight[part].shape)
    biased = 0 if "T5" in type(plain.net).__name__ else 3 * width
    return 4 * width * d + biased


def judged(
    model: Any,
    corpus: Any,
    limit: int,
    chosen_on: int,
    steps: int = 4,
    methods: tuple[str, ...] = METHODS,
) -> float:
    """The largest difference of a loss or an accuracy on the curves."""
    settings = {
        "methods": methods,
        "steps": steps,
        "selection_texts": chosen_on,
        "recovery_steps": 0,
        "prune_fraction": 0.5,
        "random_orders": 3,
    }
    tables = run_here("head-pruning", model, corpus, max_sentences=limit, **settings).tables
    plain = Plain(model)
    choosing = plain.examples(list(corpus.docs("train", chosen_on)))
    measuring = plain.examples(list(corpus.docs("test", limit)))
    number = len(plain.all)
    at = sorted({round(step * number / steps) for step in range(steps + 1)})
    far, other_orders = 0.0, 0
    curve = tables["curve"].set_index(["method", "rescored", "seed", "metric", "heads_removed"])
    for (by, rescored, seed), own in tables["order"].groupby(["method", "rescored", "seed"]):
        removed = heads_in(own.sort_values("place"))
        assert sorted(removed) == sorted(plain.all)
        if by != "random":
            wanted = order(plain, choosing, str(by), bool(rescored), at)
            # what is removed by each step, for two heads may score alike to the last digit
            other_orders += sum(set(wanted[:many]) != set(removed[:many]) for many in at)
        for many in at:
            for metric, value in zip(
                ("loss", "accuracy"), values(plain, measuring, removed[:many]), strict=True
            ):
                row = curve.loc[(by, rescored, seed, metric, many)]
                far = max(far, abs(row["value"] - value))
                bias = {} if "T5" not in type(plain.net).__name__ else {"rel": 0.02}
                whole = sum(weight.numel() for weight in plain.net.parameters())
                assert row["parameters"] == pytest.approx(whole - many * owned(plain), **bias)
    assert other_orders == 0
    judge_summary(tables["curve"], tables["summary"])
    judge_kept(plain, measuring, tables)
    print(f"{model.name}: {far:.2e}")
    return far


def judge_summary(curve: pd.DataFrame, summary: pd.DataFrame) -> None:
    """Compare areas, falls of scores, and p-values against random orders."""
    for metric, sign in (("loss", 1), ("accuracy", -1)):
        own = summary[summary["metric"] == metric]
        areas, tests = {}, {}
        for _, row in own.iterrows():
            key = (row["method"], row["rescored"], row["seed"])
            part = curve[(curve["metric"] == metric) & (curve["method"] == key[0])]
            part = part[(part["rescored"] == key[1]) & (part["seed"] == key[2])]
            x, y = part["fraction"].to_numpy(), part["value"].to_numpy()
            areas[key] = float(sum((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2))
            assert row["area"] == pytest.approx(areas[key])
            lost = sign * (y - y[0]) / y[0]
            fine = np.interp(np.linspace(0, 1, 20_001), x, lost)
            first = np.argmax(fine > 0.05) / 20_000 if (lost > 0.05).any() else 1.0
            assert row["falls_5"] == pytest.approx(first, abs=1e-4)
        random = np.array([sign * area for key, area in areas.items() if key[0] == "random"])
        for key, area in areas.items():
            if key[0] != "random":
                spread = random.std(ddof=1) * np.sqrt(1 + 1 / len(random))
                below = (random.mean() - sign * area) / spread if spread > 1e-12 else -np.inf
                tests[key] = 1 - stats.t.cdf(below, len(random) - 1)
        least = 0.0
        for place, key in enumerate(sorted(tests, key=lambda each: tests[each])):
            least = max(least, min(1.0, tests[key] * (len(tests) - place)))
            (found,) = own.set_index(["method", "rescored", "seed"]).loc[[key], "p_value"]
            assert found == pytest.approx(least, abs=1e-6)


def judge_kept(plain: Plain, measuring: list[Example], tables: Any) -> None:
    """Compare the pruned model with the whole one, on the same texts."""
    table = tables["heads"]
    removed = heads_in(table.loc[~table["kept"].astype(bool), HEAD])
    kept = tables["kept"].set_index(["stage", "metric"])
    base = plain.scores(measuring)
    with plain.zeroed(removed):
        apart = plain.scores(measuring) - base
    for column, metric in ((0, "loss"), (1, "accuracy")):
        row, whole = kept.loc[("pruned", metric)], base[:, 2].sum()
        assert row["delta"] == pytest.approx(apart[:, column].sum() / whole, abs=1e-4)
        assert row["lower"] <= row["delta"] <= row["upper"]
        spread = np.sqrt(len(apart)) * apart[:, column].std() / whole  # of a sum of texts
        assert row["upper"] - row["lower"] == pytest.approx(2 * 1.96 * spread, rel=0.3, abs=1e-5)


def test_curves_are_those_of_zeroed_output_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "TIMES", 1)  # a measurement of time, which is not judged
    some = ("ablation", "random")
    model = headed.made("gpt2", "GPT2LMHeadModel")
    assert judged(model, wb.read("primer:size=200"), 9, 3, 2, some) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt", "t5"])
def test_curves_of_the_built_in_models(name: str) -> None:
    assert judged(wb.load(f"mini:{name}"), wb.read("primer"), 30, 20) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("twin", [False, True])
def test_curves_of_an_odd_model_and_its_twin(twin: bool) -> None:
    corpus = odd_corpus({"train": 20, "dev": 5, "test": 30}, longest=30)
    model = odd_model(corpus)
    with torch.random.fork_rng(devices=[]):
        assert judged(odd_twin(model) if twin else model, corpus, 30, 10, steps=3) < 1e-3
