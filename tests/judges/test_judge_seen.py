"""UniLM's and a prefix language model's loss against a plain loop, on odd shapes.

States are computed position by position, block by block, each from the positions that the paper's
rule lets it see, with the weights of the net and no mask.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from transformers import BertForMaskedLM, GPT2LMHeadModel

from tests.analyses.training.batches import batch
from tests.analyses.training.test_objectives_seen import may_see, net_of, only
from tests.night import mostly
from workbench.analyses.training.batches import micro
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.chunked_lm_loss import nats_at
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.objectives.prefix_lm import prefix_lm
from workbench.analyses.training.objectives.unilm import KINDS, unilm


def mixed(query: Tensor, keys: list[Tensor], values: list[Tensor], heads: int) -> Tensor:
    """Attention of one position over a few.  # [width]"""
    out, size = [], len(query) // heads
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = torch.stack([query[part] @ key[part] for key in keys]) / math.sqrt(size)
        out.append(scores.softmax(0) @ torch.stack([value[part] for value in values]))
    return torch.cat(out)


def bert_states(net: Any, ids: Tensor, segments: Tensor, sees: Any, real: list[int]) -> Any:
    table = net.bert.embeddings
    states = {
        place: table.LayerNorm(
            table.word_embeddings.weight[ids[place]]
            + table.position_embeddings.weight[place]
            + table.token_type_embeddings.weight[segments[place]]
        )
        for place in real
    }
    for block in net.bert.encoder.layer:
        own, new = block.attention.self, {}
        for place in real:
            seen = [states[other] for other in real if sees(place, other)]
            found = mixed(
                own.query(states[place]),
                [own.key(s) for s in seen],
                [own.value(s) for s in seen],
                2,
            )
            after = block.attention.output(found, states[place])
            new[place] = block.output(block.intermediate(after), after)
        states = new
    return {place: net.cls(state) for place, state in states.items()}


def gpt_states(net: Any, ids: Tensor, sees: Any, real: list[int]) -> Any:
    body = net.transformer
    states = {p: body.wte.weight[ids[p]] + body.wpe.weight[p] for p in real}
    for block in body.h:
        new = {}
        for place in real:
            parts = {o: block.attn.c_attn(block.ln_1(states[o])[None])[0].chunk(3) for o in real}
            seen = [parts[other] for other in real if sees(place, other)]
            found = mixed(parts[place][0], [p[1] for p in seen], [p[2] for p in seen], 2)
            after = states[place] + block.attn.c_proj(found[None])[0]
            new[place] = after + block.mlp(block.ln_2(after)[None])[0]
        states = new
    return {place: net.lm_head(body.ln_f(state)) for place, state in states.items()}


def judge(net: Any, out: dict[str, Tensor], logits_of: Callable[[int], Any], name: str) -> None:
    inputs = micro(out, known()[name]).inputs
    with torch.no_grad():
        found, expected = float(nats_at(net, inputs)[0]), 0.0
        for row, labels in enumerate(out["labels"]):
            logits = logits_of(row)
            for place in (labels != IGNORED).nonzero()[:, 0].tolist():
                expected -= float(logits[place].log_softmax(0)[labels[place]])
    assert expected > 0
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "rows", "length"),
    mostly(
        [(kind, *size) for kind in KINDS for size in ((3, 13), (1, 7))],
        *((kind, 1, 7) for kind in KINDS),
        ("in two parts", 3, 13),
    ),
)
def test_unilm_is_the_loop(
    kind: str, rows: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = batch(rows, length, "bert", seed=length, ends=0.1, algorithm="wordpiece")
    monkeypatch.setitem(unilm.__globals__, "SHARES", only(kind))
    generator = Generator().manual_seed(1)
    out = unilm(drawn.tokens, drawn.special, generator, drawn.vocabulary, rate=0.4)
    net = net_of(BertForMaskedLM, drawn.vocabulary.size)

    def logits(row: int) -> Any:
        segments = out["token_type_ids"][row]
        second = (segments == 1).tolist()
        real = (drawn.tokens[row].ne(drawn.vocabulary.pad or 0)).nonzero()[:, 0].tolist()
        return bert_states(
            net, out["input_ids"][row], segments, lambda a, b: may_see(kind, second, a, b), real
        )

    judge(net, out, logits, "unilm")


@pytest.mark.parametrize(("rows", "length"), [(3, 13), (1, 7)])
def test_a_prefix_language_model_is_the_loop(rows: int, length: int) -> None:
    drawn = batch(rows, length, "gpt", seed=length)
    out = prefix_lm(drawn.tokens, drawn.special, Generator().manual_seed(1), drawn.vocabulary)
    net = net_of(GPT2LMHeadModel, drawn.vocabulary.size)

    def logits(row: int) -> Any:
        predicting = (out["labels"][row] != IGNORED).nonzero()[:, 0].tolist()
        prefix = predicting[0] if predicting else length
        real = (drawn.tokens[row].ne(drawn.vocabulary.pad or 0)).nonzero()[:, 0].tolist()
        return gpt_states(net, drawn.tokens[row], lambda a, b: b <= max(a, prefix), real)

    judge(net, out, logits, "prefix-lm")
