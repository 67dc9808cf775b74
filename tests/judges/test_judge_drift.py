"""`drift` against full Gram matrices, scipy's Procrustes, plain loops over weights and losses.

Words are whole pieces here: a word's state is a piece's, read from transformers' own output.
"""

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from workbench.models.huggingface import HuggingFace

pytestmark = pytest.mark.slow  # by day tests/analyses/transfer/test_drift.py moves weights by hand

SIZES = {"train": 5, "dev": 5, "test": 14}


def perturbed(model: HuggingFace, size: float) -> HuggingFace:
    """A copy whose weights have moved by noise, a matrix at a time."""
    net: Any = deepcopy(model.net)
    drawn = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in net.parameters():
            if weights.ndim > 1:
                noise = torch.randn(weights.shape, generator=drawn)
                weights += size * float(weights.std()) * noise
    return HuggingFace(net, model.tokenizer, f"{model.name}-moved")


def read(model: HuggingFace, doc: Doc) -> tuple[list[np.ndarray], list[torch.Tensor], int]:
    """Layers [words, width], eager attention maps [heads, pieces, pieces], pieces at the start."""
    model.net.set_attn_implementation("eager")
    told = model.tokenizer(doc.text, return_tensors="pt")
    with torch.no_grad():
        out = model.net(**told, output_hidden_states=True, output_attentions=True)
    ids = told["input_ids"][0].tolist()
    special = set(model.tokenizer.all_special_ids) - {model.tokenizer.unk_token_id}
    inner = [place for place, piece in enumerate(ids) if piece not in special]
    assert len(inner) == len(doc), "every word is a piece"
    return (
        [layer[0, inner].double().numpy() for layer in out.hidden_states],
        [maps[0][:, inner].double() for maps in out.attentions],
        len(inner),
    )


def gram_cka(x: np.ndarray, y: np.ndarray) -> float:
    """Unbiased HSIC from the two matrices of rows by rows (Song et al. 2012)."""
    n = len(x)
    k, m = x @ x.T, y @ y.T
    np.fill_diagonal(k, 0)
    np.fill_diagonal(m, 0)

    def hsic(a: np.ndarray, b: np.ndarray) -> float:
        first = np.trace(a @ b) + a.sum() * b.sum() / ((n - 1) * (n - 2))
        return float(first - 2 / (n - 2) * (a @ b).sum()) / (n * (n - 3))

    return hsic(k, m) / math.sqrt(hsic(k, k) * hsic(m, m))


def procrustes(x: np.ndarray, y: np.ndarray) -> float:
    """Half of the squared distance of unit shapes after the best rotation, by scipy."""
    x, y = x - x.mean(0), y - y.mean(0)
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    rotation, _ = orthogonal_procrustes(x, y)
    return float(np.linalg.norm(x @ rotation - y) ** 2 / 2)


def divergence(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Jensen-Shannon, in bits, of rows.  # [..., keys] -> [...]"""

    def bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.where(a > 0, a * (a / b).log2(), 0.0).sum(-1)

    middle = (p + q) / 2
    return (bits(p, middle) + bits(q, middle)) / 2


def judge(before: HuggingFace, after: HuggingFace, corpus: Any, docs: list[Doc]) -> None:
    result = run_here("drift", (before, after), corpus, max_sentences=len(docs))
    table = result.tables["drift"].set_index("layer")
    old, new = ([read(model, doc) for doc in docs] for model in (before, after))
    for layer in range(len(old[0][0])):
        x, y = (np.concatenate([each[0][layer] for each in side]) for side in (old, new))
        x, y = x - x.mean(0), y - y.mean(0)
        assert table["cka"][layer] == pytest.approx(gram_cka(x, y), abs=1e-5)
        assert table["procrustes"][layer] == pytest.approx(procrustes(x, y), abs=1e-5)
    heads = result.tables["heads"].set_index(["layer", "head"])["attention_js"]
    for layer in range(len(old[0][1])):
        sums = sum(
            divergence(a[1][layer], b[1][layer]).sum(-1) for a, b in zip(old, new, strict=True)
        )
        mean = sums / sum(each[2] for each in old)
        for head, value in enumerate(mean.tolist()):
            assert heads[layer, head] == pytest.approx(value, abs=1e-4)
        assert table["attention_js"][layer + 1] == pytest.approx(float(mean.mean()), abs=1e-4)
    moved: dict[int, list[float]] = {}
    state = after.net.state_dict()
    for name, weights in before.net.state_dict().items():
        if ".layer." not in name or not weights.is_floating_point():
            continue
        number = int(name.split(".layer.")[1].split(".")[0]) + 1
        parts = moved.setdefault(number, [0.0, 0.0])
        parts[0] += float((state[name].double() - weights.double()).square().sum())
        parts[1] += float(weights.double().square().sum())
    for number, (apart, whole) in moved.items():
        wanted = math.sqrt(apart / whole)
        assert table["weight_distance"][number] == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_an_odd_model_and_itself_moved() -> None:
    corpus = odd_corpus(SIZES, 0, longest=20)
    model = odd_model(corpus)
    judge(model, perturbed(model, 0.2), corpus, list(corpus.docs("test")))


def test_an_odd_model_and_its_twin() -> None:
    corpus = odd_corpus({**SIZES, "test": 40}, 1)
    model = odd_model(corpus)
    judge(model, odd_twin(model, 5), corpus, list(corpus.docs("test")))


def test_forgetting_is_the_difference_of_plain_language_model_losses() -> None:
    """Of GPT: nats of every piece from those before it, the first from the start token if any."""
    before, corpus = wb.load("mini:gpt"), wb.read("primer")
    assert isinstance(before, HuggingFace)
    after = perturbed(before, 0.1)
    result = run_here("drift", (before, after), corpus, max_sentences=20)
    row = result.tables["losses"].set_index("metric").iloc[0]
    docs = list(corpus.docs("test", 20))
    plain = [np.mean(np.concatenate([nats(m, doc) for doc in docs])) for m in (before, after)]
    assert row["before"] == pytest.approx(plain[0], abs=1e-3)
    assert row["after"] == pytest.approx(plain[1], abs=1e-3)
    assert row["change"] == pytest.approx(plain[1] - plain[0], abs=2e-3)


def nats(model: HuggingFace, doc: Doc) -> np.ndarray:
    """Of each piece of the text; special pieces are read, and predict, but are not predicted."""
    batch = wb_encode([doc])
    text = model.encode(batch)
    ids, special = text.ids, text.special[0]
    with torch.no_grad():
        logits = model.net(input_ids=ids).logits[0].double()
    each = torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="none")
    found: np.ndarray = each[~special[1:]].numpy()
    return found


def wb_encode(docs: list[Doc]) -> Any:
    from workbench import encode

    return encode(docs)
