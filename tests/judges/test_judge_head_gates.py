"""Hard-concrete gates and subsets: probabilities, kept heads, and the loss of the smaller model.

P(open) and the penalty are compared with sampling from the definition (Louizos et al. 2018), the
loss without the closed heads with zeroed slices of W_O, and trained gates with a plain loop that
draws its own noise, one text at a time. Costs: a forward pass for each text and trial; the plain
loop a minute.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain_heads import HEAD, Head, Plain, heads_in

TAU, LOW, HIGH = 0.33, -0.1, 1.1


def p_open(log_a: float) -> float:
    """P(stretched concrete > 0), in closed form."""
    return 1 / (1 + math.exp(-(log_a - TAU * math.log(0.1 / 1.1))))


def gate(log_a: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """A sample of the stretched and cut concrete."""
    concrete = torch.sigmoid((torch.log(uniform / (1 - uniform)) + log_a) / TAU)
    return torch.clamp(concrete * (HIGH - LOW) + LOW, 0, 1)


def judged(model: Any, corpus: Any, limit: int, **settings: Any) -> float:
    """The largest difference of a loss or an accuracy of the smaller model."""
    chosen = {
        "lambdas": [0.02, 0.2],
        "budgets": [0.5, 0.25],
        "steps": 12,
        "batch_size": 8,
        **settings,
    }
    tables = run_here("head-gates", model, corpus, max_sentences=limit, **chosen).tables
    plain, far = Plain(model), 0.0
    examples = plain.examples(list(corpus.docs("test", limit)))
    base = plain.scores(examples)
    number = len(plain.all)
    survival = tables["survival"].set_index(["lambda", "budget", "metric"])
    for (price, budget), own in tables["gates"].groupby(["lambda", "budget"]):
        kept = own["kept"].astype(bool)
        assert kept.sum() == (round(budget * number) if budget else (own["p_open"] > 0.5).sum())
        if budget:
            assert own.loc[kept, "p_open"].min() >= own.loc[~kept, "p_open"].max() - 1e-6
        with plain.zeroed(heads_in(own.loc[~kept, HEAD])):
            left = plain.scores(examples)
        for column, metric in ((0, "loss"), (1, "accuracy")):
            row, whole = survival.loc[(price, budget, metric)], base[:, 2].sum()
            far = max(far, abs(row["base"] - base[:, column].sum() / whole))
            far = max(far, abs(row["value"] - left[:, column].sum() / whole))
            assert row["heads"] == kept.sum() and row["of"] == number
            assert row["lower"] <= row["delta"] <= row["upper"]
            assert 0 < row["p_value"] <= 1 and 0 <= row["p_random"] <= 1
    print(f"{model.name}: {far:.2e}")
    return far


def plainly_learnt(
    plain: Plain, docs: Any, price: float, steps: int, texts: int
) -> dict[Head, float]:
    """P(open) after plain Adam on gates alone, one text at a time."""
    torch.manual_seed(5)
    log_a = {key: torch.full((plain.heads,), 2.0, requires_grad=True) for key in plain.outputs}
    optimiser = torch.optim.Adam(log_a.values(), lr=0.2)
    examples = plain.examples(docs, seed=3)
    random = np.random.default_rng(6)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 0.2 * (1 - step / steps)
        nats, number = torch.zeros(()), 0
        for place in random.choice(len(examples), texts, replace=False):
            drawn = {
                key: gate(a, torch.rand(plain.heads).clamp(1e-6, 1 - 1e-6))
                for key, a in log_a.items()
            }
            with plain.changed(lambda key, out, drawn=drawn: out * drawn[key][:, None]):  # type: ignore[misc]
                own, _ = plain.loss(examples[place])
            nats, number = nats + own, number + len(examples[place].places)
        penalty = sum(torch.sigmoid(a - TAU * math.log(-LOW / HIGH)).sum() for a in log_a.values())
        optimiser.zero_grad()
        (nats / number + price * penalty).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return {(key, n): p_open(float(a[n])) for key, a in log_a.items() for n in range(plain.heads)}


def test_probability_and_penalty_are_those_of_the_distribution() -> None:
    from workbench.analyses.pruning.gates import hard_concrete, open_probability

    random = np.random.default_rng(0)
    uniform = torch.from_numpy(random.random((100_000, 1)).clip(1e-9, 1 - 1e-9))
    for log_a in (-2.0, 0.0, 1.5):
        own = gate(torch.tensor([log_a]).double(), uniform)
        assert abs(float((own > 0).double().mean()) - p_open(log_a)) < 0.006
        assert float(open_probability(torch.tensor(log_a))) == pytest.approx(p_open(log_a))
        theirs = hard_concrete(torch.tensor([log_a]).double(), uniform)
        assert stats.ks_2samp(own.flatten().numpy(), theirs.flatten().numpy()).pvalue > 0.99


@pytest.mark.slow  # by day `tests/models/test_removal.py` has closed gates
def test_the_smaller_model_is_the_model_with_zeroed_output_maps() -> None:
    corpus = wb.read("primer:size=200")
    found = judged(wb.load("mini:gpt"), corpus, 6, steps=4, lambdas=[0.1], budgets=[0.5])
    assert found < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt", "t5"])
def test_gates_of_the_built_in_models(name: str) -> None:
    assert judged(wb.load(f"mini:{name}"), wb.read("primer"), 30) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("twin", [False, True])
def test_gates_of_an_odd_model_and_its_twin(twin: bool) -> None:
    corpus = odd_corpus({"train": 40, "dev": 5, "test": 30}, longest=30)
    model = odd_model(corpus)
    assert judged(odd_twin(model) if twin else model, corpus, 30) < 1e-3


@pytest.mark.slow
def test_gates_trained_in_a_plain_loop_keep_the_same_heads() -> None:
    """Noise and texts differ: only heads with a clear probability must agree."""
    model, corpus, price = wb.load("mini:gpt"), wb.read("primer"), 0.1
    settings = {
        "lambdas": [price],
        "budgets": [],
        "steps": 80,
        "batch_size": 12,
        "gate_learning_rate": 0.2,
    }
    table = run_here("head-gates", model, corpus, max_sentences=60, **settings).tables["gates"]
    plain = Plain(model)
    learnt = plainly_learnt(plain, list(corpus.docs("train", 60)), price, 80, 12)
    ours = dict(zip(heads_in(table), table["p_open"], strict=True))
    apart = [abs(ours[head] - learnt[head]) for head in plain.all]
    same = [(ours[head] > 0.5) == (learnt[head] > 0.5) for head in plain.all]
    print(
        f"P(open) apart: median {np.median(apart):.3f}, largest {max(apart):.3f}; {sum(same)} of 16"
    )
    assert sum(same) >= 15 and np.median(apart) < 0.1
