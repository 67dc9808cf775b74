"""XLNet's loss against a plain loop of its definition, on odd shapes.

For each target the states are computed anew, position by position, from what each may see of the
order that the masks were drawn with: two streams, relative positions and segments.
"""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional
from transformers import XLNetConfig, XLNetLMHeadModel

from tests.analyses.training.batches import batch
from tests.night import mostly
from workbench.analyses.training.batches import micro
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.chunked_lm_loss import nats_at
from workbench.analyses.training.objectives.permuted import permuted


def relative(layer: Any, distance: int, width: int) -> Tensor:
    """The key of a distance.  # [heads, size]"""
    rates = [distance / 10_000 ** (2 * each / width) for each in range(width // 2)]
    waves = [math.sin(rate) for rate in rates] + [math.cos(rate) for rate in rates]
    return torch.einsum("w,whd->hd", torch.tensor(waves), layer.r)


def attended(
    block: Any, at: int, query: Tensor, states: dict[int, Tensor], segments: Tensor
) -> Tensor:
    """One block on one position, which reads these states and no others.  # [width]"""
    layer, width = block.rel_attn, len(query)
    asks = torch.einsum("w,whd->hd", query, layer.q)
    scores, values = [], []
    for place, state in states.items():
        key = torch.einsum("w,whd->hd", state, layer.k)
        other = layer.seg_embed[int(segments[at] != segments[place])]
        score = ((asks + layer.r_w_bias) * key).sum(1)
        score = score + ((asks + layer.r_r_bias) * relative(layer, at - place, width)).sum(1)
        score = score + ((asks + layer.r_s_bias) * other).sum(1)
        scores.append(score / math.sqrt(layer.d_head))
        values.append(torch.einsum("w,whd->hd", state, layer.v))
    weights = torch.stack(scores).softmax(0)  # [seen, heads]
    mixed = (weights[..., None] * torch.stack(values)).sum(0)
    out = layer.layer_norm(query + torch.einsum("hd,whd->w", mixed, layer.o))
    ff = block.ff
    inner: Tensor = ff.layer_2(functional.gelu(ff.layer_1(out)))
    return ff.layer_norm(out + inner)  # type: ignore[no-any-return]


def loss_of(net: XLNetLMHeadModel, ids: Tensor, segments: Tensor, real: list[int],
            chain: list[int], number: int) -> float:  # fmt: skip
    """Nats of one target of a text, given the context and the targets before it in the chain."""
    context = [place for place in real if place not in chain]
    sees = dict.fromkeys(context, context)
    sees |= {place: [*context, *chain[: n + 1]] for n, place in enumerate(chain[:number])}
    states = {place: net.transformer.word_embedding.weight[ids[place]] for place in sees}
    target = chain[number]
    query = net.transformer.mask_emb[0, 0]
    for block in net.transformer.layer:
        query = attended(block, target, query, states, segments)
        states = {
            place: attended(block, place, states[place], {p: states[p] for p in seen}, segments)
            for place, seen in sees.items()
        }
    return -float(net.lm_loss(query).log_softmax(0)[ids[target]])


@pytest.mark.parametrize(
    ("rows", "length", "layers", "heads"),
    mostly([(3, 13, 2, 1), (1, 7, 3, 3), (2, 11, 1, 2)], (1, 7, 3, 3), (2, 11, 1, 2)),
)
def test_the_loss_is_the_loop(rows: int, length: int, layers: int, heads: int) -> None:
    drawn = batch(rows, length, "bert", seed=length, ends=0.2, algorithm="unigram")
    torch.manual_seed(rows)
    config = XLNetConfig(
        vocab_size=drawn.vocabulary.size, d_model=12, n_layer=layers, n_head=heads, d_inner=20,
        dropout=0.0, initializer_range=0.4, use_mems_eval=False, use_mems_train=False,
    )  # fmt: skip
    net = XLNetLMHeadModel(config)
    generator = Generator().manual_seed(2)
    out = permuted(drawn.tokens, drawn.special, generator, drawn.vocabulary, rate=0.4)
    inputs = micro(out, known()["permuted"]).inputs
    with torch.no_grad():
        found = float(nats_at(net, inputs)[0])
        expected, targets = 0.0, 0
        for row in range(rows):
            real = out["attention_mask"][row].nonzero()[:, 0].tolist()
            places = out["target_mapping"][row].nonzero()[:, 1].tolist()
            chain = sorted(places, key=lambda place: int(out["perm_mask"][row, place].sum()))[::-1]
            for number in range(len(chain)):
                expected += loss_of(
                    net, drawn.tokens[row], out["token_type_ids"][row], real, chain, number
                )
            targets += len(chain)
    assert targets == len(inputs["gold"])
    assert found == pytest.approx(expected, rel=1e-5)
