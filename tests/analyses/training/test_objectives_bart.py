"""BART's five and their combination: what is kept, what moves, and how much is hidden."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from torch import Generator, Tensor

from tests.analyses.training.batches import Drawn, batch, batches, real
from workbench.analyses.training.objectives import bart
from workbench.analyses.training.objectives.corruption import poisson

Rows = list[list[int]]


def run(name: str, drawn: Drawn, seed: int) -> dict[str, Tensor]:
    told = {"sentences": drawn.sentences} if name in ("sentence_permutation", "bart") else {}
    function = getattr(bart, name)
    return function(*drawn[:2], Generator().manual_seed(seed), drawn.vocabulary, **told)


def documents(row: Tensor, drawn: Drawn) -> Rows:
    """The text between special tokens."""
    parts: Rows = [[]]
    for token in row.tolist():
        if drawn.vocabulary.special[token]:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


ALL = "token_masking token_deletion infilling sentence_permutation document_rotation bart".split()


@pytest.mark.parametrize("name", ALL)
@given(data=batches("roberta"))
def test_the_original_is_written_and_special_tokens_stay(
    name: str, data: tuple[Drawn, int]
) -> None:
    drawn, seed = data
    vocabulary = drawn.vocabulary
    out = run(name, drawn, seed)
    assert out["input_ids"].shape[1] <= drawn.tokens.shape[1], "an input outgrew the model"
    for row in range(len(drawn.tokens)):
        original, inputs = real(drawn.tokens[row], drawn), real(out["input_ids"][row], drawn)
        assert real(out["labels"][row], drawn) == original
        assert out["decoder_input_ids"][row, 0] == vocabulary.end
        special = [t for t in original if vocabulary.special[t]]
        assert [t for t in inputs if vocabulary.special[t] and t != vocabulary.mask] == special


@pytest.mark.parametrize("name", ["sentence_permutation", "document_rotation"])
@given(data=batches("roberta"))
def test_each_document_keeps_its_tokens(name: str, data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = run(name, drawn, seed)
    for row in range(len(drawn.tokens)):
        was, found = (
            documents(t[row, : out["input_ids"].shape[1]], drawn)
            for t in (drawn.tokens, out["input_ids"])
        )
        assert [Counter(part) for part in was] == [Counter(part) for part in found]


@given(data=batches("roberta"))
def test_rotation_turns(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = run("document_rotation", drawn, seed)
    for was, row in zip(drawn.tokens, out["input_ids"], strict=True):
        for before, after in zip(
            documents(was[: len(row)], drawn), documents(row, drawn), strict=True
        ):
            turns = [before[i:] + before[:i] for i in range(max(1, len(before)))]
            assert after in turns


@given(data=batches("roberta"))
def test_sentences_move_whole(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = run("sentence_permutation", drawn, seed)
    numbers = torch.arange(drawn.tokens.numel()).view_as(drawn.tokens)
    order = bart._permuted(drawn.special, drawn.sentences, Generator().manual_seed(seed))
    assert torch.equal(
        out["input_ids"], drawn.tokens.gather(1, order)[:, : out["input_ids"].shape[1]]
    )
    moved = numbers.gather(1, order)
    follows = moved[:, 1:] == moved[:, :-1] + 1
    # A token that begins no sentence stands where it stood: behind the one before it.
    inner = ~(drawn.sentences | drawn.special)[:, 1:] & ~drawn.special[:, :-1]
    assert follows[inner.gather(1, (order[:, 1:] - 1).clamp(min=0)) & (order[:, 1:] > 0)].all()


def test_every_order_of_sentences_is_as_likely() -> None:
    drawn = batch(3000, 11, "roberta", ends=0.0, padding=False)
    sentences = torch.zeros_like(drawn.special)
    sentences[:, [1, 4, 7]] = True
    order = bart._permuted(drawn.special, sentences, Generator().manual_seed(0))
    counts = Counter(tuple(row) for row in order.tolist())
    assert len(counts) == 6
    assert all(abs(count - 500) < 4.5 * 500**0.5 for count in counts.values())


def test_rates_are_as_said() -> None:
    drawn = batch(400, 202, "roberta", ends=0.0, padding=False)
    text = 400 * 200
    masks = (run("token_masking", drawn, 0)["input_ids"] == drawn.vocabulary.mask).sum()
    assert abs(float(masks) / text - 0.15) < 0.001
    kept = run("token_deletion", drawn, 0)["attention_mask"].sum() - 2 * 400
    assert abs(1 - float(kept) / text - 0.15) < 0.001
    for name in ("infilling", "bart"):
        out = run(name, drawn, 0)
        masks = (out["input_ids"] == drawn.vocabulary.mask).sum()
        hidden = text - (out["attention_mask"].sum() - 2 * 400 - masks)
        assert abs(float(hidden) / text - 0.3) < 0.001
        # Spans of Poisson(3), those of length 0 among them; the last of a row is cut.
        assert abs(float(hidden / masks) - 3.0) < 0.15


def test_infilled_spans_are_poisson_with_empty_ones() -> None:
    spans = poisson(torch.full((300,), 300), 3.0, Generator().manual_seed(0))
    there = torch.arange(spans.lengths.shape[1]) < spans.n_spans[:, None]
    shares = torch.bincount(spans.lengths[there], minlength=8)[:8] / there.sum()
    expected = torch.distributions.Poisson(3.0).log_prob(torch.arange(8.0)).exp()
    assert (shares - expected).abs().max() < 0.012
    assert shares[0] > 0.03


@given(data=batches("roberta"))
def test_infilling_hides_spans_and_keeps_the_rest(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = run("infilling", drawn, seed)
    for row in range(len(drawn.tokens)):
        kept = [t for t in real(out["input_ids"][row], drawn) if t != drawn.vocabulary.mask]
        rest = iter(real(drawn.tokens[row], drawn))
        assert all(token in rest for token in kept), "what is left stands in its order"
