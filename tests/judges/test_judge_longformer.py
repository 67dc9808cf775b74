"""Longformer's masked loss against a plain loop, on odd shapes.

States are computed position by position, block by block: a piece sees those within half a window of
it and the first ones, which see all by projections of their own.
"""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from tests.analyses.training.batches import batch
from tests.analyses.training.test_objectives_longformer import may_see, net_of
from tests.judges.test_judge_seen import mixed
from tests.night import mostly
from workbench.analyses.training.batches import micro
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.chunked_lm_loss import nats_at
from workbench.analyses.training.objectives.masked import IGNORED, masked


def logits_of(net: Any, ids: Tensor, real: list[int], n_global: int) -> dict[int, Tensor]:
    table, pad = net.longformer.embeddings, net.config.pad_token_id
    states = {
        place: table.LayerNorm(
            table.word_embeddings.weight[ids[place]]
            + table.position_embeddings.weight[pad + 1 + place]
            + table.token_type_embeddings.weight[0]
        )
        for place in real
    }
    for block, window in zip(
        net.longformer.encoder.layer, net.config.attention_window, strict=True
    ):
        own, new = block.attention.self, {}
        for place in real:
            seen = [states[o] for o in real if may_see(window, n_global, place, o)]
            ask, key, value = own.query, own.key, own.value
            if place < n_global:
                ask, key, value = own.query_global, own.key_global, own.value_global
            keys, values = [key(s) for s in seen], [value(s) for s in seen]
            found = mixed(ask(states[place]), keys, values, own.num_heads)
            after = block.attention.output(found, states[place])
            new[place] = block.output(block.intermediate(after), after)
        states = new
    return {place: net.lm_head(state) for place, state in states.items()}


@pytest.mark.parametrize(
    ("rows", "length", "n_global", "windows"),
    mostly(
        [
            (*size, n_global, windows)
            for size in ((3, 13), (1, 7))
            for n_global in (0, 1, 3)
            for windows in ((4, 8), (4, 4), (12, 4))
        ],
        (3, 13, 1, (4, 8)),
        (1, 7, 0, (4, 4)),
        (1, 7, 3, (12, 4)),
    ),
)
def test_longformer_is_the_loop(
    rows: int, length: int, n_global: int, windows: tuple[int, ...]
) -> None:
    drawn = batch(rows, length, "roberta", seed=length)
    vocabulary = drawn.vocabulary
    out = masked(drawn.tokens, drawn.special, Generator().manual_seed(1), vocabulary, rate=0.4)
    net = net_of(vocabulary, windows, n_global)
    inputs = micro(out, known()["masked"]).inputs
    with torch.no_grad():
        found, expected = float(nats_at(net, inputs)[0]), 0.0
        for row, labels in enumerate(out["labels"]):
            real = drawn.tokens[row].ne(vocabulary.pad or 0).nonzero()[:, 0].tolist()
            logits = logits_of(net, out["input_ids"][row], real, n_global)
            for place in (labels != IGNORED).nonzero()[:, 0].tolist():
                expected -= float(logits[place].log_softmax(0)[labels[place]])
    assert expected > 0
    assert found == pytest.approx(expected, rel=1e-5)
