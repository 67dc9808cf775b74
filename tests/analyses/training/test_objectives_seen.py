"""UniLM's and prefix language models' masks: a prediction is moved by what it may see alone.

What moves it is found by gradients, in models of the shapes that are trained. Masks that are wrong
in one place fail the same check.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Generator, Tensor
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from tests.analyses.training.batches import Drawn, batch, batches
from workbench.analyses.training.batches import micro
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.objectives.prefix_lm import prefix_lm
from workbench.analyses.training.objectives.unilm import KINDS, SHARES, unilm

kinds = pytest.mark.parametrize("kind", KINDS)


def only(kind: str) -> tuple[float, ...]:
    return tuple(float(each == kind) for each in KINDS)


def drawn_by(objective: Callable[..., dict[str, Tensor]], drawn: Drawn, seed: int = 0) -> Any:
    return objective(drawn.tokens, drawn.special, Generator().manual_seed(seed), drawn.vocabulary)


def cut(drawn: Drawn, rows: int = 2, length: int = 20) -> Drawn:
    return drawn._replace(**{n: getattr(drawn, n)[:rows, :length] for n in drawn._fields[:3]})


def may_see(kind: str, second: list[bool], one: int, other: int) -> bool:
    """The paper's rule for a token and another."""
    if kind == "bidirectional":
        return True
    if kind == "right to left":
        return other >= one
    if kind == "left to right":
        return other <= one
    return not second[other] or (second[one] and other <= one)


def net_of(kind: type[Any], size: int) -> Any:
    torch.manual_seed(0)
    if kind is GPT2LMHeadModel:
        config: Any = GPT2Config(
            vocab_size=size, n_positions=80, n_embd=16, n_layer=3, n_head=2,
            initializer_range=0.5, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        )  # fmt: skip
    else:
        config = BertConfig(
            vocab_size=size, hidden_size=16, num_hidden_layers=3, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=80, initializer_range=0.5,
            hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        )  # fmt: skip
    return kind(config).eval()


def movers(net: Any, out: Mapping[str, Tensor], row: int, place: int) -> set[int]:
    """Positions whose vectors move the logits at a place."""
    vectors = net.get_input_embeddings()(out["input_ids"][[row]]).detach().requires_grad_()
    more = {name: out[name][[row]] for name in ("attention_mask", "token_type_ids") if name in out}
    logits = net(inputs_embeds=vectors, **more).logits[0, place]
    weights = torch.randn(len(logits), generator=Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad(logits @ weights, vectors)
    return set(gradient[0].abs().sum(1).nonzero()[:, 0].tolist())


def reached(row: int, start: int, seen: Callable[[int, int], bool], real: Tensor) -> set[int]:
    """What a token may see, and what that may see in the layers below; no padding."""
    places = real[row].nonzero()[:, 0].tolist()
    found = {start}
    while more := {b for a in found for b in places if seen(a, b)} - found:
        found |= more
    return found & set(places)


def require_unilm(out: Mapping[str, Tensor], kind: str, drawn: Drawn) -> None:
    net, real = (
        net_of(BertForMaskedLM, drawn.vocabulary.size),
        drawn.tokens.ne(drawn.vocabulary.pad or 0),
    )
    for row in range(len(drawn.tokens)):
        second = (out["token_type_ids"][row] == 1).tolist()
        for place in (out["labels"][row] != IGNORED).nonzero()[:, 0].tolist():
            right = reached(row, place, lambda a, b, s=second: may_see(kind, s, a, b), real)
            assert movers(net, out, row, place) == right, (kind, row, place)


@kinds
@settings(max_examples=4)
@given(data=batches("bert", "wordpiece"))
def test_a_masked_piece_is_predicted_from_what_its_text_may_see(
    kind: str, data: tuple[Drawn, int]
) -> None:
    drawn, seed = cut(data[0]), data[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(unilm.__globals__, "SHARES", only(kind))
        out = drawn_by(unilm, drawn, seed)
    require_unilm(out, kind, drawn)


@kinds
def test_a_wrong_mask_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The masks of the other kinds, and one that lets a token see one more to its right."""
    drawn = cut(batch(2, 20, "bert", seed=3, ends=0.0, padding=False, algorithm="wordpiece"))
    monkeypatch.setitem(unilm.__globals__, "SHARES", only(kind))
    out = drawn_by(unilm, drawn)
    masks = [("one more", out["attention_mask"] | out["attention_mask"].roll(1, 3))]
    for other in KINDS:
        monkeypatch.setitem(unilm.__globals__, "SHARES", only(other))
        masks.append((other, drawn_by(unilm, drawn)["attention_mask"]))
    for name, mask in masks:
        if name != kind and not (name == "one more" and kind == "bidirectional"):
            with pytest.raises(AssertionError):
                require_unilm({**out, "attention_mask": mask}, kind, drawn)


def test_texts_are_shared_out_as_in_the_paper() -> None:
    drawn = batch(3_000, 20, "bert", ends=0.0, padding=False, algorithm="wordpiece")
    out = drawn_by(unilm, drawn)
    mask = out["attention_mask"][:, 0]
    counts = [mask.all((1, 2)), out["token_type_ids"].any(1)]
    counts += [mask[:, -1].all(1) & ~mask[:, 0, 1], mask[:, 0].all(1) & ~mask[:, 1, 0]]
    for share, found in zip(SHARES, counts, strict=True):
        assert abs(float(found.double().mean()) - share) < 4 * (share / 3_000) ** 0.5
    chosen = out["labels"] != IGNORED
    assert abs(float(chosen.sum() / (~drawn.special).sum()) - 0.15) < 0.01
    assert not (chosen & drawn.special).any()


def test_a_part_is_a_segment_and_the_cut_is_anywhere() -> None:
    drawn = batch(400, 12, "bert", ends=0.0, padding=False, algorithm="wordpiece")
    second = drawn_by(unilm, drawn)["token_type_ids"]
    second = second[second.any(1)]
    assert (second.diff(dim=1) >= 0).all()
    assert set(second.argmax(1).tolist()) == set(range(2, 11)), "after the first of ten pieces"


# --- prefix language models -----------------------------------------------------------------------


def require_prefix(out: Mapping[str, Tensor], drawn: Drawn) -> None:
    net = net_of(GPT2LMHeadModel, drawn.vocabulary.size)
    for row in range(len(drawn.tokens)):
        real = (drawn.tokens[row].ne(drawn.vocabulary.pad or 0)).nonzero()[:, 0].tolist()
        predicting = (out["labels"][row] != IGNORED).nonzero()[:, 0].tolist()
        if not predicting:
            continue
        assert predicting == list(range(predicting[0], real[-1])), "all that is left"
        for place in predicting:
            assert out["labels"][row, place] == drawn.tokens[row, place + 1]
            prefix = [each for each in real if each <= predicting[0]]
            allowed = {*prefix, *(each for each in real if each <= place)}
            assert movers(net, out, row, place) == allowed, (row, place)
        first = movers(net, out, row, real[0])
        assert first == set(prefix), "the first token sees the prefix and no more"


@settings(max_examples=8)
@given(data=batches("gpt"))
def test_a_piece_is_predicted_from_the_prefix_and_what_is_left_of_it(
    data: tuple[Drawn, int],
) -> None:
    drawn = cut(data[0])
    require_prefix(drawn_by(prefix_lm, drawn, data[1]), drawn)


def rest_seen(rest: Tensor) -> Tensor:
    return torch.ones(rest.shape[1], rest.shape[1], dtype=torch.bool).expand(len(rest), -1, -1)


def causal_prefix(rest: Tensor) -> Tensor:
    return rest_seen(rest).tril()


def one_too_far(rest: Tensor) -> Tensor:
    return rest_seen(rest).tril(1) | ~rest[:, None, :]


@pytest.mark.parametrize("wrong", [rest_seen, causal_prefix, one_too_far])
def test_a_wrong_prefix_is_found(
    wrong: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = batch(1, 20, "gpt", ends=0.0, padding=False)
    require_prefix(drawn_by(prefix_lm, drawn, 2), drawn)
    monkeypatch.setitem(prefix_lm.__globals__, "seen", wrong)
    with pytest.raises(AssertionError):
        require_prefix(drawn_by(prefix_lm, drawn, 2), drawn)


def test_tokens_are_counted_without_padding() -> None:
    for objective, name, layout in ((unilm, "unilm", "bert"), (prefix_lm, "prefix-lm", "gpt")):
        drawn = batch(9, 30, layout)  # type: ignore[arg-type]
        found = micro(drawn_by(objective, drawn), known()[name])
        assert found.tokens == int((drawn.tokens.ne(drawn.vocabulary.pad or 0)).sum())
