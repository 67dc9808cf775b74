"""Random weights claim nothing: the pruning experiments on random twins of the built-in models.

Claims are pooled over twins, and false ones may not exceed the 99 % quantile of a binomial at the
stated level. Costs minutes; one twin in the normal suite.
"""

from collections import Counter

import pytest
from scipy.stats import binom

import workbench as wb
from tests.judges import twins_pruning
from workbench.models.fresh import fresh


def test_claims_on_one_twin_are_true() -> None:
    model = fresh(wb.load("mini:gpt"), 0)
    for claims in (twins_pruning.ablation, twins_pruning.baseline):
        tried, false, _ = claims(model, wb.read("primer"), 0)
        assert tried > 0 and false == 0


@pytest.mark.slow
def test_claims_on_random_twins_are_false_no_more_often_than_stated() -> None:
    tried, false, level = Counter[str](), Counter[str](), {}
    for seed in range(20):
        model = fresh(wb.load(f"mini:{('bert', 'gpt', 't5')[seed % 3]}"), seed)
        for claims in twins_pruning.CLAIMS:
            name = claims.__name__
            some, wrong, level[name] = claims(model, wb.read("primer"), seed)
            tried[name] += some
            false[name] += wrong
    for name, number in tried.items():
        most = int(binom.ppf(0.99, number, level[name]))
        print(f"{name}: {false[name]} of {number} false, at most {most}")
    for name, number in tried.items():
        assert false[name] <= binom.ppf(0.99, number, level[name]), name
