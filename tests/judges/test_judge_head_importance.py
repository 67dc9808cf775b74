"""First-order importance of heads (Michel et al. 2019), one text at a time by plain autograd.

I_h = E_x |dL(x)/dxi_h| over single texts; L: nats of a text, xi_h: a factor on the output of head
h. In nats per piece, and divided by the L2 norm of the layer. Costs: a forward and a backward pass
for each text.
"""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain_heads import Plain, heads_in, importance, normalised

MINIS = ["bert", "gpt", "t5"]


def judged(model: Any, corpus: Any, limit: int) -> dict[str, float]:
    """The largest difference of each column, over the largest value there is."""
    table = run_here("head-importance", model, corpus, max_sentences=limit).tables["importance"]
    plain = Plain(model)
    docs = list(corpus.docs("test", limit))
    gradients, number = importance(plain, plain.examples(docs))
    mean = dict(zip(plain.all, np.abs(gradients).sum(0) / number, strict=True))
    first = dict(zip(plain.all, -gradients.sum(0) / number, strict=True))
    heads = heads_in(table)
    assert set(heads) == set(plain.all) and (table["n"] == number).all()
    columns = {
        "importance": mean, "importance_normalised": normalised(mean), "first_order": first,
    }  # fmt: skip
    found = {}
    for name, values in columns.items():
        wanted = np.array([values[head] for head in heads])
        found[name] = float(np.abs(table[name] - wanted).max() / np.abs(wanted).max())
    print(model.name, found)
    return found


def test_importance_is_a_plain_loop_over_texts() -> None:
    for name in ("bert", "gpt"):
        found = judged(wb.load(f"mini:{name}"), wb.read("primer:size=200"), 8)
        assert max(found.values()) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", MINIS)
def test_importance_of_the_built_in_models(name: str) -> None:
    assert max(judged(wb.load(f"mini:{name}"), wb.read("primer"), 60).values()) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("twin", [False, True])
def test_importance_of_an_odd_model_and_its_twin(twin: bool) -> None:
    corpus = odd_corpus({"test": 40})
    model = odd_model(corpus)
    assert max(judged(odd_twin(model) if twin else model, corpus, 40).values()) < 1e-3
