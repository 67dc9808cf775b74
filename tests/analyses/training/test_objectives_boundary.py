"""Span boundaries: what a span is told from, and what SpanBERT's second head makes of it."""

from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Generator
from torch.nn import functional

from tests.analyses.training.batches import Drawn, batch, batches
from tests.analyses.training.texts import tokenizer
from workbench.analyses.training.batches import micro
from workbench.analyses.training.families import Size, build
from workbench.analyses.training.objectives.masked import IGNORED, boundaries, spans
from workbench.analyses.training.objectives.spanbert import OBJECTIVES, SpanBert, spanbert_losses

TINY = Size(2, 32, 2, 400, 40)
SPANS = OBJECTIVES["masked-spans"]


def test_boundaries_by_hand() -> None:
    chosen = torch.tensor([[0, 1, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0, 0]]) > 0
    found = boundaries(chosen)
    assert found["left"].tolist() == [[0, 0, 0, 0, 0, 4, 0], [0] * 7]
    assert found["right"].tolist() == [[0, 4, 4, 4, 0, 6, 0], [0] * 7]
    assert found["within"].tolist() == [[0, 0, 1, 2, 0, 0, 0], [0] * 7]


@given(data=batches("bert", "wordpiece"))
def test_spans_lie_between_tokens_that_are_read(data: tuple[Drawn, int]) -> None:
    (tokens, special, _, vocabulary), seed = data
    out = spans(tokens, special, Generator().manual_seed(seed), vocabulary)
    chosen = out["labels"] != IGNORED
    assert not (chosen & special).any()
    for row, place in chosen.nonzero().tolist():
        left, right = int(out["left"][row, place]), int(out["right"][row, place])
        assert 0 <= left < place < right < tokens.shape[1]
        assert chosen[row, left + 1 : right].all(), "all of the span, and nothing else"
        assert not chosen[row, [left, right]].any()
        assert torch.equal(out["input_ids"][row, [left, right]], tokens[row, [left, right]])
        assert int(out["within"][row, place]) == place - left - 1


def test_a_text_without_a_frame_keeps_its_first_and_last_tokens() -> None:
    tokens, _, _, vocabulary = batch(20, 12, "bert", padding=False, ends=0.0)
    tokens[:, 0], tokens[:, -1] = tokens[:, 3], tokens[:, 4]
    special = torch.zeros_like(tokens, dtype=torch.bool)
    out = spans(tokens, special, Generator().manual_seed(0), vocabulary, rate=0.9)
    assert (out["labels"][:, [0, -1]] == IGNORED).all()


@pytest.fixture(scope="module")
def net() -> SpanBert:
    found = build("spanbert", TINY, tokenizer("wordpiece", "bert"), 0)
    assert isinstance(found, SpanBert)
    return found.eval()


def test_both_losses_are_their_definitions(net: SpanBert) -> None:
    drawn = batch(6, 40, "bert", algorithm="wordpiece")
    out = spans(*drawn[:2], Generator().manual_seed(1), drawn.vocabulary)
    ready = micro(out, SPANS)
    with torch.no_grad():
        found = spanbert_losses(net, ready.inputs)
        answer = net.bert(
            input_ids=out["input_ids"],
            attention_mask=out["attention_mask"],
            output_hidden_states=True,
        )
    states, head = answer.hidden_states[-1], net.boundary
    output: Any = net.bert.get_output_embeddings()
    masked = torch.zeros(())
    around = torch.zeros(())
    chosen = (out["labels"] != IGNORED).nonzero().tolist()
    for row, place in chosen:
        gold = out["labels"][row, place]
        masked -= answer.logits[row, place].log_softmax(0)[gold]
        ends = [states[row, int(out[name][row, place])] for name in ("left", "right")]
        own = head.places.weight[int(out["within"][row, place])]
        hidden = torch.cat([*ends, own])
        for layer, norm in zip((head.first, head.second), head.norms, strict=True):
            hidden = norm(functional.gelu(layer(hidden)))
        around -= (output.weight @ hidden + head.bias).log_softmax(0)[gold]
    assert ready.counts.tolist() == [len(chosen)] * 2
    torch.testing.assert_close(found, torch.stack([masked, around]), rtol=1e-5, atol=1e-4)


def test_the_boundary_head_sees_nothing_of_its_span_but_the_place(net: SpanBert) -> None:
    states = torch.randn(3, 32)
    one = net.boundary(states[:1], states[1:2], torch.tensor([2]))
    assert torch.equal(one, net.boundary(states[:1], states[1:2], torch.tensor([2])))
    for other in (
        net.boundary(states[2:], states[1:2], torch.tensor([2])),
        net.boundary(states[:1], states[2:], torch.tensor([2])),
        net.boundary(states[:1], states[1:2], torch.tensor([3])),
    ):
        assert not torch.allclose(one, other)


def test_the_output_map_is_shared_and_learns_from_both(net: SpanBert) -> None:
    drawn = batch(6, 40, "bert", algorithm="wordpiece")
    ready = micro(spans(*drawn[:2], Generator().manual_seed(1), drawn.vocabulary), SPANS)
    output: Any = net.bert.get_output_embeddings()
    assert output.weight is net.bert.get_input_embeddings().weight
    grads = []
    for term in range(2):
        net.zero_grad()
        spanbert_losses(net, ready.inputs)[term].backward()
        grads.append(output.weight.grad.clone())
    assert all(grad.abs().sum() > 0 for grad in grads)
    assert not any(name.startswith("cls") for name, _ in net.boundary.named_parameters())
