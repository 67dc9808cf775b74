"""A judge of `similarity`: whole maps of words by words, from bare transformers forwards."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import text_of
from workbench import Corpus

Floats = NDArray[np.float64]


@torch.no_grad()
def states(model: Any, corpus: Corpus, limit: int) -> list[Floats]:
    """The mean of each word's pieces, layer by layer; the last before any final norm."""
    rows: list[list[Floats]] = []
    net = model.net.base_model
    blocks = net.h if hasattr(net, "h") else net.encoder.layer
    raw: list[torch.Tensor] = []
    hook = blocks[-1].register_forward_hook(
        lambda m, a, out: raw.append(out[0] if isinstance(out, tuple) else out)
    )
    for doc in corpus.docs("test", limit):
        text = text_of(model.tokenizer, doc)
        hidden = list(net(text.ids[None], output_hidden_states=True).hidden_states)
        hidden[-1] = raw.pop()
        for word in range(len(doc)):
            own = [place for place, of in enumerate(text.word) if of == word]
            assert own, "every word has a piece"
            rows.append([layer[0, own].double().mean(0).numpy() for layer in hidden])
    hook.remove()
    return [np.array([row[layer] for row in rows]) for layer in range(len(rows[0]))]


def debiased_cka(x: Floats, y: Floats) -> float:
    """Song et al. (2012), term by term, over whole maps."""
    n = len(x)

    def kernel(rows: Floats) -> Floats:
        centred = rows - rows.mean(0)  # of a constant feature nothing is left, of an outlier all
        found: Floats = centred @ centred.T
        np.fill_diagonal(found, 0)
        return found

    def hsic(k: Floats, m: Floats) -> float:
        total = (k * m.T).sum() + k.sum() * m.sum() / ((n - 1) * (n - 2))
        return float((total - 2 / (n - 2) * (k.sum(0) @ m.sum(1))) / (n * (n - 3)))

    k, m = kernel(x), kernel(y)
    return hsic(k, m) / float(np.sqrt(hsic(k, k) * hsic(m, m)))


def judge(models: list[Any], corpus: Corpus, limit: int) -> float:
    """The largest difference of a CKA."""
    table = run_here("similarity", models, corpus, max_sentences=limit, random_twin=False).tables[
        "similarity"
    ]
    own = {model.name: states(model, corpus, limit) for model in models}
    apart = 0.0
    for row in table.to_dict("records"):
        x = own[row["model_a"]][row["layer_a"]]
        y = own[row["model_b"]][row["layer_b"]]
        apart = max(apart, abs(row["cka"] - debiased_cka(x, y)))
    pairs = sum(
        len(own[a.name]) * len(own[b.name]) for n, a in enumerate(models) for b in models[n:]
    )
    assert len(table) == pairs
    print(", ".join(own), f"{len(table)} pairs of layers within {apart:.1e}")
    return apart


def test_a_small_case() -> None:
    assert judge([wb.load("mini:bert", "cpu")], wb.read("primer:size=200"), 6) < 1e-4


@pytest.mark.slow
def test_the_minis() -> None:
    models = [wb.load(name, "cpu") for name in ("mini:bert", "mini:gpt")]
    assert judge(models, wb.read("primer"), 60) < 1e-4


@pytest.mark.slow
def test_the_odd_model_and_its_twin() -> None:
    corpus = odd_corpus()
    model = odd_model(corpus)
    assert judge([model, odd_twin(model, 1)], corpus, 40) < 1e-4


@pytest.mark.slow
def test_a_random_twin_next_to_one_model_is_the_twin() -> None:
    corpus = odd_corpus()
    model = odd_model(corpus)
    table = run_here("similarity", model, corpus, seed=1, max_sentences=20).tables["similarity"]
    twin = odd_twin(model, 1)
    own = states(twin, corpus, 20)
    rows = table[table["model_a"] == twin.name].to_dict("records")
    assert len(rows) == 64
    for row in rows:
        expected = debiased_cka(own[row["layer_a"]], own[row["layer_b"]])
        assert row["cka"] == pytest.approx(expected, abs=1e-4)
