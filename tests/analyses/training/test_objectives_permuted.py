"""XLNet's objective: a sixth of a text, in spans, each piece predicted from those before it alone.

A leak is found by gradients: what moves a prediction is exactly what comes before it in the order.
Masks that are wrong in one place fail the same check.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Generator, Tensor
from transformers import XLNetConfig, XLNetLMHeadModel

from tests.analyses.training.batches import Drawn, batch, batches
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.objectives.permuted import permuted
from workbench.models.output_heads.lm_losses import CONTEXT, not_before

Mask = Callable[[Tensor], Tensor]


def drawn_by(drawn: Drawn, seed: int = 0, rate: float = 1 / 6) -> dict[str, Tensor]:
    generator = Generator().manual_seed(seed)
    return permuted(drawn.tokens, drawn.special, generator, drawn.vocabulary, rate=rate)


def targets_of(out: dict[str, Tensor], row: int) -> list[int]:
    """Positions of a row's targets."""
    real = out["labels"][row] != IGNORED
    return out["target_mapping"][row][real].argmax(1).tolist()


@given(data=batches("bert", "unigram"))
def test_targets_are_pieces_of_the_text_in_one_chain(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    before = drawn.tokens.clone()
    out = drawn_by(drawn, seed)
    assert torch.equal(drawn.tokens, before)
    assert torch.equal(out["input_ids"], drawn.tokens)
    for row in range(len(drawn.tokens)):
        targets, tokens = targets_of(out, row), drawn.tokens[row]
        assert not drawn.special[row, targets].any()
        assert torch.equal(out["labels"][row][: len(targets)], tokens[targets])
        assert not out["target_mapping"][row][len(targets) :].any()
        count = int((~drawn.special[row]).sum())
        assert len(targets) in {min(count, max(1, int(count / 6 + more))) for more in (0, 1)}
        seen = ~out["perm_mask"][row]
        context = sorted(set(range(len(tokens))) - set(targets))
        for place in context:
            assert seen[place].nonzero()[:, 0].tolist() == context
        chain = sorted(targets, key=lambda place: int(seen[place].sum()))
        for number, place in enumerate(chain):
            assert set(seen[place].nonzero()[:, 0].tolist()) == {*context, *chain[:number]}


def test_a_sixth_is_predicted_in_spans_of_one_to_five_in_any_order() -> None:
    drawn = batch(600, 62, "bert", ends=0.0, padding=False, algorithm="unigram")
    out = drawn_by(drawn)
    lengths, forward = torch.zeros(64), 0
    for row in range(600):
        targets = targets_of(out, row)
        assert len(targets) == 10
        rank = {place: int((~out["perm_mask"][row, place]).sum()) for place in targets}
        forward += rank[targets[0]] < rank[targets[-1]]
        run = 1
        for one, two in pairwise([*targets, 99]):
            if two == one + 1:
                run += 1
            else:
                lengths[run] += 1
                run = 1
    assert abs(forward / 600 - 0.5) < 0.08
    assert not lengths[6:].any()
    shares = lengths[1:6] / lengths.sum()
    # The last span of a row is cut where the row has its share, so short ones are more.
    assert shares.min() > 0.1
    assert (shares[:-1] >= shares[1:] - 0.02).all()


def test_a_document_is_a_segment() -> None:
    drawn = batch(8, 60, "bert", ends=0.1, algorithm="unigram")
    segments = drawn_by(drawn)["token_type_ids"]
    ends = drawn.tokens == (drawn.vocabulary.end or 0)
    assert ends.any()
    assert torch.equal(segments.diff(dim=1), ends[:, :-1].long())
    assert not segments[:, 0].any()


# --- leaks ----------------------------------------------------------------------------------------


def small_net(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = XLNetConfig(
        vocab_size=400, d_model=16, n_layer=3, n_head=2, d_inner=32, dropout=0.0,
        initializer_range=0.5, use_mems_eval=False,
    )  # fmt: skip
    net: Any = XLNetLMHeadModel(config)
    return net.eval()


def movers(net: XLNetLMHeadModel, out: dict[str, Tensor], row: int, query: int) -> set[int]:
    """Positions whose vectors move a prediction."""
    vectors = net.get_input_embeddings()(out["input_ids"][[row]]).detach().requires_grad_()
    shown = {name: out[name][[row]] for name in ("perm_mask", "token_type_ids", "attention_mask")}
    mapping = out["target_mapping"][[row]]
    logits = net(inputs_embeds=vectors, target_mapping=mapping, **shown).logits[0, query]
    weights = torch.randn(len(logits), generator=Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad(logits @ weights, vectors)
    return set(gradient[0].abs().sum(1).nonzero()[:, 0].tolist())


def require_no_leak(net: XLNetLMHeadModel, out: dict[str, Tensor], right: Tensor) -> None:
    """Each prediction is moved by what its piece may see (`right`: may not), by nothing else."""
    for row in range(len(right)):
        for query, place in enumerate(targets_of(out, row)):
            real = out["attention_mask"][row] > 0
            allowed = (~right[row, place] & real).nonzero()[:, 0].tolist()
            assert movers(net, out, row, query) == set(allowed), (row, place)


@settings(max_examples=4)
@given(data=batches("bert", "unigram"))
def test_a_target_is_predicted_from_exactly_the_pieces_before_it(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    drawn = drawn._replace(**{n: getattr(drawn, n)[:2, :25] for n in drawn._fields[:3]})
    out = drawn_by(drawn, seed, rate=0.4)
    require_no_leak(small_net(), out, out["perm_mask"])


def own_content(order: Tensor) -> Tensor:
    """A target sees itself."""
    return (order[:, None, :] != CONTEXT) & (order[:, :, None] < order[:, None, :])


def context_sees_targets(order: Tensor) -> Tensor:
    return not_before(order) & (order[:, :, None] != CONTEXT)


def all_targets_hidden(order: Tensor) -> Tensor:
    """As in transformers' collator with its mask pieces: no target sees another."""
    return (order[:, None, :] != CONTEXT).expand(-1, order.shape[1], -1).contiguous()


@pytest.mark.parametrize("wrong", [own_content, context_sees_targets, all_targets_hidden])
def test_a_wrong_mask_is_found(wrong: Mask, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = batch(1, 20, "bert", ends=0.0, padding=False, algorithm="unigram")
    right = drawn_by(drawn, rate=0.4)["perm_mask"]
    monkeypatch.setitem(permuted.__globals__, "not_before", wrong)
    with pytest.raises(AssertionError):
        require_no_leak(small_net(), drawn_by(drawn, rate=0.4), right)


def test_two_targets_that_change_places_change_what_they_see() -> None:
    """The loss of the earlier one stays when the later one becomes another piece."""
    net, drawn = small_net(), batch(1, 20, "bert", ends=0.0, padding=False, algorithm="unigram")
    out = drawn_by(drawn, rate=0.4)
    targets = targets_of(out, 0)
    order = torch.full((1, 20), CONTEXT)
    order[0, targets] = torch.arange(len(targets))
    swapped = order.clone()
    one, two = targets[1], targets[4]
    swapped[0, [one, two]] = order[0, [two, one]]
    for each, earlier, later in ((order, one, two), (swapped, two, one)):
        losses = []
        for changed in (None, later, earlier):
            ids = drawn.tokens.clone()
            if changed is not None:
                ids[0, changed] = (ids[0, changed] + 1) % 400
            with torch.no_grad():
                logits = net(
                    ids, perm_mask=not_before(each), target_mapping=out["target_mapping"]
                ).logits[0]
            nats = -logits.log_softmax(1)[torch.arange(len(targets)), drawn.tokens[0, targets]]
            losses.append(dict(zip(targets, nats.tolist(), strict=True)))
        plain, later_changed, earlier_changed = losses
        assert later_changed[earlier] == plain[earlier]
        assert later_changed[later] == plain[later], "its own content"
        assert earlier_changed[later] != plain[later]
