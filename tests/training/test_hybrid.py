"""Causal and masked rows in one batch: what each sees, what each loses, and what is scored."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator
from torch.nn import functional

from tests.training.batches import Drawn, batch, batches
from tests.training.lessons import lesson
from tests.training.texts import tokenizer
from workbench.training.batches import micro, parted, task_of
from workbench.training.families import Size, build
from workbench.training.hybrid import NEXT, causal_mask, hybrid_losses
from workbench.training.objectives.hybrid import hybrid
from workbench.training.objectives.masked import IGNORED
from workbench.training.packing import pack
from workbench.training.task import Plan
from workbench.training.token_store import tokenize_text
from workbench.training.tokenizers import Algorithm, Layout
from workbench.training.vocabulary import vocabulary_of

TINY = Size(2, 32, 2, 400, 40)
KINDS: dict[str, tuple[Algorithm, Layout]] = {
    "bert": ("wordpiece", "bert"),
    "roberta": ("bpe", "roberta"),
}
families = pytest.mark.parametrize("name", KINDS)


def small(name: str) -> Any:
    return build(name, TINY, tokenizer(*KINDS[name]), 0, "hybrid").eval()


# --- the objective --------------------------------------------------------------------------------


@given(data=batches("bert", "wordpiece"), share=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_some_rows_are_whole_and_the_others_masked(data: tuple[Drawn, int], share: float) -> None:
    (tokens, special, _, vocabulary), seed = data
    out = hybrid(tokens, special, Generator().manual_seed(seed), vocabulary, share=share)
    ahead = out["causal"]
    assert abs(int(ahead.sum()) - share * len(tokens)) < 1
    assert torch.equal(out["input_ids"][ahead], tokens[ahead])
    real = tokens != vocabulary.pad
    assert torch.equal(out["labels"] != IGNORED, torch.where(ahead[:, None], real, _chosen(out)))
    assert not (_chosen(out)[~ahead] & special[~ahead]).any()
    assert torch.equal(out["labels"][_chosen(out)], tokens[_chosen(out)])


def _chosen(out: dict[str, torch.Tensor]) -> torch.Tensor:
    return out["labels"] != IGNORED


def test_a_share_holds_on_average() -> None:
    drawn = batch(3, 20, "bert")
    found = [
        int(hybrid(*drawn[:2], Generator().manual_seed(n), drawn.vocabulary)["causal"].sum())
        for n in range(400)
    ]
    assert set(found) == {1, 2}
    assert abs(sum(found) / 400 - 1.5) < 0.1


# --- the model ------------------------------------------------------------------------------------


@families
def test_under_the_mask_a_later_token_changes_no_earlier_state(name: str) -> None:
    net = small(name)
    ids = torch.randint(110, 300, (3, 12), generator=Generator().manual_seed(0))
    other = ids.clone()
    other[:, 7] += 1
    mask = causal_mask(12, None, ids.device)
    with torch.no_grad():
        one, two = (net(input_ids=i, attention_mask=mask).logits for i in (ids, other))
        free, freed = (net(input_ids=i).logits for i in (ids, other))
    torch.testing.assert_close(one[:, :7], two[:, :7], rtol=0, atol=1e-6)
    assert ((one[:, 7:] - two[:, 7:]).abs().amax(2) > 1e-4).all(), "later ones see it"
    assert ((free - freed).abs().amax(2) > 1e-5).all(), "without the mask all do"


@families
def test_under_the_mask_the_first_token_reads_itself_alone(name: str) -> None:
    net = small(name)
    ids = torch.randint(110, 300, (1, 9), generator=Generator().manual_seed(1))
    with torch.no_grad():
        whole = net(input_ids=ids, attention_mask=causal_mask(9, None, ids.device)).logits
        first = net(input_ids=ids[:, :1]).logits
    torch.testing.assert_close(whole[:, :1], first, rtol=1e-5, atol=1e-5)


def test_the_mask_leaves_padding_out() -> None:
    real = torch.tensor([[1, 1, 0], [1, 1, 1]])
    mask = causal_mask(3, real, real.device)
    assert mask[:, 0].int().tolist() == [
        [[1, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
    ]


# --- the loss -------------------------------------------------------------------------------------


@families
@pytest.mark.parametrize("padding", [False, True])
def test_both_losses_are_their_definitions(name: str, padding: bool) -> None:
    net = small(name)
    algorithm, layout = KINDS[name]
    drawn = batch(6, 30, layout, algorithm=algorithm, padding=padding)
    out = hybrid(*drawn[:2], Generator().manual_seed(2), drawn.vocabulary)
    ready = micro(out, "hybrid")
    real = out["attention_mask"]
    with torch.no_grad():
        found = hybrid_losses(net, ready.inputs)
        free = net(input_ids=out["input_ids"], attention_mask=real).logits
        mask = causal_mask(30, real, real.device)
        ahead = net(input_ids=out["input_ids"], attention_mask=mask).logits
    labels, rows = out["labels"], out["causal"]
    masked = functional.cross_entropy(
        free[~rows].flatten(0, 1), labels[~rows].flatten(), ignore_index=IGNORED, reduction="sum"
    )
    # Shifted by one: the state at t tells token t + 1.
    causal = functional.cross_entropy(
        ahead[rows, :-1].flatten(0, 1),
        labels[rows, 1:].flatten(),
        ignore_index=IGNORED,
        reduction="sum",
    )
    torch.testing.assert_close(found, torch.stack([masked, causal]), rtol=1e-5, atol=1e-3)
    targets = [(labels[~rows] != IGNORED).sum(), (labels[rows, 1:] != IGNORED).sum()]
    assert ready.counts.tolist() == [int(number) for number in targets]
    assert ready.tokens == int(real.sum())


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_rows_of_one_kind_alone_have_one_loss(share: float) -> None:
    drawn = batch(4, 30, "bert", algorithm="wordpiece")
    out = hybrid(*drawn[:2], Generator().manual_seed(2), drawn.vocabulary, share=share)
    ready = micro(out, "hybrid")
    found = hybrid_losses(small("bert"), ready.inputs)
    assert (found > 0).tolist() == (ready.counts > 0).tolist() == [share == 0, share == 1]
    found.sum().backward()


# --- the task -------------------------------------------------------------------------------------


def test_what_is_held_out_is_scored_as_plain_masks_are(tmp_path: Path) -> None:
    own = tokenizer("wordpiece", "bert")
    store = tokenize_text(lesson(60), own, tmp_path, processes=1)
    part, held = parted(pack(store, vocabulary_of(own), 32), 0.2)
    net, plan = small("bert"), Plan(batch=8)
    hybrids, plain = (
        task_of(objective, net, part, held, plan, 1) for objective in ("hybrid", "masked")
    )
    assert hybrids.terms == ("masked", "causal")
    assert hybrids.held_out is not None and plain.held_out is not None
    for one, other in zip(hybrids.held_out(), plain.held_out(), strict=True):
        assert set(one.inputs) == set(other.inputs)
        assert all(torch.equal(one.inputs[key], other.inputs[key]) for key in one.inputs)
        assert one.counts.tolist() == [int(other.counts), 0]
        with torch.no_grad():
            losses = hybrids.losses(net, one.inputs)
            assert losses.tolist() == [float(plain.losses(net, other.inputs)), 0.0]
    drawn = hybrids.draw(0, 0).inputs
    assert len(drawn["input_ids"]) == len(drawn[f"{NEXT}input_ids"]) == 4
