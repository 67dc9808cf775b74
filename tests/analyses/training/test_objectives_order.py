"""Sentence order: both orders of one text, half and half, in the frame of a pair."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from torch import Generator, Tensor

from tests.analyses.training.batches import Drawn, batch, batches
from workbench.analyses.training.objectives import sentence_pairs
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.analyses.training.objectives.sentence_pairs import Pairs


def texts(pairs: Pairs, row: int, drawn: Drawn) -> tuple[list[int], list[int]]:
    """The first text and the second, by their segments, the frame and separator taken off."""
    out = [token for token in pairs.tokens[row].tolist() if token != drawn.vocabulary.pad]
    second = out.index(drawn.vocabulary.separator) + 1 if not pairs.segments[row].any() else 0
    second = second or pairs.segments[row].tolist().index(1)
    return out[1 : second - 1], out[second:-1]


def stands(part: list[int], row: Tensor) -> bool:
    whole = row.tolist()
    return any(whole[i : i + len(part)] == part for i in range(len(whole) - len(part) + 1))


@given(data=batches("bert"))
def test_labels_say_in_which_order_the_texts_were_written(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    generator = Generator().manual_seed(seed)
    pairs = sentence_pairs.ordered(
        drawn.tokens, drawn.special, generator, drawn.vocabulary, sentences=drawn.sentences
    )
    for row, label in enumerate(pairs.labels.tolist()):
        first, second = texts(pairs, row, drawn)
        written = second + first if label else first + second
        assert stands(written, drawn.tokens[row])
        if label:
            assert first and second, "nothing was swapped"


@given(data=batches("bert"))
def test_segments_and_separators_are_those_of_a_pair(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    generator = Generator().manual_seed(seed)
    pairs = sentence_pairs.ordered(
        drawn.tokens, drawn.special, generator, drawn.vocabulary, sentences=drawn.sentences
    )
    assert pairs.tokens.shape == drawn.tokens.shape
    assert torch.equal(pairs.special, drawn.vocabulary.is_special(pairs.tokens))
    for row in range(len(pairs.tokens)):
        tokens, segments = pairs.tokens[row].tolist(), pairs.segments[row].tolist()
        size = sum(token != drawn.vocabulary.pad for token in tokens)
        first, second = texts(pairs, row, drawn)
        separator, after = drawn.vocabulary.separator, list(drawn.vocabulary.after)
        assert tokens[:size] == [*drawn.vocabulary.before, *first, separator, *second, *after]
        ones = len(second) + len(after)
        assert segments == [0] * (size - ones) + [1] * ones + [0] * (len(tokens) - size)


def test_both_orders_hold_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = batch(200, 60, "bert")
    found = []
    for swapped in (torch.zeros_like, torch.clone):  # none, and all that can be
        monkeypatch.setattr(
            sentence_pairs, "_half", lambda first, unable, _, swapped=swapped: swapped(~unable)
        )
        generator = Generator().manual_seed(0)
        pairs = sentence_pairs.ordered(
            drawn.tokens, drawn.special, generator, drawn.vocabulary, sentences=drawn.sentences
        )
        found.append(pairs)
    assert found[1].labels.sum() > 150 > found[0].labels.sum() == 0
    one, other = (pairs.tokens.sort(1).values for pairs in found)
    assert torch.equal(one, other)
    moved = (found[0].tokens != found[1].tokens).any(1)
    assert torch.equal(moved, found[1].labels == 1)


def test_one_cut_in_both_orders() -> None:
    drawn = batch(1, 30, "bert", padding=False, ends=0.0)
    sentences = torch.zeros_like(drawn.sentences)
    sentences[0, [4, 11, 20]] = True
    first, second = drawn.tokens[0, 4:11].tolist(), drawn.tokens[0, 11:20].tolist()
    found = {}
    for seed in range(40):
        pairs = sentence_pairs.ordered(
            drawn.tokens,
            drawn.special,
            Generator().manual_seed(seed),
            drawn.vocabulary,
            sentences=sentences,
        )
        found[int(pairs.labels)] = texts(pairs, 0, drawn)
    assert found == {0: (first, second), 1: (second, first)}


def test_half_are_swapped_and_an_odd_one_falls_to_either_side() -> None:
    counts = Counter[int]()
    drawn = batch(301, 40, "bert", padding=False, ends=0.0)
    for seed in range(30):
        generator = Generator().manual_seed(seed)
        pairs = sentence_pairs.ordered(
            drawn.tokens, drawn.special, generator, drawn.vocabulary, sentences=drawn.sentences
        )
        counts[int(pairs.labels.sum())] += 1
    assert set(counts) == {150, 151}


def test_nothing_at_the_edges_tells_the_order() -> None:
    """Where three sentences begin, both texts are whole sentences, in either order."""
    drawn = batch(64, 80, "bert", padding=False, ends=0.0)
    sentences = torch.zeros_like(drawn.sentences)
    generator = Generator().manual_seed(0)
    for row in range(64):
        starts = torch.randperm(70, generator=generator)[:5] + 5
        sentences[row, starts] = True
    pairs = sentence_pairs.ordered(
        drawn.tokens, drawn.special, generator, drawn.vocabulary, sentences=sentences
    )
    for row in range(64):
        text, starts = drawn.tokens[row].tolist(), sentences[row].nonzero()[:, 0].tolist()
        whole = [text[a:b] for i, a in enumerate(starts) for b in starts[i + 1 :]]
        assert all(part in whole for part in texts(pairs, row, drawn))


@given(data=batches("bert"))
def test_albert_masks_what_it_ordered(data: tuple[Drawn, int]) -> None:
    drawn, seed = data
    out = sentence_pairs.albert(
        *drawn[:2], Generator().manual_seed(seed), drawn.vocabulary, sentences=drawn.sentences
    )
    names = {"input_ids", "attention_mask", "labels", "token_type_ids", "sentence_order_label"}
    assert set(out) == names
    chosen = out["labels"] != IGNORED
    assert not (chosen & (out["attention_mask"] == 0)).any()
    assert not drawn.vocabulary.special[out["labels"][chosen]].any()
