"""A judge of `attention-probe`: one probe at a time, from its definition, in double precision.

p(i is the head of j) ~ exp of a weighted sum of the attention of each head from j to i and from i
to j. Word-level maps come from a plain transformers forward pass: sum over the pieces of the
attended word, mean over the pieces of the attending word. Each probe is fitted with scipy's L-BFGS
and the best weight decay of a grid on dev. Nothing here is imported from the probes. A case
takes up to a minute.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from workbench import Corpus

# by day `tests/analyses/probes/test_attention_probe.py` plants heads
pytestmark = pytest.mark.slow

Floats = NDArray[np.float64]
DECAYS = (1.0, 0.1, 0.01, 1e-3, 1e-4)
SPREAD = 1e-4  # a head that is closer to uniform attention is left as it is
HALF = 2**-11  # relative rounding of half precision
NEAR = 1e-3  # of dev losses, under which either weight decay may be chosen
POINT = 0.01
Maps = dict[int, Floats]  # of each text: [words that look, words looked at, heads]


def maps_of(model: Any, docs: Sequence[Doc]) -> Maps:
    """Attention of words, text by text."""
    net = model.net.get_encoder() if model.net.config.is_encoder_decoder else model.net
    before = net.config._attn_implementation
    net.set_attn_implementation("eager")
    found = {}
    for place, doc in enumerate(docs):
        encoded = model.tokenizer(doc.text, return_offsets_mapping=True, return_tensors="pt")
        spans = encoded.pop("offset_mapping")[0].tolist()
        with torch.no_grad():
            attentions = net(**encoded, output_attentions=True).attentions
        pieces = torch.cat([layer[0] for layer in attentions]).double().numpy()
        pieces = pieces.transpose(1, 2, 0)  # [pieces, pieces, heads]
        owned = [
            [at for at, (a, b) in enumerate(spans) if b > t.idx and a < t.idx + len(t) and b > a]
            for t in doc
        ]
        towards = np.stack([pieces[:, own].sum(1) for own in owned], 1)  # [pieces, words, heads]
        found[place] = np.stack([towards[own].mean(0) for own in owned])
    net.set_attn_implementation(before)
    return found


Case = tuple[Floats, int]  # [candidates, 2 * heads], and which of them is the head


def cases_of(docs: Sequence[Doc], maps: Mapping[int, Floats], first: int) -> list[Case]:
    """Every word with a head, no punctuation: its candidates are all other words."""
    found = []
    for place, doc in enumerate(docs, start=first):
        own = maps[place]
        for word in doc:
            if word.head.i == word.i or word.pos_ == "PUNCT" or word.dep_ == "punct":
                continue
            others = [at for at in range(len(doc)) if at != word.i]
            rows = np.concatenate([own[word.i, others], own[others, word.i]], axis=1)
            found.append((rows, others.index(word.head.i)))
    return found


def fitted(train: list[Case], dev: list[Case]) -> list[Floats]:
    """Optimal weights for each weight decay, the strongest first, as long as dev gains.

    Those that are best on dev, and those whose dev loss is so near that either may be chosen.
    """
    found: list[tuple[float, Floats]] = []
    start = np.zeros(train[0][0].shape[1])
    flat, owner, gold = _flat(train)

    def objective(weights: Floats, decay: float) -> tuple[float, Floats]:
        loss, share = _loss(weights, flat, owner, gold)
        slope = (flat.T @ share) / len(gold)
        return loss + decay / 2 * float(weights @ weights), slope + decay * weights

    for decay in DECAYS:
        end = minimize(
            objective, start, (decay,), jac=True, method="L-BFGS-B",
            options={"maxiter": 2_000, "gtol": 1e-6, "ftol": 1e-14},
        )  # fmt: skip
        start = end.x
        loss = _loss(end.x, *_flat(dev))[0]
        found.append((loss, end.x))
        best = min(loss for loss, _ in found)
        if loss > best + NEAR:
            break
    return [weights for loss, weights in found if loss <= best + NEAR]


def _flat(cases: list[Case]) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    sizes = [len(rows) for rows, _ in cases]
    starts = np.cumsum([0, *sizes[:-1]])
    gold = np.array([start + head for start, (_, head) in zip(starts, cases, strict=True)])
    owner = np.repeat(np.arange(len(cases)), sizes)
    return np.concatenate([rows for rows, _ in cases]), owner, gold


def _loss(
    weights: Floats, flat: Floats, owner: NDArray[np.int64], gold: NDArray[np.int64]
) -> tuple[float, Floats]:
    """Mean loss, and its gradient by each candidate's score times the number of words."""
    scores = flat @ weights
    largest = np.full(len(gold), -np.inf)
    np.maximum.at(largest, owner, scores)
    odds = np.exp(scores - largest[owner])
    total = np.bincount(owner, odds)
    share = odds / total[owner]
    loss = float(-np.log(share[gold]).mean())
    share[gold] -= 1
    return loss, share


def judged(
    parts: Mapping[str, Sequence[Doc]], maps: Maps, heads: Sequence[int]
) -> dict[int, tuple[float, float]]:
    """UAS of the heads of each layer, and of all (-1): words right without ties, and with all ties.

    Sharp heads give nothing at all to many candidates, which then tie; the probes read attention
    in half precision, so candidates that are closer than that tell apart are tied too.
    """
    starts = np.cumsum([0, *(len(docs) for docs in parts.values())])
    firsts = dict(zip(parts, starts[:-1].tolist(), strict=True))
    first, last = firsts["train"], firsts["train"] + len(parts["train"])
    uneven = {place: own - 1 / len(own) for place, own in maps.items()}
    pairs = np.concatenate([uneven[at].reshape(-1, len(heads)) for at in range(first, last)])
    spread = np.where(pairs.std(0) > SPREAD, pairs.std(0), 1.0)
    scaled = {place: own / spread for place, own in uneven.items()}
    every = {part: cases_of(docs, scaled, firsts[part]) for part, docs in parts.items()}
    found = {}
    for layer in (-1, *sorted(set(heads))):
        own = [at for at, of in enumerate(heads) if layer in (-1, of)]
        columns = [*own, *(len(heads) + at for at in own)]
        train, dev, test = (
            [(rows[:, columns], gold) for rows, gold in every[part]]
            for part in ("train", "dev", "test")
        )
        bounds = [counted(test, weights) for weights in fitted(train, dev)]
        found[layer] = min(sure for sure, _ in bounds), max(tied for _, tied in bounds)
    return found


def counted(test: list[Case], weights: Floats) -> tuple[float, float]:
    """Share of words whose head is right without ties, and with all ties."""
    sure = tied = 0
    for rows, gold in test:
        scores = rows @ weights
        slack = HALF * float((np.abs(rows) @ np.abs(weights)).max())
        sure += int(scores[gold] > np.delete(scores, gold).max(initial=-np.inf) + slack)
        tied += int(scores[gold] >= scores.max() - slack)
    return sure / len(test), tied / len(test)


def gap(ours: float, plain: tuple[float, float]) -> float:
    """Distance of our score from the range that ties allow."""
    return max(plain[0] - ours, ours - plain[1], 0.0)


def measured(result: Any, encoder: str = "model", stack: str | None = None) -> dict[int, float]:
    means = result.tables["means"]
    own = means[(means["probe"] == "attention") & (means["encoder"] == encoder)]
    own = own[~own["control"] & (own["stack"] == (stack or own["stack"].iloc[0]))]
    assert own["converged"].all()
    return dict(zip(own["layer"].tolist(), own["value"].tolist(), strict=True))


def compared(model: Any, corpus: Corpus, **sizes: int) -> float:
    """The largest difference of UAS over all layers."""
    parts = {
        part: list(corpus.docs(part, sizes[f"max_{part}"])) for part in ("train", "dev", "test")
    }
    result = run_here("attention-probe", model, corpus, seeds=(0,), half_data_check=False, **sizes)
    ours = measured(result)
    maps = maps_of(model, [doc for docs in parts.values() for doc in docs])
    stack = model.stacks[0]
    heads = [layer for layer in range(stack.layers) for _ in range(stack.heads)]
    plain = judged(parts, maps, heads)
    assert set(plain) == set(ours)
    for layer, value in plain.items():
        print(f"layer {layer}: plain {value[0]:.3f} to {value[1]:.3f}, ours {ours[layer]:.3f}")
    return max(gap(ours[layer], value) for layer, value in plain.items())


def test_a_few_sentences_of_the_odd_model() -> None:
    corpus = odd_corpus({"train": 40, "dev": 40, "test": 60}, longest=12)
    model = odd_model(corpus)
    assert compared(model, corpus, max_train=40, max_dev=40, max_test=60) <= POINT


def planted(docs: Sequence[Doc], layers: int, each: int, knows: int, seed: int) -> Maps:
    """Random attention; one head attends to the syntactic head of each word half of the time."""
    random = np.random.default_rng(seed)
    found = {}
    for place, doc in enumerate(docs):
        scores = random.normal(size=(len(doc), len(doc), layers * each)) * 2
        own = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        own[..., knows] /= 2
        for word in doc:
            own[word.i, word.head.i, knows] += 0.5
        found[place] = own
    return found


@pytest.mark.parametrize(
    "sizes",
    [{"train": 40, "dev": 20, "test": 40}, {"train": 300, "dev": 80, "test": 200}],
    ids=["few", "many"],
)
def test_one_head_of_72_knows_the_heads_of_words(
    sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.analyses.probes import (
        attention_features,
    )  # what it reads is replaced, not what it does

    layers, each, knows = 6, 12, 3 * 12 + 5
    corpus = odd_corpus(sizes, longest=12)
    parts = {part: list(corpus.docs(part)) for part in sizes}
    docs = [doc for own in parts.values() for doc in own]
    lengths = np.array([len(doc) for doc in docs])
    heads = tuple((layer, head) for layer in range(layers) for head in range(each))
    both = [planted(docs, layers, each, knows, seed) for seed in (0, 1)]

    def given(model: Any, batch: Any, progress: Any = None) -> Any:
        own = both.pop(0)
        uneven = [own[place] - 1 / len(own[place]) for place in range(len(docs))]
        flat = [torch.from_numpy(each).flatten(0, 1) for each in uneven]
        starts = np.cumsum(lengths**2) - lengths**2
        maps = attention_features.Maps(heads, torch.cat(flat).half(), starts, lengths)
        return {"encoder": maps}, np.zeros(int(lengths.sum()), dtype=np.bool_)

    maps = both[0]
    monkeypatch.setattr(attention_features, "attention", given)
    result = run_here(
        "attention-probe", odd_model(corpus), corpus, seeds=(0,), half_data_check=False
    )
    ours, plain = measured(result), judged(parts, maps, [layer for layer, _ in heads])
    print(plain, ours)
    assert plain[3][0] > 0.95 and plain[-1][0] > 0.9
    for layer, value in plain.items():
        assert gap(ours[layer], value) <= POINT, layer
    own = result.tables["means"].query("probe == 'attention' and encoder == 'model' and ~control")
    assert own.set_index("layer")["learnt"][[-1, 3]].all()


@pytest.mark.parametrize("name", ["mini:bert", "mini:gpt", "mini:t5"])
def test_the_built_in_models(name: str) -> None:
    sizes = {"max_train": 250, "max_dev": 200, "max_test": 300}
    assert compared(wb.load(name), wb.read("primer"), **sizes) <= POINT


@pytest.mark.parametrize("is_twin", [False, True])
def test_the_odd_model_and_its_random_twin(is_twin: bool) -> None:
    corpus = odd_corpus()
    model = odd_model(corpus)
    model = odd_twin(model) if is_twin else model
    assert compared(model, corpus, max_train=120, max_dev=40, max_test=60) <= POINT
