"""Longformer: a prediction is moved by what its windows and the first pieces let it see, alone.

What moves it is found by gradients. Windows and global positions that are wrong in one place fail
the same check.
"""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from transformers import LongformerConfig, LongformerForMaskedLM

import workbench as wb
from tests.analyses.training.batches import Drawn, batch, batches
from tests.analyses.training.test_objectives_seen import cut, drawn_by, movers
from tests.analyses.training.texts import tokenizer
from workbench import experiments
from workbench.analyses.training.families import Size, build, size_of
from workbench.analyses.training.objectives.masked import IGNORED, masked
from workbench.analyses.training.vocabulary import Vocabulary
from workbench.models.attention_hooks import attend_globally


def may_see(window: int, n_global: int, one: int, other: int) -> bool:
    """The paper's rule for two pieces."""
    return abs(one - other) <= window // 2 or min(one, other) < n_global


def net_of(vocabulary: Vocabulary, windows: tuple[int, ...], n_global: int) -> Any:
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=vocabulary.size, hidden_size=16, num_hidden_layers=len(windows),
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=90,
        initializer_range=0.5, type_vocab_size=1, pad_token_id=vocabulary.pad or 0,
        attention_window=list(windows), hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        global_positions=n_global,
    )  # fmt: skip
    net = LongformerForMaskedLM(config).eval()
    attend_globally(net)
    return net


def reached(place: int, windows: tuple[int, ...], n_global: int, length: int) -> set[int]:
    """What moves a state after the last layer: seen by what is seen, layer by layer."""
    found = {place}
    for window in reversed(windows):
        found |= {b for a in found for b in range(length) if may_see(window, n_global, a, b)}
    return found


def require(drawn: Drawn, net: Any, windows: tuple[int, ...], n_global: int) -> None:
    out = drawn_by(masked, drawn)
    out.pop("attention_mask")
    for row in range(len(drawn.tokens)):
        for place in (out["labels"][row] != IGNORED).nonzero()[:, 0].tolist():
            right = reached(place, windows, n_global, drawn.tokens.shape[1])
            assert movers(net, out, row, place) == right, (row, place)


def whole(length: int, seed: int = 3) -> Drawn:
    return cut(batch(2, length, "roberta", seed=seed, ends=0.0, padding=False), 2, length)


@pytest.mark.parametrize(
    ("windows", "n_global"), [((4, 8), 0), ((4, 4, 4), 0), ((8,), 1), ((4,), 3)]
)
def test_a_piece_is_predicted_from_its_windows_and_the_first_pieces(
    windows: tuple[int, ...], n_global: int
) -> None:
    drawn = whole(21)
    require(drawn, net_of(drawn.vocabulary, windows, n_global), windows, n_global)


@settings(max_examples=4)
@given(data=batches("roberta"))
def test_padding_moves_nothing(data: tuple[Drawn, int]) -> None:
    drawn = cut(data[0])
    net, pad = net_of(drawn.vocabulary, (4, 4), 1), drawn.vocabulary.pad or 0
    out = drawn_by(masked, drawn, data[1])
    other = out["input_ids"].clone()
    other[drawn.tokens == pad] = 5
    positions = torch.arange(other.shape[1]).expand_as(other) + pad + 1
    mask, real = out["attention_mask"], drawn.tokens != pad
    with torch.no_grad():
        one, two = (
            net(input_ids=ids, attention_mask=mask, position_ids=positions).logits[real]
            for ids in (out["input_ids"], other)
        )
    torch.testing.assert_close(one, two)


@pytest.mark.parametrize(
    ("windows", "n_global", "wrong", "n_wrong"),
    [
        ((4,), 1, (4,), 0),
        ((4,), 1, (4,), 2),
        ((4,), 1, (8,), 1),
        ((4, 8), 0, (4, 4), 0),
        ((4, 8), 0, (8, 8), 0),
        ((4, 8), 0, (4, 8), 1),
    ],
)
def test_a_wrong_window_or_global_position_is_found(
    windows: tuple[int, ...], n_global: int, wrong: tuple[int, ...], n_wrong: int
) -> None:
    """A window too small or too large, no global position or one too many."""
    drawn = whole(25)
    require(drawn, net_of(drawn.vocabulary, windows, n_global), windows, n_global)
    with pytest.raises(AssertionError):
        require(drawn, net_of(drawn.vocabulary, wrong, n_wrong), windows, n_global)


# --- the family -----------------------------------------------------------------------------------


def test_windows_are_a_quarter_of_the_text_or_as_set() -> None:
    words = tokenizer("bpe", "roberta")
    net: Any = build("longformer", Size(2, 8, 2, 300, 64), words, 0)
    assert net.config.attention_window == [16, 16]
    assert net.config.global_positions == 1
    net = build("longformer", Size(2, 8, 2, 300, 64, windows=(4, 8), global_positions=0), words, 0)
    assert net.config.attention_window == [4, 8]
    assert net.config.global_positions == 0
    with torch.no_grad():  # the longest text fits
        net(input_ids=torch.full((1, 64), 5))


@pytest.mark.parametrize(
    ("windows", "said"),
    [((5,), "even"), ((2,), "even"), ((4, 6), "divide"), ((4, 4, 4), "3 windows and 2 layers")],
)
def test_windows_that_fit_no_longformer_are_refused(windows: tuple[int, ...], said: str) -> None:
    with pytest.raises(wb.WorkbenchError, match=said):
        size_of("tiny", windows=windows)


def test_other_families_have_no_windows() -> None:
    kind = experiments()["train"]
    with pytest.raises(wb.WorkbenchError, match="longformer"):
        kind.settings(family="bert", windows=(4,))
    with pytest.raises(wb.WorkbenchError, match="longformer"):
        kind.settings(family="gpt", global_positions=1)
    assert kind.settings(family="longformer", windows=(4, 8)).windows == (4, 8)
