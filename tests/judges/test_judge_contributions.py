"""A judge of `contributions`: each block's outputs by hand, from a bare model of transformers.

The parts of GPT-2 and BERT are computed here from their weights, with the attention written out;
the scales of norms are constants of the pass. Gains and counts are loops.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from tests.judges.resampled import resampled
from tests.night import mostly

pytestmark = pytest.mark.slow  # by day tests/analyses/lenses/test_contributions.py sums by hand

PERMUTATIONS = 59
Vectors = dict[tuple[str, str, int, int], Tensor]  # by part, kind, layer and head: [width]


def held(norm: Any, read: Tensor) -> Tensor:
    """The scale of a norm at one state."""
    return 1 / (read.var(unbiased=False) + norm.eps).sqrt()


def through(norm: Any, scale: Tensor, vector: Tensor) -> Tensor:
    return norm.weight * (vector - vector.mean()) * scale


def normed(norm: Any, states: Tensor) -> Tensor:
    return functional.layer_norm(states, (states.shape[-1],), norm.weight, norm.bias, norm.eps)


def heads_of(q: Tensor, k: Tensor, v: Tensor, n: int, causal: bool) -> Tensor:
    """What each head reads.  # [pieces, width] each -> [heads, pieces, width of a head]"""
    split = [x.view(len(x), n, -1).transpose(0, 1) for x in (q, k, v)]
    scores = split[0] @ split[1].transpose(1, 2) / split[0].shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores[0]).tril().bool(), -torch.inf)
    return scores.softmax(-1) @ split[2]


def gpt(net: Any, ids: Tensor, at: int) -> tuple[Vectors, Tensor]:
    """What each part writes at a piece, as it reaches the head; and the head's input."""
    body, n = net.transformer, net.config.n_head
    states = body.wte(ids) + body.wpe(torch.arange(len(ids)))
    parts: Vectors = {("embeddings", "", -1, -1): states[at]}
    for layer, block in enumerate(body.h):
        q, k, v = (normed(block.ln_1, states) @ block.attn.c_attn.weight
                   + block.attn.c_attn.bias).chunk(3, -1)  # fmt: skip
        read, out = heads_of(q, k, v, n, causal=True), block.attn.c_proj
        slices = out.weight.view(n, -1, out.weight.shape[1])  # [heads, width of a head, width]
        written = torch.einsum("hpd,hdw->hpw", read, slices)
        for head in range(n):
            parts["head", "causal", layer, head] = written[head, at]
        parts["attention-bias", "causal", layer, -1] = out.bias
        states = states + written.sum(0) + out.bias
        mlp = block.mlp(normed(block.ln_2, states))
        parts["mlp", "", layer, -1] = mlp[at]
        states = states + mlp
    scale = held(body.ln_f, states[at])
    found = {name: through(body.ln_f, scale, part) for name, part in parts.items()}
    found["norm-bias", "", -1, -1] = body.ln_f.bias
    return found, normed(body.ln_f, states[at])


def bert(net: Any, ids: Tensor, at: int) -> tuple[Vectors, Tensor]:
    body, n = net.bert, net.config.num_attention_heads
    states = body.embeddings(ids[None])[0]
    found: Vectors = {("embeddings", "", -1, -1): states[at]}

    def pass_norm(norm: Any, total: Tensor, kind: str, layer: int) -> Tensor:
        scale = held(norm, total[at])
        for name in found:
            found[name] = through(norm, scale, found[name])
        found["norm-bias", kind, layer, -1] = norm.bias
        return normed(norm, total)

    for layer, block in enumerate(body.encoder.layer):
        own, out = block.attention.self, block.attention.output.dense
        read = heads_of(own.query(states), own.key(states), own.value(states), n, causal=False)
        slices = out.weight.T.reshape(n, -1, out.weight.shape[0])
        written = torch.einsum("hpd,hdw->hpw", read, slices)
        for head in range(n):
            found["head", "self", layer, head] = written[head, at]
        found["attention-bias", "self", layer, -1] = out.bias
        total = states + written.sum(0) + out.bias
        states = pass_norm(block.attention.output.LayerNorm, total, "self", layer)
        mlp = block.output.dense(block.intermediate(states))
        found["mlp", "", layer, -1] = mlp[at]
        states = pass_norm(block.output.LayerNorm, states + mlp, "", layer)
    return found, states[at]


def gradients(net: Any, family: str, state: Tensor) -> tuple[Tensor, Tensor]:
    """The logits, and the derivative of each logit at the head's input.  # [choices, width]"""
    if family == "gpt2":
        return net.lm_head(state), net.lm_head.weight
    head = net.cls.predictions
    inner = head.transform.dense(state)
    active = functional.gelu(inner)
    slope = torch.autograd.functional.jacobian(functional.gelu, inner).diagonal()
    norm = head.transform.LayerNorm
    scale = held(norm, active)
    jacobian = slope[:, None] * head.transform.dense.weight  # [inner, width]
    centred = norm.weight[:, None] * (jacobian - jacobian.mean(0)) * scale
    return head.decoder(normed(norm, active)), head.decoder.weight @ centred


@torch.no_grad()
def judged(model: Any, corpus: Any, split: str, limit: int | None) -> dict[str, Any]:
    """Contributions of every part to every distinct true word, of all words with a context."""
    net, family = model.net, model.net.config.model_type
    docs = list(corpus.docs(split, limit))
    cases, names = [], resampled(docs)
    for number, doc in enumerate(docs):
        pieces = model.encode(wb.encode([doc]))
        ids, words = pieces.ids[0], pieces.words[0].tolist()
        for word in dict.fromkeys(w for w in words if w >= 0):
            first = words.index(word)
            if int(ids[first]) == model.symbols.unknown or bool(pieces.special[0, first]):
                continue
            if family == "gpt2":
                if first == 0:
                    continue
                parts, state = gpt(net, ids[:first], first - 1)
            else:
                seen = ids.clone()
                seen[[p for p, w in enumerate(words) if w == word]] = model.symbols.mask
                parts, state = bert(net, seen, first)
            logits, slopes = gradients(net, family, state)
            name = names[number]
            tag = doc[word].pos_ or doc[word].tag_ or "(none)"
            cases.append((name, tag, int(ids[first]), parts, logits, slopes))
    return {"cases": cases, "parts": list(cases[0][3])}


def means(found: dict[str, Any]) -> tuple[dict[Any, float], dict[Any, float], dict[Any, float]]:
    """Mean contributions to the choice and to the true word, and mean gains, by part."""
    cases = found["cases"]
    types = sorted({case[2] for case in cases})
    average = sum(case[5] for case in cases) / len(cases)  # [choices, width]
    direction = {t: average[t] - average.mean(0) for t in types}
    own: dict[Any, float] = {}
    gold: dict[Any, float] = {}
    gain: dict[Any, float] = {}
    tags = defaultdict(list)
    for case in cases:
        tags[case[1]].append(case)
    for part in found["parts"]:
        to_choice, to_gold, gains = [], [], []
        for _, _, true, parts, logits, slopes in cases:
            mean = slopes.mean(0)
            to_choice.append(float((parts[part] @ (slopes[int(logits.argmax())] - mean)).detach()))
            to_gold.append(float((parts[part] @ (slopes[true] - mean)).detach()))
        for members in tags.values():
            here = sorted({case[2] for case in members})
            if len(here) < 2:
                continue
            table = np.array(
                [[float(case[3][part] @ direction[t]) for t in here] for case in members]
            )
            for row, case in enumerate(members):
                column = here.index(case[2])
                gains.append(
                    table[row, column] - table[:, column].mean() - table[row].mean() + table.mean()
                )
        own[part], gold[part] = float(np.mean(to_choice)), float(np.mean(to_gold))
        gain[part] = float(np.mean(gains)) if gains else 0.0
    return own, gold, gain


CASES = [
    ("mini:gpt", "primer", 6),
    ("mini:bert", "primer", 6),
    ("odd", "odd", 4),
    ("twin", "odd", 4),
]


@pytest.mark.parametrize(("which", "corpus_name", "limit"), mostly(CASES, CASES[0]))
def test_contributions_and_gains_are_those_by_hand(
    which: str, corpus_name: str, limit: int
) -> None:
    corpus = odd_corpus(longest=12) if corpus_name == "odd" else wb.read("primer")
    if which in ("odd", "twin"):
        odd = odd_model(corpus)
        model: Any = odd if which == "odd" else odd_twin(odd)
    else:
        model = wb.load(which, device="cpu")
    tables = run_here(
        "contributions", model, corpus, max_sentences=limit, max_words=10_000,
        n_permutations=PERMUTATIONS, min_count=1,
    ).tables  # fmt: skip
    found = judged(model, corpus, "test", limit)
    own, gold, gain = means(found)
    table = tables["components"]
    rows = {(r["part"], r["kind"], r["layer"], r["head"]): r for r in table.to_dict("records")}
    assert set(rows) - {("output-bias", "", -1, -1)} == set(own)
    assert {row["n"] for row in rows.values()} == {len(found["cases"])}
    for part, value in own.items():
        row = rows[part]
        size = max(1e-3, abs(value))
        assert row["contribution"] == pytest.approx(value, abs=2e-3 * size), part
        assert row["gold"] == pytest.approx(gold[part], abs=2e-3 * max(1e-3, abs(gold[part])))
        assert row["gain"] == pytest.approx(gain[part], abs=2e-3 * max(1e-2, abs(gain[part])))
        assert row["lower"] <= row["contribution"] <= row["upper"]
        assert row["writes"] == (row["p"] < 0.05 and row["gain"] > 0)
    layers = tables["layers"].set_index(["layer", "source"])["contribution"]
    for layer in {part[2] for part in own if part[0] == "head"}:
        heads = sum(value for part, value in own.items() if part[0] == "head" and part[2] == layer)
        assert layers[layer, "attention"] == pytest.approx(heads, abs=2e-3 * max(1e-2, abs(heads)))
        mlp = own["mlp", "", layer, -1]
        assert layers[layer, "MLP"] == pytest.approx(mlp, abs=2e-3 * max(1e-2, abs(mlp)))
    total = tables["summary"].set_index("fact")["value"]["sum of contributions"]
    assert total == pytest.approx(table["contribution"].sum(), rel=1e-6)
