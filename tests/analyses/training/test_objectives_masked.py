"""The masked language model: its rates, its lots, and what it never touches."""

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator

from tests.analyses.training.batches import Drawn, batch, batches
from workbench import WorkbenchError
from workbench.analyses.training.objectives.corruption import geometric, run_starts
from workbench.analyses.training.objectives.masked import UNITS, masked, masked_statically

units = pytest.mark.parametrize("unit", UNITS)


def near(found: float, expected: float, trials: float) -> bool:
    """Within four standard errors of a proportion."""
    return abs(found - expected) < 4 * (expected * (1 - expected) / trials) ** 0.5


@units
@given(data=batches("bert", "wordpiece"))
def test_special_tokens_and_padding_are_never_touched(unit: str, data: tuple[Drawn, int]) -> None:
    (tokens, special, _, vocabulary), seed = data
    before = tokens.clone()
    out = masked(tokens, special, Generator().manual_seed(seed), vocabulary, unit=unit)  # type: ignore[arg-type]
    assert torch.equal(tokens, before), "the batch itself was changed"
    chosen = out["labels"] != -100
    assert not (chosen & special).any()
    assert torch.equal(out["input_ids"][~chosen], tokens[~chosen])
    assert torch.equal(out["labels"][chosen], tokens[chosen])
    put = out["input_ids"][chosen]
    assert not (vocabulary.special[put] & (put != vocabulary.mask)).any()
    assert (chosen.any(1) | special.all(1)).all(), "a row with text has something to predict"


@units
@pytest.mark.parametrize("rate", [0.15, 0.3])
def test_rates_and_lots_are_as_said(unit: str, rate: float) -> None:
    drawn = batch(1500, 100, "bert", algorithm="wordpiece", padding=False)
    generator = Generator().manual_seed(1)
    out = masked(*drawn[:2], generator, drawn.vocabulary, unit=unit, rate=rate)  # type: ignore[arg-type]
    chosen = out["labels"] != -100
    text = int((~drawn.special).sum())
    share = int(chosen.sum()) / text
    # Words and spans come whole, so fewer draws stand behind as many tokens.
    assert near(share, rate, text / {"piece": 1, "word": 4, "span": 16}[unit])
    runs = int(chosen.sum()) if unit != "span" else int(run_starts(chosen).sum())
    put, was = out["input_ids"][chosen], drawn.tokens[chosen]
    assert near(float((put == drawn.vocabulary.mask).float().mean()), 0.8, runs / 2)
    same = 0.1 + 0.1 / len(drawn.vocabulary.ordinary)
    assert near(float((put == was).float().mean()), same, runs / 2)


def test_words_are_masked_whole() -> None:
    tokens, special, _, vocabulary = batch(40, 80, "bert", algorithm="wordpiece")
    out = masked(tokens, special, Generator().manual_seed(0), vocabulary, unit="word")
    chosen = out["labels"] != -100
    inner = ~vocabulary.word_starts(tokens)
    inner[:, 1:] &= ~special[:, :-1]
    assert inner.any()
    assert torch.equal(chosen[:, 1:][inner[:, 1:]], chosen[:, :-1][inner[:, 1:]])


def test_spans_are_geometric_and_share_one_lot() -> None:
    spans = geometric(torch.full((200,), 400), 0.2, 10, Generator().manual_seed(0))
    there = torch.arange(spans.lengths.shape[1]) < spans.n_spans[:, None] - 1  # the last is cut
    lengths = spans.lengths[there]
    assert lengths.min() == 1
    assert lengths.max() == 10
    assert abs(float(lengths.float().mean()) - 3.797) < 0.03, "3.8 as published"
    ratios = torch.bincount(lengths, minlength=11)[1:].float()
    assert ((ratios[1:] / ratios[:-1])[:5] - 0.8).abs().max() < 0.06
    drawn = batch(200, 100, "bert", algorithm="wordpiece", padding=False)
    out = masked(*drawn[:2], Generator().manual_seed(0), drawn.vocabulary, unit="span")
    chosen = out["labels"] != -100
    hidden = out["input_ids"] == drawn.vocabulary.mask
    inside = chosen[:, 1:] & chosen[:, :-1]
    assert torch.equal(hidden[:, 1:][inside], hidden[:, :-1][inside])


def test_dynamic_masks_change_and_static_ones_do_not() -> None:
    tokens, special, _, vocabulary = batch(8, 60, "bert")
    generator = Generator().manual_seed(0)
    first, second = (masked(tokens, special, generator, vocabulary) for _ in range(2))
    assert not torch.equal(first["labels"], second["labels"])
    index = torch.tensor([5, 17, 3, 99, 4, 0, 1, 2])
    once = masked_statically(tokens, special, index, vocabulary, seed=7)
    order = torch.tensor([3, 0, 7, 5])
    again = masked_statically(tokens[order], special[order], index[order], vocabulary, seed=7)
    for name, tensor in again.items():
        assert torch.equal(tensor, once[name][order]), name
    for other in ({"seed": 8}, {"seed": 7, "copy": 1}):
        changed = masked_statically(tokens, special, index, vocabulary, **other)
        assert not torch.equal(changed["labels"], once["labels"])


@given(seed=st.integers(0, 99))
def test_the_same_generator_gives_the_same_batch(seed: int) -> None:
    drawn = batch(4, 40, "bert", seed)
    one, two = (
        masked(*drawn[:2], Generator().manual_seed(seed), drawn.vocabulary) for _ in range(2)
    )
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_masking_costs_far_less_than_a_forward_pass() -> None:
    drawn = batch(32, 128, "bert", padding=False)
    generator = Generator().manual_seed(0)
    masked(*drawn[:2], generator, drawn.vocabulary)
    best = 1.0
    for _ in range(5):
        begin = time.perf_counter()
        masked(*drawn[:2], generator, drawn.vocabulary)
        best = min(best, time.perf_counter() - begin)
    assert best < 0.02, "a forward pass of a small BERT over this batch takes 0.2 s on a core"


def test_what_cannot_be_masked_is_said() -> None:
    drawn = batch(2, 10, "gpt")
    with pytest.raises(WorkbenchError, match="needs a mask token"):
        masked(*drawn[:2], Generator(), drawn.vocabulary)
    drawn = batch(2, 10, "bert")
    with pytest.raises(WorkbenchError, match=r"(?s)'spans'.*Did you mean 'span'"):
        masked(*drawn[:2], Generator(), drawn.vocabulary, unit="spans")  # type: ignore[arg-type]
