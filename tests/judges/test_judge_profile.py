"""A judge of `profile`: perplexity, accuracy and bits a byte from bare transformers forwards."""

import math
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import causal_nats, pseudo_nats, text_of
from workbench import Corpus

pytestmark = pytest.mark.slow  # by day tests/analyses/basics/test_profile.py


def judge(model: Any, corpus: Corpus, limit: int) -> dict[str, tuple[float, float]]:
    """Each measure from the experiment, and from its definition."""
    tables = run_here("profile", model, corpus, max_sentences=limit, pseudo_likelihood=True).tables
    facts = tables["facts"].set_index("fact")["value"]
    weights = {w.data_ptr(): w.numel() for w in model.net.parameters()}  # tied ones once
    assert (
        int(facts["parameters"]) == sum(weights.values()) == tables["modules"]["parameters"].sum()
    )
    causal = model.objective == "causal"
    nats = pieces = right = words = size = 0.0
    for doc in corpus.docs("test", limit):
        text = text_of(model.tokenizer, doc)
        bare = causal and text.inside[:1] == [0]
        losses = (
            causal_nats(model.net, text) if causal
            else pseudo_nats(model.net, model.tokenizer, text, within=False)
        )  # fmt: skip
        nats += sum(loss for loss, _ in losses)
        right += sum(best for _, best in losses)
        pieces += len(losses)
        words += len({text.word[place] for place in text.inside[bare:]} - {-1})
        size += len(doc.text[text.ends[0] if bare else 0 :].encode())
    prefix = "" if causal else "pseudo_"
    expected = {
        "loss": nats / pieces,
        "perplexity": math.exp(nats / pieces),
        "accuracy": right / pieces,
        "perplexity_per_word": math.exp(nats / words),
        "bits_per_byte": nats / math.log(2) / size,
    }
    found = tables["losses"].set_index("metric")["value"]
    return {name: (float(found[f"{prefix}{name}"]), value) for name, value in expected.items()}


def agrees(model: Any, corpus: Corpus, limit: int) -> None:
    found = judge(model, corpus, limit)
    print(
        model.name, {name: f"{ours:.5g} / {theirs:.5g}" for name, (ours, theirs) in found.items()}
    )
    for name, (ours, theirs) in found.items():
        tolerance = {"abs": 0.01} if name == "accuracy" else {"rel": 1e-4}  # near ties may turn
        assert ours == pytest.approx(theirs, **tolerance), name
    assert np.isfinite([ours for ours, _ in found.values()]).all()


def test_a_small_case() -> None:
    for name in ("mini:bert", "mini:gpt"):
        agrees(wb.load(name, "cpu"), wb.read("primer:size=200"), 8)


@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt"])
def test_the_minis(name: str) -> None:
    agrees(wb.load(name, "cpu"), wb.read("primer"), 100)


def test_the_odd_model_and_its_twin() -> None:
    corpus = odd_corpus()
    model = odd_model(corpus)
    for each in (model, odd_twin(model, 1)):
        agrees(each, corpus, 25)
